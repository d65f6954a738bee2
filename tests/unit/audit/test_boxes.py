"""Personal fields in boxes of their own: who can read them, how they are erased, and what a crash leaves."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from audit.bodies import ERASED_SUBJECT, Erasure
from audit.boxes import BOX, ERASED, Boxer, Unboxer, erased_subjects
from audit.disk import DiskDirectory
from audit.export import ExportFailed
from audit.fields import Malformed
from audit.keyring import KeyProblem
from audit.memory import MemoryDirectory
from audit.record import Kind
from audit.report import Exit
from audit.show import show
from audit.shred import settle_erasures, shred
from audit.subjects import PersonalKey, Subject, SubjectFile, tag_of
from audit.verify import VerifyOptions
from audit.writer import LogWriter
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, entropy

RECORD: dict[str, Any] = {
    "op": "op-1",
    "result": {"to": "ada@example.org", "items": [{"Name": "Ada"}, {"name": "Bob"}], "sum": 12},
}
NAMES = ("to", "name")


class Desk:
    """A log with a key for personal data, in memory."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.draw = entropy("desk")
        self.key = PersonalKey.generate(ORIGIN, self.draw)
        self.keys = MemoryDirectory()
        self.journal.export()

    @property
    def store(self) -> SubjectFile:
        """As a new process reads it."""
        return SubjectFile(self.keys, "subjects", ORIGIN)

    def writer(self) -> LogWriter:
        return LogWriter.open(
            self.journal.directory,
            origin=ORIGIN,
            recipients=[self.journal.auditor.recipient],
            seal_key=self.journal.seal_key,
            entropy=self.draw,
            writer_id="writer-1",
            boot_id="boot-9",
            t_ms=self.journal.tick(),
        )

    def record(self, subject: str, writer: LogWriter) -> None:
        boxed = Boxer(self.key, self.store, self.draw).box(RECORD, subject, NAMES)
        writer.append(json.dumps(boxed).encode(), self.journal.tick(), seal=True)

    def shown(self, *, opened: bool = True) -> list[dict[str, Any]]:
        erased = erased_subjects(self.journal.directory)
        unboxer = Unboxer(erased, self.key, self.store) if opened else Unboxer(erased)
        return [unboxer.open(shown.content) for shown in show(self.journal.directory, self.journal.auditor)]

    def tags(self) -> list[bytes]:
        bodies = (entry for entry in entries_of(self.journal.directory) if entry.header.kind == Kind.ERASURE)
        return [Erasure.from_bytes(entry.body).subject_tag for entry in bodies]

    def shred(self, subject: str, writer: LogWriter) -> tuple[bytes, ...]:
        directory, t_ms = self.journal.directory, self.journal.tick()
        return shred(writer, self.store, self.key, subject, by="officer", directory=directory, t_ms=t_ms)


def test_personal_fields_are_readable_with_the_subjects_key_only() -> None:
    desk = Desk()
    writer = desk.writer()
    desk.record("ada", writer)
    writer.close(desk.journal.tick())
    (closed,) = desk.shown(opened=False)
    assert desk.shown() == [RECORD]
    assert closed["result"]["sum"] == 12
    assert set(closed["result"]["to"]) == {BOX, "data"}
    (plain,) = (json.dumps(shown.content) for shown in show(desk.journal.directory, desk.journal.auditor))
    assert all(word not in plain for word in ("ada", "Ada", "Bob"))


def test_a_box_does_not_tell_how_long_its_content_is() -> None:
    desk = Desk()
    boxer = Boxer(desk.key, desk.store, desk.draw)
    short, long = (boxer.box({"to": "x" * length}, "ada", ["to"])["to"] for length in (1, 50))
    assert len(short["data"]) == len(long["data"])
    assert short[BOX] == long[BOX]


def test_a_document_without_personal_fields_makes_no_key() -> None:
    desk = Desk()
    assert Boxer(desk.key, desk.store, desk.draw).box({"sum": 1}, "ada", NAMES) == {"sum": 1}
    assert desk.keys.files() == {}


