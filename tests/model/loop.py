"""An event loop without a selector: when nothing is ready, time jumps to the next timer. Same input, same run."""

import asyncio
import contextvars
import heapq
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any


class StuckError(AssertionError):
    """Nothing is ready and no timer is set: whoever waits would wait for ever."""


Owner = contextvars.ContextVar[Any]
owner: Owner = contextvars.ContextVar("owner", default=None)
"""The process that a task belongs to, so that all of it can die at once. None: the world outside."""


RESOLUTION_SECONDS = 1e-6
"""Timers that lie closer together are due together."""


class VirtualLoop(base_events.BaseEventLoop):
    """Runs until its work is done; `now` is seconds since it began.

    Handles and timers are the base loop's, run in its order. What it does for sockets, threads and debugging is left
    out: a simulation takes millions of turns.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._scheduled: list[asyncio.TimerHandle] = []
        self._stopping = False
        self.set_task_factory(_make_task)  # type: ignore[arg-type]  # the stubs do not know a factory's context

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]  # the stubs tie the arguments to the callback's
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        return timer

    def _run_once(self) -> None:
        """One turn: jump to the next timer if nothing is ready, then run what was ready when the turn began."""
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)
        if not ready and not self._stopping:
            if not scheduled:
                raise StuckError("nothing is ready and nothing is due")
            self.now += max(scheduled[0].when() - self.now, 0.0)
        due = self.now + RESOLUTION_SECONDS
        while scheduled and scheduled[0].when() < due:
            ready.append(heapq.heappop(scheduled))
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def run_in_executor(  # type: ignore[override]  # a thread would race the clock, so there is none
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - handed on to whoever waits
            future.set_exception(error)
        return future

    def run_in(self, process: Any, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """A task that belongs to a process, with everything that it starts."""
        context = contextvars.copy_context()
        context.run(owner.set, process)
        return self.create_task(work, context=context)

    def _write_to_self(self) -> None:
        """There are no threads that could wake it."""


def _make_task(
    loop: VirtualLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context | None = None, **more: Any
) -> "asyncio.Task[Any]":
    task = asyncio.Task(work, loop=loop, context=context, **more)
    process = owner.get() if context is None else context.get(owner)
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(process.tasks.pop)
    return task


def run(loop: VirtualLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Run on a fresh loop to the end of `work`, then close the loop."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
