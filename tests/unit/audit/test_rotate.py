"""Readers and log keys change; old policies, new ones and thieves of old keys each get the verdict they deserve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.bodies import LOG_KEY, KeyChange, Seal, read_body
from audit.checkpoint import CHECKPOINT, HISTORY, Checkpoint, Publisher, PublishRefused
from audit.disk import LogLocked
from audit.epochs import EpochKeys, KeyLost, SealKeyFile
from audit.export import ExportFailed
from audit.keyring import RecipientKey, Role, SealKey, WrongKey
from audit.log import files_head, segments
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.record import Kind
from audit.report import Exit, Report
from audit.rotate import BadRotation, Rotated, Rotation, Session, policy_after, rotate_keys
from audit.show import show
from audit.trust import TrustPolicy
from audit.verify import VerifyOptions
from audit.writer import LogWriter
from tests.unit.audit.logs import Journal, entries_of, entropy, put_frames, rechain
from tests.unit.audit.oracle import oracle


class Archive:
    """A stopped log of a journal, with its seal keys in a store, and what is needed to change its keys."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.journal.records(6)
        self.journal.close()
        self.journal.export()
        self.journal.publish()
        self.store = SealKeyFile(MemoryDirectory(), "seal.key")
        self.store.save(self.journal.origin, [self.journal.seal_key])
        self.draw = entropy("rotate")
        self.newcomer = RecipientKey.generate(Role.AUDITOR, "newcomer", self.draw)
        self.new_key = NoteSigner.generate(self.journal.origin, self.draw)

    @property
    def readers(self) -> tuple[RecipientKey, ...]:
        return (self.newcomer, self.journal.recovery)

    def session(self) -> Session:
        return Session(self.draw, "rotate", "boot-rotate", self.journal.tick())

    def rotate(
        self, *, readers: bool = True, new_key: NoteSigner | None = None, old: NoteSigner | None = None
    ) -> Rotated:
        keys = self.readers if readers else (self.journal.auditor, self.journal.recovery)
        recipients = tuple(key.recipient for key in keys)
        rotation = Rotation(recipients, old or self.journal.signer, "the board", new_key)
        journal = self.journal
        return rotate_keys(journal.directory, self.store, rotation, self.session(), [journal.anchor])

    def write_on(self, count: int = 3) -> None:
        """Records under whatever keys are in force, closed and not published."""
        writer = LogWriter.open(
            self.journal.directory,
            origin=self.journal.origin,
            recipients=[key.recipient for key in self.readers],
            seal_key=EpochKeys(self.store, self.journal.origin),
            entropy=self.draw,
            writer_id="later",
            boot_id="boot-later",
            t_ms=self.journal.tick(),
        )
        for number in range(count):
            writer.append(f'{{"later":{number}}}'.encode(), self.journal.tick())
        writer.close(self.journal.tick())

    def verify(self, policy: TrustPolicy, *, anchored: bool = True) -> Report:
        """The report, on whose verdict both verifiers agree."""
        report = self.journal.verify(policy=policy, anchored=anchored, options=VerifyOptions())
        anchors = [self.journal.anchor.files()[CHECKPOINT]] if anchored else []
        told = oracle(self.journal.directory.files(), policy.to_text(), anchors, self.journal.now_ms + 1000)
        assert told == report.exit, report.to_lines()
        return report


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_new_readers_read_what_comes_and_old_ones_what_was() -> None:
    archive = Archive()
    rotated = archive.rotate()
    archive.write_on()
    assert rotated.recipients_changed
    log = archive.journal.directory
    assert len(list(show(log, archive.newcomer))) == 3
    assert len(list(show(log, archive.journal.auditor))) == 6
    assert len(list(show(log, archive.journal.recovery))) == 9
    assert archive.verify(archive.journal.policy).exit is Exit.OK
    change = next(entry for entry in entries_of(log) if entry.header.kind == Kind.KEY_CHANGE)
    body = read_body(Kind.KEY_CHANGE, change.body)
    assert isinstance(body, KeyChange)
    assert (body.what, body.by, change.header.seq > rotated.cut) == (1, "the board", True)


