"""The writing thread: takes whatever waits, makes one transaction of it, and tells everybody at once.

If something already waits when a sync ends, its companions are on their way, and a tenth of the last sync is spent
waiting for them: without that, whoever is released by one sync comes back just after the next has begun and always
waits for two. If nothing waits, nothing is delayed.

Submissions that come while others wait for their reply are handed over together, once a turn of the loop brings no
more. Handed over one by one, each would wake the thread, which would then take the interpreter's lock from the loop
again and again for batches of a few.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final

from gateway.store.items import Item
from gateway.store.port import StoreUnknown
from gateway.store.turns import Turn, settle, take_turn
from gateway.store.writer import Writer

GATHER_SHARE: Final = 0.1
GATHER_MAX_S: Final = 0.003
TURNS_MAX: Final = 8
"""Turns of the loop for which a submission waits at most, while each of them brings more."""


@dataclass(frozen=True, slots=True)
class _Entry:
    item: Item
    reply: "asyncio.Future[Any]"


class WriterThread:
    """Runs one `Writer`. Submissions come from the loop it was made on."""

    def __init__(self, writer: Writer, monotonic_s: Callable[[], float], batch_max: int) -> None:
        self._writer = writer
        self._monotonic_s = monotonic_s
        self._batch_max = batch_max
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Entry | None] = SimpleQueue()
        self._fresh: list[_Entry] = []
        """Submitted, and not handed to the thread yet."""
        self._waiting = 0
        """Submissions whose reply is still to come."""
        self._riders: deque[Item] = deque()
        self._pause = Event()
        """Never set: waiting for it is how the thread waits for companions."""
        self._stopping = False
        self.failed: str | None = None
        """Why the writer is finished; set on the loop, after which nothing is taken."""
        self.ended = asyncio.Event()
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def submit(self, item: Item) -> Any:
        """Wait for the item's reply; cancelling the wait leaves the item in. Raises StoreUnknown, Unavailable."""
        if self.failed is not None:
            raise StoreUnknown(self.failed)
        entry = _Entry(item, self._loop.create_future())
        self._fresh.append(entry)
        if not self._waiting:
            self._hand_over()
        elif len(self._fresh) == 1:
            self._loop.call_soon(self._gathered, 0, 0)
        self._waiting += 1
        try:
            return await entry.reply
        finally:
            self._waiting -= 1

    def _gathered(self, before: int, turns: int) -> None:
        """Hand over, unless the last turn of the loop has brought more: then another one may, too."""
        count = len(self._fresh)
        if before < count < self._batch_max and turns < TURNS_MAX:
            self._loop.call_soon(self._gathered, count, turns + 1)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        for entry in self._fresh:
            self._queue.put(entry)
        self._fresh.clear()

    def ride(self, item: Item) -> None:
        """Go with the next transaction."""
        self._riders.append(item)

    async def stop(self) -> None:
        """End the thread after everything submitted so far."""
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        last_sync_s = 0.0
        while not self._stopping:
            first = self._queue.get()
            if first is None:
                return
            batch = self._gather(first, last_sync_s)
            began = self._monotonic_s()
            turn = self._turn(batch)
            # Asked before anybody is told: whoever comes back with a next call had not been waiting.
            last_sync_s = 0.0 if self._queue.empty() else self._monotonic_s() - began
            self._call(self._settle, [entry.reply for entry in batch], turn)
            if turn.failure is not None:
                return

    def _gather(self, first: _Entry, last_sync_s: float) -> list[_Entry]:
        if last_sync_s:
            self._pause.wait(min(last_sync_s * GATHER_SHARE, GATHER_MAX_S))
        batch = [first]
        while len(batch) < self._batch_max:
            try:
                entry = self._queue.get_nowait()
            except Empty:
                break
            if entry is None:
                self._stopping = True
                break
            batch.append(entry)
        return batch

    def _turn(self, batch: Sequence[_Entry]) -> Turn:
        try:
            return take_turn(self._writer, self._riders, [entry.item for entry in batch])
        except BaseException as error:  # noqa: BLE001 - whatever ends this thread must be told to those who wait
            reason = f"the writer was ended by {type(error).__name__}"
            return Turn([StoreUnknown(reason)] * len(batch), reason)

    def _settle(self, waiting: Sequence["asyncio.Future[Any]"], turn: Turn) -> None:
        settle(waiting, turn.replies)
        if turn.failure is None:
            return
        # From here on nothing is put into the queue, as that happens on this loop, too; the rest is told here.
        self.failed = turn.failure
        rest = [entry.reply for entry in self._fresh]
        self._fresh.clear()
        while not self._queue.empty():
            entry = self._queue.get_nowait()
            if entry is not None:
                rest.append(entry.reply)
        settle(rest, [StoreUnknown(turn.failure)] * len(rest))
        self.ended.set()

    def _call(self, call: Callable[..., None], *args: Any) -> None:
        """Once per batch: each wake-up of the loop costs more than many replies."""
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            # The loop is closed: the process is ending and nobody waits any more.
            self._stopping = True
