"""What the writer remembers from one batch to the next, and what it therefore does not ask."""

from typing import Any

import pytest

from gateway.core.identity import Ruling
from gateway.store import view
from gateway.store.inloop import InLoopStore, Medium
from gateway.store.port import LostOperation
from tests.unit.store.kit import START_MS, admission, attach, change, cipher, ended, operation


async def opened(medium: Medium) -> tuple[InLoopStore, list[str]]:
    store = InLoopStore(medium, cipher(), wall_ms=lambda: START_MS)
    await attach(store)
    asked: list[str] = []
    store._driver.set_trace_callback(asked.append)
    return store, asked


def by_id(asked: list[str]) -> list[str]:
    return [sql for sql in asked if sql.startswith("SELECT operations.id") and "operations.id IN" in sql]


async def test_operation_of_a_batch_not_long_ago_is_not_asked_for_again() -> None:
    store, asked = await opened(Medium())
    of = operation()
    await store.admit(admission(of))
    begun = change(of, fence=1)
    assert (await store.change(begun)).won
    assert not (await store.change(begun)).won
    assert (await store.change(ended(begun.operation))).won
    await store.mark_delivered(of.id)
    await store.note(())
    assert by_id(asked) == []
    stored = await store.get(of.id)
    assert stored is not None
    assert (stored.version, stored.delivered) == (2, True)
    await store.close()


async def test_what_was_delivered_and_what_is_too_much_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "RECENT_MAX", 2)
    store, asked = await opened(Medium())
    first, second, third = operation(), operation(), operation()
    for of in (first, second):
        await store.admit(admission(of))
    await store.mark_delivered(second.id)
    await store.admit(admission(third))
    assert by_id(asked) == []
    assert (await store.change(ended(first))).won
    assert by_id(asked) == []
    assert (await store.change(ended(second))).won
    assert len(by_id(asked)) == 1
    assert (await store.change(ended(third))).won
    assert len(by_id(asked)) == 2
    await store.close()


async def replayed(store: Any, key: str, fingerprint: str) -> bool:
    admitted = await store.admit(admission(operation(key=key, fingerprint=fingerprint)))
    return bool(admitted.verdict.ruling is Ruling.REPLAY)


async def test_tombstones_are_looked_for_as_soon_as_there_is_one() -> None:
    medium = Medium()
    store, asked = await opened(medium)
    old = operation(key="old")
    assert not await replayed(store, "new", "n" * 64)
    assert not any("FROM tombstones" in sql for sql in asked)
    await store.bury([LostOperation(old.id, old.caller, old.action, old.fingerprint, "old", "success")], ())
    assert await replayed(store, "old", old.fingerprint)
    store.crash()
    again, _ = await opened(medium)
    assert await replayed(again, "old", old.fingerprint)
    await again.close()


async def test_retired_operations_are_found_by_their_tombstones() -> None:
    store, _ = await opened(Medium())
    of = operation(key="k")
    await store.admit(admission(of))
    assert (await store.change(ended(of))).won
    assert await store.retire(START_MS + 5000, 10) == 1
    assert await replayed(store, "k", of.fingerprint)
    assert not (await store.change(change(of))).won
    await store.close()
