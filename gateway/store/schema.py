"""Brings a database to this version's tables at open, and refuses one made by a later version."""

import sqlite3
from pathlib import Path
from typing import Final

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from gateway.store.port import Refused

HEAD: Final = "0001"
"""The newest revision; a test compares it with the scripts."""

REVISIONS: Final = (HEAD,)
"""Every revision this version knows, oldest first."""

SCRIPTS: Final = Path(__file__).parent / "migrations"


def current(driver: sqlite3.Connection) -> str | None:
    """The database's revision, None for an empty one."""
    table = driver.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'").fetchone()
    if table is None:
        return None
    row = driver.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


def prepare(driver: sqlite3.Connection) -> None:
    """Migrate to `HEAD`. Raises Refused for a database of a later version, or one that is not ours."""
    revision = current(driver)
    if revision == HEAD:
        return
    if revision is not None and revision not in REVISIONS:
        raise Refused(
            f"The database was made by a newer version of the gateway (schema {revision}; this version knows up to "
            f"{HEAD}). Run that version, or restore a copy from before the upgrade."
        )
    if revision is None and driver.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None:
        raise Refused("The database holds tables that the gateway did not make. Point the store at a file of its own.")
    try:
        _upgrade(driver)
    except (sqlite3.Error, SQLAlchemyError) as error:
        # SQLAlchemy appends the statement and an address; people need the first line.
        reason = str(error).splitlines()[0]
        raise Refused(f"The database could not be brought up to date and was left as it was: {reason}") from error


def _upgrade(driver: sqlite3.Connection) -> None:
    # Imported here: a start on an up-to-date database does not pay for it.
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    engine = create_engine("sqlite://", creator=lambda: driver, poolclass=StaticPool)
    with engine.connect() as connection:
        # The driver begins nothing by itself, so that the tables and the new revision come in one transaction or not.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
