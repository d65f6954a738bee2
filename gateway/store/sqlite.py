"""Everything that holds for SQLite alone: how its files are opened and how its promises are switched on and checked."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy.dialects import sqlite

from gateway.store.port import Refused
from gateway.store.sql import Link

DIALECT: Final = sqlite.dialect()
BEGIN: Final = "BEGIN IMMEDIATE"
"""Take the right to write at once: a read that turns into a write later can fail halfway."""

CHECKPOINT_PAGES: Final = 1000
"""Small enough that a checkpoint in a commit is not felt; the write-ahead log is reused, never truncated."""
BUSY_MS: Final = 5000
"""How long readers, and who opens, wait for a lock; nobody else writes, but a backup tool may hold one for a moment."""
CACHE_KIB: Final = 32 * 1024

_WRITER_PRAGMAS: Final = (
    f"PRAGMA busy_timeout = {BUSY_MS}",
    "PRAGMA journal_mode = WAL",
    # With NORMAL a power cut takes back commits that were already acted on.
    "PRAGMA synchronous = FULL",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
    "PRAGMA journal_size_limit = -1",
    # Deleted payloads are overwritten where that costs no extra write; they are ciphertext in any case.
    "PRAGMA secure_delete = FAST",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA trusted_schema = OFF",
)
_PRIMARY: Final = 0xFF
"""The bits of an extended error code that hold the primary one."""
_SYNCHRONOUS: Final = {0: "off", 1: "normal", 2: "full", 3: "extra"}


@contextlib.contextmanager
def damage_refused(path: Path | None) -> Iterator[None]:
    """What the database says of itself while it is opened, in words for an operator. Raises Refused."""
    try:
        yield
    except sqlite3.OperationalError as error:
        # The file may be whole: on a full disk nobody should put an old copy in its place.
        raise Refused(
            f"{path} cannot be opened as a database: {error}. Nothing was changed. See whether the disk is full, "
            "failing or read-only, and then try again."
        ) from error
    except sqlite3.DatabaseError as error:
        raise Refused(
            f"{path} cannot be opened as a database: {error}. Nothing was changed. Keep the file and those beside it, "
            "and put back a copy that was made while the gateway was stopped."
        ) from error


def open_writer(path: Path | None) -> sqlite3.Connection:
    """The writing connection; `None` is a database in memory. Raises Refused where WAL cannot be had."""
    name = ":memory:" if path is None else str(path)
    driver = sqlite3.connect(name, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        with damage_refused(path):
            for pragma in _WRITER_PRAGMAS:
                driver.execute(pragma)
            in_force = durability(driver)
        if path is not None and in_force != {"journal_mode": "wal", "synchronous": "full"}:
            raise Refused(
                f"SQLite did not accept a durable journal for {path}: {in_force}. Is it a network file system?"
            )
    except BaseException:
        driver.close()
        raise
    return driver


def durability(driver: sqlite3.Connection) -> Mapping[str, str]:
    """What is really in force on this connection, asked back rather than assumed."""
    (journal,) = driver.execute("PRAGMA journal_mode").fetchone()
    (synchronous,) = driver.execute("PRAGMA synchronous").fetchone()
    return {"journal_mode": str(journal), "synchronous": _SYNCHRONOUS.get(synchronous, str(synchronous))}


def link_to(driver: sqlite3.Connection) -> Link:
    """The writer's view of an open connection, which from here on waits for nobody: whoever uses it may not block."""
    driver.execute("PRAGMA busy_timeout = 0")
    return Link(driver, DIALECT, BEGIN, _is_busy)


def _is_busy(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY == sqlite3.SQLITE_BUSY


def reader_uri(path: Path) -> str:
    """Address of a connection that cannot write, whatever it is asked to run."""
    return f"file:{quote(str(path))}?mode=ro"