def test_a_box_moved_to_another_subject_or_field_stays_closed() -> None:
    desk = Desk()
    boxer = Boxer(desk.key, desk.store, desk.draw)
    ada, bob = (boxer.box({"to": who}, who, ["to"])["to"] for who in ("ada", "bob"))
    unboxer = Unboxer((), desk.key, desk.store)
    moved = {"name": ada, "to": {BOX: bob[BOX], "data": ada["data"]}}
    assert unboxer.open(moved) == moved
    looks = {"to": {BOX: ada[BOX], "data": "%%%"}, "x": {BOX: "zz", "data": ""}, "y": [{BOX: 1, "data": 2}]}
    assert unboxer.open(looks) == looks


def test_names_are_kept_and_matched_without_being_stored() -> None:
    desk = Desk()
    Boxer(desk.key, desk.store, desk.draw).box(RECORD, "ada@example.org", NAMES)
    (content,) = desk.keys.files().values()
    assert b"ada" not in content
    other = PersonalKey.generate(ORIGIN, desk.draw)
    assert desk.key.mark(b"ada") == desk.key.mark(b"ada")
    assert len({desk.key.mark(b"ada"), desk.key.mark(b"bob"), other.mark(b"ada"), desk.key.handle("ada")}) == 4


def test_shredding_erases_one_subject_and_every_hash_stays_valid() -> None:
    desk = Desk()
    writer = desk.writer()
    desk.record("ada", writer)
    desk.record("bob", writer)
    (tag,) = desk.shred("ada", writer)
    assert desk.shred("ada", writer) == ()
    writer.close(desk.journal.tick())
    first, second = desk.shown()
    assert first["result"] == {"to": ERASED, "items": [{"Name": ERASED}, {"name": ERASED}], "sum": 12}
    assert second == RECORD
    assert desk.shown(opened=False)[0] == first
    assert desk.tags() == [tag]
    assert tag.hex().encode() not in desk.keys.files()["subjects"]
    report = desk.journal.verify(anchored=False, options=VerifyOptions(accept_unanchored=True))
    assert report.exit is Exit.OK, report.to_lines()
    (shown,) = (
        entry.content
        for entry in show(desk.journal.directory, desk.journal.auditor, clear=True)
        if entry.kind is Kind.ERASURE
    )
    assert (shown["what"], shown["subject_tag"], shown["by"]) == (ERASED_SUBJECT, tag.hex(), "officer")


def test_a_subject_that_comes_back_gets_a_new_key() -> None:
    desk = Desk()
    writer = desk.writer()
    desk.record("ada", writer)
    desk.shred("ada", writer)
    desk.record("ada", writer)
    writer.close(desk.journal.tick())
    assert [shown["result"]["to"] for shown in desk.shown()] == [ERASED, "ada@example.org"]


