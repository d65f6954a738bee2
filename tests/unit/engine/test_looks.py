"""Looks change nothing, prove no more than they show, and are bounded over all services; a fence is journaled first."""

from dataclasses import replace

import pytest

from adapters.contract import Hooks, HttpExchange, Observation
from gateway.core.events import Probed, Sighting
from gateway.model.evidence import Finding
from gateway.store.port import PayloadKind, StoreUnknown
from tests.unit.core.builders import TIMEOUT, answer
from tests.unit.engine.workshop import ABSENT, BUSY, DONE, SICK, Held, Workshop

FENCE_WON = answer(201)
FENCE_LOST = answer(409)
SOON = 0.01
"""When the first look is due, in seconds."""


def found(operation_id: str, state: str = "succeeded") -> Observation:
    return answer(200, f'{{"state": "{state}", "key": "{operation_id}"}}'.encode())


async def doubtful(shop: Workshop, action: str = "make", name: str = "a") -> str:
    """Sent, and nobody knows; the first look is made and shows nothing."""
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads.append(SICK)
    made = await shop.submit(action, name=name)
    await shop.pass_on(SOON)
    return made


async def test_a_record_of_another_operation_proves_nothing(shop: Workshop) -> None:
    made = await doubtful(shop)
    shop.outside.reads.append(found("op_of_somebody_else"))
    await shop.pass_on(3)

    assert await shop.state(made) == "in_doubt, ambiguous"
    assert (await shop.show(made)).evidence[-1].finding is not Finding.EXECUTED_OK


async def test_a_look_that_was_not_answered_in_full_proves_nothing(shop: Workshop) -> None:
    made = await doubtful(shop)
    whole = found(made)
    shop.outside.reads.append(answer(200, whole.body, body_complete=False))
    await shop.pass_on(3)

    assert await shop.state(made) == "in_doubt, ambiguous"


