"""Reading connections: whatever keeps them from reading is said in the one way that callers know."""

import sqlite3
from pathlib import Path

import pytest

from gateway.store.port import Unavailable
from gateway.store.readers import Readers


async def test_what_cannot_be_read_is_unavailable_whether_sqlite_names_the_error_or_not(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    driver = sqlite3.connect(path)
    driver.execute("CREATE TABLE t (x)")
    driver.close()
    readers = await Readers.open(path, 1)

    assert await readers.fetch("SELECT count(*) FROM t", ()) == [(0,)]
    with pytest.raises(Unavailable, match="SQLITE_ERROR"):
        await readers.fetch("SELECT * FROM nowhere", ())
    await readers.close()
    with pytest.raises(Unavailable, match="could not be read"):
        await readers.fetch("SELECT 1", ())
