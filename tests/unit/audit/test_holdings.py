"""Case 36: a blob that is missing, cut or swapped, as the verifier reports it with and without an auditor's key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from audit import blobs, holdings
from audit.blobs import BLOBS, CHUNK_BYTES, MAX_BLOB_BYTES, MEMBER, SEALED_CHUNK_BYTES, BlobRef, write_blob
from audit.boxes import Boxer
from audit.checkpoint import CHECKPOINT
from audit.disk import DiskDirectory
from audit.holdings import references
from audit.memory import MemoryDirectory
from audit.report import Exit, Report
from audit.subjects import PersonalKey, SubjectFile
from audit.verify import Extra, verify
from tests.unit.audit import oracle as second
from tests.unit.audit.logs import ORIGIN, Journal
from tests.unit.audit.oracle import oracle


class Archive:
    """A log whose records name three blobs."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.refs = [self.add(bytes([number]) * (2 * CHUNK_BYTES + number)) for number in range(3)]
        self.journal.records(30)
        self.journal.seal()
        self.journal.export()
        self.journal.publish()

    def add(self, content: bytes) -> BlobRef:
        ref = write_blob(self.journal.directory, [content], self.journal.draw)
        document = {"op": "op-1", MEMBER: [ref.to_json() | {"what": "output"}]}
        self.journal.frames += self.journal.sealer.record(json.dumps(document).encode(), self.journal.tick())
        return ref

    def check(self, *, keyed: bool, jobs: int = 1) -> Report:
        return verify(
            self.journal.directory,
            policy=self.journal.policy,
            anchors=self.journal.anchors(),
            now_ms=self.journal.now_ms + 1000,
            extra=Extra(key=self.journal.auditor if keyed else None, jobs=jobs),
        )

    def put(self, number: int, content: bytes) -> None:
        self.journal.directory.put(self.refs[number].path, content)

    def file(self, number: int) -> bytes:
        return self.journal.directory.files()[self.refs[number].path]


def test_blobs_that_are_here_and_whole_are_counted() -> None:
    archive = Archive()
    without, keyed = archive.check(keyed=False), archive.check(keyed=True)
    assert without.exit is keyed.exit is Exit.OK, keyed.to_lines()
    assert (without.blobs, without.blobs_named) == (3, None)
    assert (keyed.blobs, keyed.blobs_named, keyed.blob_bytes) == (3, 3, sum(ref.sealed_size for ref in archive.refs))
    assert any(line.startswith("blobs      3 files") for line in keyed.to_lines())


def missing(archive: Archive) -> None:
    archive.journal.directory.remove(archive.refs[1].path)


def cut_at_a_border(archive: Archive) -> None:
    archive.put(1, archive.file(1)[:SEALED_CHUNK_BYTES])


def swapped(archive: Archive) -> None:
    archive.put(1, archive.file(2))


def one_bit(archive: Archive) -> None:
    data = archive.file(1)
    archive.put(1, data[:-1] + bytes([data[-1] ^ 1]))


def renamed_after_a_cut(archive: Archive) -> None:
    """A file that is well named again: only the record knows that it is another."""
    data = archive.file(1)[:SEALED_CHUNK_BYTES]
    archive.journal.directory.put(f"{BLOBS}/{sha256(data).hexdigest()}", data)
    missing(archive)


T, I, OK = Exit.TAMPERED, Exit.INCOMPLETE, Exit.OK  # noqa: E741 - a table
CASES: list[tuple[Callable[[Archive], None], Exit, Exit]] = [
    (missing, OK, I),
    (cut_at_a_border, T, T),
    (swapped, T, T),
    (one_bit, T, T),
    (renamed_after_a_cut, OK, I),
]


@pytest.mark.parametrize(("change", "keyless", "keyed"), CASES, ids=[case[0].__name__ for case in CASES])
def test_36_a_blob_missing_cut_or_swapped(change: Callable[[Archive], None], keyless: Exit, keyed: Exit) -> None:
    archive = Archive()
    change(archive)
    without = archive.check(keyed=False)
    assert without.exit is keyless, without.to_lines()
    assert archive.check(keyed=True).exit is keyed
    anchors = [archive.journal.anchor.files()[CHECKPOINT]]
    policy, now_ms = archive.journal.policy.to_text(), archive.journal.now_ms + 1000
    assert oracle(archive.journal.directory.files(), policy, anchors, now_ms) == keyless


def test_36_processes_that_read_ahead_hand_on_what_is_named(tmp_path: Path) -> None:
    archive = Archive()
    missing(archive)
    for name, data in archive.journal.directory.files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(data)
    report = verify(
        DiskDirectory(tmp_path),
        policy=archive.journal.policy,
        anchors=archive.journal.anchors(),
        now_ms=archive.journal.now_ms + 1000,
        extra=Extra(key=archive.journal.auditor, jobs=2),
    )
    assert (report.exit, report.blobs, report.blobs_named) == (Exit.INCOMPLETE, 2, 3)
    (finding,) = report.findings
    assert (finding.code, finding.seq) == ("blob_missing", 3)


