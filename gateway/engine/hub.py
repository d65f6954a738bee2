"""Tells whoever waits that an operation changed: long polls, event streams, and nobody else."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.model.operation import Operation

BACKLOG_MAX = 1000


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing worth telling: an operation's change, or an alert for people."""

    number: int
    kind: str
    """`operation` or `alert`."""
    caller: str | None
    """Whom it concerns; None: people only."""
    data: dict[str, Any]


@dataclass(slots=True, eq=False)
class Subscription:
    """A bounded queue of notices. A reader that falls too far behind is told so and must read the list again."""

    caller: str | None
    queue: deque[Notice] = field(default_factory=deque)
    lagged: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def push(self, notice: Notice) -> None:
        """Add a notice, or mark the reader as lagging."""
        if len(self.queue) >= BACKLOG_MAX:
            self.queue.clear()
            self.lagged = True
        self.queue.append(notice)
        self.ready.set()

    def wants(self, notice: Notice) -> bool:
        """A caller hears of its own operations only; people hear everything."""
        return self.caller is None or notice.caller == self.caller


class Hub:
    """In-process publish and subscribe. Carries no authority: readers look the operation up again."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._waiting: dict[str, dict[asyncio.Event, None]] = {}
        """Who waits for which operation, in the order in which they came: a set would wake them in any."""
        self._subscriptions: set[Subscription] = set()
        self._number = 0
        self.closed = False
        """Nobody should wait any longer: the gateway ends."""

    def close(self) -> None:
        """Wake everybody who waits, for good: they answer with what is known now."""
        self.closed = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    def changed(self, operation: Operation) -> None:
        """An operation has a new durable image."""
        for event in self._waiting.get(operation.id, ()):
            event.set()
        if self._subscriptions:
            data = {"operation_id": operation.id, "state": operation.state.value, "version": operation.version}
            self._publish("operation", operation.caller, data)

    def alert(self, name: str, operation: Operation | None, detail: str) -> None:
        """People should look at this now."""
        data = {"alert": name, "detail": detail}
        if operation is not None:
            data |= {"operation_id": operation.id, "caller": operation.caller, "action": operation.action}
        self._publish("alert", None, data)

    def _publish(self, kind: str, caller: str | None, data: dict[str, Any]) -> None:
        self._number += 1
        notice = Notice(self._number, kind, caller, data)
        for subscription in self._subscriptions:
            if subscription.wants(notice):
                subscription.push(notice)

    @contextmanager
    def watch(self, operation_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at every change of the operation while the block runs."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(operation_id, {})
        waiting[event] = None
        try:
            yield event
        finally:
            waiting.pop(event, None)
            if not waiting:
                self._waiting.pop(operation_id, None)

    @contextmanager
    def subscribe(self, caller: str | None) -> Iterator[Subscription]:
        """A stream of notices while the block runs; `caller` None hears everything."""
        subscription = Subscription(caller)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
