"""The verifier on real files, on files that are no files, and on a log that is being written."""

from __future__ import annotations

import errno
import os
import random
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from audit.checkpoint import CHECKPOINT, HISTORY
from audit.claims import SETTLE_MS, SETTLE_TRIES, AnchorSource
from audit.cli import app
from audit.disk import DiskDirectory, log_folder
from audit.export import Exporter
from audit.log import LogContradiction, chunks, segment_name, segments
from audit.record import MAX_SEGMENT_BYTES
from audit.report import Exit, Report
from audit.successor import SUCCESSOR_AWAITED_MS
from audit.verify import Extra, VerifyOptions, verify
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, sealed_journal
from tests.unit.audit.oracle import oracle


def on_disk(journal: Journal, root: Path) -> tuple[Path, Path]:
    """The log and its anchor as real folders."""
    log, anchor = log_folder(root / "audit", ORIGIN), root / "anchor"
    for folder, files in ((log, journal.directory.files()), (anchor, journal.anchor.files())):
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return log, anchor


def exit_of(journal: Journal, log: Path, anchor: Path) -> Exit:
    report = verify(DiskDirectory(log), policy=journal.policy, anchors=[anchor], now_ms=journal.now_ms + 1000)
    return report.exit


def test_real_folder_verifies_and_is_left_as_it_was(tmp_path: Path) -> None:
    journal = sealed_journal()
    log, anchor = on_disk(journal, tmp_path)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    assert exit_of(journal, log, anchor) is Exit.OK
    assert exit_of(journal, log, anchor / CHECKPOINT) is Exit.OK
    assert exit_of(journal, log, anchor / HISTORY) is Exit.OK
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")} == before


def test_anchor_folder_that_keeps_logs_by_origin(tmp_path: Path) -> None:
    journal = sealed_journal()
    log, anchor = on_disk(journal, tmp_path)
    nested = log_folder(tmp_path / "shared", ORIGIN)
    nested.mkdir(parents=True)
    (anchor / CHECKPOINT).rename(nested / CHECKPOINT)
    assert exit_of(journal, log, tmp_path / "shared") is Exit.OK
    assert exit_of(journal, log, tmp_path / "nowhere") is Exit.UNREADABLE


@pytest.mark.parametrize("which", [0, 1, -1])
def test_segment_that_is_no_regular_file_is_unreadable(which: int, tmp_path: Path) -> None:
    journal = sealed_journal()
    log, anchor = on_disk(journal, tmp_path)
    names = sorted((log / "segments").iterdir())
    path = names[which]
    data = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    assert exit_of(journal, log, anchor) is Exit.UNREADABLE
    path.unlink()
    (tmp_path / "copy").write_bytes(data)
    path.symlink_to(tmp_path / "copy")
    assert exit_of(journal, log, anchor) is Exit.UNREADABLE


def test_permission_refused_is_unreadable() -> None:
    journal = sealed_journal()

    def refuse(operation: str, name: str, _length: int) -> None:
        if operation == "read" and name == segment_name(segments(journal.directory)[1]):
            raise PermissionError(errno.EACCES, "Permission denied")

    journal.directory.hook = refuse
    report = journal.verify()
    assert report.exit is Exit.UNREADABLE
    assert "Permission denied" in "\n".join(report.to_lines())


def test_missing_folder_is_not_ok(tmp_path: Path) -> None:
    journal = sealed_journal()
    _, anchor = on_disk(journal, tmp_path)
    assert exit_of(journal, tmp_path / "gone", anchor) is Exit.TAMPERED
    report = verify(DiskDirectory(tmp_path / "gone"), policy=journal.policy, now_ms=0)
    assert report.exit is Exit.NOT_PROVEN


def test_text_from_the_log_cannot_steer_the_terminal() -> None:
    journal = sealed_journal()
    # An origin with control characters is refused by the writer; a forger is not so kind.
    name = segment_name(0)
    data = journal.directory.files()[name].replace(b"test-1", b"\x1b[31m!")
    journal.directory.put(name, data)
    assert "\x1b" not in "\n".join(journal.verify().to_lines())


