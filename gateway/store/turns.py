"""One turn of the writer: a batch with the riders that wait for one, and a reply for everybody whatever happens."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.store.items import Item
from gateway.store.port import StoreUnknown, Unavailable
from gateway.store.writer import Writer

CLOSED: Final = "The store is closed; nothing was changed."


@dataclass(frozen=True, slots=True)
class Turn:
    """Replies in the order of the items, and why the store is finished, if it is."""

    replies: Sequence[Any]
    failure: str | None = None


def take_turn(writer: Writer, riders: deque[Item], items: Sequence[Item]) -> Turn:
    """Run a batch. Riders go first, so that the rulings know what they tell; they stay if nothing was written."""
    along = [riders.popleft() for _ in range(len(riders))]
    try:
        return Turn(writer.run([*along, *items])[len(along) :])
    except Unavailable as refusal:
        riders.extendleft(reversed(along))
        return Turn([refusal] * len(items))
    except StoreUnknown as unknown:
        return Turn([unknown] * len(items), str(unknown))


def settle(waiting: Sequence["asyncio.Future[Any]"], replies: Sequence[Any]) -> None:
    """Give each waiter its reply; whoever was cancelled meanwhile has cancelled nothing but the wait."""
    for future, reply in zip(waiting, replies, strict=True):
        if future.done():
            continue
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)
