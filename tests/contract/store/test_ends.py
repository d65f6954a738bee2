"""Without room, closed, failed, crashed: what a store still does."""

import asyncio
import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.identity import Ruling, Verdict
from gateway.store import points
from gateway.store.cipher import CannotDecrypt, DataKeyCipher
from gateway.store.points import Crash
from gateway.store.port import (
    PayloadKind,
    StoreUnknown,
    Unavailable,
)
from tests.contract.store.places import Place, ThreadedPlace, admit, bodies, kinds
from tests.unit.store.kit import (
    admission,
    ended,
    new_id,
    operation,
    record,
)

BEFORE = (points.BEGIN, points.RULED)
AFTER = (points.SEALED, points.WRITTEN, points.COMMITTED, points.REPLYING)
DURABLE = (points.COMMITTED, points.REPLYING)


async def test_without_room_nothing_new_is_admitted_and_outcomes_go_through(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    place.disk.free = 8000
    outcome = asyncio.ensure_future(store.change(ended(of)))
    with pytest.raises(Unavailable) as caught:
        await store.admit(admission(operation()))
    assert caught.value.audit
    assert (await outcome).won
    place.disk.free = 1 << 40
    await admit(store, operation())


async def test_what_was_stored_is_there_after_opening_again(place: Place, store: Any) -> None:
    of = operation(key="k")
    await admit(store, of)
    await store.close()
    again = await place.open()
    assert await again.get(of.id) == of
    assert await admit(again, replace(of, id=new_id())) == Verdict(Ruling.JOIN, operation=of)


async def test_closed_store_takes_nothing_and_has_closed_its_log(place: Place, store: Any) -> None:
    delivered = operation()
    await admit(store, delivered)
    await store.mark_delivered(delivered.id)
    await store.close()
    await store.close()
    for call in (store.note(()), store.get(new_id()), store.mark_delivered(new_id())):
        with pytest.raises(Unavailable):
            await call
    again = await place.open(attached=False)
    assert (await kinds(again))[-2:] == ["close", "seal"]
    assert (await again.get(delivered.id)).delivered


async def test_what_was_submitted_before_the_close_is_finished_and_nothing_after_it(store: Any) -> None:
    before = [asyncio.ensure_future(store.admit(admission(operation()))) for _ in range(5)]
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await store.note([record(None)])
    await closing
    assert all(one.receipt for one in await asyncio.gather(*before))


async def test_cancelled_wait_cancels_nothing(store: Any) -> None:
    of = operation()
    waiting = asyncio.ensure_future(store.admit(admission(of)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.note(())
    assert await store.get(of.id) == of


@pytest.mark.parametrize("name", BEFORE)
async def test_failure_before_the_first_write_changes_nothing(place: Place, store: Any, name: str) -> None:
    of = operation()
    await admit(store, of)
    await store.mark_delivered(of.id)
    place.points.arm(name, sqlite3.OperationalError("disk I/O error"))
    with pytest.raises(Unavailable) as caught:
        await store.change(ended(of))
    assert not caught.value.audit
    assert store.failed is None
    assert (await store.change(ended(of))).won
    assert (await store.get(of.id)).delivered
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "ended"]


@pytest.mark.parametrize("name", AFTER)
async def test_later_failure_is_unknown_and_ends_the_store(place: Place, store: Any, name: str) -> None:
    of = operation()
    await admit(store, of)
    place.points.arm(name, sqlite3.OperationalError("disk I/O error"))
    calls = (store.change(ended(of)), store.admit(admission(operation())), store.note(()))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnknown}
    await place.dead(store)
    for call in (store.note(()), store.get(of.id)):
        with pytest.raises((StoreUnknown, Unavailable)):
            await call
    again = await place.open()
    assert (await again.get(of.id)).final == (name in DURABLE)
    assert len(await bodies(again)) in {1, 2, 3}


@pytest.mark.parametrize("name", points.POINTS)
async def test_crash_leaves_a_whole_batch_or_none_of_it(place: Place, store: Any, name: str) -> None:
    of = operation()
    await admit(store, of)
    place.points.arm(name, Crash())
    fresh = [operation() for _ in range(3)]
    calls = [store.change(ended(of)), *(store.admit(admission(one)) for one in fresh)]
    waiting = [asyncio.ensure_future(call) for call in calls]
    await place.dead(store)
    for task in waiting:
        task.cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} <= {StoreUnknown, asyncio.CancelledError}
    again = await place.open()
    there = [(await again.get(of.id)).final, *[await again.get(one.id) is not None for one in fresh]]
    first = there[0]
    assert first == (name in DURABLE)
    assert len(await bodies(again)) == 1 + sum(there)
    # The thread may have begun before everything was submitted; what came later was in no batch.
    assert there == sorted(there, reverse=True)
    assert isinstance(place, ThreadedPlace) or there == [first] * 4


async def test_every_point_is_met_in_order(place: Place, store: Any) -> None:
    place.points.seen.clear()
    await store.note([record(None)])
    assert tuple(place.points.seen) == points.POINTS


async def test_another_data_key_reads_no_payload(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    await store.close()
    place.cipher = DataKeyCipher(b"x" * 32, bytes)
    again = await place.open()
    with pytest.raises(CannotDecrypt):
        await again.payload(of.id, PayloadKind.REQUEST)


async def test_nothing_confidential_is_readable_in_the_files(place: Place, store: Any) -> None:
    secret = b"SaltwaterCanary" * 4
    of = operation()
    await admit(store, of, payloads=dict.fromkeys(PayloadKind, secret))
    await store.observe(of.id, {"body": secret.decode()}, ())
    found = [path.name for path in place.path.parent.iterdir() if b"SaltwaterCanary" in path.read_bytes()]
    assert found == []
    await store.close()
    assert b"SaltwaterCanary" not in place.path.read_bytes()
