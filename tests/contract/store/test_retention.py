"""What is kept of operations that are gone."""

import asyncio
from typing import Any

from gateway.core.identity import Ruling, Verdict
from gateway.model.operation import Operation
from gateway.model.problem import Code
from gateway.store.port import (
    Filter,
    LostOperation,
    PayloadKind,
)
from tests.contract.store.places import Place, admit, bodies, end
from tests.unit.store.kit import (
    START_MS,
    admission,
    operation,
    record,
)


async def test_retired_operation_leaves_its_names_and_nothing_else(store: Any) -> None:
    of = operation(key="k", fingerprint="f")
    await admit(store, of)
    await store.observe(of.id, {"seen": 1}, ())
    await end(store, of, payloads={PayloadKind.RESULT: b"r"})
    assert await store.retire(START_MS + 3_600_000, 10) == 1
    assert await store.get(of.id) is None
    assert await store.observations(of.id) == []
    assert await store.payload(of.id, PayloadKind.RESULT) is None
    again = Verdict(Ruling.REPLAY, expired_id=of.id)
    assert await admit(store, operation(key="k", fingerprint="f")) == again
    assert (await admit(store, operation(key="k", fingerprint="g"))).code is Code.KEY_REUSED
    assert await admit(store, operation(key="k", fingerprint="f", caller="agent-b")) == Verdict(Ruling.CREATE)


def lost(of: Operation, outcome: str | None = "success", *, executed: bool = True) -> LostOperation:
    return LostOperation(of.id, of.caller, of.action, of.fingerprint, of.key, outcome, executed)


async def test_a_lost_operation_with_personal_arguments_is_known_by_the_mark_that_the_log_carries(store: Any) -> None:
    forgotten = operation(fingerprint="mark")
    await store.bury([lost(forgotten)], (record(None, "operations_lost"),))
    again = operation(fingerprint="f")
    refused = await store.admit(admission(again, mark="mark"))
    assert refused.verdict.code is (await admit(store, operation(fingerprint="mark"))).code is not None
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.CREATE)


async def test_lost_operations_keep_their_names_once_and_over_a_new_start(place: Place, store: Any) -> None:
    stored, forgotten = operation(key="k0", fingerprint="f0"), operation(key="k", fingerprint="f")
    await admit(store, stored)
    before = len(await bodies(store))
    assert await store.bury([lost(stored), lost(forgotten)], (record(None, "operations_lost"),)) == 1
    assert await store.bury([lost(stored), lost(forgotten)], (record(None, "operations_lost"),)) == 0
    assert len(await bodies(store)) == before + 1
    again = store
    for at in range(2):
        again = store if at == 0 else await reopened(place, store)
        same = await admit(again, operation(key="k", fingerprint="f"))
        assert same == Verdict(Ruling.REPLAY, expired_id=forgotten.id)
        keyless = await admit(again, operation(fingerprint="f"))
        assert keyless == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, expired_id=forgotten.id)
        assert (await admit(again, operation(key="k", fingerprint="g"))).code is Code.KEY_REUSED
        theirs = operation(key=f"k{at + 1}", fingerprint="f", caller="agent-b")
        assert await admit(again, theirs) == Verdict(Ruling.CREATE)
        await end(again, theirs)
    assert await admit(again, operation(key="of its own", fingerprint="f")) == Verdict(Ruling.CREATE)


async def reopened(place: Place, store: Any) -> Any:
    await store.close()
    return await place.open()


async def test_what_was_lost_unsettled_is_refused_under_every_key_until_a_person_replaces_it(
    place: Place, store: Any
) -> None:
    forgotten = operation(key="k", fingerprint="f")
    await store.bury([lost(forgotten, None)], ())
    refused = Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, expired_id=forgotten.id)
    for key in ("k", "another", None):
        assert await admit(store, operation(key=key, fingerprint="f")) == refused
    theirs = operation(caller="ada", fingerprint="of ada", supersedes=forgotten.id)
    assert (await store.admit(admission(theirs))).verdict == Verdict(Ruling.CREATE)
    again = await reopened(place, store)
    assert await admit(again, operation(key="another", fingerprint="f")) == Verdict(Ruling.CREATE)
    once_more = operation(caller="ada", fingerprint="of ada, too", supersedes=forgotten.id)
    assert (await again.admit(admission(once_more))).verdict.code is Code.WRONG_STATE


async def test_what_was_lost_and_never_executed_keeps_its_key_only(store: Any) -> None:
    forgotten = operation(key="k", fingerprint="f")
    await store.bury([lost(forgotten, "error", executed=False)], ())
    assert (await admit(store, operation(key="k", fingerprint="f"))).expired_id == forgotten.id
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.CREATE)


async def test_a_key_that_something_newer_bears_stays_with_it(store: Any) -> None:
    first, second, newer = (operation(key=key, fingerprint=name) for key, name in (("k", "f"), ("k", "g"), ("l", "h")))
    await admit(store, newer)
    assert await store.bury([lost(first), lost(second), lost(operation(key="l", fingerprint="i"))], ()) == 3
    assert (await admit(store, operation(key="k", fingerprint="f"))).expired_id == first.id
    assert (await admit(store, operation(key="l", fingerprint="h"))).operation == newer


async def test_unsettled_and_recent_operations_are_not_retired(store: Any) -> None:
    await admit(store, operation())
    recent = operation()
    await admit(store, recent)
    await end(store, recent, at_ms=START_MS + 5_000)
    assert await store.retire(START_MS + 5_000, 10) == 0
    assert await store.retire(-1, 10) == 0


async def test_retiring_is_bounded_and_never_counts_twice(store: Any) -> None:
    for _ in range(5):
        of = operation()
        await admit(store, of)
        await end(store, of)
    first, second = await asyncio.gather(store.retire(START_MS + 9_000, 3), store.retire(START_MS + 9_000, 3))
    assert first == 3
    assert second <= 2
    while await store.retire(START_MS + 9_000, 3):
        pass
    assert (await store.list(Filter())).operations == ()
