from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from audit.disk import LogLocked
from audit.export import Exporter, ExportFailed
from audit.head import Head
from audit.log import LogContradiction, files_head, segment_name, segments
from audit.memory import MemoryDirectory
from audit.recover import QUARANTINE, Join, JoinState, check_join, recover, statement_of_loss
from audit.report import Exit
from audit.seal import Sealer
from audit.writer import LogWriter
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, refile


def journal_on_disk() -> Journal:
    journal = Journal()
    journal.records(3)
    journal.seal()
    journal.export()
    journal.publish()
    return journal


def writer_on(journal: Journal, boot_id: str = "boot-9") -> LogWriter:
    return LogWriter.open(
        journal.directory,
        origin=ORIGIN,
        recipients=[journal.auditor.recipient],
        seal_key=journal.seal_key,
        entropy=journal.draw,
        writer_id="writer-1",
        boot_id=boot_id,
        t_ms=journal.tick(),
    )


def garbage(frame: bytes, cut: int) -> bytes:
    """Return bytes that cannot complete the frame: the first is never the one that was cut off there."""
    return bytes([frame[cut] ^ 0xFF]) + bytes((7 * index + 3) % 251 for index in range(400 + cut))


def zeros(frame: bytes, cut: int) -> bytes:
    """Return what a file extended in advance holds there, unless that would be the rest of the frame itself."""
    tail = bytes(512 - cut % 64)
    return tail if any(frame[cut:]) else b"\x01" + tail


TAILS: list[tuple[str, Callable[[bytes, int], bytes]]] = [
    ("end of file", lambda _frame, _cut: b""),
    ("zeros", zeros),
    ("garbage", garbage),
]


@pytest.mark.parametrize("behind", [tail[1] for tail in TAILS], ids=[tail[0] for tail in TAILS])
def test_torn_frame_at_every_offset_is_incomplete_then_recovered(behind: Callable[[bytes, int], bytes]) -> None:
    base = journal_on_disk()
    base.records(1)
    frame = base.frames[-1].data
    whole = base.directory.files()
    for cut in range(1, len(frame)):
        base.directory = MemoryDirectory()
        for name, data in whole.items():
            base.directory.put(name, data)
        added = behind(frame, cut)
        torn = frame[:cut] + added
        refile(base.directory, lambda data, torn=torn: data + torn)  # type: ignore[misc]  # bound now, not later
        before = base.verify().exit
        if any(torn[: max(4, cut)]) or len(torn) < 4:
            assert before in {Exit.INCOMPLETE, Exit.TAMPERED}, cut
        if not added:
            assert before is Exit.INCOMPLETE, cut
        writer = writer_on(base)
        writer.close(base.tick())
        report = base.verify()
        assert report.exit is Exit.OK, (cut, report.to_lines())
        quarantined = base.directory.names(QUARANTINE)
        if len(torn) >= 4 and not any(torn):
            # Nothing but zeros is space written ahead of need, not a torn entry.
            assert before is Exit.OK, cut
            assert quarantined == []
            continue
        assert sum(restart.torn_bytes for restart in report.restarts) == len(torn)
        assert len(quarantined) == 1
        assert base.directory.files()[f"{QUARANTINE}/{quarantined[0]}"] == torn


def torn_journal() -> Journal:
    journal = journal_on_disk()
    journal.records(1)
    refile(journal.directory, lambda data: data + journal.frames[-1].data[:50])
    return journal


def test_recovery_twice_is_recovery_once() -> None:
    journal = torn_journal()
    first = recover(journal.directory, boot_id="boot-9")
    files = journal.directory.files()
    assert len(first) == 1
    assert recover(journal.directory, boot_id="boot-9") == first
    assert journal.directory.files() == files


def test_29_space_written_ahead_is_given_back_and_recorded_as_nothing() -> None:
    journal = journal_on_disk()
    whole = journal.directory.files()[segment_name(0)]
    refile(journal.directory, lambda data: data + bytes(1 << 16))
    assert journal.verify().exit is Exit.OK
    assert recover(journal.directory, boot_id="boot-9") == ()
    assert journal.directory.files()[segment_name(0)] == whole
    assert journal.directory.after_power_loss(lambda _most: 0).files()[segment_name(0)] == whole
    assert journal.directory.names(QUARANTINE) == []


