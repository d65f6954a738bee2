"""A person replaces what nobody can settle."""

import asyncio
from dataclasses import replace
from typing import Any

from gateway.core.identity import Ruling, Verdict
from gateway.model.operation import Operation, State
from gateway.model.problem import Code
from tests.contract.store.places import admit, bodies
from tests.unit.store.kit import (
    START_MS,
    admission,
    change,
    new_id,
    operation,
    record,
)


async def unresolved(store: Any, **names: Any) -> Operation:
    of = operation(**names)
    await admit(store, of)
    moved = change(of, state=State.UNRESOLVED, watch_until_ms=START_MS + 1)
    assert (await store.change(moved)).won
    return moved.operation


async def test_unresolved_operation_is_superseded_and_stays_watched(store: Any) -> None:
    old = await unresolved(store, fingerprint="f", conflict_key="c")
    new = operation(fingerprint="f", conflict_key="c", supersedes=old.id)
    both = (record(new, "admitted"), record(old, "superseded"))
    admitted = await store.admit(admission(new, records=both))
    assert admitted.verdict == Verdict(Ruling.CREATE)
    assert admitted.receipt == await store.receipt(new.id)
    assert await store.get(old.id) == replace(old, superseded=True, version=old.version + 1)
    assert [one.id for one in await store.watched()] == [old.id]
    assert [one.id for one in await store.unsettled()] == [old.id, new.id]
    assert [(body["op"], body["op_n"]) for body in await bodies(store)][-2:] == [(new.id, 0), (old.id, 2)]


async def test_operation_is_superseded_once(store: Any) -> None:
    old = await unresolved(store)
    twice = [operation(supersedes=old.id), operation(supersedes=old.id)]
    first, second = await asyncio.gather(*(admit(store, one) for one in twice))
    assert first == Verdict(Ruling.CREATE)
    assert (second.ruling, second.code) == (Ruling.REFUSE, Code.WRONG_STATE)


async def test_only_what_is_unresolved_can_be_superseded(store: Any) -> None:
    ready = operation()
    await admit(store, ready)
    refused = Verdict(Ruling.REFUSE, Code.WRONG_STATE, ready)
    assert await admit(store, operation(supersedes=ready.id)) == refused
    assert await admit(store, operation(supersedes=new_id())) == Verdict(Ruling.REFUSE, Code.WRONG_STATE)


async def test_refused_successor_leaves_the_old_one_as_it_was(store: Any) -> None:
    old = await unresolved(store, fingerprint="f")
    await admit(store, operation(conflict_key="c"))
    verdict = await admit(store, operation(fingerprint="f", conflict_key="c", supersedes=old.id))
    assert verdict.code is Code.PREDECESSOR_UNSETTLED
    assert await store.get(old.id) == old
