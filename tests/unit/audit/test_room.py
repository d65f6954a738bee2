"""Room kept on the disk ahead of need: readers never see it, a finished segment has none, a full disk takes it."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from audit import room
from audit.disk import DiskDirectory
from audit.export import RESERVED_BYTES, Exporter, ExportFailed
from audit.log import segment_name
from audit.memory import MemoryDirectory
from audit.recover import recover
from audit.room import keep_room
from tests.unit.audit.logs import Journal
from tests.unit.audit.test_export import content, expected, rows

MEGABYTE = 1 << 20


def taken(path: Path) -> int:
    """Bytes that a file takes on the disk, which may be more than it has."""
    return path.stat().st_blocks * 512


@pytest.fixture
def keeps_room(tmp_path: Path) -> bool:
    """Whether this file system can: not every one does, and a log must be well on each."""
    path = tmp_path / "tried"
    with path.open("wb") as file:
        keep_room(file.fileno(), 0, MEGABYTE)
    return taken(path) >= MEGABYTE


def test_what_is_kept_is_no_part_of_the_file_and_goes_when_the_file_is_cut_to_its_own_length(
    tmp_path: Path, keeps_room: bool
) -> None:
    path = tmp_path / "file"
    with path.open("wb", buffering=0) as file:
        file.write(b"content")
        keep_room(file.fileno(), 7, MEGABYTE)
        assert path.read_bytes() == b"content"
        assert (taken(path) >= MEGABYTE) == keeps_room
        assert taken(Path(shutil.copy2(path, tmp_path / "copy"))) < MEGABYTE
        file.truncate(7)
    assert path.read_bytes() == b"content"
    assert taken(path) < MEGABYTE


@pytest.mark.parametrize("failure", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV])
def test_where_the_system_cannot_nothing_happens(failure: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, failure)
    keep_room(0, 0, 1)
    assert asked == [failure]


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_after_the_call_that_a_signal_cut_short_was_made_again(
    failure: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(monkeypatch, errno.EINTR, failure)
    with pytest.raises(OSError, match=os.strerror(failure)) as caught:
        keep_room(0, 0, 1)
    assert (caught.value.errno, asked) == (failure, [errno.EINTR, failure])


def test_a_library_without_the_call_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_fallocate", lambda: None)
    keep_room(-1, 0, 1)


def answering(monkeypatch: pytest.MonkeyPatch, *failures: int) -> list[int]:
    """The C library's call, failing as planned; what it answered."""
    left, answered = list(failures), list[int]()

    def call(*_: int) -> int:
        answered.append(left.pop(0))
        ctypes.set_errno(answered[-1])
        return -1

    monkeypatch.setattr(room, "_fallocate", lambda: call)
    return answered


def on_disk(path: Path, count: int = 20) -> tuple[Exporter, Journal]:
    journal, some = rows(count)
    exporter = Exporter(DiskDirectory(path))
    exporter.export(some)
    return exporter, journal


def test_only_the_segment_at_hand_takes_more_than_it_has_and_after_the_end_none(
    tmp_path: Path, keeps_room: bool
) -> None:
    exporter, journal = on_disk(tmp_path / "log")
    files = sorted((tmp_path / "log" / "segments").iterdir())
    assert [taken(file) >= MEGABYTE for file in files] == [False] * (len(files) - 1) + [keeps_room]
    assert {f"segments/{file.name}": file.read_bytes() for file in files} == expected(journal.rows())
    exporter.close()
    assert [file for file in files if taken(file) >= MEGABYTE] == []
    assert {f"segments/{file.name}": file.read_bytes() for file in files} == expected(journal.rows())


def test_what_a_killed_writer_had_kept_is_given_back_at_the_next_start(tmp_path: Path, keeps_room: bool) -> None:
    exporter, journal = on_disk(tmp_path / "log")
    last = max((tmp_path / "log" / "segments").iterdir())
    assert (taken(last) >= MEGABYTE) == keeps_room
    assert recover(DiskDirectory(tmp_path / "log"), boot_id="next") == ()
    assert taken(last) < MEGABYTE
    assert last.read_bytes() == expected(journal.rows())[f"segments/{last.name}"]
    exporter.close()


def test_bytes_of_somebody_else_are_not_cut_off_with_the_room(tmp_path: Path) -> None:
    exporter, journal = on_disk(tmp_path / "log", 3)
    path = tmp_path / "log" / segment_name(0)
    with path.open("ab") as file:
        file.write(b"foreign")
    exporter.close()
    assert path.read_bytes() == expected(journal.rows())[segment_name(0)] + b"foreign"


