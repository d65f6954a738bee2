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
from gateway.store.turns import settle, take_turn
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
            # Only what came while the last transaction was being written counts as waiting already.
            batch = self._gather(first, last_sync_s)
            began = self._monotonic_s()
            failure = self._turn(batch)
            last_sync_s = 0.0 if self._queue.empty() else self._monotonic_s() - began
            if failure is not None:
                self._drain(failure)
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

    def _turn(self, batch: Sequence[_Entry]) -> str | None:
        try:
            turn = take_turn(self._writer, self._riders, [entry.item for entry in batch])
        except BaseException as error:  # noqa: BLE001 - whatever ends this thread must be told to those who wait
            reason = f"the writer was ended by {type(error).__name__}"
            self._tell(batch, [StoreUnknown(reason)] * len(batch), reason)
            return reason
        self._tell(batch, turn.replies, turn.failure)
        return turn.failure

    def _drain(self, failure: str) -> None:
        """Tell the rest. Whatever is put after this finds `failed` set, as both happen on the loop."""
        self._call(self._refuse_rest, failure)

    def _refuse_rest(self, failure: str) -> None:
        rest = []
        while not self._queue.empty():
            entry = self._queue.get_nowait()
            if entry is not None:
                rest.append(entry.reply)
        settle(rest, [StoreUnknown(failure)] * len(rest))

    def _tell(self, batch: Sequence[_Entry], replies: Sequence[Any], failure: str | None) -> None:
        self._call(self._settle, [entry.reply for entry in batch], replies, failure)

    def _settle(self, waiting: Sequence["asyncio.Future[Any]"], replies: Sequence[Any], failure: str | None) -> None:
        if failure is not None:
            self.failed = failure
            self.ended.set()
        settle(waiting, replies)

    def _call(self, call: Callable[..., None], *args: Any) -> None:
        """Once per batch: each wake-up of the loop costs more than many replies."""
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            # The loop is closed: the process is ending and nobody waits any more.
            self._stopping = True
