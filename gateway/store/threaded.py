"""The store of a running gateway: SQLite with one writer, whose commits run on a thread, and a few readers."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from gateway.store import schema, sqlite
from gateway.store.ballast import Ballast, Disk, FolderDisk
from gateway.store.items import Item, Note, Seal
from gateway.store.lock import DataFolder, open_private
from gateway.store.points import Points, Unwatched
from gateway.store.port import Cipher, Refused, StoreUnknown, Unavailable
from gateway.store.readers import Readers
from gateway.store.reading import Reads
from gateway.store.sql import Row, Statement
from gateway.store.thread import WriterThread
from gateway.store.turns import CLOSED
from gateway.store.writer import BATCH_MAX, Writer
from gateway.store.writing import Writes

_LARGE_BYTES: Final = 256 * 1024
"""Decrypting more than this takes long enough to be felt by others on the loop."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of a store."""

    ballast_bytes: int = 32 * 1024 * 1024
    """Given up for outcomes when the disk is full."""
    reserve_bytes: int = 64 * 1024 * 1024
    """With less free space than this nothing new is admitted."""
    batch_max: int = BATCH_MAX
    readers: int = 2


@dataclass(frozen=True, slots=True)
class Ports:
    """What a store needs from outside."""

    cipher: Cipher
    wall_ms: Callable[[], int]
    """Milliseconds since the Unix epoch; becomes the time of audit entries."""
    monotonic_s: Callable[[], float]
    """Seconds that never go back; measures how long a sync takes."""
    points: Points = field(default_factory=Unwatched)
    disk: Disk | None = None
    """None: the file system of the data folder."""


@dataclass(frozen=True, slots=True)
class _Parts:
    folder: DataFolder
    ballast: Ballast
    writer: Writer
    readers: Readers
    thread: WriterThread
    durability: Mapping[str, str]


class SqlStore(Reads, Writes):
    """The port `Store` on SQLite. One per data folder, used from the event loop it was opened on."""

    def __init__(self, cipher: Cipher, parts: _Parts) -> None:
        """Use `open`."""
        self._cipher = cipher
        self._parts = parts
        self._closing = False
        self._durability = parts.durability

    @classmethod
    async def open(cls, url: str, ports: Ports, limits: Limits | None = None) -> Self:
        """Open or create the database that the URL names, for this process alone, and bring its tables up to date.

        The file's folder is the data folder. Raises Refused, in words for an operator: in use, readable by others,
        made by a newer version, not SQLite.
        """
        path = database_path(url)
        folder = DataFolder.open(path.parent, ports.wall_ms)
        try:
            parts = await _assemble(path, folder, ports, limits or Limits())
        except BaseException:
            folder.close()
            raise
        return cls(ports.cipher, parts)

    @property
    def failed(self) -> str | None:
        """Why the store is finished."""
        return self._parts.thread.failed

    async def wait_failed(self) -> str:
        """Return when the store is finished, with the reason; the process must then end."""
        await self._parts.thread.ended.wait()
        return self.failed or ""

    @property
    def durability(self) -> Mapping[str, str]:
        """Journal mode and sync level, as SQLite itself named them when the store was opened."""
        return self._durability

    def room(self) -> str | None:
        """Why nothing new would be admitted just now, or None."""
        return self._parts.ballast.shortage()

    async def close(self) -> None:
        """Finish what was submitted, close the log, release the files. After a failure it only releases them."""
        if self._closing:
            return
        # Nothing may be put behind the end of the log.
        self._closing = True
        parts = self._parts
        try:
            if self.failed is None:
                await parts.thread.submit(Note() if parts.writer.sealer is None else Seal(close=True))
        finally:
            await parts.thread.stop()
            await parts.readers.close()
            parts.writer.close()
            parts.folder.close()

    async def _submit(self, item: Item) -> Any:
        self._check()
        return await self._parts.thread.submit(item)

    def _ride(self, item: Item) -> None:
        self._check()
        self._parts.thread.ride(item)

    async def _fetch(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Row]:
        self._check()
        text = statement.text(sqlite.DIALECT)
        return await self._parts.readers.fetch(text.sql, text.row(values))

    async def _decrypt(self, work: Callable[[bytes, bytes], bytes], body: bytes, context: bytes) -> bytes:
        if len(body) < _LARGE_BYTES:
            return work(body, context)
        return await asyncio.to_thread(work, body, context)

    def _check(self) -> None:
        if self.failed is not None:
            raise StoreUnknown(self.failed)
        if self._closing:
            raise Unavailable(CLOSED)


def database_path(url: str) -> Path:
    """The file that a `sqlite:///` URL names. Raises Refused."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise Refused("The store's address is not a database URL; write sqlite:////absolute/path/to/file.") from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.query:
        raise Refused("This version stores in SQLite files; write sqlite:////absolute/path/to/file.")
    return Path(parsed.database).absolute()


async def _assemble(path: Path, folder: DataFolder, ports: Ports, limits: Limits) -> _Parts:
    disk = ports.disk or FolderDisk(folder.path)
    ballast = Ballast(folder.path, disk, size_bytes=limits.ballast_bytes, reserve_bytes=limits.reserve_bytes)
    # SQLite gives its journal the mode of the database, which must therefore exist with the right one.
    os.close(open_private(path))
    driver = sqlite.open_writer(path)
    try:
        with sqlite.damage_refused(path):
            schema.prepare(driver)
            writer = Writer(
                sqlite.link_to(driver), ports.cipher, wall_ms=ports.wall_ms, room=ballast.room, listener=ports.points
            )
            readers = await Readers.open(path, limits.readers)
    except BaseException:
        driver.close()
        raise
    durability = sqlite.durability(driver)
    thread = WriterThread(writer, ports.monotonic_s, limits.batch_max, calm=lambda: ballast.held)
    return _Parts(folder, ballast, writer, readers, thread, durability)
