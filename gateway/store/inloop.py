"""The store's twin for simulation: the same writer and the same SQL, run inside the event loop, on no thread.

With virtual time a thread would race the clock. Here a batch is everything submitted in one turn of the loop, so that
crash points inside a batch with several items are met. What survives a crash is kept in a `Medium`.
"""

import asyncio
import sqlite3
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gateway.store import schema, sqlite
from gateway.store.items import Item, Note, Seal
from gateway.store.points import Crash, Points, Unwatched
from gateway.store.port import Cipher, StoreUnknown, Unavailable
from gateway.store.reading import Reads
from gateway.store.sql import Row, Statement
from gateway.store.turns import CLOSED, settle, take_turn
from gateway.store.writer import BATCH_MAX, Writer
from gateway.store.writing import Writes


class Medium:
    """What a database is stored on: a file, or memory that outlives the store's crash though not the process."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._memory: sqlite3.Connection | None = None
        self._end: weakref.finalize[[], Medium] | None = None

    def connect(self) -> sqlite3.Connection:
        """A connection to what was committed here before; one in memory is closed with the medium."""
        if self.path is not None:
            driver = sqlite.open_writer(self.path)
            schema.prepare(driver)
            return driver
        if self._memory is None:
            driver = sqlite.open_writer(None)
            driver.deserialize(_empty_database())
            self.hold(driver)
            return driver
        return self._memory

    def hold(self, driver: sqlite3.Connection) -> None:
        """Be that database in memory. Stores come and go on it, and none knows whether it is the last."""
        self._memory = driver
        # What ends in a cycle is finalized in any order, and the connection would complain before its medium closed it.
        self._end = weakref.finalize(self, driver.close)

    def let_go(self) -> sqlite3.Connection | None:
        """Give the database in memory away, open; nothing may use this medium any more."""
        driver, self._memory = self._memory, None
        if self._end is not None:
            self._end.detach()
        return driver

    def drop(self, driver: sqlite3.Connection, writer: Writer) -> None:
        """End a connection as a dying process does: nothing is finished, what was not committed is gone."""
        if driver is not self._memory:
            writer.close()
        elif driver.in_transaction:
            driver.rollback()


@cache
def _empty_database() -> bytes:
    """Tables without rows, made once: a simulation opens thousands of databases."""
    driver = sqlite.open_writer(None)
    schema.prepare(driver)
    image = driver.serialize()
    driver.close()
    return image


class InLoopStore(Reads, Writes):
    """The port `Store`, synchronously. Everything runs on the loop that calls it."""

    def __init__(
        self,
        medium: Medium,
        cipher: Cipher,
        *,
        wall_ms: Callable[[], int],
        points: Points | None = None,
        room: Callable[[Sequence[Item]], str | None] = lambda _items: None,
        batch_max: int = BATCH_MAX,
    ) -> None:
        """Open what is on the medium. `room` says why nothing new may be admitted, or None. Raises Refused."""
        self._medium = medium
        self._cipher = cipher
        self._room = room
        self._driver = medium.connect()
        self._writer = Writer(
            sqlite.link_to(self._driver), cipher, wall_ms=wall_ms, room=room, listener=points or Unwatched()
        )
        self._batch_max = batch_max
        self._pending: list[tuple[Item, asyncio.Future[Any]]] = []
        self._riders: deque[Item] = deque()
        self._scheduled = False
        self._closed = False
        self._crashed = False
        self._failed: str | None = None

    @property
    def failed(self) -> str | None:
        """Why the store is finished."""
        return self._failed

    @property
    def crashed(self) -> bool:
        """A point said that the process died here; whoever waits on this store waits for ever."""
        return self._crashed

    def crash(self) -> None:
        """Die: drop the connection with whatever was not committed. The medium can be opened again."""
        self._crashed = True
        self._medium.drop(self._driver, self._writer)

    def room(self) -> str | None:
        """What its own `room` says of a batch of nothing."""
        return self._room(())

    async def close(self) -> None:
        """Finish what was submitted, close the log, let go of the medium."""
        if self._closed or self._crashed:
            return
        # Nothing may be put behind the end of the log.
        self._closed = True
        if self._failed is None:
            await self._enqueue(Note() if self._writer.sealer is None else Seal(close=True))
        self._medium.drop(self._driver, self._writer)

    async def _submit(self, item: Item) -> Any:
        await self._check()
        return await self._enqueue(item)

    async def _enqueue(self, item: Item) -> Any:
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        self._pending.append((item, reply))
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._turn)
        return await reply

    def _ride(self, item: Item) -> None:
        self._refuse()
        self._riders.append(item)

    async def _fetch(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Row]:
        await self._check()
        text = statement.text(sqlite.DIALECT)
        return self._driver.execute(text.sql, text.row(values)).fetchall()

    async def _decrypt(self, work: Callable[[bytes, bytes], bytes], body: bytes, context: bytes) -> bytes:
        return work(body, context)

    async def _check(self) -> None:
        if self._crashed:
            await asyncio.get_running_loop().create_future()
        self._refuse()

    def _refuse(self) -> None:
        if self._failed is not None:
            raise StoreUnknown(self._failed)
        if self._closed:
            raise Unavailable(CLOSED)

    def _turn(self) -> None:
        self._scheduled = False
        if self._crashed or self._failed is not None or not self._pending:
            return
        batch, self._pending = self._pending[: self._batch_max], self._pending[self._batch_max :]
        if self._pending:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)
        try:
            turn = take_turn(self._writer, self._riders, [item for item, _ in batch])
        except Crash:
            self.crash()
            return
        settle([reply for _, reply in batch], turn.replies)
        if turn.failure is not None:
            self._failed = turn.failure
            unknown = StoreUnknown(turn.failure)
            settle([reply for _, reply in self._pending], [unknown] * len(self._pending))
            self._pending = []
