"""Places to send from: counted per service, handed on in order, never lost and never invented."""

import asyncio

import pytest

from gateway.engine.slots import Slots


async def waits(slots: Slots, order: list[str], name: str) -> None:
    await slots.take("a", 1)
    order.append(name)


async def test_a_service_has_as_many_places_as_it_is_given_and_others_have_their_own() -> None:
    slots = Slots()

    assert [slots.try_take("a", 2) for _ in range(3)] == [True, True, False]
    assert slots.try_take("b", 1)
    slots.give_back("a")
    assert slots.try_take("a", 2)
    assert (slots.taken("a"), slots.taken("b"), slots.taken("c")) == (2, 1, 0)


async def test_who_waits_longest_gets_the_next_place_and_nobody_overtakes() -> None:
    slots, order = Slots(), list[str]()
    await slots.take("a", 1)
    waiting = [asyncio.ensure_future(waits(slots, order, name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    # Not even with a larger bound: somebody was here before.
    assert not slots.try_take("a", 5)
    slots.give_back("a")
    assert not slots.try_take("a", 1)
    await waiting[0]
    assert order == ["first"]
    slots.give_back("a")
    await waiting[1]
    slots.give_back("a")

    assert order == ["first", "second"]
    assert slots.taken("a") == 0


async def test_a_place_is_handed_to_one_who_waits_only() -> None:
    slots, order = Slots(), list[str]()
    await slots.take("a", 1)
    waiting = [asyncio.ensure_future(waits(slots, order, name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    slots.give_back("a")
    await waiting[0]
    for _ in range(5):
        await asyncio.sleep(0)

    assert (order, slots.taken("a")) == (["first"], 1)
    slots.give_back("a")
    await waiting[1]


async def test_whoever_gives_up_waiting_keeps_no_place_and_holds_up_nobody() -> None:
    slots, order = Slots(), list[str]()
    await slots.take("a", 1)
    gives_up, stays = [asyncio.ensure_future(waits(slots, order, name)) for name in ("gives up", "stays")]
    await asyncio.sleep(0)
    gives_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    slots.give_back("a")
    await stays
    slots.give_back("a")

    assert (order, slots.taken("a")) == (["stays"], 0)
    assert slots.try_take("a", 1)


async def test_a_place_is_not_handed_to_one_who_was_cancelled_a_moment_before() -> None:
    slots, order = Slots(), list[str]()
    await slots.take("a", 1)
    cancelled, next_one = [asyncio.ensure_future(waits(slots, order, name)) for name in ("cancelled", "next")]
    await asyncio.sleep(0)
    cancelled.cancel()
    slots.give_back("a")
    await next_one
    slots.give_back("a")

    assert (order, slots.taken("a"), cancelled.cancelled()) == (["next"], 0, True)


async def test_a_place_handed_to_one_who_is_cancelled_just_then_goes_to_the_next() -> None:
    slots, order = Slots(), list[str]()
    await slots.take("a", 1)
    cancelled, next_one = [asyncio.ensure_future(waits(slots, order, name)) for name in ("cancelled", "next")]
    await asyncio.sleep(0)
    slots.give_back("a")
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await next_one
    slots.give_back("a")

    assert (order, slots.taken("a")) == (["next"], 0)


async def test_a_place_handed_to_the_last_one_who_is_cancelled_just_then_is_free_again() -> None:
    slots = Slots()
    await slots.take("a", 1)
    waiting = asyncio.ensure_future(slots.take("a", 1))
    await asyncio.sleep(0)
    slots.give_back("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert slots.taken("a") == 0
    assert slots.try_take("a", 1)


async def test_a_place_that_nobody_took_cannot_be_given_back() -> None:
    with pytest.raises(KeyError):
        Slots().give_back("a")
