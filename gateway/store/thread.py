"""Group commit: what waits goes into one transaction, which is made on the event loop and committed on a thread.

Only the commit waits for the disk. The rest of a batch is a fraction of a millisecond of statements into memory; on a
thread each of them would let go of the interpreter and have to win it back from a busy loop, which takes longer than
the statement. So the loop makes the transaction, and the thread has one thing to do. It does the whole of a batch that
the loop would feel: one that brings much or touches many rows, one for which another process must be waited for or
room be made on the disk, and any while the disk is so slow that the last batch was felt.

Whoever is told by one commit is back within a few turns of the loop, and should not just miss the next. So after a
batch of several the next begins only once some turns in a row have brought nothing more. On a slow disk a tenth of the
last commit is waited instead, if anybody waits at all. A submission that is alone is not delayed, unless it says of
itself that it is patient.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from gateway.store.items import Item
from gateway.store.port import Busy, StoreUnknown
from gateway.store.turns import Turn, begin_turn, commit_turn, end_turn, settle
from gateway.store.writer import Writer

GATHER_SHARE: Final = 0.1
GATHER_MAX_S: Final = 0.003
GATHER_MIN_S: Final = 0.001
"""Timers of the loop are no finer; what is shorter is waited for in turns."""
QUIET_TURNS: Final = 8
"""Turns of the loop in a row without a submission after which no more companions are expected."""
TURNS_MAX: Final = 64
"""Turns for which a batch waits at most, however many each of them brings."""
FELT_S: Final = 0.02
"""A loop that stood still this long is late for others."""
COMPANY_S: Final = 0.02
"""How long what is patient waits for others to go with."""
PATIENCE_S: Final = 5.0
"""How long a batch waits for another process to let go of the database."""


@dataclass(frozen=True, slots=True)
class _Entry:
    item: Item
    reply: "asyncio.Future[Any]"


class WriterThread:
    """Runs one `Writer`. Submissions come from the loop it was made on."""

    def __init__(
        self,
        writer: Writer,
        monotonic_s: Callable[[], float],
        batch_max: int,
        *,
        calm: Callable[[], bool] = lambda: True,
    ) -> None:
        """`calm` says whether the writer's room on the disk is as it should be, so that nobody has to make some."""
        self._calm = calm
        self._writer = writer
        self._monotonic_s = monotonic_s
        self._batch_max = batch_max
        self._loop = asyncio.get_running_loop()
        self._fresh: deque[_Entry] = deque()
        """Submitted, and in no batch yet."""
        self._riders: deque[Item] = deque()
        self._under_way = False
        """A batch is, or is being gathered: then the connection is not the loop's to use."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        """Nothing is patient any more."""
        self._felt = False
        """The last batch took so long to make that the next is made on the thread."""
        self._commit_s = 0.0
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
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
        if not self._under_way:
            self._next()
        return await entry.reply

    def ride(self, item: Item) -> None:
        """Go with the next transaction."""
        self._riders.append(item)

    async def stop(self) -> None:
        """End the thread after everything submitted so far."""
        self._stopping = True
        self._alone()
        await self._idle.wait()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _next(self) -> None:
        """Begin a batch of what waits, or be idle: if nothing does, or nothing that would not rather wait for more."""
        if self._stopping or not all(entry.item.patient() for entry in self._fresh):
            self._begin()
            return
        if self._fresh:
            self._loop.call_later(COMPANY_S, self._alone)
        self._rest()

    def _alone(self) -> None:
        """Begin with what waited for company, if none came."""
        if not self._under_way:
            self._begin()

    def _rest(self) -> None:
        self._under_way = False
        self._idle.set()

    def _begin(self) -> None:
        if not self._fresh:
            self._rest()
            return
        self._under_way = True
        self._idle.clear()
        batch = [self._fresh.popleft() for _ in range(min(len(self._fresh), self._batch_max))]
        if self._felt or not self._calm() or any(entry.item.bulky() for entry in batch):
            self._queue.put(lambda: self._whole(batch))
            return
        turn = self._begun(batch)
        if isinstance(turn.refusal, Busy):
            self._queue.put(lambda: self._whole(batch))
        elif turn.commits:
            self._queue.put(lambda: self._committed(batch, turn))
        else:
            # Not at once: the caller may be in the middle of submitting.
            self._loop.call_soon(self._done, batch, turn)

    def _begun(self, batch: list[_Entry]) -> Turn:
        began = self._monotonic_s()
        try:
            turn = begin_turn(self._writer, self._riders, [entry.item for entry in batch])
        except BaseException as error:  # noqa: BLE001 - whatever ends this must be told to those who wait
            turn = _ended_by(error, len(batch))
        self._felt = self._monotonic_s() - began > FELT_S
        return turn

    def _whole(self, batch: list[_Entry]) -> None:
        patient = Retrying(
            retry=retry_if_result(lambda turn: isinstance(turn.refusal, Busy)),
            stop=stop_after_delay(PATIENCE_S),
            wait=wait_exponential(multiplier=0.001, max=0.05),
            retry_error_callback=lambda state: None if state.outcome is None else state.outcome.result(),
        )
        self._committed(batch, patient(self._begun, batch))

    def _committed(self, batch: list[_Entry], turn: Turn) -> None:
        began = self._monotonic_s()
        try:
            commit_turn(self._writer, turn)
        except BaseException as error:  # noqa: BLE001 - as above
            turn = _ended_by(error, len(batch))
        self._commit_s = self._monotonic_s() - began
        try:
            self._loop.call_soon_threadsafe(self._done, batch, turn)
        except RuntimeError:
            # The loop is closed: the process is ending and nobody waits any more.
            self._queue.put(None)

    def _done(self, batch: list[_Entry], turn: Turn) -> None:
        try:
            end_turn(self._writer, turn)
        except BaseException as error:  # noqa: BLE001 - as above
            turn = _ended_by(error, len(batch))
        settle([entry.reply for entry in batch], turn.replies)
        if turn.failure is not None:
            self._finish(turn.failure)
        elif self._fresh or len(batch) > 1:
            self._gather()
        else:
            self._next()

    def _gather(self) -> None:
        pause = min(self._commit_s * GATHER_SHARE, GATHER_MAX_S)
        if self._fresh and pause >= GATHER_MIN_S:
            self._loop.call_later(pause, self._next)
        else:
            self._loop.call_soon(self._listen, len(self._fresh), 0, 0)

    def _listen(self, before: int, turns: int, quiet: int) -> None:
        """Begin the next batch, unless the loop's last turns have brought somebody: then others may follow."""
        count = len(self._fresh)
        quiet = 0 if count > before else quiet + 1
        if quiet < QUIET_TURNS and count < self._batch_max and turns < TURNS_MAX:
            self._loop.call_soon(self._listen, count, turns + 1, quiet)
        else:
            self._next()

    def _finish(self, reason: str) -> None:
        self.failed = reason
        rest = [entry.reply for entry in self._fresh]
        self._fresh.clear()
        settle(rest, [StoreUnknown(reason)] * len(rest))
        self._idle.set()
        self.ended.set()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()


def _ended_by(error: BaseException, count: int) -> Turn:
    turn = Turn(count)
    turn.fail(f"the writer was ended by {type(error).__name__}")
    return turn