async def test_absence_counts_after_it_has_settled_and_not_before(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads += [ABSENT] * 6
    made = await shop.submit()
    await shop.pass_on(SOON)
    await shop.pass_on(3)
    assert await shop.state(made) == "in_doubt, ambiguous"
    for _ in range(3):
        await shop.pass_on(6)

    assert await shop.ending(made) == ("failed", "no", "absence")
    assert shop.outside.posts == 1


async def test_absence_is_timed_by_when_the_look_began_and_not_by_when_its_answer_came(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)

    async def slow(_exchange: HttpExchange, _hooks: Hooks) -> Observation:
        shop.clock.move(7)
        return ABSENT

    shop.outside.reads.append(slow)
    made = await shop.submit()
    await shop.pass_on(SOON)

    assert await shop.state(made) == "in_doubt, ambiguous"
    # Counted by its end, the look would have been made after the settle time: it is not one of the two that count.
    shop.outside.reads.append(ABSENT)
    await shop.pass_on(3)
    assert await shop.state(made) == "in_doubt, ambiguous"
    shop.outside.reads.append(ABSENT)
    await shop.pass_on(3)
    assert await shop.ending(made) == ("failed", "no", "absence")


async def test_absence_needs_the_control_to_be_visible_if_one_is_declared(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads += [ABSENT, SICK]
    made = await shop.submit("make.controlled")
    await shop.pass_on(SOON)
    seen = (await shop.show(made)).evidence[-1]
    assert shop.outside.sent[-1] == "GET /control"
    assert (seen.finding, "visible" in seen.detail) == (Finding.INCONCLUSIVE, True)

    shop.outside.reads += [ABSENT, answer(200)]
    await shop.pass_on(3)
    assert (await shop.show(made)).evidence[-1].finding is Finding.ABSENT


async def test_the_control_is_asked_about_absence_only(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads.append(SICK)
    made = await shop.submit("make.controlled")
    await shop.pass_on(SOON)
    shop.outside.reads.append(found(made))
    await shop.pass_on(3)

    assert await shop.ending(made) == ("succeeded", "yes", "probe")
    assert "GET /control" not in shop.outside.sent


async def test_what_the_record_says_of_the_result_is_stored_with_the_outcome(shop: Workshop) -> None:
    made = await doubtful(shop)
    assert await shop.store.payload(made, PayloadKind.RESULT) is None
    shop.outside.reads.append(found(made))
    await shop.pass_on(3)

    assert await shop.store.payload(made, PayloadKind.RESULT) == found(made).body
    assert (await shop.show(made)).output_valid is True


async def test_a_result_of_what_failed_is_stored_and_not_held_against_the_schema(shop: Workshop) -> None:
    made = await doubtful(shop)
    shop.outside.reads.append(found(made, "failed"))
    await shop.pass_on(3)

    assert await shop.store.payload(made, PayloadKind.RESULT) == found(made, "failed").body
    assert (await shop.show(made)).output_valid is None


async def test_a_service_that_asks_for_patience_gets_it(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads.append(answer(503, b"", ("Retry-After", "20")))
    made = await shop.submit()
    await shop.pass_on(SOON)
    waiting = await shop.show(made)

    assert waiting.next_ms is not None
    assert waiting.next_ms - shop.clock.wall_ms() >= 20_000


async def test_a_handle_that_is_gone_sends_the_search_back_to_the_record(shop: Workshop) -> None:
    shop.outside.writes.append(answer(202, b"{}", ("Operation-Location", "/handles/1")))
    shop.outside.reads += [BUSY, answer(410), SICK]
    made = await shop.submit("make.slow")
    await shop.pass_on(1)
    await shop.pass_on(5)
    assert shop.outside.sent[:3] == ["POST /things", "GET /handles/1", "GET /handles/1"]
    assert (await shop.show(made)).ambiguous
    shop.outside.reads[:] = [found(made)] * 3
    await shop.pass_on(5)

    assert await shop.ending(made) == ("succeeded", "yes", "probe")


async def test_a_handle_s_word_is_final_and_its_result_is_stored(shop: Workshop) -> None:
    shop.outside.writes.append(answer(202, b"{}", ("Operation-Location", "/handles/1")))
    done = answer(200, b'{"state": "succeeded", "size": 3}')
    shop.outside.reads += [BUSY, done]
    made = await shop.submit("make.slow")
    await shop.pass_on(1)
    await shop.pass_on(5)

    assert await shop.ending(made) == ("succeeded", "yes", "handle")
    assert await shop.store.payload(made, PayloadKind.RESULT) == done.body


async def test_no_more_looks_than_the_bound_are_under_way(shop: Workshop) -> None:
    held = [Held(SICK) for _ in range(4)]
    shop.outside.writes += [TIMEOUT] * 4
    shop.outside.reads += held
    for name in "abcd":
        await shop.submit(name=name)
    shop.clock.move(SOON)
    await shop.one_round()
    await shop.until(held[1].begun.is_set)
    await shop.turns()
    assert [item.begun.is_set() for item in held] == [True, True, False, False]

    held[0].may_end.set()
    await shop.until(held[2].begun.is_set)
    await shop.turns()
    assert not held[3].begun.is_set()
    for item in held:
        item.may_end.set()
    await shop.quiet()
    assert held[3].begun.is_set()


async def test_looks_leave_no_trace_at_the_service(shop: Workshop) -> None:
    await doubtful(shop)
    look = shop.outside.exchanges[-1]

    assert (look.method, look.body, look.is_read) == ("GET", b"", True)


async def test_no_look_leaves_after_the_store_is_lost(shop: Workshop) -> None:
    live = shop.live(await doubtful(shop))
    shop.lose_next()
    with pytest.raises(StoreUnknown):
        await shop.store.seal()
    with pytest.raises(StoreUnknown):
        await shop.assembly.driver.look_now(live)

    assert shop.outside.refused == ["the store's state is unknown, so nothing may be sent"]
    assert len(shop.outside.sent) == 2


# -- fences ---------------------------------------------------------------------------------------------------------


async def fenced(shop: Workshop, *reactions: Held | Observation) -> str:
    shop.outside.writes += [TIMEOUT, *reactions]
    shop.outside.reads.append(ABSENT)
    return await shop.submit("make.fenced")


async def test_a_fence_is_durable_before_its_first_byte(shop: Workshop) -> None:
    events: list[str] = []
    fences: list[str] = []

    async def occupy(exchange: HttpExchange, _hooks: Hooks) -> Observation:
        (stored,) = await shop.store.unsettled()
        fences.append(stored.attempts[-1].kind.value)
        events.extend(await shop.events())
        assert not exchange.is_read
        return FENCE_WON

    shop.outside.writes += [TIMEOUT, occupy]
    shop.outside.reads.append(ABSENT)
    made = await shop.submit("make.fenced")
    await shop.pass_on(3)

    assert fences == ["fence"]
    assert events.count("fence") == 1
    assert await shop.ending(made) == ("failed", "no", "fence")


async def test_a_fence_that_came_too_late_is_a_reason_to_look_and_not_an_outcome(shop: Workshop) -> None:
    made = await fenced(shop, FENCE_LOST)
    await shop.pass_on(SOON)
    shop.outside.reads.append(SICK)
    await shop.pass_on(3)
    assert (await shop.show(made)).ambiguous
    shop.outside.reads[:] = [found(made)]
    await shop.pass_on(5)

    assert await shop.ending(made) == ("succeeded", "yes", "probe")


async def test_what_a_fence_showed_is_kept_whoever_moved_the_operation_meanwhile(shop: Workshop) -> None:
    occupy = Held(FENCE_WON)
    live = shop.live(await fenced(shop, occupy))
    shop.clock.move(SOON)
    await shop.one_round()
    await shop.until(occupy.begun.is_set)
    # Somebody looks in between and stores what they saw: the fence's own image is old by now.
    rival = replace(live)
    now = shop.clock.wall_ms()
    seen = Sighting(Finding.INCONCLUSIVE, "somebody else's look")
    await shop.assembly.journal.apply(rival, Probed(seen, now, shop.clock.boot_ms()))
    assert rival.operation.version > live.operation.version
    occupy.may_end.set()
    await shop.quiet()

    assert await shop.ending(live.id) == ("failed", "no", "fence")


# -- state ----------------------------------------------------------------------------------------------------------


async def test_success_by_state_is_looked_at_before_the_first_send(shop: Workshop) -> None:
    shop.outside.reads.append(ABSENT)
    shop.outside.writes.append(DONE)
    made = await shop.submit("make.state")

    assert shop.outside.sent == ["GET /state", "POST /things"]
    assert (await shop.show(made)).baseline == "absent"
    assert (await shop.ending(made))[0] == "succeeded"


async def test_without_a_clear_look_nothing_is_sent_whose_success_only_the_state_shows(shop: Workshop) -> None:
    shop.outside.reads += [SICK, SICK]
    made = await shop.submit("make.state")
    await shop.pass_on(5)

    assert shop.outside.sent == ["GET /state", "GET /state"]
    assert await shop.state(made) == "ready"
