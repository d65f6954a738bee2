"""What an attempt showed is made durable, whoever owns the operation by then, and looking now takes no turn."""

from dataclasses import replace

from adapters.contract import Head, Hooks, HttpExchange, Observation
from gateway.core.agenda import Act
from gateway.core.events import LeaseLost, Observed
from gateway.store.port import PayloadKind
from tests.unit.core.builders import TIMEOUT, answer
from tests.unit.engine.workshop import (
    BUSY,
    DONE,
    SICK,
    Held,
    Workshop,
)

# -- what was seen --------------------------------------------------------------------------------------------------


async def test_an_answer_is_stored_with_the_outcome_that_rests_on_it(shop: Workshop) -> None:
    shop.outside.writes += [DONE, answer(400, b'{"why": "no"}')]
    good, bad = await shop.submit(), await shop.submit(name="b")

    assert await shop.store.payload(good, PayloadKind.RESULT) == DONE.body
    assert await shop.store.payload(bad, PayloadKind.RESULT) == b'{"why": "no"}'
    assert ((await shop.show(good)).output_valid, (await shop.show(bad)).output_valid) == (True, None)


async def test_a_handle_in_the_head_is_durable_before_the_body_is_read(shop: Workshop) -> None:
    handles: list[str | None] = []

    async def react(_exchange: HttpExchange, hooks: Hooks) -> Observation:
        assert hooks.on_head is not None
        await hooks.on_head(Head(202, (("Operation-Location", "/handles/1"),)))
        (stored,) = await shop.store.unsettled()
        handles.append(None if stored.handle is None else stored.handle.url)
        return TIMEOUT

    shop.outside.writes.append(react)
    shop.outside.reads += [BUSY, answer(200, b'{"state": "succeeded"}')]
    made = await shop.submit("make.slow")
    assert handles == ["https://svc.example/handles/1"]
    assert await shop.state(made) == "accepted, ambiguous"
    await shop.pass_on(5)

    assert await shop.ending(made) == ("succeeded", "yes", "handle")
    assert shop.outside.sent == ["POST /things", "GET /handles/1", "GET /handles/1"]


async def test_a_head_without_a_handle_changes_nothing(shop: Workshop) -> None:
    versions: list[int] = []

    async def react(_exchange: HttpExchange, hooks: Hooks) -> Observation:
        assert hooks.on_head is not None
        live = shop.live((await shop.store.unsettled())[0].id)
        versions.append(live.operation.version)
        for head in (Head(201, (("Location", "/things/1"),)), Head(202, ()), Head(500, ())):
            await hooks.on_head(head)
            versions.append(live.operation.version)
        return DONE

    shop.outside.writes.append(react)
    await shop.submit("make.blind")

    assert versions == [versions[0]] * 4


async def test_an_observation_is_offered_again_while_the_store_refuses_and_the_send_is_not(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    made = await shop.begin()
    await shop.until(reaction.begun.is_set)
    shop.refuse_next(times=4)
    reaction.may_end.set()
    await shop.quiet()

    assert await shop.ending(made.operation.id) == ("succeeded", "yes", "answer")
    assert shop.outside.posts == 1
    assert len(shop.clock.slept) == 3


async def test_an_outcome_whose_fate_is_unknown_ends_the_process_and_is_not_sent_again(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    made = await shop.begin()
    await shop.until(reaction.begun.is_set)
    shop.lose_next()
    reaction.may_end.set()
    await shop.quiet()

    assert shop.outside.posts == 1
    assert shop.dead == [shop.store.failed]
    shop.dead.clear()
    # It was on disk all the same, and the next start reads it.
    again = await shop.reopen()
    assert await again.ending(made.operation.id) == ("succeeded", "yes", "answer")
    await again.close()


async def test_an_answer_that_comes_after_the_lease_was_lost_is_evidence_all_the_same(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    made = await shop.begin()
    await shop.until(reaction.begun.is_set)
    live = shop.live(made.operation.id)
    shop.clock.move(9)
    item = await shop.assembly.driver.drive(live)
    assert (item.act, await shop.state(live.id)) == (Act.WAIT, "in_doubt, ambiguous")
    reaction.may_end.set()
    await shop.quiet()

    assert await shop.ending(live.id) == ("succeeded", "yes", "answer")


async def test_what_was_seen_is_applied_to_the_image_of_whoever_moved_the_operation_meanwhile(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    made = await shop.begin()
    await shop.until(reaction.begun.is_set)
    rival = replace(shop.live(made.operation.id))
    await shop.assembly.journal.apply(rival, LeaseLost())
    reaction.may_end.set()
    await shop.quiet()

    assert await shop.ending(rival.id) == ("succeeded", "yes", "answer")
    assert (await shop.show(rival.id)).version > rival.operation.version


async def test_what_the_lifecycle_has_no_use_for_is_kept_beside_the_operation(shop: Workshop) -> None:
    reaction = Held(TIMEOUT)
    shop.outside.writes.append(reaction)
    made = await shop.begin()
    await shop.until(reaction.begun.is_set)
    rival = replace(shop.live(made.operation.id))
    # Somebody has told of this attempt already; a second telling is not judged again.
    await shop.assembly.journal.apply(rival, Observed(1, DONE, rival.variables()))
    reaction.may_end.set()
    await shop.quiet()

    assert await shop.ending(rival.id) == ("succeeded", "yes", "answer")
    assert (await shop.events())[-1] == "observation_kept_aside"
    assert (await shop.store.observations(rival.id))[-1]["phase"] == "request_written"


# -- looking now ----------------------------------------------------------------------------------------------------


async def test_looking_now_does_not_wait_for_its_turn_and_leaves_a_driver_at_work_alone(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    live = shop.live(await shop.submit())
    shop.outside.reads.append(SICK)
    await shop.assembly.driver.look_now(live)
    assert len(shop.outside.sent) == 2

    live.driven = True
    await shop.assembly.driver.look_now(live)
    live.driven = False
    assert len(shop.outside.sent) == 2


async def test_looking_now_follows_a_stored_handle_before_anything_else(shop: Workshop) -> None:
    shop.outside.writes.append(answer(202, b"{}", ("Operation-Location", "/handles/1")))
    live = shop.live(await shop.submit("make.slow"))
    shop.outside.reads.append(BUSY)
    await shop.assembly.driver.look_now(live)

    assert shop.outside.sent[-1] == "GET /handles/1"
