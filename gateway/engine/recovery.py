"""Brings every unsettled operation back to the driver when something is due: the reaper, the probes, the restart.

There is no second path: what a good day does, a restart does. One heap of due times, one loop, and a sweep as a net
for clocks that were stepped.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import structlog

from gateway.core.agenda import Act, Item
from gateway.core.events import Restarted, Restored
from gateway.engine.clock import Clock
from gateway.engine.driver import Driver
from gateway.engine.journal import Journal, Lost
from gateway.engine.live import Live
from gateway.engine.tasks import Tasks
from gateway.model.operation import Operation, State
from gateway.store.port import StoreUnknown

log = structlog.get_logger(__name__)

RESTART_CONCURRENCY = 256
"""Operations taken over at once at start, so that their commits share transactions."""
OUTDATED_MAX = 1000
"""Times that no longer count are cleared away once there are more of them than this, and than of those that do."""


class Reviver(Protocol):
    """Loads what the driver needs of a stored operation: pinned definition, arguments, request bytes."""

    async def revive(self, operation: Operation) -> Live: ...


def seems_unsent(live: Live) -> bool:
    """A write that would be sent next: after a restore that may be a second time."""
    operation = live.operation
    return operation.state is State.READY and not operation.ambiguous and not live.action.is_read


class Recovery:
    """Owns the operations that are unsettled in this process and the times at which they are due."""

    def __init__(
        self,
        journal: Journal,
        driver: Driver,
        reviver: Reviver,
        tasks: Tasks,
        clock: Clock,
        *,
        sweep_seconds: float,
        on_dead: Callable[[str], None],
    ) -> None:
        """`on_dead` is told when the store's fate is unknown: the process must end."""
        self._journal = journal
        self._driver = driver
        self._reviver = reviver
        self._tasks = tasks
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._on_dead = on_dead
        self._live: dict[str, Live] = {}
        self._callers: Counter[str] = Counter()
        self._due: list[tuple[int, str]] = []
        """A heap of times and operations. Of an operation's entries the one that `_next` holds counts, no other."""
        self._next: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._stopping = False

    # -- operations ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Unsettled operations in memory."""
        return len(self._live)

    @property
    def busy(self) -> int:
        """Operations that a driver is at work on now."""
        return len(self._tasks)

    def count_of(self, caller: str) -> int:
        """Unsettled operations of one caller."""
        return self._callers[caller]

    def find(self, operation_id: str) -> Live | None:
        """The live operation, if it is unsettled here."""
        return self._live.get(operation_id)

    def adopt(self, live: Live, *, begun: bool) -> None:
        """Take a new operation and drive it at once."""
        self._keep(live)
        self._start(live, begun=begun)

    def _keep(self, live: Live) -> None:
        self._live[live.id] = live
        self._callers[live.operation.caller] += 1

    def _let_go(self, live: Live) -> None:
        self._next.pop(live.id, None)
        if self._live.pop(live.id, None) is not None:
            self._callers[live.operation.caller] -= 1

    def nudge(self, live: Live) -> None:
        """Something changed (a cancel, an attestation, a wish to look now): look at it at once."""
        if live.driven:
            live.nudged = True
        elif not self._stopping:
            self._start(live, begun=False)

    def _start(self, live: Live, *, begun: bool) -> None:
        live.driven = True
        self._tasks.start(self._drive(live, begun=begun), f"drive {live.id}")

    def beside(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Work on an operation beside its driver, held and heard like every other."""
        return self._tasks.start(work, name)

    async def _drive(self, live: Live, *, begun: bool) -> None:
        try:
            item = await self._driver.drive(live, begun=begun)
            while live.nudged:
                live.nudged = False
                item = await self._driver.drive(live)
        except StoreUnknown as unknown:
            self.store_lost(unknown)
            return
        finally:
            live.driven = False
        self._put_away(live, item)

    def store_lost(self, unknown: StoreUnknown) -> None:
        """A transaction's fate is unknown: whoever met it first says so, for nothing after it would."""
        self._on_dead(str(unknown))

    def _put_away(self, live: Live, item: Item) -> None:
        if live.operation.final or (item.act is Act.NOTHING and live.operation.state is not State.HELD):
            self._let_go(live)
            return
        self.schedule(live.id, item.at_ms)

    def schedule(self, operation_id: str, at_ms: int | None) -> None:
        """Come back to it at that wall time, and at no other told before; None: at the next sweep."""
        due = self._clock.wall_ms() + int(self._sweep_seconds * 1000) if at_ms is None else at_ms
        self._next[operation_id] = due
        if len(self._due) > 2 * len(self._next) + OUTDATED_MAX:
            # Whoever asks again and again for a look leaves a time behind with each: they must not pile up.
            self._due = [(at, name) for name, at in self._next.items()]
            heapq.heapify(self._due)
        else:
            heapq.heappush(self._due, (due, operation_id))
        if self._due[0][1] == operation_id:
            self._wake.set()

    # -- the loop ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Bring back what is due until `stop`. Wakes at least once a sweep, so that a stepped clock is noticed."""
        while not self._stopping:
            if self._journal.store.failed is not None:
                self.store_lost(StoreUnknown(self._journal.store.failed))
                return
            self._wake.clear()
            self._bring_back()
            wait = self._sweep_seconds
            if self._due:
                wait = min(wait, max((self._due[0][0] - self._clock.wall_ms()) / 1000, 0.0))
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _bring_back(self) -> None:
        now_ms = self._clock.wall_ms()
        while self._due and self._due[0][0] <= now_ms:
            due, operation_id = heapq.heappop(self._due)
            if self._next.get(operation_id) != due:
                continue
            del self._next[operation_id]
            live = self._live.get(operation_id)
            if live is not None and not live.driven:
                self._start(live, begun=False)

    def stop(self) -> None:
        """Start nothing more; what is under way is the task set's to finish."""
        self._stopping = True
        self._wake.set()

    # -- start-up ------------------------------------------------------------------------------------------------

    async def take_over(self, *, restored: bool = False) -> int:
        """At start: every unsettled operation gets a new owner and its next due time. Returns how many there are.

        `restored`: the store is older than its log, so that what seems to be unsent may have been sent.
        Raises StoreUnknown if the store is lost on the way.
        """
        operations = await self._journal.store.unsettled()
        places = asyncio.Semaphore(RESTART_CONCURRENCY)
        try:
            async with asyncio.TaskGroup() as group:
                for operation in operations:
                    await places.acquire()
                    task = group.create_task(self._take_over(operation, restored=restored))
                    task.add_done_callback(lambda _task: places.release())
        except BaseExceptionGroup as failures:
            if failures.subgroup(StoreUnknown) is None:
                raise
            # Alone, so that whoever starts the gateway meets it as it meets every other loss of the store.
            raise StoreUnknown(self._journal.store.failed or "lost at the start") from failures
        return len(operations)

    async def _take_over(self, operation: Operation, *, restored: bool) -> None:
        live = await self._reviver.revive(operation)
        if operation.state is not State.HELD:
            forgotten = restored and seems_unsent(live)
            try:
                await self._journal.apply_surely(live, Restored() if forgotten else Restarted())
            except Lost:
                log.warning("taken_over_elsewhere", operation_id=operation.id)
        self._keep(live)
        self.schedule(live.id, live.operation.next_ms or self._clock.wall_ms())
