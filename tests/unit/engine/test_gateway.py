"""What every door gets: an identity before anything leaves, one answer for repeats, waits that change nothing."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from gateway.engine.gateway import View, attest_digest
from gateway.engine.hub import BACKLOG_MAX
from gateway.model.operation import Executed, Outcome, State
from gateway.model.principal import Principal
from gateway.model.problem import Code, Problem
from gateway.store.port import Filter
from tests.unit.core.builders import TIMEOUT, UNSENT, answer
from tests.unit.engine.workshop import BUSY, CALLER, DONE, OTHER, PERSON, SICK, Held, Workshop


async def problem_of(call: object) -> Problem:
    with pytest.raises(Problem) as raised:
        await call  # type: ignore[misc]  # any coroutine
    return raised.value


# -- submit ---------------------------------------------------------------------------------------------------------


async def test_an_operation_is_durable_when_its_submission_returns(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    view = await shop.begin(key="k")

    stored = await shop.store.get(view.operation.id)
    assert stored == view.operation
    assert (view.created, view.joined, view.replayed) == (True, False, False)
    assert view.receipt == await shop.store.receipt(view.operation.id)
    reaction.may_end.set()
    await shop.quiet()


async def test_a_submission_that_the_store_refuses_left_nothing_and_keeps_no_place(shop: Workshop) -> None:
    shop.refuse_next()
    problem = await problem_of(shop.begin(key="k"))

    assert (problem.code, problem.retry_after_seconds) == (Code.STORE_UNAVAILABLE, 1.0)
    assert (shop.assembly.driver.slots.taken("svc"), len(shop.assembly.recovery)) == (0, 0)
    assert await shop.store.by_key(CALLER.name, "make", "k") is None
    shop.outside.writes.append(DONE)
    await shop.submit(key="k")


async def test_a_refusal_by_the_log_says_so(shop: Workshop) -> None:
    await shop.store.close_log()

    assert (await problem_of(shop.begin())).code is Code.AUDIT_UNAVAILABLE


async def test_a_submission_whose_fate_is_unknown_is_named_sends_nothing_and_ends_the_process(shop: Workshop) -> None:
    shop.lose_next()
    problem = await problem_of(shop.begin(key="k"))

    assert (problem.code, "Ask by key" in (problem.guidance or "")) == (Code.STORE_UNAVAILABLE, True)
    assert problem.operation_id is not None
    assert shop.outside.exchanges == []
    assert shop.assembly.driver.slots.taken("svc") == 0
    assert shop.dead == [shop.store.failed]
    shop.dead.clear()
    again = await shop.reopen()
    found = await again.store.by_key(CALLER.name, "make", "k")
    assert found is not None
    assert found.id == problem.operation_id
    await again.close()


async def test_the_same_key_joins_what_is_under_way_and_replays_what_is_over(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    first = await shop.begin(key="k")
    joined = await shop.begin(key="k")
    await shop.until(reaction.begun.is_set)
    assert (joined.operation.id, joined.joined, joined.replayed) == (first.operation.id, True, False)
    # Only the first of them holds a place.
    assert shop.assembly.driver.slots.taken("svc") == 1
    reaction.may_end.set()
    await shop.quiet()
    replayed = await shop.begin(key="k")

    assert (replayed.operation.id, replayed.joined, replayed.replayed) == (first.operation.id, False, True)
    assert replayed.result == DONE.body
    assert (shop.outside.posts, shop.assembly.driver.slots.taken("svc")) == (1, 0)


async def test_a_key_used_for_something_else_is_refused_recorded_and_told_to_people(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    made = await shop.submit(key="k")
    with shop.assembly.hub.subscribe(None) as stream:
        problem = await problem_of(shop.begin(key="k", name="b"))
        assert [notice.data["alert"] for notice in stream.queue] == ["key_reused"]

    assert (problem.code, problem.operation_id) == (Code.KEY_REUSED, made)
    assert (await shop.events())[-1] == "alert"
    assert shop.outside.posts == 1


async def test_an_alert_that_cannot_be_recorded_does_not_change_the_answer(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    await shop.submit(key="k")
    points = shop.points
    # The ruling itself writes nothing; the record of the alert is the second transaction.
    points.planned["store.ruled"] = shop.refuse_next

    assert (await problem_of(shop.begin(key="k", name="b"))).code is Code.KEY_REUSED
    assert "alert" not in await shop.events()


async def test_a_probable_repeat_carries_the_whole_earlier_outcome(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    made = await shop.submit()
    await shop.assembly.gateway.delivered(await shop.assembly.gateway.get(CALLER, made))
    await shop.store.seal()
    problem = await problem_of(shop.begin())
    view = problem.extra["view"]

    assert problem.code is Code.PROBABLE_REPEAT
    assert isinstance(view, View)
    assert (view.operation.id, view.result) == (made, DONE.body)


async def test_what_needs_a_baseline_is_not_begun_with_its_admission(shop: Workshop) -> None:
    look = Held(answer(404, b"{}"))
    shop.outside.reads.append(look)
    shop.outside.writes.append(DONE)
    view = await shop.begin("make.state")
    assert (view.operation.state, view.operation.attempts) == (State.READY, ())
    assert shop.assembly.driver.slots.taken("svc") == 0
    look.may_end.set()
    await shop.quiet()


# -- read -----------------------------------------------------------------------------------------------------------


async def test_another_callers_operation_does_not_exist(shop: Workshop) -> None:
    shop.outside.writes += [DONE, UNSENT]
    over, under_way = await shop.submit(), await shop.submit(name="b")
    gateway = shop.assembly.gateway
    nothing = await problem_of(gateway.get(OTHER, "op_nothing"))
    for made in (over, under_way):
        for call in (gateway.get(OTHER, made), gateway.cancel(OTHER, made), gateway.reconcile(OTHER, made)):
            problem = await problem_of(call)
            assert (problem.code, problem.detail) == (Code.NOT_FOUND, nothing.detail)
        assert (await gateway.get(PERSON, made)).operation.id == made
        assert (await gateway.get(CALLER, made)).operation.id == made


async def test_an_operation_reads_the_same_from_memory_and_from_the_store(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    made = await shop.submit()
    in_memory = await shop.assembly.gateway.get(CALLER, made)
    again = await shop.reopen()
    stored = await again.assembly.gateway.get(CALLER, made)

    assert (stored.operation, stored.action, stored.receipt) == (
        in_memory.operation,
        in_memory.action,
        in_memory.receipt,
    )
    await again.close()


async def test_callers_list_their_own_and_people_everything(shop: Workshop) -> None:
    shop.outside.writes += [DONE, DONE]
    own, foreign = await shop.submit(), await shop.submit(who=OTHER)

    async def listed(who: Principal, **wanted: str) -> set[str]:
        views, _ = await shop.assembly.gateway.list(who, Filter(**wanted))  # type: ignore[arg-type]  # texts only
        return {view.operation.id for view in views}

    assert await listed(CALLER) == {own}
    assert await listed(CALLER, caller=OTHER.name) == {own}
    assert await listed(PERSON) == {own, foreign}


async def test_a_run_is_read_whole_and_oldest_first(shop: Workshop) -> None:
    shop.outside.reads += [DONE] * 3
    made = [await shop.submit("read", name=name, run="r-1") for name in "abc"]
    views = await shop.assembly.gateway.run(CALLER, "r-1")

    assert [view.operation.id for view in views] == made
    assert await shop.assembly.gateway.run(OTHER, "r-1") == []


async def test_what_the_policy_hides_is_in_no_list_of_actions(shop: Workshop) -> None:
    gateway = shop.assembly.gateway

    assert {action.name for action in gateway.actions(CALLER)} == set(gateway.definitions.actions)
    with pytest.raises(Problem) as unknown:
        gateway.action(CALLER, "nothing")
    assert unknown.value.code is Code.UNKNOWN_ACTION


# -- wait -----------------------------------------------------------------------------------------------------------


async def waiting(shop: Workshop, made: str, count: int = 1) -> "list[asyncio.Task[View]]":
    found = [asyncio.ensure_future(shop.assembly.gateway.wait(CALLER, made, 3600)) for _ in range(count)]
    await shop.turns()
    assert not any(item.done() for item in found)
    return found


@pytest.mark.parametrize(
    ("action", "seen", "state"),
    [("make", DONE, "succeeded"), ("make", answer(400), "failed"), ("make.blind", TIMEOUT, "unresolved")],
)
async def test_everybody_who_waits_gets_the_end(action: str, seen: object, state: str, shop: Workshop) -> None:
    reaction = Held(seen)  # type: ignore[arg-type]  # observations all
    shop.outside.writes.append(reaction)
    view = await shop.begin(action)
    several = await waiting(shop, view.operation.id, 3)
    reaction.may_end.set()
    await shop.until(lambda: all(item.done() for item in several))

    assert {item.result().operation.state.value for item in several} == {state}
    await shop.quiet()


async def test_a_wait_goes_on_over_changes_that_are_no_end(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()
    (waiter,) = await waiting(shop, made)
    shop.outside.writes.append(UNSENT)
    await shop.pass_on(5)
    await shop.turns()
    assert not waiter.done()
    shop.outside.writes.append(DONE)
    await shop.pass_on(10)
    await shop.until(waiter.done)

    assert waiter.result().result == DONE.body


async def test_a_wait_ends_with_its_time_or_the_gateway_and_changes_nothing(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()
    before = await shop.events()
    at_once = await shop.assembly.gateway.wait(CALLER, made, 0)
    (waiter,) = await waiting(shop, made)
    shop.assembly.hub.close()
    await shop.until(waiter.done)
    after = await shop.assembly.gateway.wait(CALLER, made, 3600)

    assert at_once.operation == waiter.result().operation == after.operation
    assert await shop.events() == before


async def test_a_cancelled_wait_cancels_nothing_else(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    view = await shop.begin()
    one, other = await waiting(shop, view.operation.id, 2)
    one.cancel()
    await asyncio.wait([one])
    reaction.may_end.set()
    await shop.until(other.done)

    assert other.result().operation.state is State.SUCCEEDED
    assert shop.assembly.hub._waiting == {}


async def test_nobody_waits_for_what_they_cannot_see(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()

    assert (await problem_of(shop.assembly.gateway.wait(OTHER, made, 3600))).code is Code.NOT_FOUND
    assert shop.assembly.hub._waiting == {}


# -- events ---------------------------------------------------------------------------------------------------------


async def test_a_stream_gives_what_happens_and_tells_a_reader_that_lags(shop: Workshop) -> None:
    stream = shop.assembly.gateway.events(PERSON)
    assert isinstance(stream, AsyncGenerator)
    first = asyncio.ensure_future(anext(stream))
    await shop.turns()
    shop.assembly.hub.alert("one", None, "x")
    assert (await first).data["alert"] == "one"
    for number in range(BACKLOG_MAX + 2):
        shop.assembly.hub.alert(str(number), None, "x")

    # Before anything that came after the gap.
    assert (await anext(stream)).kind == "lagged"
    assert [(await anext(stream)).data["alert"] for _ in range(2)] == [str(BACKLOG_MAX), str(BACKLOG_MAX + 1)]
    await stream.aclose()
    assert shop.assembly.hub._subscriptions == set()


# -- delivery -------------------------------------------------------------------------------------------------------


async def test_only_effects_are_marked_as_delivered(shop: Workshop) -> None:
    shop.outside.writes += [DONE, answer(400), UNSENT]
    shop.outside.reads.append(DONE)
    effect, refused, waits = [await shop.submit(name=name) for name in "abc"]
    read = await shop.submit("read")
    for made in (effect, refused, waits, read):
        await shop.assembly.gateway.delivered(await shop.assembly.gateway.get(CALLER, made))
    await shop.store.seal()

    marked = {made for made in (effect, refused, waits, read) if (await shop.show(made)).delivered}
    assert marked == {effect}


async def test_an_answer_is_out_whether_or_not_its_delivery_can_be_marked(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    view = await shop.assembly.gateway.get(CALLER, await shop.submit())
    await shop.store.close()

    await shop.assembly.gateway.delivered(view)


# -- act ------------------------------------------------------------------------------------------------------------


async def test_looking_now_never_sends_the_action_itself(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    made = await shop.submit("make.again")
    shop.outside.reads += [SICK] * 6
    for _ in range(3):
        await shop.assembly.gateway.reconcile(CALLER, made)
        assert shop.outside.sent[-1].startswith("GET ")
    await shop.quiet()

    assert shop.outside.posts == 1


async def test_looking_now_at_what_nobody_can_look_up_is_refused(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    made = await shop.submit("make.blind")

    assert (await problem_of(shop.assembly.gateway.reconcile(CALLER, made))).code is Code.WRONG_STATE


async def test_looking_now_at_what_is_not_in_doubt_just_answers(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()
    view = await shop.assembly.gateway.reconcile(CALLER, made)

    assert view.operation.state is State.READY
    assert len(shop.outside.exchanges) == 1


async def test_what_was_not_carried_out_can_be_cancelled_once_and_for_all(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()
    view = await shop.assembly.gateway.cancel(CALLER, made)
    again = await shop.assembly.gateway.cancel(CALLER, made)
    await shop.pass_on(60)

    assert view.operation.state is again.operation.state is State.CANCELLED
    assert (view.already_ended, again.already_ended) == (False, True)
    assert shop.outside.posts == 1
    assert len(shop.assembly.recovery) == 0


@pytest.mark.parametrize("seen", [TIMEOUT, answer(202, b"{}", ("Operation-Location", "/handles/1"))])
async def test_what_may_have_been_carried_out_cannot_be_cancelled(seen: object, shop: Workshop) -> None:
    shop.outside.writes.append(seen)  # type: ignore[arg-type]  # observations all
    made = await shop.submit("make.slow")
    before = await shop.show(made)

    assert (await problem_of(shop.assembly.gateway.cancel(CALLER, made))).code is Code.WRONG_STATE
    assert await shop.show(made) == before


async def test_a_cancel_that_lost_its_race_is_decided_on_the_stored_image(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    live = shop.live(await shop.submit())
    stale = live.operation
    shop.outside.writes.append(TIMEOUT)
    await shop.pass_on(5)
    live.operation = stale

    assert (await problem_of(shop.assembly.gateway.cancel(CALLER, live.id))).code is Code.WRONG_STATE
    assert await shop.state(live.id) == "in_doubt, ambiguous"


async def unresolved(shop: Workshop) -> str:
    shop.outside.writes.append(TIMEOUT)
    made = await shop.submit("make.blind")
    assert (await shop.show(made)).state is State.UNRESOLVED
    return made


def settle(shop: Workshop, made: str, seen: str, who: Principal = PERSON) -> object:
    return shop.assembly.gateway.attest(
        who, made, outcome=Outcome.SUCCESS, executed=Executed.YES, reason="saw it", seen=seen
    )


async def test_a_person_settles_what_nothing_else_could_and_is_named_for_it(shop: Workshop) -> None:
    made = await unresolved(shop)
    digest = attest_digest(await shop.show(made))
    await settle(shop, made, digest)  # type: ignore[misc]  # a coroutine
    stored = await shop.show(made)

    assert await shop.ending(made) == ("succeeded", "yes", "attestation")
    assert stored.attestation is not None
    assert (stored.attestation.person, stored.attestation.reason) == ("ann", "saw it")
    assert stored.attestation.digest == digest


async def test_a_person_who_looked_before_the_last_news_must_look_again(shop: Workshop) -> None:
    made = await unresolved(shop)
    problem = await problem_of(settle(shop, made, "what was shown yesterday"))

    assert (problem.code, await shop.state(made)) == (Code.STALE_DIGEST, "unresolved, ambiguous")
    await settle(shop, made, str(problem.extra["digest"]))  # type: ignore[misc]  # a coroutine


async def test_a_caller_cannot_settle_and_nobody_can_what_is_not_unresolved(shop: Workshop) -> None:
    made = await unresolved(shop)
    digest = attest_digest(await shop.show(made))
    assert (await problem_of(settle(shop, made, digest, CALLER))).code is Code.FORBIDDEN
    shop.outside.writes.append(UNSENT)
    ready = await shop.submit()
    digest = attest_digest(await shop.show(ready))

    assert (await problem_of(settle(shop, ready, digest))).code is Code.WRONG_STATE


async def test_what_a_person_is_shown_changes_with_every_piece_of_evidence(shop: Workshop) -> None:
    shop.outside.writes.append(answer(202, b"{}", ("Operation-Location", "/handles/1")))
    made = await shop.submit("make.slow")
    digests = [attest_digest(await shop.show(made))]
    for seen in (BUSY, SICK):
        shop.outside.reads.append(seen)
        await shop.assembly.gateway.reconcile(CALLER, made)
        await shop.quiet()
        digests.append(attest_digest(await shop.show(made)))

    assert len(set(digests)) == 3


@pytest.mark.parametrize("act", ["cancel", "attest"])
@pytest.mark.parametrize(("spoil", "dies"), [(Workshop.refuse_next, False), (Workshop.lose_next, True)])
async def test_an_act_that_the_store_does_not_take_is_a_problem_and_never_a_half_truth(
    act: str, spoil: Callable[[Workshop], None], dies: bool, shop: Workshop
) -> None:
    if act == "cancel":
        shop.outside.writes.append(UNSENT)
        made = await shop.submit()
        call: object = shop.assembly.gateway.cancel(CALLER, made)
    else:
        made = await unresolved(shop)
        call = settle(shop, made, attest_digest(await shop.show(made)))
    before = await shop.show(made)
    spoil(shop)
    problem = await problem_of(call)

    assert problem.code is Code.STORE_UNAVAILABLE
    assert bool(shop.dead) is dies
    if not dies:
        assert await shop.show(made) == before
    shop.dead.clear()


async def test_load_counts_what_is_in_memory_and_what_is_under_way(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes += [UNSENT, reaction]
    await shop.submit(name="a")
    await shop.begin(name="b")
    await shop.until(reaction.begun.is_set)
    assert shop.assembly.gateway.load() == (2, 1)
    reaction.may_end.set()
    await shop.quiet()

    assert shop.assembly.gateway.load() == (1, 0)
