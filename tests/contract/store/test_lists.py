"""What is shown of many operations."""

from typing import Any

import pytest

from gateway.model.operation import State
from gateway.store.port import (
    Filter,
)
from tests.contract.store.places import Place, admit, end
from tests.unit.store.kit import (
    START_MS,
    operation,
)


async def test_list_is_newest_first_in_pages(store: Any) -> None:
    several = [operation() for _ in range(5)]
    for one in several:
        await admit(store, one)
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.list(Filter(limit=2, cursor=cursor))
        seen += [one.id for one in page.operations]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [one.id for one in reversed(several)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(caller="agent-b"), "b"),
        (Filter(action="other"), "b"),
        (Filter(run="run-1"), "a"),
        (Filter(key="k"), "a"),
        (Filter(key="k", caller="agent-b"), ""),
        (Filter(states=("ready", "held")), "b"),
        (Filter(outcome="success"), "a"),
        (Filter(since_ms=START_MS + 10), "b"),
        (Filter(), "ba"),
        (Filter(limit=0), "b"),
    ],
)
async def test_list_filters(store: Any, wanted: Filter, found: str) -> None:
    a = operation(run="run-1", key="k")
    b = operation(caller="agent-b", action="other", created_ms=START_MS + 10)
    await admit(store, a)
    await admit(store, b)
    await end(store, a)
    names = {a.id: "a", b.id: "b"}
    assert "".join(names[one.id] for one in (await store.list(wanted)).operations) == found


async def test_cursor_that_is_none_is_an_error_of_the_caller(store: Any) -> None:
    with pytest.raises(ValueError, match="operation id"):
        await store.list(Filter(cursor="'; DROP TABLE operations"))


async def test_unsettled_are_all_but_final_ones_oldest_first(store: Any) -> None:
    several = [operation(state=state) for state in (State.READY, State.HELD, State.SENDING)]
    for one in several:
        await admit(store, one)
    await end(store, several[1])
    assert list(await store.unsettled()) == [several[0], several[2]]


async def test_counts_follow_every_change(place: Place, store: Any) -> None:
    several = [operation() for _ in range(3)]
    for one in several:
        await admit(store, one)
    await end(store, several[0])
    await end(store, several[1])
    assert {name: number for name, number in (await store.counts()).items() if number} == {"ready": 1, "succeeded": 2}
    await store.close()
    again = await place.open()
    await again.retire(START_MS + 10_000_000, 1)
    await admit(again, operation())
    assert {name: number for name, number in (await again.counts()).items() if number} == {"ready": 2, "succeeded": 1}
