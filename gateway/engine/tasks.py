"""The one place that starts background work, so that every task is held, named and heard when it fails."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Tasks:
    """A set of running tasks. A task that dies of an exception reports it to `on_failure` at once."""

    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        """`on_failure` gets the task's name and what it died of; it must not raise."""
        self._running: set[asyncio.Task[Any]] = set()
        self._on_failure = on_failure

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` in its own task: whoever asked for it may go away, the work goes on."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def __len__(self) -> int:
        """How many are running."""
        return len(self._running)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(task.get_name(), error)

    async def settle(self, seconds: float) -> None:
        """Wait for all of them at most that long, and cancel nothing."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)

    async def finish(self, seconds: float) -> int:
        """Wait for all of them at most that long, then cancel what is left; returns how many were cancelled."""
        if not self._running:
            return 0
        _, late = await asyncio.wait(set(self._running), timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return len(late)
