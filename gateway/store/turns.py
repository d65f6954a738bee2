"""One turn of the writer: a batch with the riders that wait for one, and a reply for everybody whatever happens."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.store.items import Item
from gateway.store.port import StoreUnknown, Unavailable
from gateway.store.writer import Pending, Writer

CLOSED: Final = "The store is closed; nothing was changed."


@dataclass(slots=True)
class Turn:
    """A batch under way: it has something pending until it has the replies, which are in the order of the items."""

    count: int
    riders: int = 0
    """How many of the batch ride with it; nobody waits for these."""
    pending: Pending | None = None
    replies: Sequence[Any] = ()
    refusal: Unavailable | None = None
    """Why nothing of it was taken."""
    failure: str | None = None
    """Why the store is finished."""

    @property
    def commits(self) -> bool:
        """There is a transaction to commit."""
        return self.pending is not None and self.pending.writes

    def fail(self, reason: str) -> None:
        """Nobody knows what became of it."""
        self.failure = reason
        self.pending = None
        self.replies = [StoreUnknown(reason)] * self.count


def begin_turn(writer: Writer, riders: deque[Item], items: Sequence[Item]) -> Turn:
    """Prepare a batch. Riders go first, so that the rulings know what they tell; they stay if nothing was written."""
    along = [riders.popleft() for _ in range(len(riders))]
    turn = Turn(len(items), len(along))
    try:
        turn.pending = writer.prepare([*along, *items])
    except Unavailable as refusal:
        riders.extendleft(reversed(along))
        turn.refusal = refusal
        turn.replies = [refusal] * len(items)
    except StoreUnknown as unknown:
        turn.fail(str(unknown))
    return turn


def commit_turn(writer: Writer, turn: Turn) -> None:
    """Make it durable, if it writes: the one part that waits for the disk."""
    if turn.commits:
        try:
            writer.commit()
        except StoreUnknown as unknown:
            turn.fail(str(unknown))


def end_turn(writer: Writer, turn: Turn) -> None:
    """Make the replies."""
    if turn.pending is not None:
        try:
            turn.replies = writer.replies(turn.pending)[turn.riders :]
        except StoreUnknown as unknown:
            turn.fail(str(unknown))


def take_turn(writer: Writer, riders: deque[Item], items: Sequence[Item]) -> Turn:
    """The whole of it, where nobody minds waiting."""
    turn = begin_turn(writer, riders, items)
    commit_turn(writer, turn)
    end_turn(writer, turn)
    return turn


def settle(waiting: Sequence["asyncio.Future[Any]"], replies: Sequence[Any]) -> None:
    """Give each waiter its reply; whoever was cancelled meanwhile has cancelled nothing but the wait."""
    for future, reply in zip(waiting, replies, strict=True):
        if future.done():
            continue
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)
