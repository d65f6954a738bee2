"""An event loop without a selector: when nothing is ready, time jumps to the next timer. Same input, same run."""

import asyncio
import contextvars
from asyncio import base_events
from collections.abc import Callable, Coroutine
from typing import Any


class StuckError(AssertionError):
    """Nothing is ready and no timer is set: whoever waits would wait for ever."""


class _Selector:
    """What the base loop waits on. Waiting costs no time and moves the clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise StuckError("nothing is ready and nothing is due")
        if timeout > 0:
            self._loop.now += timeout
        return []

    def close(self) -> None:
        """Nothing to release."""


Owner = contextvars.ContextVar[Any]
owner: Owner = contextvars.ContextVar("owner", default=None)
"""The process that a task belongs to, so that all of it can die at once. None: the world outside."""


class VirtualLoop(base_events.BaseEventLoop):
    """Runs until its work is done; `now` is seconds since it began."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _Selector(self)
        self._clock_resolution = 1e-6
        self.set_task_factory(_make_task)  # type: ignore[arg-type]  # the stubs do not know a factory's context

    def time(self) -> float:
        return self.now

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

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There are no threads that could wake it."""


def _make_task(
    loop: VirtualLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context | None = None, **more: Any
) -> "asyncio.Task[Any]":
    task = asyncio.Task(work, loop=loop, context=context, **more)
    process = owner.get() if context is None else context.get(owner)
    if process is not None:
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard)
    return task


def run(loop: VirtualLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Run on a fresh loop to the end of `work`, then close the loop."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