class LiveWriter:
    """A writer that takes one step whenever somebody looks at a file, and may be caught in the middle of a write."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.steps: list[str] = []
        self._exporter = Exporter(journal.directory)
        self._half: bytes | None = None
        self._busy = False
        journal.directory.hook = self._look

    def step(self) -> None:
        """The next step; one that leaves a frame half written is finished by the step after it."""
        journal = self.journal
        if self._half is not None:
            journal.directory.open(segment_name(journal.sealer.head.segment)).append(self._half)
            self._half = None
            return
        step = self.steps.pop(0) if self.steps else "idle"
        if step == "half" and journal.sealer.head.segment_entries < 11:
            journal.records(1)
            (frame,), journal.frames = journal.frames, []
            journal.directory.open(segment_name(frame.segment)).append(frame.data[:70])
            self._half = frame.data[70:]
            self._exporter._release()
            return
        if step in {"record", "half"}:
            journal.records(2)
        elif step == "seal":
            journal.seal()
        elif step == "publish":
            journal.publish()
        self._exporter.export(journal.rows())
        journal.frames = []

    def _look(self, operation: str, _name: str, _length: int) -> None:
        if operation == "read" and not self._busy:
            self._busy = True
            self.step()
            self._busy = False

    def verify(self, steps: list[str]) -> Report:
        """A verification during which the writer takes these steps."""
        self.steps = steps
        return verify(
            self.journal.directory,
            policy=self.journal.policy,
            anchors=[AnchorSource("anchor", self.journal.anchor, CHECKPOINT)],
            now_ms=self.journal.now_ms + 60_000,
            settle=self.step,
        )


STEPS = ["record", "seal", "publish", "half"]


@settings(max_examples=100)
@given(st.data())
def test_40_any_steps_of_the_writer_give_no_false_alarm(data: st.DataObject) -> None:
    report = LiveWriter(sealed_journal()).verify(data.draw(st.lists(st.sampled_from(STEPS), max_size=12)))
    assert report.exit is Exit.OK, report.to_lines()


@pytest.mark.parametrize("part", range(4))
def test_40_verifying_while_the_writer_runs_gives_no_false_alarm(part: int) -> None:
    """A thousand runs in four parts; a new log now and then keeps each of them short."""
    dice = random.Random(part)
    for _ in range(25):
        live = LiveWriter(sealed_journal())
        for run in range(10):
            report = live.verify(dice.choices(STEPS, k=dice.randrange(8)))
            assert report.exit is Exit.OK, (part, run, report.findings)


def test_40_verifying_a_real_folder_while_a_thread_writes_it(tmp_path: Path) -> None:
    journal, stop, wrote = Journal(), threading.Event(), threading.Condition()
    directory = DiskDirectory(tmp_path / "log")
    rounds = 0

    def write() -> None:
        nonlocal rounds
        with closing(Exporter(directory)) as exporter:
            while not stop.wait(0.001):
                # Longer, it would only take longer.
                if journal.sealer.head.size <= 1500:
                    journal.records(3)
                    journal.seal()
                    exporter.export(journal.rows())
                    journal.frames = []
                with wrote:
                    rounds += 1
                    wrote.notify_all()

    def pause() -> None:
        """Until the writer has done what it is about: in a moment of fixed length a busy machine may do nothing."""
        with wrote:
            seen = rounds
            assert wrote.wait_for(lambda: rounds > seen, 40)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        pause()
        for _ in range(60):
            report = verify(
                DiskDirectory(directory.path),
                policy=journal.policy,
                now_ms=journal.now_ms,
                options=VerifyOptions(accept_unanchored=True),
                settle=pause,
            )
            assert report.exit is Exit.OK, report.findings
            assert report.entries > 0
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("where", [0, 1, -1])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_segment_larger_than_any_can_be_is_refused_unread(where: int, jobs: int, tmp_path: Path) -> None:
    journal = sealed_journal()
    log, anchor = on_disk(journal, tmp_path)
    directory = DiskDirectory(log)
    first = segments(directory)[where]
    # Sparse: reading its zeros would take minutes, and the verdict would be that they were written ahead of need.
    os.truncate(log / segment_name(first), 200 << 30)
    extra = Extra(jobs=jobs)
    report = verify(directory, policy=journal.policy, anchors=[anchor], now_ms=journal.now_ms + 1000, extra=extra)
    assert report.exit is Exit.TAMPERED
    assert [(finding.code, finding.segment) for finding in report.findings] == [("oversized", first)]
    with pytest.raises(LogContradiction, match="none is larger than 134217728"):
        list(chunks(directory, first))


def test_both_verifiers_draw_the_line_at_the_same_byte(tmp_path: Path) -> None:
    journal = sealed_journal()
    log, anchor = on_disk(journal, tmp_path)
    last = segment_name(segments(journal.directory)[-1])
    whole = journal.directory.files()[last]
    for size, verdict in ((MAX_SEGMENT_BYTES, Exit.OK), (MAX_SEGMENT_BYTES + 1, Exit.TAMPERED)):
        os.truncate(log / last, size)
        assert exit_of(journal, log, anchor) is verdict
    files = {**journal.directory.files(), last: whole + bytes(MAX_SEGMENT_BYTES + 1 - len(whole))}
    anchors = [(anchor / CHECKPOINT).read_bytes()]
    assert oracle(files, journal.policy.to_text(), anchors, journal.now_ms + 1000) == Exit.TAMPERED
    assert oracle(journal.directory.files(), journal.policy.to_text(), anchors, journal.now_ms + 1000) == Exit.OK


def test_an_empty_history_holds_no_note_and_an_empty_anchor_is_unusable() -> None:
    journal = sealed_journal()
    journal.directory.put(HISTORY, b"")
    assert journal.verify().exit is Exit.OK
    journal.anchor.put(CHECKPOINT, b"")
    report = journal.verify(options=VerifyOptions(accept_unanchored=True))
    assert (report.exit, [finding.code for finding in report.findings]) == (Exit.NOT_PROVEN, ["bad_anchor"])


@pytest.mark.parametrize("behind", [b"\n", b"\n\n", b"x", "\n\u2014 other".encode()])
def test_the_logs_own_checkpoint_is_one_note_and_nothing_else(behind: bytes) -> None:
    journal = sealed_journal()
    journal.directory.put(CHECKPOINT, journal.directory.files()[CHECKPOINT] + behind)
    report = journal.verify()
    assert (report.exit, [finding.code for finding in report.findings]) == (Exit.TAMPERED, ["bad_checkpoint"])
    files, anchors = journal.directory.files(), [journal.anchor.files()[CHECKPOINT]]
    assert oracle(files, journal.policy.to_text(), anchors, journal.now_ms + 1000) == Exit.TAMPERED


class SlowDisk:
    """A log whose last segment is full, while the disk has not made the next one yet."""

    def __init__(self) -> None:
        self.journal = sealed_journal()
        directory = self.journal.directory
        self.name = segment_name(segments(directory)[-1])
        self.late = directory.files()[self.name]
        directory.remove(self.name)
        self.closed_ms = entries_of(directory)[-1].header.t_ms
        self.looks = 0

    def verify(self, age_ms: int, *, appears_at: int | None = None) -> Report:
        """Verify so long after the close; the next file is there at the look of that number."""

        def settle() -> None:
            self.looks += 1
            if self.looks == appears_at:
                self.journal.directory.put(self.name, self.late)

        return verify(
            self.journal.directory,
            policy=self.journal.policy,
            now_ms=self.closed_ms + age_ms,
            options=VerifyOptions(accept_unanchored=True),
            settle=settle,
        )


def test_the_file_behind_a_full_segment_is_waited_for_while_the_close_is_young() -> None:
    last_look = SUCCESSOR_AWAITED_MS // SETTLE_MS - 1
    for age_ms, appears_at in ((0, 1), (0, last_look), (-3_600_000, last_look), (30_000, last_look // 2)):
        report = SlowDisk().verify(age_ms, appears_at=appears_at)
        assert report.exit is Exit.OK, (age_ms, appears_at, report.to_lines())


@pytest.mark.parametrize(
    ("age_ms", "looks"),
    [(0, SUCCESSOR_AWAITED_MS // SETTLE_MS), (59_000, 20), (60_000, SETTLE_TRIES), (10**10, SETTLE_TRIES)],
)
def test_a_file_that_does_not_come_behind_a_full_segment_is_missing_in_the_end(age_ms: int, looks: int) -> None:
    slow = SlowDisk()
    report = slow.verify(age_ms)
    assert "missing" in [finding.code for finding in report.findings]
    assert (report.exit, slow.looks) == (Exit.INCOMPLETE, looks)


def test_an_empty_log_and_a_missing_beginning_are_told_where_they_are() -> None:
    journal = sealed_journal()
    first, *_ = segments(journal.directory)
    journal.directory.remove(segment_name(first))
    missing = [finding for finding in journal.verify().findings if finding.code == "missing"]
    assert [(finding.seq, finding.segment) for finding in missing] == [(0, 0)]
    for left in segments(journal.directory):
        journal.directory.remove(segment_name(left))
    assert "tail       none: no entry was read" in journal.verify().to_lines()


def test_no_way_into_the_logs_own_folder_makes_an_anchor_of_it(tmp_path: Path) -> None:
    journal = sealed_journal()
    log, anchor = on_disk(journal, tmp_path)
    (tmp_path / "policy").write_text(journal.policy.to_text())
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / CHECKPOINT).symlink_to(log / CHECKPOINT)

    def told(path: Path) -> tuple[int, bool]:
        # A limit of age far beyond the date of these entries: the anchor alone decides.
        limit = ["--max-anchor-age", "99999999d"]
        arguments = ["verify", str(log), "--trust", str(tmp_path / "policy"), "--anchor", str(path), *limit]
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, "lies in the log's own folder" in result.output

    for path in (log, log / CHECKPOINT, tmp_path / "audit", linked, linked / CHECKPOINT):
        assert told(path) == (2, True), path
    # A folder above the log may hold anchors all the same.
    for name in (CHECKPOINT, HISTORY):
        (anchor / name).rename(tmp_path / name)
    assert told(tmp_path) == (0, False)