def test_recovery_recorded_once_is_not_recorded_again() -> None:
    journal = torn_journal()
    writer_on(journal).abandon()
    assert recover(journal.directory, boot_id="boot-10") == ()
    writer_on(journal, "boot-10").close(journal.tick())
    assert sum(restart.torn_bytes for restart in journal.verify().restarts) == 50


def test_recovery_that_only_the_rows_record_counts() -> None:
    journal = torn_journal()
    found = recover(journal.directory, boot_id="boot-9")
    journal.frames = journal.sealer.start(journal.tick(), recovery=found)
    assert recover(journal.directory, boot_id="boot-10", rows=journal.rows()) == ()


def test_crash_at_every_step_of_recovery_ends_the_same() -> None:
    steps = 0
    torn_journal_steps: list[str] = []

    def count(operation: str, name: str, _length: int) -> None:
        torn_journal_steps.append(f"{operation} {name}")

    counted = torn_journal()
    counted.directory.hook = count
    recover(counted.directory, boot_id="boot-9")
    for crash_at in range(len(torn_journal_steps)):
        for survives in (0, 1):
            journal = torn_journal()
            left = crash_at

            def crash(_operation: str, _name: str, _length: int) -> None:
                nonlocal left
                if left == 0:
                    raise OSError("crash")
                left -= 1

            journal.directory.hook = crash
            with pytest.raises(OSError, match="crash"):
                recover(journal.directory, boot_id="boot-9")
            journal.directory = journal.directory.after_power_loss(lambda most, all_=survives: most * all_)  # type: ignore[misc]  # bound now
            writer = writer_on(journal)
            writer.append(b"{}", journal.tick())
            writer.close(journal.tick())
            report = journal.verify()
            assert report.exit is Exit.OK, (torn_journal_steps[crash_at], report.to_lines())
            assert sum(restart.torn_bytes for restart in report.restarts) == 50
            steps += 1
    assert steps > 10


def test_valid_frame_behind_a_bad_one_is_refused() -> None:
    journal = journal_on_disk()
    refile(journal.directory, lambda data: data[:700] + b"\xff" + data[701:])
    before = journal.directory.files()
    with pytest.raises(LogContradiction, match="damage"):
        recover(journal.directory, boot_id="boot-9")
    assert journal.directory.files() == before


def test_whole_last_segment_torn_is_cut_to_nothing_and_reused() -> None:
    journal = Journal()
    journal.records(10)
    journal.export()
    closing, opening, _ = journal.sealer.record(b"{}", journal.tick())
    journal.directory.put(segment_name(opening.segment), opening.data[:30])
    refile(journal.directory, lambda data: data + closing.data)
    assert journal.verify(anchored=False).exit is Exit.INCOMPLETE
    writer = writer_on(journal)
    writer.append(b"{}", journal.tick())
    writer.close(journal.tick())
    report = journal.verify(anchored=False)
    assert report.exit is Exit.NOT_PROVEN, report.to_lines()
    assert segments(journal.directory)[-1] == opening.segment


def states(journal: Journal, files: MemoryDirectory) -> Join:
    return check_join(files_head(files, ORIGIN), journal.rows(), journal.sealer.head)


def test_join_of_files_rows_and_head() -> None:
    journal = Journal()
    assert states(journal, journal.directory) == Join(JoinState.BEHIND, "2 entries are not exported yet", 2)
    kept = list(journal.frames)
    journal.export()
    assert states(journal, journal.directory).state is JoinState.JOINS
    journal.records(20)
    assert states(journal, journal.directory) == Join(JoinState.BEHIND, "22 entries are not exported yet", 22)
    # Rows that were exported but not yet forgotten by the store change nothing.
    journal.frames = kept + journal.frames
    assert states(journal, journal.directory).missing == 22
    assert states(journal, journal.directory).sound


def test_files_ahead_of_the_head_mean_a_restored_store() -> None:
    journal = Journal()
    head = journal.sealer.head
    journal.records(2)
    journal.export()
    join = check_join(files_head(journal.directory, ORIGIN), [], head)
    assert (join.state, join.sound) == (JoinState.AHEAD, False)
    assert check_join(files_head(journal.directory, ORIGIN), [], None).state is JoinState.AHEAD


