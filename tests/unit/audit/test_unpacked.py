"""Blobs taken out of a log in the open: whole or not at all, and each failure adds to the exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.blobs import CHUNK_BYTES, SEALED_CHUNK_BYTES, BlobRef, write_blob
from audit.boxes import BOX, ERASED, Boxer
from audit.cli import app
from audit.disk import DiskDirectory
from audit.keyfiles import write_key
from audit.memory import MemoryDirectory
from audit.report import Exit, worst
from audit.subjects import PersonalKey, SubjectFile
from audit.unpacked import Unpacked
from tests.unit.audit.logs import ORIGIN, Journal, entropy

CONTENT = bytes(range(256)) * (CHUNK_BYTES // 256) + b"behind the first chunk"


class Desk:
    """A log's folder with one blob in it, and a place for what is opened."""

    def __init__(self, path: Path) -> None:
        self.log = MemoryDirectory()
        self.ref = write_blob(self.log, [CONTENT], entropy("blob"))
        self.told = list[str]()
        self.folder = path / "opened"
        self.unpacked = Unpacked(self.log, self.folder, self.told.append)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def naming(*refs: object) -> dict[str, Any]:
    return {"ev": "outcome", "blobs": list(refs)}


def test_a_blob_that_a_record_names_is_written_whole_for_its_owner_alone(desk: Desk) -> None:
    desk.unpacked.take(7, naming(desk.ref.to_json() | {"what": "result"}))
    (path,) = desk.folder.iterdir()
    assert (path.name, path.read_bytes()) == (desk.ref.name, CONTENT)
    assert (path.stat().st_mode & 0o777, desk.folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert (desk.unpacked.exit, desk.told) == (Exit.OK, [])


def test_one_that_fails_behind_its_first_chunk_leaves_nothing_and_does_not_stop_the_rest(desk: Desk) -> None:
    other = write_blob(desk.log, [b"another"], entropy("other"))
    data = desk.log.files()[desk.ref.path]
    desk.log.put(desk.ref.path, data[:SEALED_CHUNK_BYTES] + bytes(len(data) - SEALED_CHUNK_BYTES))
    desk.unpacked.take(7, naming(desk.ref.to_json(), other.to_json()))
    assert desk.names() == [other.name]
    assert desk.unpacked.exit is Exit.TAMPERED
    assert desk.told[0].startswith("record 7: blob ")


@pytest.mark.parametrize(
    "named",
    [
        {"sha256": "no", "key": "no", "size": 1},
        "nothing",
        BlobRef("0" * 64, bytes(32), 5).to_json(),
    ],
)
def test_what_cannot_be_named_or_is_not_there_is_a_gap(named: object, desk: Desk) -> None:
    desk.unpacked.take(7, naming(named))
    assert (desk.names(), desk.unpacked.exit, len(desk.told)) == ([], Exit.INCOMPLETE, 1)


def test_nothing_is_missing_where_a_person_was_erased_or_none_was_named(desk: Desk) -> None:
    desk.unpacked.take(7, {"blobs": ERASED})
    desk.unpacked.take(8, {"ev": "outcome"})
    assert (desk.names(), desk.unpacked.exit) == ([], Exit.OK)


def test_blobs_of_a_person_stay_in_their_box_and_nothing_is_missing(desk: Desk) -> None:
    desk.unpacked.take(7, {"blobs": {BOX: "0" * 64, "data": ""}})
    assert (desk.names(), desk.unpacked.exit) == ([], Exit.OK)
    assert desk.told == ["record 7: its blobs are personal and stay in their box without the key for it"]


def test_ok_never_hides_what_is_worse() -> None:
    assert worst([Exit.OK, Exit.NOT_PROVEN]) is Exit.NOT_PROVEN
    assert worst([Exit.OK, Exit.OK]) is worst([]) is Exit.OK


def test_both_commands_open_them_and_say_what_is_missing(tmp_path: Path) -> None:
    journal, log = Journal(), DiskDirectory(tmp_path / "log")
    ref = write_blob(log, [CONTENT], journal.draw)
    record = {"op": "op-1", "op_n": 0, "ev": "outcome", "blobs": [ref.to_json()]}
    journal.frames += journal.sealer.record(json.dumps(record).encode(), journal.tick())
    journal.close()
    journal.directory = log  # type: ignore[assignment]  # a real folder in its place
    journal.export()
    key, policy = tmp_path / "auditor.key", tmp_path / "trust.policy"
    write_key(key, journal.auditor.to_line())
    policy.write_text(journal.policy.to_text(), encoding="utf-8")
    trusting = ["--trust", str(policy), "--accept-unanchored"]

    def run(command: str, *more: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [command, str(log.path), "--key", str(key), *more])
        return done.exit_code, done.stderr

    for command, more in (("show", []), ("export", trusting)):
        out = tmp_path / command
        assert run(command, *more, "--blobs", str(out)) == (0, "")
        assert (out / ref.name).read_bytes() == CONTENT
    code, said = run("show", "--blobs", str(log.path / "opened"))
    assert (code, "lies in the log's own folder" in said) == (2, True)
    log.unlink(ref.path)
    for command, more in (("show", []), ("export", trusting)):
        code, said = run(command, *more, "--blobs", str(tmp_path / f"{command}-again"))
        assert (code, "is not there" in said) == (3, True)
        assert run(command, *more)[0] == 0


def test_both_commands_open_the_blobs_of_a_person_with_the_key_and_pass_over_them_without(tmp_path: Path) -> None:
    journal, log = Journal(), DiskDirectory(tmp_path / "log")
    ref = write_blob(log, [CONTENT], journal.draw)
    personal = PersonalKey.generate(ORIGIN, journal.draw)
    boxer = Boxer(personal, SubjectFile(DiskDirectory(tmp_path), "subjects", ORIGIN), journal.draw)
    record = boxer.box({"op": "op-1", "op_n": 0, "blobs": [ref.to_json()]}, "ada", ["blobs"])
    journal.frames += journal.sealer.record(json.dumps(record).encode(), journal.tick())
    journal.close()
    journal.directory = log  # type: ignore[assignment]  # a real folder in its place
    journal.export()
    write_key(tmp_path / "auditor.key", journal.auditor.to_line())
    write_key(tmp_path / "personal.key", personal.to_line())
    (tmp_path / "trust.policy").write_text(journal.policy.to_text(), encoding="utf-8")
    trusting = ["--trust", str(tmp_path / "trust.policy"), "--accept-unanchored"]
    keys = ["--personal-key", str(tmp_path / "personal.key"), "--subjects", str(tmp_path / "subjects")]
    for command, more in (("show", []), ("export", trusting)):
        for given, opened in (([], []), (keys, [ref.name])):
            out = tmp_path / f"{command}-{len(given)}"
            words = [command, str(log.path), "--key", str(tmp_path / "auditor.key"), "--blobs", str(out), "--json"]
            done = CliRunner().invoke(app, [*words, *more, *given])
            assert (done.exit_code, [path.name for path in out.iterdir()]) == (0, opened), done.output
            assert ("$box" in done.stdout, "stay in their box" in done.stderr) == (not opened, not opened)
