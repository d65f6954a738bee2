"""Dropping old segments: what may go, what must be said before, and a crash in the middle of it."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from audit.bodies import ERASED_SEGMENTS, Erasure
from audit.chain import ZERO_HASH, CompactRange
from audit.checkpoint import CHECKPOINT, Publisher
from audit.export import ExportFailed
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.record import Kind
from audit.recover import recover
from audit.report import Exit, Report
from audit.retention import NotDroppable, Retention, drop_segments, first_kept, recorded_end, retire
from audit.seal import DAY_MS, SegmentLimits
from audit.verify import VerifyOptions
from audit.writer import LogWriter
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, refile, sign_checkpoint


class Office:
    """A direct writer on a log of many small segments, its publisher, and one anchor."""

    def __init__(self, *, coarse_time: bool = False) -> None:
        self.journal = Journal(limits=SegmentLimits(entries_max=6), coarse_time=coarse_time)
        for _ in range(5):
            self.journal.records(4)
            self.journal.seal()
        self.journal.export()
        self.journal.publish()
        self.writer = self.open()

    @property
    def directory(self) -> MemoryDirectory:
        return self.journal.directory

    def open(self) -> LogWriter:
        self.publisher = Publisher(self.directory, self.journal.signer, [self.journal.anchor])
        self.writer = LogWriter.open(
            self.directory,
            origin=ORIGIN,
            recipients=[self.journal.auditor.recipient],
            seal_key=self.journal.seal_key,
            entropy=self.journal.draw,
            writer_id="writer-1",
            boot_id="boot-9",
            t_ms=self.journal.tick(),
        )
        return self.writer

    def retire(self, before_ms: int, *, keep_from: int | None = None) -> int:
        return retire(
            self.writer,
            self.directory,
            Retention(before_ms, "retention"),
            keys=[self.journal.signer.key],
            publish=self.publisher.publish,
            t_ms=self.journal.tick(),
            anchors=[self.journal.anchor],
            keep_from=keep_from,
        )

    def verify(self, *, anchored: bool = True) -> Report:
        options = None if anchored else VerifyOptions(accept_unanchored=True)
        return self.journal.verify(anchored=anchored, options=options)


def test_old_segments_go_and_the_log_verifies_with_its_beginning_attested() -> None:
    office = Office()
    before = segments(office.directory)
    kept = office.retire(office.journal.now_ms)
    assert kept > 0
    assert segments(office.directory) == [first for first in before if first >= kept]
    assert recorded_end(office.directory) == kept
    for anchored in (True, False):
        report = office.verify(anchored=anchored)
        assert report.exit is Exit.OK, report.to_lines()
        assert (report.pruned_size, report.first_seq) == (kept, kept)
    office.writer.append(b'{"op":"on"}', office.journal.tick())
    assert office.retire(office.journal.now_ms) >= kept
    office.writer.close(office.journal.tick())
    assert office.open().head.size > kept
    assert office.verify().exit is Exit.OK


def test_only_what_is_old_enough_goes() -> None:
    office = Office()
    firsts = segments(office.directory)
    opened = [int.from_bytes(office.directory.read(segment_name(first), 17, 8), "big") for first in firsts]
    assert first_kept(office.directory, before_ms=0, covered=1 << 60) == 0
    assert first_kept(office.directory, before_ms=opened[2], covered=1 << 60) == firsts[1]
    assert first_kept(office.directory, before_ms=opened[2] + 1, covered=1 << 60) == firsts[2]
    assert first_kept(office.directory, before_ms=1 << 60, covered=1 << 60) == firsts[-1]
    assert first_kept(MemoryDirectory(), before_ms=1, covered=1) == 0


def test_a_day_that_was_rounded_down_counts_to_its_end() -> None:
    office = Office(coarse_time=True)
    opened = int.from_bytes(office.directory.read(segment_name(segments(office.directory)[1]), 17, 8), "big")
    assert first_kept(office.directory, before_ms=opened + DAY_MS, covered=1 << 60) == 0
    assert first_kept(office.directory, before_ms=opened + DAY_MS + 1, covered=1 << 60) > 0


def test_what_an_old_anchor_or_witness_still_needs_stays() -> None:
    office = Office()
    firsts = segments(office.directory)
    assert office.retire(office.journal.now_ms, keep_from=firsts[2] + 1) == firsts[2]
    assert segments(office.directory)[0] == firsts[2]
    office = Office()
    tree = CompactRange()
    tree.extend([entry.leaf for entry in entries_of(office.directory)[: firsts[1]]])
    office.journal.anchor.put(CHECKPOINT, sign_checkpoint(office.journal.signer, firsts[1], tree.root()))
    assert office.retire(office.journal.now_ms) == firsts[1]
    office = Office()
    office.journal.anchor.put(CHECKPOINT, b"not a checkpoint")
    with pytest.raises(NotDroppable, match="cannot be trusted"):
        office.retire(office.journal.now_ms)
    assert segments(office.directory) == firsts


def test_nothing_goes_without_its_record_or_a_checkpoint() -> None:
    office = Office()
    firsts = segments(office.directory)
    with pytest.raises(NotDroppable, match="does not say"):
        drop_segments(office.directory, firsts[2], attested=1 << 60)
    office.writer.note(
        Erasure(ERASED_SEGMENTS, 0, firsts[2], ZERO_HASH, "retention"), Kind.ERASURE, office.journal.tick()
    )
    with pytest.raises(NotDroppable, match="no checkpoint"):
        drop_segments(office.directory, firsts[2], attested=firsts[2])
    with pytest.raises(NotDroppable, match="begins at"):
        drop_segments(office.directory, firsts[2] + 1, attested=1 << 60)
    assert drop_segments(office.directory, firsts[2], attested=1 << 60) == firsts[:2]
    assert drop_segments(office.directory, firsts[2], attested=1 << 60) == []


def test_each_name_is_gone_for_good_before_the_next_goes() -> None:
    """A power loss that kept a later removal and lost an earlier one would leave a gap that nothing explains."""
    office = Office()
    done: list[str] = []
    office.directory.hook = lambda operation, _name, _length: done.append(operation)
    office.retire(office.journal.now_ms)
    removals = [at for at, operation in enumerate(done) if operation == "unlink"]
    assert len(removals) > 2
    assert [done[at + 1] for at in removals] == ["sync_folder"] * len(removals)


def test_a_record_of_retention_is_needed_by_the_verifier() -> None:
    office = Office()
    office.retire(office.journal.now_ms)
    office.directory.remove(segment_name(segments(office.directory)[0]))
    assert office.verify().exit is Exit.INCOMPLETE


LOSSES: dict[str, Callable[[MemoryDirectory], MemoryDirectory]] = {
    "killed": MemoryDirectory.after_kill,
    "power lost, nothing more survives": lambda directory: directory.after_power_loss(lambda _most: 0),
    "power lost, everything survives": lambda directory: directory.after_power_loss(lambda most: most),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_crash_at_any_step_of_retention_leaves_a_log_that_verifies_and_goes_on(
    loss: Callable[[MemoryDirectory], MemoryDirectory],
) -> None:
    step, finished, kept = 0, False, 0
    while not finished:
        office = Office()
        left = step

        def crash(_operation: str, _name: str, _length: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        office.directory.hook = office.journal.anchor.hook = crash
        before_ms = office.journal.now_ms
        try:
            office.retire(before_ms)
            finished = True
        except KeyboardInterrupt:
            pass
        office.journal.directory = loss(office.directory)
        office.journal.anchor = loss(office.journal.anchor)
        report = office.verify()
        assert report.exit is Exit.OK, (step, report.to_lines())
        office.open()
        assert office.verify().exit is Exit.OK, step
        kept = office.retire(before_ms)
        assert segments(office.directory)[0] == kept
        assert office.verify().exit is Exit.OK, step
        step += 1
    assert step > 40
    assert kept > 0


@pytest.mark.parametrize("operation", ["append", "sync", "unlink", "sync_folder", "rename"])
def test_a_disk_that_refuses_leaves_a_log_that_verifies_and_goes_on(operation: str) -> None:
    office = Office()
    refused = 0

    def refuse(asked: str, _name: str, _length: int) -> None:
        nonlocal refused
        if asked == operation:
            refused += 1
            raise OSError(errno.ENOSPC if operation == "append" else errno.EIO, "refused")

    office.directory.hook = refuse
    with pytest.raises((OSError, ExportFailed)):
        office.retire(office.journal.now_ms)
    assert refused
    office.directory.hook = None
    report = office.verify()
    assert report.exit is Exit.OK, report.to_lines()
    kept = office.retire(office.journal.now_ms)
    assert segments(office.directory)[0] == kept > 0
    assert office.verify().exit is Exit.OK


def test_what_was_torn_in_a_dropped_segment_is_not_recorded_again() -> None:
    office = Office()
    office.writer.abandon()
    refile(office.directory, lambda data: data + b"\0\0\0\x99torn", segments(office.directory)[-1])
    office.open()
    for _ in range(3):
        office.writer.close(office.journal.tick())
        office.open()
    office.publisher.publish()
    office.retire(office.journal.now_ms)
    torn = office.directory.names("quarantine")
    assert int(torn[0][:16], 16) < segments(office.directory)[0]
    assert recover(office.directory, boot_id="boot-10") == ()