def test_gaps_and_differences_contradict() -> None:
    journal = Journal()
    journal.export()
    journal.records(3)
    rows, head = journal.rows(), journal.sealer.head
    files = files_head(journal.directory, ORIGIN)
    empty = files_head(MemoryDirectory(), ORIGIN)
    other = Journal(seed="other")
    other.records(3)
    damaged = rows[0]._replace(data=rows[0].data[:-1] + b"\x00")
    for end, some, claimed in [
        (empty, rows, head),
        (empty, [], head),
        (files, rows[1:], head),
        (files, rows[:-1], head),
        (files, [damaged, *rows[1:]], head),
        (files, other.rows()[2:], head),
        (files, other.rows(), head),
        (files, rows, other.sealer.head),
    ]:
        assert check_join(end, some, claimed).state is JoinState.CONTRADICTION


def test_files_of_another_log_are_refused() -> None:
    journal = Journal()
    journal.export()
    with pytest.raises(LogContradiction, match="belong to"):
        files_head(journal.directory, "gw.example/audit/other")


def test_head_read_from_files_equals_the_stored_one() -> None:
    journal = Journal()
    journal.records(25)
    journal.seal()
    journal.export()
    assert files_head(journal.directory, ORIGIN) == journal.sealer.head
    journal.close()
    journal.export()
    assert files_head(journal.directory, ORIGIN) == journal.sealer.head


def test_second_writer_is_refused_while_the_first_lives() -> None:
    journal = journal_on_disk()
    exporter = Exporter(journal.directory)
    with pytest.raises(LogLocked):
        writer_on(journal)
    exporter.close()
    writer_on(journal).abandon()


def test_direct_writer_gives_receipts_that_the_log_keeps() -> None:
    journal = journal_on_disk()
    writer = writer_on(journal)
    receipt = writer.append(b'{"op":"op-9"}', journal.tick(), seal=True)
    assert writer.head.sealed_size == writer.head.size
    writer.append(b"{}", journal.tick())
    writer.seal(journal.tick())
    writer.heartbeat(journal.tick())
    assert writer.head == files_head(journal.directory, ORIGIN)
    writer.close(journal.tick())
    entry = entries_of(journal.directory)[receipt.seq]
    assert (receipt.origin, receipt.leaf) == (ORIGIN, entry.leaf)
    assert journal.verify().exit is Exit.OK


def test_direct_writer_keeps_what_the_disk_refused_for_the_next_call() -> None:
    journal = journal_on_disk()
    writer = writer_on(journal)

    def full(operation: str, _name: str, _length: int) -> None:
        if operation == "append":
            raise OSError(errno.ENOSPC, "No space left on device")

    journal.directory.hook = full
    with pytest.raises(ExportFailed):
        writer.append(b'{"n":1}', journal.tick())
    journal.directory.hook = None
    writer.append(b'{"n":2}', journal.tick())
    writer.close(journal.tick())
    report = journal.verify()
    assert (report.exit, report.data_records) == (Exit.OK, 5)


def test_a_new_log_states_whose_end_was_lost() -> None:
    old = Journal()
    old.records(5)
    statement = statement_of_loss(old.sealer.head)
    new = Journal("gw.example/audit/test-1/2")
    new.frames = []
    new.sealer = Sealer(
        origin=new.origin,
        recipients=[new.auditor.recipient],
        seal_key=new.seal_key,
        head=None,
        entropy=new.draw,
        writer_id="w",
        boot_id="b",
    )
    new.frames += new.sealer.start(new.tick(), recovery=[statement])
    new.export()
    new.publish()
    report = new.verify()
    assert report.exit is Exit.OK, report.to_lines()
    assert any(ORIGIN in note and f"{old.sealer.head.size} entries" in note for note in report.notes)
    with pytest.raises(ValueError, match="nothing to continue"):
        statement_of_loss(Head.empty(ORIGIN))


def test_only_the_beginning_of_another_log_may_continue_one() -> None:
    journal = Journal()
    journal.records(5)
    statement = statement_of_loss(journal.sealer.head)
    journal.frames += journal.sealer.start(journal.tick(), recovery=[statement])
    journal.export()
    assert journal.verify(anchored=False).exit is Exit.TAMPERED
