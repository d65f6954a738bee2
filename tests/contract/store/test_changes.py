"""A change meets the version that it was made for, or is none."""

import asyncio
import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from gateway.model.operation import State
from gateway.model.problem import BrokenInvariantError
from gateway.store.cipher import CannotDecrypt
from gateway.store.port import (
    PayloadKind,
    StoreUnknown,
)
from tests.contract.store.places import InLoopPlace, MemoryPlace, Place, admit, bodies, end
from tests.unit.store.kit import (
    START_MS,
    change,
    operation,
)


async def test_change_is_stored_with_its_record(store: Any) -> None:
    of = operation()
    await admit(store, of)
    wanted = change(of, "begun", state=State.SENDING, fence=1, next_ms=START_MS + 5)
    changed = await store.change(wanted)
    assert changed.won
    assert changed.receipt == await store.receipt(of.id)
    assert await store.get(of.id) == wanted.operation
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "begun"]


async def test_loser_learns_what_is_stored_and_is_not_sealed(store: Any) -> None:
    of = operation()
    await admit(store, of)
    both = [change(of, "first", fence=1), change(of, "second", fence=2, payloads={PayloadKind.RESULT: b"no"})]
    first, second = await asyncio.gather(*map(store.change, both))
    assert first.won
    assert (second.won, second.receipt, second.current) == (False, None, both[0].operation)
    assert await store.get(of.id) == both[0].operation
    assert await store.payload(of.id, PayloadKind.RESULT) is None
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "first"]


async def test_changes_of_one_operation_are_applied_in_order_of_submission(store: Any) -> None:
    of = operation()
    await admit(store, of)
    steps = [change(of)]
    for _ in range(9):
        steps.append(change(steps[-1].operation))
    results = await asyncio.gather(*map(store.change, steps))
    assert all(result.won for result in results)
    assert (await store.get(of.id)).version == 10
    await bodies(store)


async def test_change_of_an_unknown_operation_is_lost(store: Any) -> None:
    changed = await store.change(change(operation()))
    assert (changed.won, changed.current) == (False, None)


async def test_change_must_raise_the_version_by_one(store: Any) -> None:
    of = operation()
    await admit(store, of)
    with pytest.raises(BrokenInvariantError):
        await store.change(replace(change(of), expect_version=5))
    assert store.failed is None


async def test_leaving_a_final_state_ends_the_store_and_not_the_state(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    final = await end(store, of)
    with pytest.raises(StoreUnknown):
        await store.change(change(final, state=State.READY))
    await place.dead(store)
    assert await (await place.open()).get(of.id) == final


async def test_final_operation_may_be_contradicted(store: Any) -> None:
    of = operation()
    await admit(store, of)
    wanted = change(await end(store, of), contradicted=True)
    assert (await store.change(wanted)).won
    assert await store.get(of.id) == wanted.operation


async def test_payload_may_be_replaced(store: Any) -> None:
    of = operation()
    await admit(store, of)
    wanted = change(of, payloads={PayloadKind.RESULT: b"1"})
    await store.change(wanted)
    await store.change(change(wanted.operation, payloads={PayloadKind.RESULT: b"2"}))
    assert await store.payload(of.id, PayloadKind.RESULT) == b"2"


async def test_delivered_is_kept_by_images_that_have_not_heard_of_it(store: Any) -> None:
    of = operation()
    await admit(store, of)
    final = await end(store, of)
    await store.mark_delivered(of.id)
    await store.note(())
    assert (await store.get(of.id)) == replace(final, delivered=True)
    await store.change(change(final, contradicted=True))
    assert (await store.get(of.id)).delivered


async def test_payloads_of_twenty_megabytes_come_back(store: Any) -> None:
    of, large = operation(), bytes(range(256)) * 80_000
    await admit(store, of, payloads={PayloadKind.ARGUMENTS: large})
    assert await store.payload(of.id, PayloadKind.ARGUMENTS) == large


async def test_payload_moved_to_another_row_cannot_be_read(place: Place, store: Any) -> None:
    one, other = operation(), operation()
    await admit(store, one, payloads={PayloadKind.REQUEST: b"one"})
    await admit(store, other, payloads={PayloadKind.REQUEST: b"other"})
    await store.close()
    driver = place.medium.connect() if isinstance(place, InLoopPlace) else sqlite3.connect(place.path)
    driver.execute("UPDATE payloads SET body = (SELECT body FROM payloads ORDER BY operation_id LIMIT 1)")
    driver.commit()
    if not isinstance(place, MemoryPlace):
        driver.close()
    again = await place.open()
    with pytest.raises(CannotDecrypt):
        await again.payload(other.id, PayloadKind.REQUEST)
