"""Looks into a store's file without opening the store: for what may be read while a gateway serves from it."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from gateway.store import sqlite, statements
from gateway.store.port import StoredSubject
from gateway.store.sql import Row, Statement


class Peek:
    """A connection that cannot write, and sees what is committed at the moment of each question."""

    def __init__(self, driver: sqlite3.Connection, path: Path) -> None:
        """Use `open`."""
        self._driver = driver
        self._path = path

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Look into that file. Raises Refused, also later, if it is none or cannot be read."""
        with sqlite.damage_refused(path):
            driver = sqlite3.connect(sqlite.reader_uri(path), uri=True, isolation_level=None)
        with closing(driver):
            yield cls(driver, path)

    def meta(self, name: str) -> bytes | None:
        """A named value."""
        for row in self._fetch(statements.META, {"name": name}):
            return bytes(row[0])
        return None

    def subject_of_tag(self, tag: bytes) -> StoredSubject | None:
        """The person's key that a record names."""
        for row in self._fetch(statements.SUBJECT_OF_TAG, {"tag": tag}):
            return StoredSubject(*map(bytes, row[:3]))
        return None

    def _fetch(self, statement: Statement, values: Mapping[str, Any]) -> list[Row]:
        text = statement.text(sqlite.DIALECT)
        with sqlite.damage_refused(self._path):
            return self._driver.execute(text.sql, text.row(values)).fetchall()