LOSSES: dict[str, Callable[[MemoryDirectory], MemoryDirectory]] = {
    "killed": MemoryDirectory.after_kill,
    "power lost": lambda directory: directory.after_power_loss(lambda _most: 0),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_crash_at_any_step_of_shredding_is_made_good_by_the_next_start(
    loss: Callable[[MemoryDirectory], MemoryDirectory],
) -> None:
    step = 0
    while True:
        desk = Desk()
        writer = desk.writer()
        desk.record("ada", writer)
        left = step

        def crash(_operation: str, _name: str, _length: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        desk.keys.hook = desk.journal.directory.hook = crash
        try:
            desk.shred("ada", writer)
        except KeyboardInterrupt:
            finished = False
        else:
            finished = True
        desk.keys, desk.journal.directory = loss(desk.keys), loss(desk.journal.directory)
        writer = desk.writer()
        gone = desk.store.find(desk.key.handle("ada")) is None
        # Never does the log say so of a key that is still there.
        assert gone or desk.tags() == []
        settle_erasures(writer, desk.store, directory=desk.journal.directory, t_ms=desk.journal.tick())
        assert len(desk.tags()) == gone, step
        desk.shred("ada", writer)
        writer.close(desk.journal.tick())
        assert len(desk.tags()) == 1, step
        assert desk.store.pending() == ()
        assert desk.shown()[0]["result"]["to"] == ERASED
        if finished:
            break
        step += 1
    assert step > 10


def test_a_store_or_disk_that_refuses_leaves_the_erasure_owing() -> None:
    desk = Desk()
    writer = desk.writer()
    desk.record("ada", writer)

    def full(operation: str, _name: str, _length: int) -> None:
        if operation == "append":
            raise OSError(errno.ENOSPC, "No space left on device")

    desk.keys.hook = full
    with pytest.raises(OSError, match="No space"):
        desk.shred("ada", writer)
    desk.keys.hook = None
    assert desk.store.find(desk.key.handle("ada")) is not None
    desk.journal.directory.hook = full
    with pytest.raises(ExportFailed):
        desk.shred("ada", writer)
    desk.journal.directory.hook = None
    assert len(desk.store.pending()) == 1
    assert desk.shown()[0]["result"]["to"] != ERASED
    desk.shred("ada", writer)
    writer.close(desk.journal.tick())
    assert len(set(desk.tags())) == 1
    with pytest.raises(Malformed):
        shred(
            writer,
            desk.store,
            desk.key,
            "ada",
            by="x" * 256,
            directory=desk.journal.directory,
            t_ms=desk.journal.tick(),
        )


def test_keys_of_other_logs_in_the_file_stay(tmp_path: Path) -> None:
    draw = entropy("two logs")
    directory = DiskDirectory(tmp_path)
    stores = [SubjectFile(directory, "subjects", f"gw.example/{name}") for name in "ab"]
    keys = [PersonalKey.generate(f"gw.example/{name}", draw) for name in "ab"]
    Boxer(keys[0], stores[0], draw).box({"to": "x"}, "ada", ["to"])
    Boxer(keys[1], SubjectFile(directory, "subjects", "gw.example/b"), draw).box({"to": "x"}, "ada", ["to"])
    again = SubjectFile(directory, "subjects", "gw.example/a")
    again.erase(keys[0].handle("ada"), "me+you")
    assert again.erase(keys[0].handle("ada"), "me") is None
    assert SubjectFile(directory, "subjects", "gw.example/a").pending()[0].by == "me+you"
    assert SubjectFile(directory, "subjects", "gw.example/b").find(keys[1].handle("ada")) is not None
    assert (tmp_path / "subjects").stat().st_mode & 0o777 == 0o600


def test_damaged_or_foreign_keys_are_refused() -> None:
    desk = Desk()
    Boxer(desk.key, desk.store, desk.draw).box(RECORD, "ada", NAMES)
    line = desk.keys.files()["subjects"]
    kept = desk.store.find(desk.key.handle("ada"))
    assert kept is not None
    for damaged in (
        line.replace(kept.tag.hex().encode(), b"00"),
        line[:60],
        line[:-4],
        b"AGL9+" + line.split(b"+", 1)[1],
    ):
        desk.keys.put("subjects", damaged)
        with pytest.raises(KeyProblem):
            desk.store.find(desk.key.handle("ada"))
    desk.keys.put("subjects", line)
    with pytest.raises(KeyProblem, match="already"):
        desk.store.add(Subject(kept.handle, kept.tag, kept.wrapped))
    stranger = PersonalKey.generate(ORIGIN, desk.draw)
    with pytest.raises(KeyProblem, match="does not open"):
        stranger.unwrap(kept.wrapped, kept.tag)
    assert tag_of(desk.key.unwrap(kept.wrapped, kept.tag)) == kept.tag
    nonce = bytes(12)
    other = nonce + AESGCM(desk.key._part(b"wrap")).encrypt(nonce, bytes(32), kept.tag)
    with pytest.raises(KeyProblem, match="commits to"):
        desk.key.unwrap(other, kept.tag)


def test_the_key_for_personal_data_survives_its_line_and_never_shows() -> None:
    key = PersonalKey.generate(ORIGIN, entropy("line"))
    assert PersonalKey.parse(key.to_line()) == key
    assert key.private.hex() not in repr(key)
    assert str(key.private) not in repr(key)
    for bad in ("", "AGL1-PRIVATE-PERSONAL+x", key.to_line()[:-4], key.to_line().replace("PERSONAL", "SEAL")):
        with pytest.raises(KeyProblem):
            PersonalKey.parse(bad)
