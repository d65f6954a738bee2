"""Who is let in, and under which names."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.identity import Rivals, Ruling, Verdict
from gateway.model.operation import Executed, Lease, Operation
from gateway.model.problem import Code
from gateway.store.port import (
    Filter,
    PayloadKind,
    StoreUnknown,
)
from tests.contract.store.places import Place, admit, bodies, end
from tests.unit.store.kit import (
    START_MS,
    admission,
    ended,
    new_id,
    operation,
)


async def test_new_operation_is_stored_with_all_that_came_along(store: Any) -> None:
    of = operation(key="task-9", run="run-1", conflict_key="deploy:prod", lease=Lease("me", START_MS + 1))
    admitted = await store.admit(admission(of, payloads={PayloadKind.REQUEST: b"\x00\xff"}))
    assert admitted.verdict == Verdict(Ruling.CREATE)
    assert await store.get(of.id) == of
    assert await store.by_key(of.caller, of.action, "task-9") == of
    assert await store.payload(of.id, PayloadKind.REQUEST) == b"\x00\xff"
    assert await store.payload(of.id, PayloadKind.RESULT) is None
    assert await store.definition(of.definition) == b'{"name":"deployments.create"}'
    assert await store.receipt(of.id) == admitted.receipt


async def test_unknown_names_are_none_and_no_error(store: Any) -> None:
    assert await store.get(new_id()) is None
    assert await store.get("op_nonsense") is None
    assert await store.receipt("op_nonsense") is None
    assert await store.by_key("a", "b", "c") is None
    assert await store.payload("op_nonsense", PayloadKind.RESULT) is None
    assert await store.observations("op_nonsense") == []
    assert await store.definition("sha256:none") is None
    assert await store.meta("none") is None


async def test_same_key_and_request_joins_while_unsettled(store: Any) -> None:
    first = operation(key="k", fingerprint="f")
    await admit(store, first)
    assert await admit(store, operation(key="k", fingerprint="f")) == Verdict(Ruling.JOIN, operation=first)


async def test_same_key_and_request_replays_when_final(store: Any) -> None:
    first = operation(key="k", fingerprint="f")
    await admit(store, first)
    final = await end(store, first)
    assert await admit(store, operation(key="k", fingerprint="f")) == Verdict(Ruling.REPLAY, operation=final)


@pytest.mark.parametrize("final", [False, True])
async def test_same_key_with_another_request_is_refused_and_changes_nothing(store: Any, final: bool) -> None:
    first = operation(key="k", fingerprint="f")
    await admit(store, first)
    if final:
        first = await end(store, first)
    before = await bodies(store)
    other = operation(key="k", fingerprint="g")
    assert await admit(store, other) == Verdict(Ruling.REFUSE, Code.KEY_REUSED, first)
    assert await store.get(first.id) == first
    assert await store.get(other.id) is None
    assert await bodies(store) == before


@pytest.mark.parametrize("other", [{"caller": "agent-b"}, {"action": "deployments.delete"}])
async def test_a_key_means_nothing_to_another_caller_or_action(store: Any, other: dict[str, str]) -> None:
    await admit(store, operation(key="k", fingerprint="f"))
    assert await admit(store, operation(key="k", fingerprint="g", **other)) == Verdict(Ruling.CREATE)


async def test_same_request_without_key_joins_the_unsettled_one(store: Any) -> None:
    first = operation(fingerprint="f", key="k")
    await admit(store, first)
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.JOIN, operation=first)


async def test_same_request_under_another_key_is_refused_while_unsettled(store: Any) -> None:
    first = operation(fingerprint="f", key="k")
    await admit(store, first)
    refused = Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, first)
    assert await admit(store, operation(fingerprint="f", key="l")) == refused


async def test_same_request_of_another_caller_is_another_operation(store: Any) -> None:
    await admit(store, operation(fingerprint="f"))
    assert await admit(store, operation(fingerprint="f", caller="agent-b")) == Verdict(Ruling.CREATE)


async def test_conflict_key_is_held_by_anyone_until_settled(store: Any) -> None:
    first = operation(conflict_key="deploy:prod")
    await admit(store, first)
    other = operation(conflict_key="deploy:prod", caller="agent-b", action="rollback")
    assert await admit(store, other) == Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, first)
    assert await admit(store, operation(conflict_key="deploy:test")) == Verdict(Ruling.CREATE)
    await end(store, first)
    assert await admit(store, other) == Verdict(Ruling.CREATE)


async def test_finished_and_delivered_request_is_a_probable_repeat(store: Any) -> None:
    first = operation(fingerprint="f")
    await admit(store, first)
    final = await end(store, first, delivered=True)
    again = operation(fingerprint="f", created_ms=START_MS + 2000)
    assert await admit(store, again) == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, final)


async def test_finished_but_undelivered_request_is_replayed(store: Any) -> None:
    first = operation(fingerprint="f")
    await admit(store, first)
    final = await end(store, first)
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.REPLAY, operation=final)


async def test_delivery_that_still_waits_for_a_transaction_counts_in_rulings(store: Any) -> None:
    first = operation(fingerprint="f")
    await admit(store, first)
    final = await end(store, first)
    await store.mark_delivered(first.id)
    verdict = await admit(store, operation(fingerprint="f"))
    assert verdict == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, replace(final, delivered=True))


@pytest.mark.parametrize(
    ("executed", "again", "is_read"),
    [
        (Executed.NO, {}, False),
        (Executed.YES, {"created_ms": START_MS + 1000 + 600_001}, False),
        (Executed.YES, {"key": "new"}, False),
        (Executed.YES, {"caller": "agent-b"}, False),
        (Executed.YES, {}, True),
    ],
    ids=["never executed", "after the window", "a key given on purpose", "another caller", "a read"],
)
async def test_request_that_is_no_repeat_is_new(
    store: Any, executed: Executed, again: dict[str, Any], is_read: bool
) -> None:
    first = operation(fingerprint="f", effect="read" if is_read else "irreversible")
    await admit(store, first, is_read=is_read)
    await end(store, first, executed=executed, delivered=True)
    assert await admit(store, operation(fingerprint="f", **again), is_read=is_read) == Verdict(Ruling.CREATE)


async def test_the_newest_of_many_finished_ones_decides(store: Any) -> None:
    finals = []
    for at in range(3):
        one = operation(fingerprint="f", key=f"k{at}")
        await admit(store, one)
        finals.append(await end(store, one, at_ms=START_MS + at, delivered=True))
    assert (await admit(store, operation(fingerprint="f"))).operation == finals[-1]


@pytest.mark.parametrize("later", [True, False])
async def test_the_newest_decides_also_if_one_of_them_finishes_in_the_same_batch(store: Any, later: bool) -> None:
    stored, under_way = operation(fingerprint="f", key="a"), operation(fingerprint="f", key="b")
    await admit(store, stored)
    first = await end(store, stored, at_ms=START_MS + 500)
    await admit(store, under_way)
    last = ended(under_way, at_ms=START_MS + (1000 if later else 100))
    _, verdict = await asyncio.gather(store.change(last), admit(store, operation(fingerprint="f")))
    assert verdict == Verdict(Ruling.REPLAY, operation=last.operation if later else first)


async def test_fifty_identical_keyless_requests_at_once_make_one_operation(store: Any) -> None:
    several = [operation(fingerprint="f") for _ in range(50)]
    verdicts = await asyncio.gather(*(admit(store, one) for one in several))
    assert [verdict.ruling for verdict in verdicts] == [Ruling.CREATE] + [Ruling.JOIN] * 49
    assert {verdict.operation.id for verdict in verdicts[1:] if verdict.operation} == {several[0].id}
    assert len((await store.list(Filter())).operations) == 1


async def test_fifty_identical_keyed_requests_at_once_make_one_operation(store: Any) -> None:
    verdicts = await asyncio.gather(*(admit(store, operation(fingerprint="f", key="k")) for _ in range(50)))
    assert sorted(verdict.ruling for verdict in verdicts) == [Ruling.CREATE] + [Ruling.JOIN] * 49


async def test_one_conflict_key_wanted_twice_at_once_is_had_once(store: Any) -> None:
    both = [operation(conflict_key="c"), operation(conflict_key="c", caller="agent-b")]
    first, second = await asyncio.gather(*(admit(store, one) for one in both))
    assert first == Verdict(Ruling.CREATE)
    assert second == Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, both[0])


async def test_one_key_given_to_two_requests_at_once_is_reused(store: Any) -> None:
    both = [operation(key="k", fingerprint="f"), operation(key="k", fingerprint="g")]
    _, second = await asyncio.gather(*(admit(store, one) for one in both))
    assert second == Verdict(Ruling.REFUSE, Code.KEY_REUSED, both[0])


async def test_names_freed_in_a_batch_are_free_in_it(store: Any) -> None:
    old = operation(fingerprint="f", conflict_key="c")
    await admit(store, old)
    new = operation(fingerprint="f", conflict_key="c", key="on-purpose")
    _, verdict = await asyncio.gather(store.change(ended(old)), admit(store, new))
    assert verdict == Verdict(Ruling.CREATE)


async def test_operation_may_begin_and_end_in_one_batch(store: Any) -> None:
    one = operation(fingerprint="f")
    done = ended(one, delivered=True)
    again = operation(fingerprint="f")
    created, changed, repeat = await asyncio.gather(admit(store, one), store.change(done), admit(store, again))
    assert (created, changed.won) == (Verdict(Ruling.CREATE), True)
    assert repeat == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, done.operation)
    assert await store.get(one.id) == done.operation
    assert [(body["ev"], body["op_n"]) for body in await bodies(store)] == [("admitted", 0), ("ended", 1)]


@pytest.mark.parametrize("name", ["key", "fingerprint", "conflict_key"])
async def test_indexes_hold_where_the_ruling_fails(
    place: Place, store: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lenient(_candidate: Operation, _rivals: Rivals, **_how: Any) -> Verdict:
        return Verdict(Ruling.CREATE)

    monkeypatch.setattr("gateway.store.items.decide", lenient)
    first = operation(**{name: "same"})
    await admit(store, first)
    with pytest.raises(StoreUnknown):
        await admit(store, operation(**{name: "same"}))
    await place.dead(store)
    again = await place.open()
    assert [one.id for one in (await again.list(Filter())).operations] == [first.id]
    assert len(await bodies(again)) == 1
