"""Seal keys that change by epochs: every hand-over holds, every crash in it is harmless, old ranges stay signed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.bodies import Seal, seal_message
from audit.chain import ZERO_HASH
from audit.epochs import EpochKeys, EpochLimits, KeyLost, SealKeyFile
from audit.head import Head
from audit.keyring import RecipientKey, Role, SealKey
from audit.log import LogContradiction, files_head
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.record import Entry, Kind
from audit.report import Exit
from audit.trust import TrustPolicy
from audit.verify import VerifyOptions, verify
from audit.writer import LogWriter
from tests.unit.audit.logs import ORIGIN, START_MS, Journal, entries_of, entropy, put_frames, rechain

SHORT = EpochLimits(age_max_ms=10_000, entries_max=4)


def journal_of_epochs() -> Journal:
    """Several epochs, a restart among them, the hand-overs confirmed."""
    journal = Journal(epochs=SHORT)
    for _ in range(6):
        journal.records(5)
        journal.seal()
        journal.export()
    journal.boot()
    journal.records(5)
    journal.seal()
    journal.export()
    journal.publish()
    return journal


def seals(journal: Journal) -> list[Seal]:
    return [Seal.from_bytes(entry.body) for entry in entries_of(journal.directory) if entry.header.kind == Kind.SEAL]


def test_every_seal_that_ends_an_epoch_names_the_key_of_the_next() -> None:
    journal = journal_of_epochs()
    report = journal.verify()
    assert report.exit is Exit.OK, report.to_lines()
    assert (report.first_epoch, report.last_epoch) == (0, journal.sealer.head.epoch)
    assert report.last_epoch == 7
    handed = [seal.epoch for seal in seals(journal) if seal.next_key != ZERO_HASH]
    assert handed == list(range(7))
    assert files_head(journal.directory, ORIGIN) == journal.sealer.head


def test_old_keys_are_gone_once_their_last_seal_is_durable() -> None:
    journal = Journal(epochs=SHORT)
    store = SealKeyFile(journal.keys, "seal.key")
    journal.records(5)
    journal.seal()
    assert [key.epoch for key in store.load(ORIGIN)] == [0, 1]
    assert journal.epochs is not None
    journal.epochs.confirm(journal.sealer.head.size - 1)
    assert [key.epoch for key in store.load(ORIGIN)] == [0, 1]
    journal.epochs.confirm(journal.sealer.head.size)
    (key,) = store.load(ORIGIN)
    assert (key.epoch, key.public, key.certified) == (1, journal.sealer.head.epoch_key, False)
    assert journal.seal_key.to_line().encode() not in journal.keys.files()["seal.key"]


def test_no_second_hand_over_before_the_first_is_durable() -> None:
    journal = Journal(epochs=SHORT)
    for _ in range(3):
        journal.records(5)
        journal.seal()
    assert journal.sealer.head.epoch == 1
    journal.export()
    journal.records(5)
    journal.seal()
    assert journal.sealer.head.epoch == 2


def test_an_epoch_ends_by_time_as_well() -> None:
    journal = Journal(epochs=EpochLimits(age_max_ms=60_000, entries_max=1000))
    journal.records(1)
    journal.now_ms += 59_000
    journal.seal()
    assert journal.sealer.head.epoch == 0
    journal.now_ms += 1_000
    journal.records(1)
    journal.seal()
    assert journal.sealer.head.epoch == 1


def test_a_key_store_that_refuses_puts_the_hand_over_off() -> None:
    journal = Journal(epochs=SHORT)

    def full(operation: str, _name: str, _length: int) -> None:
        if operation == "append":
            raise OSError(errno.ENOSPC, "No space left on device")

    journal.keys.hook = full
    journal.records(5)
    journal.seal()
    assert journal.epochs is not None
    assert (journal.sealer.head.epoch, journal.epochs.trouble) == (0, "No space left on device")
    journal.keys.hook = None
    journal.records(1)
    journal.seal()
    assert (journal.sealer.head.epoch, journal.epochs.trouble) == (1, None)
    journal.keys.hook = full
    journal.export()
    assert journal.epochs.trouble == "No space left on device"
    journal.keys.hook = None
    journal.export()
    journal.epochs.confirm(journal.sealer.head.size)
    assert len(SealKeyFile(journal.keys, "seal.key").load(ORIGIN)) == 1


def test_start_promotes_the_pending_key_only_if_the_head_names_it() -> None:
    draw = entropy("resolve")
    signer = NoteSigner.generate(ORIGIN, draw)
    current = SealKey.issue(signer.signer, ORIGIN, draw)
    pending = current.successor(draw)
    store = SealKeyFile(MemoryDirectory(), "seal.key")
    named_old = replace(Head.empty(ORIGIN), epoch=0, epoch_key=current.public)
    named_new = replace(Head.empty(ORIGIN), epoch=1, epoch_key=pending.public)
    for head, expected in ((named_old, current), (named_new, pending), (Head.empty(ORIGIN), current)):
        store.save(ORIGIN, [current, pending])
        assert EpochKeys(store, ORIGIN).resolve(head) == expected
        assert store.load(ORIGIN) == (expected,)
    store.save(ORIGIN, [current])
    with pytest.raises(KeyLost, match="epoch 1"):
        EpochKeys(store, ORIGIN).resolve(named_new)
    with pytest.raises(KeyLost, match="no seal key"):
        EpochKeys(store, "gw.example/audit/else").resolve(named_new)


def test_a_lost_key_is_replaced_by_a_certified_one_of_a_later_epoch() -> None:
    journal = journal_of_epochs()
    epoch = journal.sealer.head.epoch + 1
    store = SealKeyFile(journal.keys, "seal.key")
    store.save(ORIGIN, [SealKey.issue(journal.signer.signer, ORIGIN, journal.draw, epoch)])
    journal.boot()
    journal.records(2)
    journal.seal()
    journal.export()
    journal.publish()
    report = journal.verify()
    assert report.exit is Exit.OK, report.to_lines()
    assert report.last_epoch >= epoch


def test_keys_of_other_logs_in_the_file_stay() -> None:
    draw = entropy("other")
    signer = NoteSigner.generate("gw.example/other", draw)
    other = SealKey.issue(signer.signer, "gw.example/other", draw)
    store = SealKeyFile(MemoryDirectory(), "keys/seal.key")
    store.save("gw.example/other", [other])
    mine = SealKey.issue(NoteSigner.generate(ORIGIN, draw).signer, ORIGIN, draw)
    store.save(ORIGIN, [mine, mine.successor(draw)])
    store.save(ORIGIN, [mine])
    assert (store.load(ORIGIN), store.load("gw.example/other")) == ((mine,), (other,))


def resign(entries: list[Entry], key: SealKey, index: int, *, epoch: int, next_key: bytes) -> None:
    """Sign the seal at an index anew, as whoever holds this key could."""
    seal = replace(Seal.from_bytes(entries[index].body), epoch=epoch, next_key=next_key)
    signer = Ed25519PrivateKey.from_private_bytes(key.private)
    signature = signer.sign(seal_message(ORIGIN, entries[index].header.to_bytes(), seal.unsigned()))
    entries[index] = replace(entries[index], body=replace(seal, signature=signature).to_bytes())


@pytest.mark.parametrize("labelled", ["as the old epoch", "as the later epoch"])
def test_20_an_old_range_signed_again_with_a_later_epochs_key(labelled: str) -> None:
    journal = journal_of_epochs()
    (later,) = SealKeyFile(journal.keys, "seal.key").load(ORIGIN)
    entries = entries_of(journal.directory)
    index = next(index for index, entry in enumerate(entries) if entry.header.kind == Kind.DATA)
    entries[index] = replace(entries[index], body=entries[index].body[::-1])
    if labelled == "as the later epoch":
        for at, entry in enumerate(entries):
            if entry.header.kind == Kind.SEAL:
                body = replace(Seal.from_bytes(entry.body), epoch=later.epoch).to_bytes()
                entries[at] = replace(entry, body=body)
    put_frames(journal.directory, rechain(entries, seal_key=later))
    report = journal.verify(anchored=False, options=VerifyOptions(accept_unanchored=True))
    assert report.exit is Exit.TAMPERED
    # Without the checkpoints in the folder, too: the seals alone must tell.
    for name in ("checkpoint", "checkpoints.log"):
        journal.directory.remove(name)
    report = journal.verify(anchored=False, options=VerifyOptions(accept_unanchored=True))
    assert report.exit is Exit.TAMPERED
    expected = "epoch" if labelled == "as the later epoch" else "seal_signature"
    assert expected in {finding.code for finding in report.findings}


def test_21_a_skipped_epoch() -> None:
    """Whoever holds the present key cuts out the epochs before it and seals the rest in its name."""
    journal = Journal(epochs=SHORT)
    first = journal.seal_key
    for _ in range(2):
        journal.records(5)
        journal.seal()
        journal.export()
    (later,) = SealKeyFile(journal.keys, "seal.key").load(ORIGIN)
    assert later.epoch == 2
    entries = entries_of(journal.directory)
    hand_overs = [
        index
        for index, entry in enumerate(entries)
        if entry.header.kind == Kind.SEAL and Seal.from_bytes(entry.body).next_key != ZERO_HASH
    ]
    resign(entries, first, hand_overs[0], epoch=0, next_key=later.public)
    put_frames(journal.directory, rechain(entries))
    report = journal.verify(anchored=False)
    assert report.exit is Exit.TAMPERED
    assert "seal_signature" in {finding.code for finding in report.findings}


def test_21_a_hand_over_to_another_key_breaks_every_seal_after_it() -> None:
    journal = journal_of_epochs()
    entries = entries_of(journal.directory)
    at = next(
        index
        for index, entry in enumerate(entries)
        if entry.header.kind == Kind.SEAL and Seal.from_bytes(entry.body).next_key != ZERO_HASH
    )
    resign(entries, journal.seal_key, at, epoch=0, next_key=journal.seal_key.public)
    put_frames(journal.directory, rechain(entries))
    assert journal.verify(anchored=False).exit is Exit.TAMPERED


class Cut(Exception):
    """The power goes, or the process dies."""


class Desk:
    """A writer without a gateway: its log and its keys on one disk that can be cut off at any step."""

    def __init__(self) -> None:
        draw = entropy("desk")
        self.draw = draw
        self.signer = NoteSigner.generate(ORIGIN, draw)
        self.auditor = RecipientKey.generate(Role.AUDITOR, "auditor", draw)
        self.disk = MemoryDirectory()
        SealKeyFile(self.disk, "keys/seal.key").save(ORIGIN, [SealKey.issue(self.signer.signer, ORIGIN, draw)])
        self.now_ms = START_MS

    def work(self, rounds: int) -> None:
        self.now_ms += 1000
        writer = LogWriter.open(
            self.disk,
            origin=ORIGIN,
            recipients=[self.auditor.recipient],
            seal_key=EpochKeys(SealKeyFile(self.disk, "keys/seal.key"), ORIGIN, SHORT),
            entropy=self.draw,
            writer_id="w",
            boot_id=f"boot-{self.now_ms}",
            t_ms=self.now_ms,
        )
        for _ in range(rounds):
            for _ in range(4):
                writer.append(b"{}", self.now_ms)
            writer.seal(self.now_ms)
        writer.close(self.now_ms)

    def steps_of(self, rounds: int) -> int:
        count = 0

        def look(operation: str, _name: str, _length: int) -> None:
            nonlocal count
            count += operation != "read"

        self.disk.hook = look
        self.work(rounds)
        self.disk.hook = None
        return count


LOSSES: dict[str, Callable[[MemoryDirectory], MemoryDirectory]] = {
    "kill": MemoryDirectory.after_kill,
    "power, nothing kept": lambda disk: disk.after_power_loss(lambda _: 0),
    "power, all kept": lambda disk: disk.after_power_loss(lambda count: count),
    "power, half kept": lambda disk: disk.after_power_loss(lambda count: count - count // 2),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_31_a_crash_at_any_step_of_a_hand_over_is_harmless(loss: Callable[[MemoryDirectory], MemoryDirectory]) -> None:
    total = Desk().steps_of(2)
    assert total > 30
    for last in range(total):
        desk = Desk()
        left = last

        def cut(operation: str, _name: str, length: int) -> int:
            nonlocal left
            left -= operation != "read"
            if left < 0:
                raise Cut
            return length

        desk.disk.hook = cut
        with pytest.raises(Cut):
            desk.work(2)
        desk.disk = loss(desk.disk)
        # Killed, started again, and the power lost at once: what the dead process left in memory must hold, too.
        desk.work(0)
        desk.disk = desk.disk.after_power_loss(lambda _: 0)
        desk.work(2)
        report = verify(
            desk.disk,
            policy=TrustPolicy((desk.signer.key,)),
            now_ms=desk.now_ms,
            options=VerifyOptions(accept_unanchored=True),
        )
        assert report.exit is Exit.OK, (last, report.to_lines())
        keys = SealKeyFile(desk.disk, "keys/seal.key").load(ORIGIN)
        head = files_head(desk.disk, ORIGIN)
        assert [key.epoch for key in keys] == [head.epoch]


def test_a_follower_refuses_what_the_writer_would_not_make() -> None:
    journal = journal_of_epochs()
    entries = entries_of(journal.directory)
    put_frames(journal.directory, rechain(entries, lie_at=len(entries) - 1))
    with pytest.raises(LogContradiction, match="other entries"):
        files_head(journal.directory, ORIGIN)
