"""What the audit log is told, in which transaction, and until when it waits in the store."""

import asyncio
from typing import Any

import pytest

from gateway.model.problem import BrokenInvariantError
from gateway.store import points, reading
from gateway.store.port import (
    Record,
    TailFrame,
    Unavailable,
)
from gateway.store.records import RecordTooLarge
from tests.contract.store.places import Place, admit, bodies, end, kinds
from tests.unit.store.kit import (
    ORIGIN,
    admission,
    attach,
    change,
    operation,
    record,
)


async def test_observations_are_kept_in_order_whatever_the_version(store: Any) -> None:
    of = operation()
    await admit(store, of)
    receipt = await store.observe(of.id, {"status": 200}, [record(of, "observed")])
    await end(store, of)
    await store.observe(of.id, {"status": 500}, ())
    assert await store.observations(of.id) == [{"status": 200}, {"status": 500}]
    assert [(body["ev"], body["op_n"]) for body in await bodies(store)] == [
        ("admitted", 0),
        ("observed", 1),
        ("ended", 2),
    ]
    assert receipt is not None


async def test_observation_of_nothing_leaves_nothing(store: Any) -> None:
    of = operation()
    assert await store.observe(of.id, {}, [record(of)]) is None
    assert await bodies(store) == []


async def test_note_of_no_operation_is_sealed_with_a_receipt(store: Any) -> None:
    receipt = await store.note([record(None, "started", by="me")])
    assert await bodies(store) == [{"ev": "started", "action": "deployments.create", "by": "me"}]
    frames = await store.tail(10)
    assert (receipt.origin, receipt.seq) == (ORIGIN, frames[-1].seq)


async def test_record_of_an_operation_that_is_not_stored_says_what_it_is_about(store: Any) -> None:
    of = operation()
    await store.note([record(of, "refused")])
    (body,) = await bodies(store)
    assert (body["about"], "op" in body) == (of.id, False)


async def test_record_without_a_body_is_still_json(store: Any) -> None:
    await store.note([Record("stopped", {})])
    assert await bodies(store) == [{"ev": "stopped"}]


async def test_bad_record_hurts_its_caller_alone(store: Any) -> None:
    good = asyncio.ensure_future(store.note([record(None, "good")]))
    with pytest.raises(TypeError):
        await store.note([record(None, bad=object())])
    with pytest.raises(BrokenInvariantError):
        await store.note([record(None, op_n=1)])
    with pytest.raises(RecordTooLarge):
        await store.note([record(None, text="x" * 65_000)])
    await good
    assert [body["ev"] for body in await bodies(store)] == ["good"]


async def test_seal_now_closes_its_transaction_with_a_seal(store: Any) -> None:
    of = operation()
    await admit(store, of, seal_now=True)
    await store.change(change(of, seal_now=True))
    assert await kinds(store) == ["open", "data", "seal", "data", "seal"]


async def test_seal_signs_only_what_is_unsealed(store: Any) -> None:
    await store.seal()
    await store.seal()
    assert await kinds(store) == ["open", "seal"]


async def test_heartbeat_is_sealed(store: Any) -> None:
    await store.heartbeat()
    assert await kinds(store) == ["open", "heartbeat", "seal"]


async def test_without_a_log_records_are_refused_and_the_rest_is_taken(place: Place) -> None:
    store = await place.open(attached=False)
    with pytest.raises(Unavailable) as caught:
        await store.admit(admission(operation()))
    assert caught.value.audit
    await store.put_meta("quarantine", b"1", ())
    assert await store.meta("quarantine") == b"1"
    assert (await store.head(), await store.tail(5)) == (None, [])
    await attach(store)
    await admit(store, operation())


