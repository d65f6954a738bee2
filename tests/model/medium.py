"""Databases in memory that serve seed after seed: emptied, not made anew, so that SQL is prepared once for all."""

import sqlite3

from gateway.store.inloop import Medium

_IDLE: list[sqlite3.Connection] = []
"""Empty databases that wait for the next seed."""
USER_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'alembic_version'"


class ReusedMedium(Medium):
    """The shipped medium; only where its database comes from, and what becomes of it afterwards, is different."""

    def connect(self) -> sqlite3.Connection:
        """A connection to what was committed here before, at first to an empty database."""
        if self._memory is None and _IDLE:
            self.hold(_IDLE.pop())
        return super().connect()

    def give_back(self) -> None:
        """Leave the database to the next seed. Nothing may use this medium any more."""
        driver = self.let_go()
        if driver is None:
            return
        if driver.in_transaction:
            driver.rollback()
        # Asked of the database itself: a table that somebody adds cannot be forgotten here.
        driver.execute("BEGIN")
        for (table,) in driver.execute(USER_TABLES).fetchall():
            driver.execute(f'DELETE FROM "{table}"')
        driver.commit()
        _IDLE.append(driver)
