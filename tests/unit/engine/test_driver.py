"""The loop that acts: durable first, then done; once at a time and never twice, and only from a place that is held."""

from collections.abc import Callable

import pytest

from adapters.contract import Hooks, HttpExchange, Observation
from gateway.engine.driver import LEASE_MARGIN_SECONDS, lease_seconds
from gateway.store.port import StoreUnknown
from tests.unit.core.builders import TIMEOUT, UNSENT, answer
from tests.unit.engine.workshop import (
    ABSENT,
    DONE,
    PERSON,
    SICK,
    Held,
    Workshop,
    definitions,
    open_workshop,
)


def found(operation_id: str, state: str = "succeeded") -> Observation:
    return answer(200, f'{{"state": "{state}", "key": "{operation_id}"}}'.encode())


async def test_the_intent_is_on_record_before_the_first_byte(shop: Workshop) -> None:
    events: list[str] = []

    async def react(_exchange: HttpExchange, _hooks: Hooks) -> Observation:
        events.extend(await shop.events())
        return DONE

    shop.outside.writes.append(react)
    await shop.submit()

    assert events == ["admitted", "attempt"]
    assert await shop.events() == ["admitted", "attempt", "observation", "outcome"]


async def test_a_repeat_is_on_record_before_it_leaves_as_well(shop: Workshop) -> None:
    stored: list[tuple[str, int]] = []

    async def react(_exchange: HttpExchange, _hooks: Hooks) -> Observation:
        image = await shop.store.get(made)
        assert image is not None
        stored.append((image.state.value, len(image.attempts)))
        return DONE

    shop.outside.writes += [UNSENT, react]
    made = await shop.submit()
    await shop.pass_on(5)

    assert stored == [("sending", 2)]


async def test_a_begin_that_the_store_refuses_sends_nothing_until_it_is_taken(shop: Workshop) -> None:
    shop.outside.writes += [UNSENT, DONE]
    made = await shop.submit()
    shop.refuse_next(times=2)
    await shop.pass_on(5)

    assert shop.outside.posts == 2
    assert len(shop.clock.slept) == 1
    assert await shop.ending(made) == ("succeeded", "yes", "answer")


async def test_a_begin_whose_fate_is_unknown_sends_nothing_ends_the_process_and_gives_its_place_back(
    shop: Workshop,
) -> None:
    shop.outside.writes.append(UNSENT)
    await shop.submit()
    shop.lose_next()
    await shop.pass_on(5)

    assert shop.outside.posts == 1
    assert shop.dead
    assert shop.assembly.driver.slots.taken("svc") == 0
    shop.dead.clear()


async def test_what_never_left_is_sent_again_with_the_same_bytes(shop: Workshop) -> None:
    shop.outside.writes += [UNSENT, UNSENT, DONE]
    made = await shop.submit()
    assert await shop.state(made) == "ready"
    await shop.pass_on(10)
    await shop.pass_on(20)

    first, *others = shop.outside.exchanges
    assert [(item.method, item.url, item.headers, item.body) for item in others] == [
        (first.method, first.url, first.headers, first.body)
    ] * 2
    assert await shop.ending(made) == ("succeeded", "yes", "answer")


