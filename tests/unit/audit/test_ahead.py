"""Segments read in other processes: who reads what, and what happens when such a process ends."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from audit import ahead
from audit.ahead import reading_ahead
from audit.disk import Directory, DiskDirectory
from audit.log import segment_name, segments
from audit.whole import Whole, whole_segment
from tests.unit.audit.logs import Journal

Sizes = list[tuple[int, int]]


def log_of(segment_count: int, root: Path) -> tuple[DiskDirectory, Sizes]:
    journal = Journal()
    while len({row.segment for row in journal.rows()}) < segment_count:
        journal.records(5)
    journal.export()
    for name, data in journal.directory.files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    directory = DiskDirectory(root)
    sizes = [(first, directory.size(segment_name(first))) for first in segments(directory)]
    return directory, sizes


def expected(directory: Directory, sizes: Sizes) -> list[Whole | None]:
    return [whole_segment(directory, first, size, None) for first, size in sizes]


@pytest.mark.parametrize("jobs", [2, 3, 9])
def test_every_segment_is_read_once_by_whoever_has_time(jobs: int, tmp_path: Path) -> None:
    directory, sizes = log_of(7, tmp_path)
    with reading_ahead(directory, sizes, None, jobs) as take:
        taken = [take(first) for first, _ in sizes]
    assert taken == expected(directory, sizes)
    assert None not in taken


def test_one_left_out_is_dropped_and_none_is_given_twice(tmp_path: Path) -> None:
    directory, sizes = log_of(7, tmp_path)
    with reading_ahead(directory, sizes, None, 2) as take:
        assert take(sizes[4][0]) is not None
        assert take(sizes[4][0]) is None
        assert take(sizes[1][0]) is None
        assert take(10_000) is None
        assert take(sizes[5][0]) is not None


def test_nothing_is_started_for_one_process_or_one_segment(tmp_path: Path) -> None:
    directory, sizes = log_of(2, tmp_path)
    before = threading.active_count()
    for jobs, part in ((1, sizes), (4, sizes[:1])):
        with reading_ahead(directory, part, None, jobs) as take:
            assert take(sizes[0][0]) is None
            assert threading.active_count() == before


def test_beside_other_threads_processes_are_made_without_their_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, sizes = log_of(3, tmp_path)
    made = list[str]()
    genuine = multiprocessing.get_context

    def get_context(method: str) -> object:
        made.append(method)
        return genuine(method)

    monkeypatch.setattr(multiprocessing, "get_context", get_context)
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        with reading_ahead(DiskDirectory(tmp_path), sizes, None, 2) as take:
            taken = [take(first) for first, _ in sizes]
    finally:
        end.set()
        other.join()
    assert made == ["spawn"]
    assert taken == expected(directory, sizes)


def killed(asked: Connection, _directory: Directory, _key: object) -> None:
    asked.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def refused(asked: Connection, _directory: Directory, _key: object) -> None:
    asked.close()


@pytest.mark.parametrize("served", [killed, refused])
def test_what_a_process_had_when_it_ended_is_left_to_the_verifier(
    served: Callable[[Connection, Directory, object], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, sizes = log_of(6, tmp_path)
    monkeypatch.setattr(ahead, "_serve", served)
    with reading_ahead(directory, sizes, None, 2) as take:
        taken = [take(first) for first, _ in sizes]
    # At most the one that it was told of; everything else was read here.
    assert sum(whole is None for whole in taken) <= 1
    assert [whole for whole in taken if whole is not None] == [
        whole for whole, kept in zip(expected(directory, sizes), taken, strict=True) if kept is not None
    ]


def test_a_segment_that_cannot_be_read_is_left_to_the_verifier(tmp_path: Path) -> None:
    directory, sizes = log_of(4, tmp_path)
    (tmp_path / segment_name(sizes[2][0])).unlink()
    with reading_ahead(directory, sizes, None, 2) as take:
        assert [take(first) is None for first, _ in sizes] == [False, False, True, False]


def test_an_end_in_the_middle_leaves_no_process_behind(tmp_path: Path) -> None:
    directory, sizes = log_of(8, tmp_path)
    before = threading.active_count()

    def give_up() -> None:
        with reading_ahead(directory, sizes, None, 3) as take:
            take(sizes[0][0])
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        give_up()
    assert threading.active_count() == before
    assert not multiprocessing.active_children()
