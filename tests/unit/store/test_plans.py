"""Which index answers what. A query that falls back to a scan works in every other test and fails in the field."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.model.operation import Executed, State
from gateway.store import schema, sqlite, statements
from gateway.store.codec import CHAIN_COLUMNS, IMAGE_COLUMNS, encode, short_hash
from gateway.store.port import Filter
from gateway.store.reading import _listing
from gateway.store.sql import Bulk, Link, Lookup, Statement
from gateway.store.tables import operations
from tests.unit.store.kit import START_MS, operation

ROWS = 100_000
LIVE = 50


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    driver = sqlite.open_writer(None)
    schema.prepare(driver)
    made = sqlite.link_to(driver)
    made.begin()
    final = operation(state=State.SUCCEEDED, executed=Executed.YES, final_ms=START_MS, key="k", conflict_key="c")
    made.write(statements.INSERT_OPERATION, [(*encode(final), 0, None, None, None)])
    varied = {
        "id": "randomblob(16)",
        "fingerprint_hash": "randomblob(16)",
        "key_hash": "randomblob(16)",
        "conflict_hash": "randomblob(16)",
        "caller": "'agent-' || (value % 10)",
        "run": "'run-' || (value % 100)",
        "state": f"iif(value % {ROWS // LIVE}, state, 'in_doubt')",
    }
    names = [column.name for column in operations.c]
    driver.execute(
        f"WITH RECURSIVE numbers(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM numbers LIMIT {ROWS}) "
        f"INSERT INTO operations ({', '.join(names)}) "
        f"SELECT {', '.join(varied.get(name, name) for name in names)} FROM numbers, operations LIMIT {ROWS}"
    )
    made.commit()
    yield made
    made.close()


def plan(link: Link, query: Statement | Lookup | Bulk, values: Any) -> str:
    driver = link._driver
    assert isinstance(driver, sqlite3.Connection)
    if isinstance(query, Lookup):
        sql, parameters = query.prepare(link.dialect, values)
    elif isinstance(query, Bulk):
        ((sql, parameters),) = query.prepare(link.dialect, values)
    else:
        text = query.text(link.dialect)
        sql, parameters = text.sql, text.row(values)
    return "; ".join(row[3] for row in driver.execute("EXPLAIN QUERY PLAN " + sql, parameters))


def test_unsettled_among_a_hundred_thousand_are_found_through_their_index(link: Link) -> None:
    assert len(link.fetch(statements.LIST_UNSETTLED)) == LIVE
    assert "operations_unsettled" in plan(link, statements.LIST_UNSETTLED, {})
    assert "operations_unsettled" in plan(link, statements.LIST_WATCHED, {})


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (statements.BY_IDS, "sqlite_autoindex_operations_1"),
        (statements.BY_KEYS, "operations_key"),
        (statements.LIVE_FINGERPRINTS, "operations_live_fingerprint"),
        (statements.LIVE_CONFLICTS, "operations_live_conflict"),
        (statements.TOMBSTONES, "tombstones_key"),
        (statements.ECHOES, "operations_echo"),
    ],
    ids=["id", "key", "fingerprint", "conflict key", "tombstone", "echo"],
)
def test_rivals_are_found_through_indexes(link: Link, query: Lookup, index: str) -> None:
    found = plan(link, query, [short_hash("1"), short_hash("2")])
    assert index in found
    assert "SCAN operations" not in found


@pytest.mark.parametrize("rows", [1, 2, 64])
@pytest.mark.parametrize(
    ("query", "width"),
    [
        (statements.UPDATE_OPERATION, len(IMAGE_COLUMNS) + len(CHAIN_COLUMNS) + 2),
        (statements.UPDATE_CHAIN, len(CHAIN_COLUMNS) + 1),
    ],
    ids=["image", "chain"],
)
def test_changed_operations_are_found_through_their_index(link: Link, query: Bulk, width: int, rows: int) -> None:
    found = plan(link, query, [(None,) * width] * rows)
    assert "INDEX sqlite_autoindex_operations_1 (id=?)" in found
    assert "SCAN operations" not in found


@pytest.mark.parametrize(
    "query", [statements.MARK_DELIVERED, statements.DELETE_OPERATIONS], ids=["delivered", "deleted"]
)
def test_operations_named_by_a_list_are_found_through_their_index(link: Link, query: Lookup) -> None:
    assert "SEARCH operations USING INDEX sqlite_autoindex_operations_1" in plan(link, query, [b"1", b"2"])


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (Filter(), "sqlite_autoindex_operations_1"),
        (Filter(caller="agent-1"), "operations_by_caller"),
        (Filter(run="run-1"), "operations_by_run"),
        (Filter(key="k", caller="agent-1"), "operations_key"),
    ],
    ids=["all", "caller", "run", "key"],
)
def test_pages_are_found_through_indexes(link: Link, wanted: Filter, index: str) -> None:
    found = plan(link, _listing(wanted, 50), {})
    assert index in found
    assert "SCAN operations USING INDEX sqlite_autoindex_operations_1" in found or "SCAN operations" not in found


def test_keys_are_found_through_their_index(link: Link) -> None:
    values = {"key_hash": short_hash("k"), "caller": "agent-1", "action": "a"}
    assert "operations_key" in plan(link, statements.BY_KEY, values)
