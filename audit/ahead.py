"""Reads segments ahead in several processes, each segment whole, so that the verifier only joins them."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager

from audit.disk import Directory
from audit.keyring import RecipientKey
from audit.piece import Piece, whole_segment

Take = Callable[[int], Piece | None]
"""The piece of the segment with that first seq; None if the verifier has to look for itself."""


def nothing_ahead(_first: int) -> Piece | None:
    return None


@contextmanager
def reading_ahead(
    directory: Directory, sizes: Sequence[tuple[int, int]], key: RecipientKey | None, jobs: int
) -> Iterator[Take]:
    """Read the given segments (first seq, size in bytes) in `jobs` processes, never more than a few ahead.

    The answers must be taken in the order of the segments; leaving one out drops it.
    """
    if jobs < 2 or len(sizes) < 2:
        yield nothing_ahead
        return
    waiting = deque(sizes)
    running: deque[tuple[int, Future[Piece | None]]] = deque()
    # Not forked: a fork would copy locks that other threads of this process hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(sizes)), mp_context=context) as pool:

        def fill() -> None:
            while waiting and len(running) <= jobs:
                first, size = waiting.popleft()
                running.append((first, pool.submit(whole_segment, directory, first, size, key)))

        def take(first: int) -> Piece | None:
            fill()
            while running and running[0][0] < first:
                running.popleft()
                fill()
            if not running or running[0][0] != first:
                return None
            _, future = running.popleft()
            fill()
            try:
                return future.result()
            except (OSError, BrokenExecutor):
                # The verifier meets the error itself, where it is reported.
                return None

        try:
            yield take
        finally:
            for _, future in running:
                future.cancel()
