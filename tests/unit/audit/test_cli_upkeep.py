"""The commands that recover, erase and drop, on a log that is written without a gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from audit import machine
from audit.boxes import ERASED, Boxer
from audit.checkpoint import Publisher
from audit.cli import app
from audit.cli_upkeep import opening
from audit.disk import DiskDirectory
from audit.epochs import EpochKeys, SealKeyFile
from audit.keyfiles import write_key
from audit.keyring import RecipientKey, Role, SealKey
from audit.log import segment_name, segments
from audit.note import NoteSigner
from audit.seal import SegmentLimits
from audit.subjects import PersonalKey, SubjectFile
from audit.trust import TrustPolicy
from audit.writer import LogWriter
from tests.unit.audit.logs import ORIGIN, entropy

DAY_MS = 86_400_000


class House:
    """A stopped log of several small segments on disk, made ten days ago, with all its keys in files."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "audit" / "log"
        self.draw = entropy("house")
        self.signer = NoteSigner.generate(ORIGIN, self.draw)
        self.auditor = RecipientKey.generate(Role.AUDITOR, "auditor", self.draw)
        self.personal = PersonalKey.generate(ORIGIN, self.draw)
        for name, line in (
            ("log.key", self.signer.to_line()),
            ("seal.key", SealKey.issue(self.signer.signer, ORIGIN, self.draw).to_line()),
            ("auditor.key", self.auditor.to_line()),
            ("personal.key", self.personal.to_line()),
        ):
            write_key(root / name, line)
        (root / "trust").write_text(TrustPolicy((self.signer.key,)).to_text())
        self.fill(machine.now_ms() - 10 * DAY_MS)

    def fill(self, t_ms: int) -> None:
        writer = LogWriter.open(
            DiskDirectory(self.log),
            origin=ORIGIN,
            recipients=[self.auditor.recipient],
            seal_key=EpochKeys(SealKeyFile(DiskDirectory(self.root), "seal.key"), ORIGIN),
            entropy=self.draw,
            writer_id="w",
            boot_id="boot-1",
            t_ms=t_ms,
            limits=SegmentLimits(entries_max=5),
        )
        boxer = Boxer(self.personal, SubjectFile(DiskDirectory(self.root), "subjects", ORIGIN), self.draw)
        for number in range(6):
            document = boxer.box({"op": f"op-{number}", "name": "Ada"}, "ada", ["name"])
            writer.append(json.dumps(document).encode(), t_ms)
        writer.close(t_ms)
        Publisher(DiskDirectory(self.log), self.signer).publish()

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    def keys(self) -> list[str]:
        return ["--seal-key", str(self.root / "seal.key"), "--recipient", str(self.auditor.recipient)]

    def personal_keys(self) -> list[str]:
        return ["--personal-key", str(self.root / "personal.key"), "--subjects", str(self.root / "subjects")]

    def shred(self, subject: str, *more: str) -> Result:
        return self.run(
            "shred", str(self.log), "--subject", subject, "--by", "officer", *self.personal_keys(), *self.keys(), *more
        )

    def names(self, command: str, *more: str) -> list[Any]:
        done = self.run(command, str(self.log), "--key", str(self.root / "auditor.key"), "--json", *more)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [line["record"]["name"] for line in lines if "record" in line]

    def verify(self) -> Result:
        return self.run("verify", str(self.log), "--trust", str(self.root / "trust"), "--accept-unanchored")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.mark.parametrize("command", ["show", "export"])
def test_a_shredded_subject_is_shown_as_erased_and_the_log_still_verifies(house: House, command: str) -> None:
    assert house.names(command, *house.personal_keys()) == ["Ada"] * 6
    assert all(set(name) == {"$box", "data"} for name in house.names(command))
    done = house.shred("ada", "--json")
    assert done.exit_code == 0, done.output
    (tag,) = json.loads(done.stdout)["erased"]
    assert len(tag) == 64
    assert house.names(command) == house.names(command, *house.personal_keys()) == [ERASED] * 6
    assert house.verify().exit_code == 0, house.verify().output
    again = house.shred("ada")
    assert (again.exit_code, again.stdout) == (4, "there is no key of that subject\n")


def test_shred_refuses_what_does_not_belong_together(house: House, tmp_path: Path) -> None:
    other = tmp_path / "other.key"
    write_key(other, PersonalKey.generate("gw.example/audit/other", house.draw).to_line())
    done = house.shred("ada", "--personal-key", str(other))
    assert done.exit_code == 2
    assert "belongs to gw.example/audit/other" in done.stderr
    assert house.shred("ada", "--personal-key", str(house.root / "log.key")).exit_code == 2
    lonely = [
        "show",
        str(house.log),
        "--key",
        str(house.root / "auditor.key"),
        "--subjects",
        str(house.root / "subjects"),
    ]
    assert house.run(*lonely).exit_code == 2
    empty = house.run(
        "shred", str(house.log), "--subject", "ada", "--by", "x", *house.personal_keys(), *house.keys()[:2]
    )
    assert empty.exit_code == 2


