"""A log that is being written goes on under a new log key: in one step, sealed by both, with a last word of the old."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from audit.bodies import LOG_KEY, CloseReason, KeyChange, SegmentClose, SegmentOpen
from audit.checkpoint import CHECKPOINT, HISTORY, Publisher, open_checkpoint, split_notes
from audit.epochs import EpochKeys, EpochLimits, SealKeyFile
from audit.keyring import SealKey
from audit.log import files_head, segments
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.record import Kind
from audit.report import Exit
from audit.rotate import Rotated, policy_after
from audit.seal import Sealer, SealerNotOpen
from audit.trust import TrustPolicy
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, entropy
from tests.unit.audit.oracle import oracle

SHORT = EpochLimits(age_max_ms=10_000, entries_max=4)


def next_key(journal: Journal, seed: str = "next") -> NoteSigner:
    return NoteSigner.generate(journal.origin, entropy(seed))


def rekey(journal: Journal, signer: NoteSigner, before: NoteSigner | None = None) -> Rotated:
    """What a gateway does, in memory."""
    old = (before or journal.signer).key
    if journal.epochs is None:
        fresh = SealKey.issue(signer.signer, journal.origin, journal.draw, journal.sealer.head.epoch + 1)
    else:
        fresh = journal.epochs.prepare(signer.signer, journal.draw)
    frames = journal.sealer.rekey(KeyChange(LOG_KEY, old.digest, signer.key.digest, "board"), fresh, journal.tick())
    journal.frames += frames
    return Rotated(frames[-1].segment, False, old, signer.key)


def publisher(journal: Journal) -> Publisher:
    return Publisher(journal.directory, journal.signer, [journal.anchor])


def verdict(journal: Journal, policy: TrustPolicy) -> tuple[Exit, set[str]]:
    """Both verifiers', who agree."""
    report = journal.verify(policy=policy)
    anchors = [journal.anchor.files()[CHECKPOINT]]
    told = oracle(journal.directory.files(), policy.to_text(), anchors, journal.now_ms + 1000)
    assert told == report.exit, report.to_lines()
    return report.exit, {finding.code for finding in report.findings}


@pytest.mark.parametrize("epochs", [None, SHORT])
def test_the_change_is_sealed_by_the_old_key_and_opened_by_the_new_one_in_one_step(epochs: EpochLimits | None) -> None:
    journal = Journal(epochs=epochs)
    journal.records(5)
    journal.seal()
    journal.export()
    before = journal.sealer.head
    publish = publisher(journal)
    publish.publish()
    signer = next_key(journal)
    rotated = rekey(journal, signer)
    publish.hand_over(signer, rotated.cut)
    journal.records(5)
    journal.seal()
    journal.export()
    publish.publish()
    made = [entry for entry in entries_of(journal.directory) if entry.header.seq >= before.size][:5]
    kinds = [Kind(entry.header.kind) for entry in made]
    assert kinds == [Kind.KEY_CHANGE, Kind.SEGMENT_CLOSE, Kind.SEAL, Kind.SEGMENT_OPEN, Kind.SEAL]
    assert SegmentClose.from_bytes(made[1].body).reason is CloseReason.KEYS
    opened = SegmentOpen.from_bytes(made[3].body)
    assert (opened.epoch, made[3].header.seq) == (before.epoch + 1, rotated.cut)
    policy = policy_after(journal.policy, rotated)
    assert verdict(journal, policy) == (Exit.OK, set())
    code, found = verdict(journal, journal.policy)
    assert (code, "new_key" in found) == (Exit.NOT_PROVEN, True)
    code, found = verdict(journal, TrustPolicy(policy.logs[1:]))
    assert (code, "old_key" in found) == (Exit.NOT_PROVEN, True)
    assert files_head(journal.directory, ORIGIN) == journal.sealer.head


def test_seal_key_that_could_not_follow_is_refused_and_nothing_has_changed() -> None:
    journal = Journal()
    signer, before = next_key(journal), journal.sealer.head
    change = KeyChange(LOG_KEY, bytes(32), bytes(32), "board")
    issued = SealKey.issue(signer.signer, ORIGIN, journal.draw, 1)
    for key in (
        SealKey.issue(signer.signer, ORIGIN, journal.draw, 0),
        replace(issued, origin="elsewhere"),
        journal.seal_key.successor(journal.draw),
    ):
        with pytest.raises(ValueError, match="later epoch"):
            journal.sealer.rekey(change, key, journal.tick())
    assert journal.sealer.head == before
    journal.close()
    with pytest.raises(SealerNotOpen):
        journal.sealer.rekey(change, issued, journal.tick())


def test_a_change_in_a_full_segment_opens_one_for_itself() -> None:
    journal = Journal()
    journal.records(12)
    rekey(journal, next_key(journal))
    journal.seal()
    journal.export()
    assert len(segments(journal.directory)) == 3


# -- the old key's last word -----------------------------------------------------------------------------------------


def sizes_of(journal: Journal, signer: NoteSigner) -> list[int]:
    found = []
    for note in split_notes(journal.directory.files()[HISTORY]):
        try:
            found.append(open_checkpoint(note, [signer.key]).size)
        except ValueError:
            continue
    return found