class SmallDisk:
    """Capacity for the files of a folder in memory: what is kept counts, and a write takes what is there."""

    def __init__(self, directory: MemoryDirectory, capacity: int) -> None:
        self.directory = directory
        self.capacity = capacity
        self.kept = dict[str, int]()
        directory.hook = self.step

    def filled_up(self) -> None:
        """Others take every byte that is free."""
        self.capacity = self.used()

    def used(self, *, but: str = "") -> int:
        files = self.directory.files()
        return sum(max(self.kept.get(name, 0), len(data)) for name, data in files.items() if name != but)

    def step(self, operation: str, name: str, length: int) -> int | None:
        if operation not in {"reserve", "append", "truncate"}:
            return None
        size, free = len(self.directory.files()[name]), self.capacity - self.used(but=name)
        if operation == "truncate":
            self.kept[name] = 0
        elif operation == "reserve":
            if size + length > free:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.kept[name] = max(self.kept.get(name, 0), size + length)
        elif size + length > max(self.kept.get(name, 0), size):
            allowed = max(0, free - size)
            if not allowed:
                raise OSError(errno.ENOSPC, "No space left on device")
            return min(allowed, length)
        return None


def long_journal() -> Journal:
    """More than a reserve holds, in several segments."""
    journal = Journal()
    filling = b'"' + b"x" * 50_000 + b'"'
    while sum(len(row.data) for row in journal.rows()) < RESERVED_BYTES:
        journal.frames += journal.sealer.record(filling, journal.tick())
    journal.seal()
    return journal


def test_a_disk_that_is_full_takes_what_was_kept_and_what_does_not_fit_is_taken_once_there_is_room() -> None:
    journal = long_journal()
    some = journal.rows()
    disk = SmallDisk(journal.directory, 100 * MEGABYTE)
    exporter = Exporter(journal.directory)
    exporter.export(some[:2])
    assert not exporter.crowded
    disk.filled_up()
    told = list[bool]()

    def export_all() -> None:
        for row in some[2:]:
            exporter.export([row])
            told.append(exporter.crowded)

    with pytest.raises(ExportFailed):
        export_all()
    done, crowded_at = 2 + len(told), 2 + told.index(True)
    # First people are told; half of what was kept, through every change of segment, is left from there.
    assert 2 < crowded_at < done
    assert sum(len(row.data) for row in some[crowded_at:done]) > RESERVED_BYTES * 0.4
    assert {row.segment for row in some[:2]} != {row.segment for row in some[:done]}
    assert content(journal.directory) == expected(some[:done])
    disk.capacity = 100 * MEGABYTE
    exporter.export(some[done:])
    assert not exporter.crowded
    assert content(journal.directory) == expected(some)
    exporter.close()
    assert disk.used() == sum(len(data) for data in journal.directory.files().values())


def test_room_for_one_segment_is_enough_for_all_one_after_the_other() -> None:
    journal, some = rows()
    SmallDisk(journal.directory, RESERVED_BYTES + 2 * sum(len(row.data) for row in some))
    exporter = Exporter(journal.directory)
    for row in some:
        exporter.export([row])
        assert not exporter.crowded, row.seq
    assert len({row.segment for row in some}) > 1


def test_that_there_is_room_again_is_seen_without_any_row() -> None:
    journal, some = rows()
    disk = SmallDisk(journal.directory, 1000)
    exporter = Exporter(journal.directory)
    exporter.export(some[:1])
    assert exporter.crowded
    assert exporter.export([]) == 0
    assert exporter.crowded
    disk.capacity = 100 * MEGABYTE
    exporter.export([])
    assert not exporter.crowded


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO])
def test_nothing_that_fails_about_the_room_costs_an_entry(failure: int) -> None:
    journal, some = rows()

    def fail(names: set[str]) -> Callable[[str, str, int], None]:
        def hook(operation: str, _name: str, _length: int) -> None:
            if operation in names:
                raise OSError(failure, os.strerror(failure))

        return hook

    exporter = Exporter(journal.directory)
    for start, names in ((0, {"reserve"}), (5, {"truncate"}), (10, {"reserve", "truncate"})):
        journal.directory.hook = fail(names)
        exporter.export(some[start : start + 5])
    exporter.export(some[15:])
    exporter.close()
    assert content(journal.directory) == expected(some)
