"""Slow work: it goes round until it is stopped, and a store that refuses is asked again."""

import asyncio

import pytest

from gateway.engine.housekeeping import RETIRE_BATCH, Housekeeping
from gateway.engine.keys import Keys
from gateway.model.operation import State
from gateway.model.problem import Problem
from tests.unit.core.builders import UNSENT
from tests.unit.engine.keeping import CountedChance, DictStore, HandClock
from tests.unit.engine.workshop import DONE, Workshop

RETENTION = 3600.0


def work_for(shop: Workshop) -> tuple[Housekeeping, Keys]:
    keys = Keys(shop.store, shop.clock, CountedChance())
    return Housekeeping(shop.store, keys, shop.clock, retention_seconds=RETENTION), keys


async def test_what_is_past_its_retention_leaves_its_name_and_what_is_not_stays(shop: Workshop) -> None:
    shop.outside.writes += [DONE, UNSENT, DONE]
    old, unsettled = await shop.submit(key="k"), await shop.submit(name="b")
    work, _ = work_for(shop)
    shop.clock.move(RETENTION)
    await work.round()
    assert await shop.store.get(old) is not None
    young = await shop.submit(name="c")
    shop.clock.move(1)
    await work.round()

    assert await shop.store.get(old) is None
    assert await shop.store.get(young) is not None
    kept = await shop.store.get(unsettled)
    assert kept is not None
    assert kept.state is State.READY
    with pytest.raises(Problem) as gone:
        await shop.begin(key="k")
    assert gone.value.operation_id == old


async def test_a_round_retires_only_so_many() -> None:
    limits: list[int] = []

    class Retiring:
        async def retire(self, _before_ms: int, limit: int) -> int:
            limits.append(limit)
            return limit

        async def note(self, _records: object) -> None:
            return

    store = Retiring()
    clock = HandClock()
    keys = Keys(DictStore(), clock, CountedChance())
    await Housekeeping(store, keys, clock, retention_seconds=1.0).round()  # type: ignore[arg-type]  # all that is asked

    assert limits == [RETIRE_BATCH]


async def test_refused_keys_go_on_record_as_a_count(shop: Workshop) -> None:
    work, keys = work_for(shop)
    for _ in range(3):
        with pytest.raises(Problem):
            keys.authenticate("agw_wrong")
    await work.round()
    await work.round()

    assert (await shop.events()).count("authentication_failed") == 1


async def test_a_store_that_refuses_is_asked_again_in_the_next_round(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    old = await shop.submit()
    work, _ = work_for(shop)
    shop.clock.move(RETENTION + 1)
    shop.refuse_next()
    await work.round()
    assert await shop.store.get(old) is not None
    await work.round()

    assert await shop.store.get(old) is None


async def test_a_store_that_is_lost_ends_nothing_here(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    await shop.submit()
    work, _ = work_for(shop)
    shop.clock.move(RETENTION + 1)
    shop.lose_next()
    await work.round()
    await work.round()

    assert shop.store.failed is not None


async def test_it_works_at_once_and_until_it_is_stopped(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    old = await shop.submit()
    shop.clock.move(RETENTION + 1)
    work, _ = work_for(shop)
    running = asyncio.ensure_future(work.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()
    work.stop()
    await shop.until(running.done)

    assert await shop.store.get(old) is None
