"""The writing thread: takes whatever waits, makes one transaction of it, and tells everybody at once.

If something already waits when a sync ends, its companions are on their way, and a tenth of the last sync is spent
waiting for them: without that, whoever is released by one sync comes back just after the next has begun and always
waits for two. If nothing waits, nothing is delayed.
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
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(_Entry(item, reply))
        return await reply

    def ride(self, item: Item) -> None:
        """Go with the next transaction."""
        self._riders.append(item)

    async def stop(self) -> None:
        """End the thread after everything submitted so far."""
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
        rest = []
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
