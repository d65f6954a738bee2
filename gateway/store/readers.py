"""A few reading connections to SQLite, each on a thread of aiosqlite's; none of them can write."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import aiosqlite

from gateway.store import sqlite
from gateway.store.port import Unavailable
from gateway.store.sql import Row


class Readers:
    """A fixed number of connections, used in turn. Reads see what was committed before they began."""

    def __init__(self, connections: Sequence[aiosqlite.Connection]) -> None:
        self._connections = connections
        self._turn = 0

    @classmethod
    async def open(cls, path: Path, count: int) -> Self:
        """Connect that many times to an existing database."""
        opened: list[aiosqlite.Connection] = []
        readers = cls(opened)
        try:
            for _ in range(count):
                opened.append(await aiosqlite.connect(sqlite.reader_uri(path), uri=True, isolation_level=None))
                await opened[-1].execute(f"PRAGMA busy_timeout = {sqlite.BUSY_MS}")
        except BaseException:
            await readers.close()
            raise
        return readers

    async def fetch(self, sql: str, parameters: Sequence[Any]) -> Sequence[Row]:
        """All rows. Raises Unavailable if the database cannot be read."""
        self._turn = (self._turn + 1) % len(self._connections)
        try:
            return list(await self._connections[self._turn].execute_fetchall(sql, parameters))
        except (sqlite3.Error, ValueError) as error:
            # Of a connection that was closed meanwhile SQLite has no name for the error, and aiosqlite has its own.
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            raise Unavailable(f"The store could not be read ({name}).") from error

    async def close(self) -> None:
        """End every connection and its thread."""
        for connection in self._connections:
            await connection.close()