def test_new_log_key_signs_from_the_cut_on_and_the_policy_says_so() -> None:
    archive = Archive()
    rotated = archive.rotate(new_key=archive.new_key)
    assert [key.epoch for key in archive.store.load(archive.journal.origin)] == [1]
    archive.write_on()
    Publisher(
        archive.journal.directory, archive.new_key, [archive.journal.anchor], old_keys=[rotated.old_key]
    ).publish()
    after = policy_after(archive.journal.policy, rotated)
    assert archive.verify(after).exit is Exit.OK
    assert TrustPolicy.parse(after.to_text()) == after
    assert [(key.since, key.until) for key in after.logs] == [(0, rotated.cut), (rotated.cut, None)]
    head = files_head(archive.journal.directory, archive.journal.origin)
    assert head.epoch == 1
    assert [key.epoch for key in archive.store.load(archive.journal.origin)] == [1]


def test_missing_old_key_is_not_proven_and_never_tampering() -> None:
    archive = Archive()
    rotated = archive.rotate(new_key=archive.new_key)
    only_new = TrustPolicy((replace(rotated.new_key, since=rotated.cut),))
    for policy in (only_new, TrustPolicy((rotated.new_key,))):
        report = archive.verify(policy)
        assert (report.exit, "old_key" in codes(report)) == (Exit.NOT_PROVEN, True)


def test_policy_that_lacks_the_new_key_is_not_proven_and_told_so() -> None:
    archive = Archive()
    archive.rotate(new_key=archive.new_key)
    archive.write_on()
    report = archive.verify(archive.journal.policy)
    assert (report.exit, codes(report) & {"new_key", "uncertified"}) == (Exit.NOT_PROVEN, {"new_key"})


def test_change_that_no_seal_of_the_old_key_covers_announces_nothing() -> None:
    """Whoever can append but has no key writes the entry himself and goes on with keys of his own."""
    archive = Archive()
    journal = archive.journal
    before = journal.sealer.head.size
    archive.rotate(new_key=archive.new_key)
    kept = [
        entry
        for entry in entries_of(journal.directory)
        if entry.header.seq < before or entry.header.kind != Kind.SEAL or Seal.from_bytes(entry.body).epoch
    ]
    assert len(kept) == len(entries_of(journal.directory)) - 3
    thief = archive.store.load(journal.origin)[0]
    put_frames(journal.directory, rechain(kept, seal_key=thief, own_epoch=True))
    for name in (CHECKPOINT, HISTORY):
        journal.directory.remove(name)
    report = archive.verify(journal.policy, anchored=False)
    assert (report.exit, codes(report) - {"no_anchor"}) == (Exit.TAMPERED, {"uncertified"})


def test_log_forged_with_a_strange_key_stays_tampering_without_a_recorded_change() -> None:
    archive = Archive()
    stranger = TrustPolicy((archive.new_key.key,))
    report = archive.verify(stranger)
    assert (report.exit, codes(report) & {"uncertified", "foreign_checkpoint"}) == (
        Exit.TAMPERED,
        {"uncertified", "foreign_checkpoint"},
    )


def test_change_to_a_key_that_is_not_pinned_excuses_nothing() -> None:
    archive = Archive()
    archive.rotate(new_key=archive.new_key)
    other = NoteSigner.generate(archive.journal.origin, entropy("third"))
    report = archive.verify(TrustPolicy((other.key,)))
    assert (report.exit, codes(report) >= {"uncertified", "foreign_checkpoint"}) == (Exit.TAMPERED, True)
    assert "old_key" not in codes(report)


