from __future__ import annotations

import errno
import random
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.disk import DiskDirectory, LogLocked
from audit.export import Exporter, ExportFailed, ForeignWriter, Row
from audit.log import LogContradiction, files_head, segment_name
from audit.memory import MemoryDirectory
from audit.recover import check_join, recover
from audit.report import Exit
from tests.unit.audit.logs import ORIGIN, Journal


def rows(count: int = 20) -> tuple[Journal, list[Row]]:
    journal = Journal()
    journal.records(count)
    journal.seal()
    return journal, journal.rows()


def content(directory: MemoryDirectory) -> dict[str, bytes]:
    return {name: data for name, data in directory.files().items() if name.endswith(".agl")}


def expected(some: list[Row]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for segment, _, data in some:
        files[segment_name(segment)] = files.get(segment_name(segment), b"") + data
    return files


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_rows_reach_their_files_in_any_batching(batch: int) -> None:
    journal, some = rows()
    exporter = Exporter(journal.directory)
    for start in range(0, len(some), batch):
        assert exporter.export(some[start : start + batch]) == len(some[start : start + batch])
    assert content(journal.directory) == expected(some)
    assert exporter.durable_size == len(some)


def test_name_that_could_not_be_synced_is_synced_before_anything_counts_as_exported() -> None:
    journal, some = rows(5)
    failing = [True]

    def refuse_once(operation: str, _name: str, _size: int) -> None:
        if operation == "sync_folder" and failing.pop():
            raise OSError(errno.EIO, "broken")

    journal.directory.hook = refuse_once
    exporter = Exporter(journal.directory)
    with pytest.raises(ExportFailed):
        exporter.export(some)
    failing.extend([False] * 10)
    exporter.export(some)

    # The rows may be forgotten by now, so the files must be there after the worst loss of power.
    assert content(journal.directory.after_power_loss(lambda _most: 0)) == expected(some)


@pytest.mark.parametrize("again", [0, 5, 13, 20])
def test_rows_offered_again_are_compared_and_skipped(again: int) -> None:
    journal, some = rows()
    exporter = Exporter(journal.directory)
    exporter.export(some)
    exporter.export(some[again:])
    exporter.export(some[again : again + 2])
    assert content(journal.directory) == expected(some)
    exporter.close()
    Exporter(journal.directory).export(some[again:])
    assert content(journal.directory) == expected(some)


def test_other_bytes_in_the_file_are_a_contradiction() -> None:
    journal, some = rows()
    other = Journal(seed="other")
    other.records(20)
    Exporter(journal.directory).export(some)
    before = journal.directory.files()
    journal.directory = journal.directory.after_kill()
    with pytest.raises(LogContradiction, match="other bytes"):
        Exporter(journal.directory).export(other.rows())
    assert journal.directory.files() == before


def test_gap_is_a_contradiction() -> None:
    journal, some = rows()
    exporter = Exporter(journal.directory)
    with pytest.raises(LogContradiction, match="gone"):
        exporter.export(some[3:])
    exporter.export(some[:3])
    with pytest.raises(LogContradiction, match="ends before"):
        exporter.export(some[4:])
    with pytest.raises(LogContradiction, match="out of order"):
        exporter.export([some[4], some[3]])
    with pytest.raises(LogContradiction, match="damaged"):
        exporter.export([some[3]._replace(data=some[4].data)])
    exporter.export(some[3:])
    assert content(journal.directory) == expected(some)


def test_foreign_writer_stops_the_exporter_for_good() -> None:
    journal, some = rows()
    exporter = Exporter(journal.directory)
    exporter.export(some[:3])
    file = journal.directory.open(segment_name(0))
    file.append(b"x")
    with pytest.raises(ForeignWriter):
        exporter.export(some[3:5])
    file.truncate(file.size() - 1)
    with pytest.raises(ForeignWriter):
        exporter.export(some[3:5])


def test_full_disk_leaves_no_part_of_a_row_and_is_tried_again() -> None:
    journal, some = rows()
    exporter = Exporter(journal.directory)
    exporter.export(some[:4])
    before = content(journal.directory)
    calls = 0

    def full(operation: str, _name: str, _length: int) -> int | None:
        nonlocal calls
        if operation != "append":
            return None
        calls += 1
        if calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return 30

    journal.directory.hook = full
    with pytest.raises(ExportFailed, match="No space"):
        exporter.export(some[4:8])
    assert content(journal.directory) == before
    assert exporter.durable_size == 4
    journal.directory.hook = None
    exporter.export(some[4:])
    assert content(journal.directory) == expected(some)


def test_short_writes_are_completed() -> None:
    journal, some = rows()
    journal.directory.hook = lambda operation, _name, length: min(7, length) if operation == "append" else None
    Exporter(journal.directory).export(some)
    assert content(journal.directory) == expected(some)


def test_after_a_failed_sync_the_rows_go_to_a_new_file() -> None:
    journal, some = rows()
    exporter = Exporter(journal.directory)
    exporter.export(some[:4])
    failing = True
    fresh: list[str] = []

    def hook(operation: str, name: str, _length: int) -> None:
        if operation == "sync" and failing:
            raise OSError(errno.EIO, "Input/output error")
        if operation == "rename":
            fresh.append(name)

    journal.directory.hook = hook
    with pytest.raises(ExportFailed, match="Input/output"):
        exporter.export(some[4:8])
    failing = False
    exporter.export(some[4:8])
    # The old file's pages may look written without being so: it must have been replaced, not synced once more.
    assert fresh == [segment_name(0)]
    journal.directory = journal.directory.after_power_loss(lambda _most: 0)
    assert content(journal.directory) == expected(some[:8])


@pytest.mark.parametrize("first", [0, 4])
def test_what_reads_back_as_something_else_does_not_count_as_exported(first: int) -> None:
    """A bit that flips between memory and disk is met before the store forgets the rows that could replace it."""
    journal, some = rows()
    exporter = Exporter(journal.directory)
    exporter.export(some[:first])
    flipped = False

    def flip(operation: str, name: str, _length: int) -> None:
        nonlocal flipped
        if operation == "sync" and not flipped:
            journal.directory._inode(name).content[-20] ^= 1
            flipped = True

    journal.directory.hook = flip
    with pytest.raises(ExportFailed, match="reads back"):
        exporter.export(some[first:8])
    assert exporter.durable_size == first
    exporter.export(some[first:])
    assert content(journal.directory) == expected(some)


@settings(max_examples=150)
@given(st.integers(0, 10**9), st.integers(1, 9))
def test_kill_or_power_loss_anywhere_loses_no_row_and_joins(seed: int, batch: int) -> None:
    """A store that forgets rows only once exported, and a crash at a random step of the exporter, again and again."""
    dice = random.Random(seed)
    journal, some = rows(24)
    directory, kept, fed = journal.directory, 0, 0
    for _ in range(40):
        if kept == len(some):
            break
        left = dice.randrange(1, 30)

        def crash(_operation: str, _name: str, length: int) -> int | None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
            if left < 0:
                raise OSError(errno.EIO, "dead")
            return dice.choice([None, length, max(1, length // 2)])

        directory.hook = crash
        try:
            recover(directory, boot_id="boot-2", rows=some[kept:])
            exporter = Exporter(directory)
            while kept < len(some):
                fed = min(len(some), kept + batch)
                exporter.export(some[kept:fed])
                kept = fed
        except (KeyboardInterrupt, ExportFailed, OSError):
            directory.hook = None
            lost_power = dice.random() < 0.5
            directory = (
                directory.after_power_loss(lambda most: dice.randint(0, most)) if lost_power else directory.after_kill()
            )
    directory.hook = None
    directory = directory.after_power_loss(lambda _most: 0)
    recover(directory, boot_id="boot-2")
    assert check_join(files_head(directory, ORIGIN), some[kept:], journal.sealer.head).sound
    Exporter(directory).export(some[kept:])
    journal.directory = directory
    assert content(directory) == expected(some)
    assert journal.verify(anchored=False).exit is Exit.NOT_PROVEN


def test_real_directory_has_private_modes_and_one_writer(tmp_path: Path) -> None:
    journal, some = rows()
    directory = DiskDirectory(tmp_path / "audit" / "gw.example" / "prod")
    exporter = Exporter(directory)
    exporter.export(some[:5])
    exporter.export(some[3:])
    with pytest.raises(LogLocked):
        Exporter(DiskDirectory(directory.path))
    exporter.close()
    Exporter(DiskDirectory(directory.path)).close()
    assert {path.stat().st_mode & 0o777 for path in directory.path.rglob("*") if path.is_file()} == {0o600}
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700
    assert {f"segments/{path.name}": path.read_bytes() for path in (directory.path / "segments").iterdir()} == expected(
        some
    )
    del journal


def test_symlink_in_the_place_of_a_segment_is_not_followed(tmp_path: Path) -> None:
    _, some = rows()
    directory = DiskDirectory(tmp_path / "log")
    (tmp_path / "log" / "segments").mkdir(parents=True)
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    (tmp_path / "log" / segment_name(0)).symlink_to(target)
    with pytest.raises(ExportFailed):
        Exporter(directory).export(some)
    assert target.read_bytes() == b""


def test_file_size_limit_of_the_system_leaves_whole_rows_only(tmp_path: Path) -> None:
    _, some = rows()
    directory = DiskDirectory(tmp_path / "log")
    exporter = Exporter(directory)
    exporter.export(some[:3])
    size = directory.size(segment_name(0))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # The kernel writes what fits of the next row and then refuses: a short write followed by an error.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
        with pytest.raises(ExportFailed):
            exporter.export(some[3:6])
        assert directory.size(segment_name(0)) == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    exporter.export(some[3:])
    found = {f"segments/{path.name}": path.read_bytes() for path in (directory.path / "segments").iterdir()}
    assert found == expected(some)
