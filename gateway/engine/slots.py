"""Places to send from: a bound on attempts under way per service, taken before an attempt is begun."""

import asyncio
from collections import deque


class Slots:
    """Counting places per service. A sick service fills its own places and no others."""

    def __init__(self) -> None:
        """No service is known yet; each brings its own bound."""
        self._taken: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def try_take(self, service: str, bound: int) -> bool:
        """Take a place if one is free and nobody waits for it."""
        if self._taken.get(service, 0) >= bound or self._queues.get(service):
            return False
        self._taken[service] = self._taken.get(service, 0) + 1
        return True

    async def take(self, service: str, bound: int) -> None:
        """Wait for a place, first come first served."""
        if self.try_take(service, bound):
            return
        queue = self._queues.setdefault(service, deque())
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give_back(service)
            elif place in queue:
                queue.remove(place)
            raise

    def give_back(self, service: str) -> None:
        """Free a place; whoever waits longest gets it."""
        queue = self._queues.get(service)
        while queue:
            place = queue.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._taken[service] -= 1
        if not self._taken[service]:
            del self._taken[service]

    def taken(self, service: str) -> int:
        """How many are in use, for metrics."""
        return self._taken.get(service, 0)
