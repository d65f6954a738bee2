import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.dialects import postgresql
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.store import schema, sqlite, statements
from gateway.store.port import Refused
from gateway.store.sql import Bulk, Lookup, Statement
from gateway.store.tables import metadata


@pytest.fixture
def migrated(tmp_path: Path) -> sqlite3.Connection:
    driver = sqlite.open_writer(tmp_path / "new.db")
    schema.prepare(driver)
    return driver


def shapes(driver: sqlite3.Connection) -> dict[str, str]:
    rows = driver.execute("SELECT name, sql FROM sqlite_master WHERE name <> 'alembic_version' AND sql IS NOT NULL")
    return {name: " ".join(sql.split()) for name, sql in rows}


def test_scripts_end_at_the_revision_that_is_opened() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.SCRIPTS))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [schema.HEAD]
    assert tuple(script.revision for script in reversed(list(scripts.walk_revisions()))) == schema.REVISIONS


def test_migrated_database_is_the_one_that_the_tables_describe(migrated: sqlite3.Connection) -> None:
    engine = create_engine("sqlite://", creator=lambda: migrated, poolclass=StaticPool)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    # Alembic does not compare the predicates of partial indexes, and the identity rules are made of them.
    fresh = create_engine("sqlite://", poolclass=StaticPool)
    with fresh.begin() as connection:
        metadata.create_all(connection)
        assert isinstance(connection.connection.driver_connection, sqlite3.Connection)
        assert shapes(migrated) == shapes(connection.connection.driver_connection)
    migrated.close()
    fresh.dispose()


def test_opening_again_migrates_nothing(migrated: sqlite3.Connection) -> None:
    before = migrated.execute("PRAGMA schema_version").fetchone()
    schema.prepare(migrated)
    assert migrated.execute("PRAGMA schema_version").fetchone() == before
    migrated.close()


def test_database_of_a_newer_version_is_refused(migrated: sqlite3.Connection) -> None:
    migrated.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(Refused, match="newer version of the gateway \\(schema 9999"):
        schema.prepare(migrated)
    migrated.close()


def test_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    driver = sqlite.open_writer(tmp_path / "theirs.db")
    driver.execute("CREATE TABLE notes (text)")
    with pytest.raises(Refused, match="did not make"):
        schema.prepare(driver)
    driver.close()


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("not a database, but long enough to have a header" * 20)
    with pytest.raises(Refused, match="cannot be opened"):
        sqlite.open_writer(path)


def test_migration_that_fails_leaves_an_empty_database(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    driver = sqlite.open_writer(path)
    driver.set_authorizer(
        lambda action, name, *_: (
            sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_TABLE and name == "tombstones" else sqlite3.SQLITE_OK
        )
    )
    with pytest.raises(Refused, match=r"left as it was: .*not authorized"):
        schema.prepare(driver)
    driver.close()
    again = sqlite.open_writer(path)
    assert schema.current(again) is None
    schema.prepare(again)
    assert schema.current(again) == schema.HEAD
    again.close()


def test_durability_is_in_force_and_not_only_asked_for(tmp_path: Path) -> None:
    driver = sqlite.open_writer(tmp_path / "durable.db")
    assert sqlite.durability(driver) == {"journal_mode": "wal", "synchronous": "full"}
    assert driver.execute("PRAGMA wal_autocheckpoint").fetchone() == (sqlite.CHECKPOINT_PAGES,)
    assert driver.execute("PRAGMA journal_size_limit").fetchone() == (-1,)
    driver.close()


def test_journal_that_cannot_be_had_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = tuple(pragma for pragma in sqlite._WRITER_PRAGMAS if "WAL" not in pragma)
    monkeypatch.setattr(sqlite, "_WRITER_PRAGMAS", without)
    with pytest.raises(Refused, match="durable journal"):
        sqlite.open_writer(tmp_path / "weak.db")


def test_everything_is_sql_for_postgresql_too() -> None:
    dialect = postgresql.psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it
    for table in metadata.tables.values():
        assert str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert str(CreateIndex(index).compile(dialect=dialect))
    found = [value for value in vars(statements).values() if isinstance(value, Statement | Lookup | Bulk)]
    assert len(found) > 30
    for value in found:
        if isinstance(value, Statement):
            texts = [value.text(dialect).sql]
        elif isinstance(value, Lookup):
            texts = [value.prepare(dialect, [1, 2])[0]]
        else:
            texts = [sql for sql, _ in value.prepare(dialect, [(None,) * 30] * 3)]
            assert len(texts) == 2
        assert "?" not in "".join(texts)