def test_files_that_cannot_be_read_are_unreadable() -> None:
    archive = Archive()

    def deny(operation: str, name: str, _length: int) -> None:
        if operation == "read" and name == archive.refs[0].path:
            raise PermissionError(13, "Permission denied")

    archive.journal.directory.hook = deny
    assert archive.check(keyed=True).exit is Exit.UNREADABLE


def test_a_blob_that_retention_takes_meanwhile_is_no_fault() -> None:
    archive = Archive()

    def drop(operation: str, name: str, _length: int) -> None:
        if operation == "read" and name == archive.refs[0].path:
            archive.journal.directory.remove(name)

    archive.journal.directory.hook = drop
    assert archive.check(keyed=False).exit is Exit.OK


def test_what_only_looks_like_a_reference() -> None:
    ref = write_blob(MemoryDirectory(), [b"x"], Journal().draw)
    boxer = Boxer(PersonalKey.generate(ORIGIN, bytes), SubjectFile(MemoryDirectory(), "s", ORIGIN), bytes)
    boxed = boxer.box({MEMBER: [ref.to_json()]}, "ada", [MEMBER])
    nested = {"parameters": {MEMBER: [{"sha256": "00"}]}}
    documents: list[dict[str, Any]] = [boxed, nested, {MEMBER: []}]
    for document in documents:
        assert list(references(7, json.dumps(document).encode())) == []
    assert list(references(7, b'{"blobs": not json')) == []
    for broken in ("text", [{"sha256": "00"}], {"sha256": ref.name}):
        (found,) = references(7, json.dumps({MEMBER: broken}).encode())
        assert (found.seq, found.sealed_size) == (7, None)


def test_a_reference_that_cannot_be_read_is_incomplete() -> None:
    archive = Archive()
    archive.journal.frames += archive.journal.sealer.record(b'{"blobs": [{"sha256": "00"}]}', archive.journal.tick())
    archive.journal.seal()
    archive.journal.export()
    assert archive.check(keyed=True).exit is Exit.INCOMPLETE


def test_a_file_larger_than_any_blob_is_a_contradiction_and_not_read(tmp_path: Path) -> None:
    name = "ab" * 32

    class Watched(DiskDirectory):
        def read(self, name: str, offset: int, length: int) -> bytes:
            assert not name.startswith(BLOBS), "a sparse file would be read for days"
            return super().read(name, offset, length)

    (tmp_path / BLOBS).mkdir()
    (tmp_path / BLOBS / name).touch()
    os.truncate(tmp_path / BLOBS / name, 4 << 40)
    told: list[int] = []
    report = Report()
    found = holdings.Holdings(Watched(tmp_path), report)
    found.check_files(told.append)
    assert [(finding.code, finding.exit) for finding in report.findings] == [("oversized", Exit.TAMPERED)]
    assert (found.size(), told, report.blobs) == (0, [], 0)


def test_both_verifiers_draw_the_line_of_a_blob_at_the_same_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive()
    largest = max(ref.sealed_size for ref in archive.refs)
    anchors = [archive.journal.anchor.files()[CHECKPOINT]]
    policy, now_ms = archive.journal.policy.to_text(), archive.journal.now_ms + 1000
    assert second.BLOB_MAX == MAX_BLOB_BYTES == 1 << 30
    for limit, verdict in ((largest, Exit.OK), (largest - 1, Exit.TAMPERED)):
        monkeypatch.setattr(holdings, "MAX_BLOB_BYTES", limit)
        monkeypatch.setattr(second, "BLOB_MAX", limit)
        assert archive.check(keyed=False).exit is verdict
        assert oracle(archive.journal.directory.files(), policy, anchors, now_ms) == verdict


def test_a_reference_to_more_than_a_blob_can_have_is_incomplete() -> None:
    archive = Archive()
    asked = {MEMBER: [archive.refs[0].to_json() | {"size": MAX_BLOB_BYTES}]}
    archive.journal.frames += archive.journal.sealer.record(json.dumps(asked).encode(), archive.journal.tick())
    archive.journal.seal()
    archive.journal.export()
    report = archive.check(keyed=True)
    assert (report.exit, [finding.code for finding in report.findings]) == (Exit.INCOMPLETE, ["blob_missing"])


def test_a_writer_makes_no_blob_that_a_reader_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    directory, draw = MemoryDirectory(), Journal().draw
    monkeypatch.setattr(blobs, "MAX_BLOB_BYTES", 2 * SEALED_CHUNK_BYTES)
    ref = write_blob(directory, [bytes(2 * CHUNK_BYTES)], draw)
    assert BlobRef.from_json(ref.to_json()) == ref
    with pytest.raises(OSError, match="a blob has at most"):
        write_blob(directory, [bytes(2 * CHUNK_BYTES + 1)], draw)
    assert list(directory.files()) == [ref.path]
    monkeypatch.setattr(blobs, "MAX_BLOB_BYTES", 2 * SEALED_CHUNK_BYTES - 1)
    assert not blobs.hash_fits(directory, ref.name)