def test_the_old_key_signs_up_to_the_cut_and_never_behind_it_however_late_the_files_are() -> None:
    journal = Journal()
    journal.records(3)
    journal.seal()
    journal.export()
    publish = publisher(journal)
    publish.publish()
    signer = next_key(journal)
    start = journal.sealer.head.size
    rotated = rekey(journal, signer)
    publish.hand_over(signer, rotated.cut)
    journal.records(2)
    waits = [publish.handing_over]
    assert publish.publish(start) is None
    journal.export()
    publish.publish(rotated.cut - 1)
    waits.append(publish.handing_over)
    assert sizes_of(journal, signer) == []
    published = publish.publish()
    assert published is not None
    assert [*waits, publish.handing_over] == [True, True, False]
    assert sizes_of(journal, journal.signer)[-1] == rotated.cut
    assert sizes_of(journal, signer) == [published.checkpoint.size]
    # A cosignature comes under the checkpoint that was published, whoever signed it.
    publish.add_signatures(published.note.splitlines()[-1] + "\n")


def test_a_publisher_that_begins_anew_asks_for_no_last_word_that_was_said() -> None:
    journal = Journal()
    journal.records(3)
    signer, third = next_key(journal), next_key(journal, "third")
    first = rekey(journal, signer)
    second = rekey(journal, third, signer)
    journal.seal()
    journal.export()
    for _ in range(2):
        again = publisher(journal)
        again.hand_over(signer, first.cut)
        again.hand_over(third, second.cut)
        again.publish()
        assert not again.handing_over
    assert sizes_of(journal, journal.signer) == [first.cut]
    assert sizes_of(journal, signer) == [second.cut]
    assert len(sizes_of(journal, third)) == 2
    policy = policy_after(policy_after(journal.policy, first), second)
    assert verdict(journal, policy) == (Exit.OK, set())


# -- the seal key that comes with it ---------------------------------------------------------------------------------


class Pens:
    """Seal keys in a file, with a journal that uses them."""

    def __init__(self) -> None:
        self.journal = Journal(epochs=SHORT)
        self.store = SealKeyFile(self.journal.keys, "seal.key")
        assert self.journal.epochs is not None
        self.epochs = self.journal.epochs

    def stored(self) -> list[int]:
        return [key.epoch for key in self.store.load(ORIGIN)]


def test_a_prepared_key_waits_beside_those_in_use_and_no_hand_over_begins_meanwhile() -> None:
    pens = Pens()
    journal = pens.journal
    pens.epochs.prepare(next_key(journal).signer, journal.draw)
    assert pens.stored() == [0, 1]
    for _ in range(3):
        journal.records(5)
        journal.seal()
        journal.export()
    assert (journal.sealer.head.epoch, pens.stored()) == (0, [0, 1])
    pens.epochs.withdraw()
    journal.records(5)
    journal.seal()
    journal.export()
    assert (journal.sealer.head.epoch, pens.stored()) == (1, [1])


def test_a_key_prepared_while_another_hand_over_waits_survives_its_end() -> None:
    pens = Pens()
    journal = pens.journal
    journal.records(5)
    journal.seal()
    assert pens.stored() == [0, 1]
    signer = next_key(journal)
    fresh = pens.epochs.prepare(signer.signer, journal.draw)
    assert (fresh.epoch, pens.stored()) == (2, [0, 1, 2])
    journal.export()
    assert pens.stored() == [1, 2]
    change = KeyChange(LOG_KEY, journal.signer.key.digest, signer.key.digest, "board")
    journal.frames += journal.sealer.rekey(change, fresh, journal.tick())
    assert pens.stored() == [1, 2]
    journal.export()
    assert pens.stored() == [2]


def test_a_start_takes_the_prepared_key_only_if_the_log_names_it() -> None:
    pens = Pens()
    journal = pens.journal
    fresh = pens.epochs.prepare(next_key(journal).signer, journal.draw)
    before = journal.sealer.head
    assert EpochKeys(pens.store, ORIGIN).resolve(before) == journal.seal_key
    assert pens.stored() == [0]
    pens.store.save(ORIGIN, [journal.seal_key, fresh])
    journal.frames += journal.sealer.rekey(KeyChange(LOG_KEY, bytes(32), bytes(32), "x"), fresh, journal.tick())
    assert EpochKeys(pens.store, ORIGIN).resolve(journal.sealer.head) == fresh
    assert pens.stored() == [1]


def test_a_key_that_cannot_be_stored_is_not_prepared() -> None:
    pens = Pens()

    def full(step: str, _name: str, _size: int) -> None:
        if step == "append":
            raise OSError(errno.ENOSPC, "No space left on device")

    pens.journal.keys.hook = full
    with pytest.raises(OSError, match="space"):
        pens.epochs.prepare(next_key(pens.journal).signer, pens.journal.draw)
    pens.journal.keys.hook = MemoryDirectory().hook
    pens.journal.records(5)
    pens.journal.seal()
    assert pens.stored() == [0, 1], "hand-overs go on"


def test_readers_that_change_at_a_start_are_named_behind_what_recovery_found() -> None:
    journal = Journal()
    sealer = Sealer(
        origin=ORIGIN,
        recipients=[journal.recovery.recipient],
        seal_key=journal.seal_key,
        head=journal.sealer.head,
        entropy=journal.draw,
        writer_id="writer",
        boot_id="boot",
    )
    change = KeyChange(1, bytes(32), bytes(32), "settings")
    frames = sealer.start(journal.tick(), changes=[change])
    assert [frame.kind for frame in frames] == [Kind.SEGMENT_OPEN, Kind.KEY_CHANGE, Kind.SEAL]