def test_stolen_old_key_is_worth_nothing_behind_the_cut() -> None:
    archive = Archive()
    rotated = archive.rotate(new_key=archive.new_key)
    archive.write_on()
    after = policy_after(archive.journal.policy, rotated)
    journal = archive.journal
    head = files_head(journal.directory, journal.origin)
    # A checkpoint by the old key over a larger tree than it may speak for.
    text = Checkpoint(journal.origin, head.size, head.root()).to_text()
    journal.anchor.put(CHECKPOINT, journal.signer.sign(text).encode())
    assert archive.verify(after).exit is Exit.NOT_PROVEN
    journal.directory.put(CHECKPOINT, journal.signer.sign(text).encode())
    assert archive.verify(after, anchored=False).exit is Exit.TAMPERED
    # A seal key that the old log key certified for a later epoch.
    archive = Archive()
    rotated = archive.rotate(new_key=archive.new_key)
    after = policy_after(archive.journal.policy, rotated)
    stolen = SealKey.issue(archive.journal.signer.signer, archive.journal.origin, archive.draw, 9)
    archive.store.save(archive.journal.origin, [stolen])
    archive.write_on()
    report = archive.verify(after)
    assert (report.exit, codes(report)) == (Exit.TAMPERED, {"uncertified"})


def test_log_key_can_change_twice() -> None:
    archive = Archive()
    first = archive.rotate(new_key=archive.new_key)
    third = NoteSigner.generate(archive.journal.origin, entropy("third"))
    policy = policy_after(archive.journal.policy, first)
    second = archive.rotate(readers=True, new_key=third, old=archive.new_key)
    policy = policy_after(policy, second)
    # The log's own history holds checkpoints of all three.
    assert archive.verify(policy).exit is Exit.OK
    assert [(key.since, key.until) for key in policy.logs] == [
        (0, first.cut), (first.cut, second.cut), (second.cut, None),
    ]  # fmt: skip
    assert second.recipients_changed is False


def test_what_is_no_change_is_refused_before_anything_is_touched() -> None:
    archive = Archive()
    before = archive.journal.directory.files()
    with pytest.raises(BadRotation, match="nothing changes"):
        archive.rotate(readers=False)
    with pytest.raises(BadRotation, match="the log is"):
        archive.rotate(new_key=NoteSigner.generate("elsewhere", archive.draw))
    with pytest.raises(BadRotation, match="does not pin"):
        policy_after(
            TrustPolicy((archive.new_key.key,)), Rotated(1, True, archive.journal.signer.key, archive.new_key.key)
        )
    archive.journal.directory.lock()
    with pytest.raises(LogLocked):
        archive.rotate(new_key=archive.new_key)
    archive.journal.directory.unlock()
    assert archive.journal.directory.files() == before
    assert archive.store.load(archive.journal.origin) == (archive.journal.seal_key,)
    empty = Archive()
    for first in segments(empty.journal.directory):
        empty.journal.directory.remove(f"segments/{first:016x}.agl")
    with pytest.raises(BadRotation, match="empty"):
        empty.rotate()


def test_wrong_log_key_is_refused_by_the_publisher_and_a_lost_seal_key_by_name() -> None:
    archive = Archive()
    with pytest.raises(PublishRefused):
        archive.rotate(old=archive.new_key)
    archive = Archive()
    stranger = SealKey.issue(archive.new_key.signer, archive.journal.origin, archive.draw)
    archive.store.save(archive.journal.origin, [stranger])
    with pytest.raises(KeyLost):
        archive.rotate()


def test_crash_on_the_way_leaves_a_log_that_can_be_changed_again() -> None:
    archive = Archive()
    directory = archive.journal.directory
    broken = Rotation(
        tuple(key.recipient for key in archive.readers), archive.journal.signer, "x" * 300, archive.new_key
    )
    with pytest.raises((ExportFailed, WrongKey, ValueError)):
        rotate_keys(directory, archive.store, broken, archive.session())
    # A segment for the new readers is there, the entry about the keys is not.
    rotated = archive.rotate(new_key=archive.new_key)
    changes = [read_body(7, entry.body) for entry in entries_of(directory) if entry.header.kind == Kind.KEY_CHANGE]
    assert [change.what for change in changes if isinstance(change, KeyChange)] == [LOG_KEY]
    assert archive.verify(policy_after(archive.journal.policy, rotated)).exit is Exit.OK
