"""Reads segments ahead in several processes, each segment whole, so that the verifier only joins them."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path

from audit.disk import Directory
from audit.keyring import RecipientKey
from audit.whole import Whole, whole_segment

Take = Callable[[int], Whole | None]
"""The segment with that first seq, read whole; None if the verifier has to look for itself."""

Read = Callable[[int, int], Whole | None]
"""Reads a segment, given its first seq and its size in bytes."""

WAITING_MAX = 4
"""So many segments, beside one for each process, may be read or wait to be taken: each holds 3 MB at most."""


def nothing_ahead(_first: int) -> Whole | None:
    return None


@contextmanager
def reading_ahead(
    directory: Directory, sizes: Sequence[tuple[int, int]], key: RecipientKey | None, jobs: int
) -> Iterator[Take]:
    """Read the given segments (first seq, size in bytes) in `jobs` processes, this one included.

    The answers must be taken in the order of the segments; leaving one out drops it. While the next one is being read
    elsewhere, this process reads one itself.
    """

    def read(first: int, size: int) -> Whole | None:
        try:
            return whole_segment(directory, first, size, key)
        except OSError:
            # The verifier meets the error itself, where it is reported.
            return None

    if jobs < 2 or len(sizes) < 2:
        yield nothing_ahead
        return
    context = _context()
    others = []
    for _ in range(min(jobs, len(sizes)) - 1):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, directory, key), daemon=True)
        process.start()
        # Else the end of that process would not be seen here.
        theirs.close()
        others.append((process, ours))
    queue = _Queue(sizes, read, jobs + min(jobs, WAITING_MAX))
    threads = [threading.Thread(target=queue.feed, args=(connection,), daemon=True) for _, connection in others]
    for thread in threads:
        thread.start()
    try:
        yield queue.take
    finally:
        queue.stop()
        for process, _ in others:
            process.terminate()
        for thread in threads:
            thread.join()
        for process, connection in others:
            process.join()
            connection.close()


def _context() -> ForkContext | SpawnContext:
    """Forked where nothing else runs in this process: a fork would copy locks that other threads hold."""
    tasks = Path("/proc/self/task")
    if sys.platform == "linux" and tasks.is_dir() and len(list(tasks.iterdir())) == 1:
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _serve(asked: Connection, directory: Directory, key: RecipientKey | None) -> None:
    """The other process: reads the segments it is told of until nobody asks any more."""
    # Ctrl-C reaches every process of a terminal; the one that asks decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # And what that one does when it is told to end is not for this one to do.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            first, size = asked.recv()
        except EOFError:
            return
        try:
            whole = whole_segment(directory, first, size, key)
        except OSError:
            whole = None
        asked.send(whole)


class _Queue:
    """Hands segments out in order to whoever has time, and keeps what was read until it is taken."""

    def __init__(self, sizes: Sequence[tuple[int, int]], read: Read, waiting_max: int) -> None:
        self._sizes = list(sizes)
        self._numbers = {first: number for number, (first, _) in enumerate(self._sizes)}
        self._read = read
        self._waiting_max = waiting_max
        self._changed = threading.Condition()
        self._next = 0
        """The number of the first segment that nobody reads yet."""
        self._taken = 0
        """How many were taken or left out."""
        self._done: dict[int, Whole | None] = {}
        self._stopped = False

    def take(self, first: int) -> Whole | None:
        """What was read of the segment; reads others here until it is there."""
        number = self._numbers.get(first)
        if number is None:
            return None
        while True:
            with self._changed:
                self._drop_before(number)
                if number < self._taken:
                    return None
                if number in self._done:
                    self._taken = number + 1
                    self._changed.notify_all()
                    return self._done.pop(number)
                mine = self._claim()
                if mine is None:
                    self._changed.wait()
                    continue
            self._put(mine, self._read(*self._sizes[mine]))

    def feed(self, connection: Connection) -> None:
        """Keep another process at work until everything is read."""
        while (number := self._wait_for_work()) is not None:
            try:
                connection.send(self._sizes[number])
                whole = connection.recv()
            except (EOFError, OSError):
                # That process has ended: this one reads what it had.
                self._put(number, None)
                return
            self._put(number, whole)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _wait_for_work(self) -> int | None:
        with self._changed:
            while not self._stopped and self._next < len(self._sizes):
                if (number := self._claim()) is not None:
                    return number
                self._changed.wait()
        return None

    def _claim(self) -> int | None:
        if self._next >= len(self._sizes) or self._next - self._taken >= self._waiting_max:
            return None
        self._next += 1
        return self._next - 1

    def _put(self, number: int, whole: Whole | None) -> None:
        with self._changed:
            if number >= self._taken:
                self._done[number] = whole
            self._changed.notify_all()

    def _drop_before(self, number: int) -> None:
        self._taken = max(self._taken, number)
        self._next = max(self._next, number)
        for old in [old for old in self._done if old < number]:
            del self._done[old]