async def test_log_goes_on_where_the_stored_head_says(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    await store.close()
    again = await place.open()
    await end(again, of)
    assert await kinds(again) == ["open", "data", "close", "seal", "open", "data"]
    assert [body["op_n"] for body in await bodies(again)] == [0, 1]


async def test_prune_forgets_exported_frames_with_the_next_transaction(store: Any) -> None:
    for at in range(4):
        await store.note([record(None, f"e{at}")])
    await store.prune(2)
    await store.note([record(None, "e4")])
    assert [frame.seq for frame in await store.tail(10)] == [3, 4, 5]
    assert [frame.seq for frame in await store.tail(2)] == [3, 4]


async def test_prune_inside_the_frames_of_one_transaction_keeps_the_rest(place: Place, store: Any) -> None:
    await store.note([record(None, f"e{at}") for at in range(1, 6)])
    await store.prune(3)
    await store.note([record(None, "e6")])
    assert [frame.seq for frame in await store.tail(10)] == [4, 5, 6]
    assert [body["ev"] for body in await bodies(store)] == ["e4", "e5", "e6"]
    await store.close()
    again = await place.open(attached=False)
    assert [frame.seq for frame in await again.tail(10)] == [4, 5, 6, 7, 8]
    await again.prune(4)
    await again.note(())
    assert [frame.seq for frame in await again.tail(2)] == [5, 6]
    await again.prune(8)
    await again.note(())
    assert await again.tail(10) == []


async def test_frames_are_told_once_though_a_prune_cuts_their_row_between_two_pages(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.note([record(None, f"e{at}") for at in range(1, 6)])
    await store.note([record(None, "e6")])
    await store.prune(2)
    fetch, pages = store._fetch, []

    async def cut_after_the_first(statement: Any, values: Any) -> Any:
        rows = await fetch(statement, values)
        pages.append(rows)
        if len(pages) == 1:
            await store.note(())
        return rows

    monkeypatch.setattr(reading, "CHUNKS_MIN", 1)
    monkeypatch.setattr(store, "_fetch", cut_after_the_first)
    assert [frame.seq for frame in await store.tail(10)] == [3, 4, 5, 6]
    assert len(pages) > 1


async def test_change_that_was_refused_before_it_was_written_is_forgotten(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    place.points.arm(points.RULED, RuntimeError("no"))
    with pytest.raises(Unavailable):
        await store.change(change(of, "first", fence=9))
    assert (await store.change(change(of, "second", fence=1))).won
    assert (await store.get(of.id)).fence == 1
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "second"]


async def test_pruned_frames_are_not_shown_while_their_deletion_waits(store: Any) -> None:
    await store.note([record(None)])
    await store.prune(0)
    assert [frame.seq for frame in await store.tail(1)] == [1]
    await store.prune(1)
    assert await store.tail(1) == []


async def test_log_ends_before_the_store_so_that_its_end_can_be_exported(place: Place, store: Any) -> None:
    await store.note([record(None)])
    await store.close_log()
    assert (await kinds(store))[-2:] == ["close", "seal"]
    with pytest.raises(Unavailable) as caught:
        await store.note([record(None)])
    assert caught.value.audit
    await store.prune(3)
    await store.close()
    again = await place.open(attached=False)
    assert await again.tail(10) == []


async def test_frames_of_an_earlier_log_wait_beside_those_of_the_new_one(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    old_receipt = await store.receipt(of.id)
    await store.close()
    again = await place.open(origin="gw.example/audit/next")
    assert await again.receipt(of.id) == old_receipt
    frames: list[TailFrame] = list(await again.tail(10))
    assert [(frame.origin, frame.seq) for frame in frames] == [
        *((ORIGIN, seq) for seq in range(4)),
        ("gw.example/audit/next", 0),
    ]
    assert [frame.seq for frame in await again.tail(10, origin=ORIGIN)] == [0, 1, 2, 3]
    assert [frame.seq for frame in await again.tail(1, origin="gw.example/audit/next")] == [0]
    assert await again.tail(10, origin="gw.example/audit/never") == []
    await again.prune(3, ORIGIN)
    await again.prune(0, "gw.example/audit/never")
    await again.note(())
    assert [frame.origin for frame in await again.tail(10)] == ["gw.example/audit/next"]