def test_retain_drops_what_is_older_and_says_so(house: House) -> None:
    arguments = ["retain", str(house.log), "--log-key", str(house.root / "log.key"), "--by", "policy", *house.keys()]
    kept = house.run(*arguments, "--older-than", "30d", "--json")
    assert (kept.exit_code, json.loads(kept.stdout)) == (0, {"first_seq": 0}), kept.output
    done = house.run(*arguments, "--older-than", "7d")
    assert done.exit_code == 0, done.output
    first = segments(DiskDirectory(house.log))[0]
    assert done.stdout == f"the log begins at entry {first} now\n"
    assert first > 0
    report = house.verify()
    assert report.exit_code == 0, report.output
    assert f"pruned prefix 0 - {first - 1} attested by checkpoint" in report.stdout
    assert house.run(*arguments, "--older-than", "soon").exit_code == 2


def test_recover_sets_a_torn_end_aside_and_records_it(house: House) -> None:
    last = segments(DiskDirectory(house.log))[-1]
    with (house.log / segment_name(last)).open("ab") as file:
        file.write(b"\0\0\0\x99\0torn")
    assert house.verify().exit_code == 3
    done = house.run("recover", str(house.log), *house.keys(), "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["quarantine"]) == 1
    report = house.verify()
    assert report.exit_code == 0, report.output
    as_json = house.run("verify", str(house.log), "--trust", str(house.root / "trust"), "--accept-unanchored", "--json")
    assert sum(restart["torn_bytes"] for restart in json.loads(as_json.stdout)["restarts"]) == 9


def test_recover_goes_on_in_a_new_log_that_says_which_end_was_lost(house: House) -> None:
    new = NoteSigner.generate("gw.example/audit/test-2", house.draw)
    write_key(house.root / "new.key", new.to_line())
    seal_keys = SealKeyFile(DiskDirectory(house.root), "seal.key")
    seal_keys.save(new.name, [SealKey.issue(new.signer, new.name, house.draw)])
    folder = house.root / "audit" / "second"
    arguments = ["recover", str(folder), "--accept-loss", str(house.log), *house.keys()]
    assert house.run(*arguments).exit_code == 2
    done = house.run(*arguments, "--log-key", str(house.root / "new.key"))
    assert done.exit_code == 0, done.output
    (house.root / "trust").write_text(TrustPolicy((new.key,)).to_text())
    report = house.run("verify", str(folder), "--trust", str(house.root / "trust"), "--accept-unanchored")
    assert report.exit_code == 0, report.output
    assert f"this log continues {ORIGIN}" in report.stdout
    again = house.run(*arguments, "--log-key", str(house.root / "new.key"))
    assert again.exit_code == 2
    assert "holds a log already" in again.stderr


@pytest.mark.parametrize("command", ["show", "export", "shred"])
def test_a_file_that_holds_no_subject_keys_is_refused_by_name(house: House, command: str) -> None:
    def given(subjects: Path, personal: str = "personal.key") -> Result:
        keys = ["--personal-key", str(house.root / personal), "--subjects", str(subjects)]
        more = ["--key", str(house.root / "auditor.key")]
        if command == "shred":
            more = ["--subject", "ada", "--by", "officer", *house.keys()]
        return house.run(command, str(house.log), *keys, *more)

    hosts, database, absent = house.root / "hosts", house.root / "state.db", house.root / "absent"
    hosts.write_text("127.0.0.1 localhost\n")
    database.write_bytes(b"SQLite format 3\x00\xff\xfe" + bytes(100))
    for path, word in ((hosts, "no subject key"), (database, "no subject key"), (absent, "No such file")):
        done = given(path)
        assert (done.exit_code, str(path) in done.stderr, word in done.stderr) == (2, True, True), done.output
    assert given(house.root, "personal.key").exit_code == 2
    write_key(house.root / "other.key", PersonalKey.generate("gw.example/audit/other", house.draw).to_line())
    done = given(house.root / "subjects", "other.key")
    assert (done.exit_code, "belongs to gw.example/audit/other" in done.stderr) == (2, True)


def test_without_keys_only_erasures_are_told(house: House) -> None:
    document = {"op": "op-1", "name": "x"}
    with opening(house.log, None, None) as unbox:
        assert unbox(document) == document