async def test_what_may_have_left_is_never_sent_again(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    made = await shop.submit("make.blind")
    for _ in range(5):
        await shop.pass_on(3600)

    assert await shop.state(made) == "unresolved, ambiguous"
    assert shop.outside.sent == ["POST /things"]


async def test_a_lost_answer_is_settled_by_looking_and_sent_once(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads.append(SICK)
    made = await shop.submit()
    assert await shop.state(made) == "in_doubt, ambiguous"
    await shop.pass_on(3)
    shop.outside.reads.append(found(made))
    await shop.pass_on(20)

    assert await shop.ending(made) == ("succeeded", "yes", "probe")
    assert shop.outside.posts == 1


async def test_a_repeat_under_the_same_key_is_sent_while_the_service_remembers_it(shop: Workshop) -> None:
    shop.outside.writes += [TIMEOUT, DONE]
    shop.outside.reads += [SICK, SICK]
    made = await shop.submit("make.again")
    for _ in range(3):
        await shop.pass_on(5)

    assert shop.outside.posts == 2
    assert await shop.ending(made) == ("succeeded", "yes", "answer")


async def test_the_window_of_the_same_key_is_asked_again_before_the_first_byte(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads += [SICK, SICK]
    made = await shop.submit("make.again")
    await shop.pass_on(5)
    # Between the begin and the first byte the wall clock is set back: the age of the first attempt is not known then.
    shop.points.planned["begin.after_commit"] = lambda: shop.clock.step_wall(-86_400)
    await shop.pass_on(5)
    await shop.pass_on(5)

    assert shop.outside.posts == 1
    assert shop.outside.refused == ["the clock stepped back, so the age of the first attempt is not known"]
    assert (await shop.show(made)).ambiguous


# -- the last check before the first byte ---------------------------------------------------------------------------


async def refusal_after(shop: Workshop, change: Callable[[], object]) -> str | None:
    """What the hook says if that happened while the connection was made."""
    reaction = Held(TIMEOUT)
    shop.outside.writes.append(reaction)
    await shop.begin("make.blind")
    await shop.until(reaction.begun.is_set)
    assert reaction.hooks is not None
    assert reaction.hooks.before_send() is None
    change()
    refusal = reaction.hooks.before_send()
    reaction.may_end.set()
    return refusal


async def test_the_lease_outlives_every_deadline_of_its_attempt_by_a_margin() -> None:
    action = definitions().actions["make"]

    assert lease_seconds(action) == 1.0 + 2.0 + LEASE_MARGIN_SECONDS
    assert LEASE_MARGIN_SECONDS > 0


@pytest.mark.parametrize(("moved_ms", "refusal"), [(-1, None), (0, "the lease has run out")])
@pytest.mark.parametrize("clock", ["wall", "boot"])
async def test_nothing_leaves_once_the_lease_has_run_out_by_either_clock(
    clock: str, moved_ms: int, refusal: str | None, shop: Workshop
) -> None:
    lease_ms = int(lease_seconds(definitions().actions["make.blind"]) * 1000)

    def connect_slowly() -> None:
        setattr(shop.clock, f"{clock}_moved_ms", lease_ms + moved_ms)

    assert await refusal_after(shop, connect_slowly) == refusal
    await shop.quiet()


async def test_nothing_leaves_for_an_operation_that_moved_on(shop: Workshop) -> None:
    reaction = Held(TIMEOUT)
    shop.outside.writes.append(reaction)
    made = await shop.begin("make.blind")
    await shop.until(reaction.begun.is_set)
    live = shop.live(made.operation.id)
    # The reaper took the attempt for lost, by a clock that is ahead of ours.
    shop.clock.move(3600)
    await shop.assembly.driver.drive(live)
    shop.clock.move(-3600)
    assert reaction.hooks is not None

    assert reaction.hooks.before_send() == "the operation has moved on"
    reaction.may_end.set()


async def test_nothing_leaves_after_the_store_is_lost(shop: Workshop) -> None:
    reaction = Held(TIMEOUT)
    shop.outside.writes.append(reaction)
    await shop.begin("make.blind")
    await shop.until(reaction.begun.is_set)
    shop.lose_next()
    with pytest.raises(StoreUnknown):
        await shop.store.seal()
    assert reaction.hooks is not None

    assert reaction.hooks.before_send() == "the store's state is unknown, so nothing may be sent"
    reaction.may_end.set()
    await shop.quiet()
    assert shop.dead
    shop.dead.clear()


async def test_an_attempt_that_was_refused_at_the_last_moment_sent_nothing(shop: Workshop) -> None:
    shop.points.planned["send.before_first_byte"] = lambda: shop.clock.move(60)
    made = await shop.submit("make.blind")

    assert shop.outside.refused == ["the lease has run out"]
    assert shop.outside.exchanges == []
    assert not (await shop.show(made)).ambiguous


# -- quarantine -----------------------------------------------------------------------------------------------------


async def test_in_quarantine_no_write_is_begun_and_reads_go_on(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()
    shop.assembly.driver.writes_held = True
    await shop.pass_on(20)
    shop.outside.reads.append(DONE)
    read = await shop.submit("read")

    assert await shop.state(made) == "ready"
    assert (await shop.ending(read))[0] == "succeeded"
    assert shop.outside.sent == ["POST /things", "GET /things/a"]
    shop.assembly.driver.writes_held = False
    shop.outside.writes.append(DONE)
    await shop.pass_on(31)
    assert (await shop.ending(made))[0] == "succeeded"


async def test_in_quarantine_no_fence_is_begun(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads += [ABSENT] * 3
    shop.assembly.driver.writes_held = True
    live = shop.live((await shop.begin("make.fenced")).operation.id)
    await shop.quiet()
    await shop.pass_on(5)
    assert [line.split()[0] for line in shop.outside.sent] == ["POST", "GET"]

    shop.assembly.driver.writes_held = False
    shop.outside.writes.append(answer(201))
    await shop.pass_on(31)
    assert shop.outside.sent[-1] == f"PUT /places/{live.id}"
    assert await shop.ending(live.id) == ("failed", "no", "fence")


# -- places ---------------------------------------------------------------------------------------------------------


async def test_a_service_without_a_free_place_keeps_its_operations_ready_and_unsent(shop: Workshop) -> None:
    slots = shop.assembly.driver.slots
    assert slots.try_take("narrow", 1)
    made = await shop.begin("make.narrow")
    await shop.turns()
    assert await shop.state(made.operation.id) == "ready"
    assert shop.outside.sent == []
    shop.outside.writes.append(DONE)
    slots.give_back("narrow")
    await shop.quiet()

    assert (await shop.ending(made.operation.id))[0] == "succeeded"
    assert slots.taken("narrow") == 0


@pytest.mark.parametrize("end", [DONE, TIMEOUT, UNSENT, answer(400)], ids=["done", "doubt", "unsent", "refused"])
async def test_every_end_of_an_attempt_gives_its_place_back(end: Observation, shop: Workshop) -> None:
    reaction = Held(end)
    shop.outside.writes.append(reaction)
    await shop.begin("make.blind")
    await shop.until(reaction.begun.is_set)
    assert shop.assembly.driver.slots.taken("svc") == 1
    reaction.may_end.set()
    await shop.quiet()

    assert shop.assembly.driver.slots.taken("svc") == 0


async def test_a_cancelled_attempt_gives_its_place_back_and_so_does_one_that_waited_for_it(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    await shop.begin("make.narrow", name="a")
    await shop.until(reaction.begun.is_set)
    await shop.begin("make.narrow", name="b")
    await shop.turns()
    assert shop.assembly.driver.slots.taken("narrow") == 1

    await shop.assembly.tasks.finish(0)

    assert shop.assembly.driver.slots.taken("narrow") == 0


async def test_an_operation_cancelled_while_it_waits_for_a_place_gives_it_back(shop: Workshop) -> None:
    slots = shop.assembly.driver.slots
    assert slots.try_take("narrow", 1)
    made = await shop.begin("make.narrow")
    await shop.turns()
    await shop.assembly.gateway.cancel(PERSON, made.operation.id)
    slots.give_back("narrow")
    await shop.quiet()

    assert await shop.ending(made.operation.id) == ("cancelled", "no", "unsent")
    assert slots.taken("narrow") == 0
    assert shop.outside.sent == []


async def test_an_operation_that_got_its_place_too_late_is_not_sent_and_gives_it_back(shop: Workshop) -> None:
    slots = shop.assembly.driver.slots
    assert slots.try_take("narrow", 1)
    made = (await shop.begin("make.narrow")).operation
    await shop.turns()
    shop.clock.move((made.start_by_ms - made.created_ms) / 1000)
    slots.give_back("narrow")
    await shop.quiet()

    assert (await shop.ending(made.id))[:2] == ("cancelled", "no")
    assert slots.taken("narrow") == 0
    assert shop.outside.sent == []


async def test_the_settings_bound_a_service_that_declares_no_bound_of_its_own() -> None:
    shop = await open_workshop(service_concurrency_max=3)
    actions, driver = definitions().actions, shop.assembly.driver
    bounds = {action.service.name: driver.bound(action) for action in actions.values()}
    await shop.close()

    assert bounds["svc"] == 3
    assert bounds["narrow"] == 1
