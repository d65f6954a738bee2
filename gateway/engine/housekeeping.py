"""Slow, regular work: counts of refused keys go on record, and operations past their retention become tombstones."""

import asyncio

import structlog

from gateway.engine.clock import Clock
from gateway.engine.keys import Keys
from gateway.store.port import Store, StoreUnknown, Unavailable

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 30.0
RETIRE_BATCH = 500
"""Operations retired per round: old rows leave slowly, so that the writer stays free for new ones."""


class Housekeeping:
    """One loop; nothing that an operation's outcome rests on happens here."""

    def __init__(self, store: Store, keys: Keys, clock: Clock, *, retention_seconds: float) -> None:
        """Final operations are kept at least `retention_seconds`; then only their names stay."""
        self._store = store
        self._keys = keys
        self._clock = clock
        self._retention_ms = int(retention_seconds * 1000)
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`; a store that refuses is asked again in the next round."""
        while not self._stopping.is_set():
            await self.round()
            try:
                async with asyncio.timeout(INTERVAL_SECONDS):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def round(self) -> None:
        """One round of everything."""
        try:
            await self._keys.note_failures()
            retired = await self._store.retire(self._clock.wall_ms() - self._retention_ms, RETIRE_BATCH)
        except (Unavailable, StoreUnknown) as refused:
            log.warning("housekeeping_postponed", reason=str(refused))
            return
        if retired:
            log.info("retired", operations=retired)

    def stop(self) -> None:
        """Start no further round."""
        self._stopping.set()
