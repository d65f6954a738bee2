"""The one door to the store: durable before it is told, lost races are said, observations are offered again."""

from dataclasses import replace
from itertools import pairwise

import orjson
import pytest

from gateway.core.draft import Step
from gateway.core.events import Cancelled, DeadlinePassed, LeaseLost
from gateway.core.transitions import IllegalMoveError
from gateway.engine.journal import Lost
from gateway.engine.live import Live
from gateway.model.operation import State
from gateway.store.points import RULED
from gateway.store.port import PayloadKind, StoreUnknown, Unavailable
from tests.unit.core.builders import TIMEOUT, UNSENT
from tests.unit.engine.workshop import DONE, Workshop

CANCEL = Cancelled(actor="one")


async def ready(shop: Workshop, action: str = "make") -> Live:
    """An operation that waits to be sent again."""
    shop.outside.writes.append(UNSENT)
    return shop.live(await shop.submit(action))


async def test_whoever_loses_a_race_takes_the_stored_image_and_leaves_no_trace(shop: Workshop) -> None:
    live = await ready(shop)
    rival = replace(live)
    await shop.assembly.journal.apply(rival, Cancelled(actor="rival"))
    before = await shop.events()

    with pytest.raises(Lost):
        await shop.assembly.journal.apply(live, Cancelled(actor="late"))

    assert live.operation == rival.operation == await shop.store.get(live.id)
    assert await shop.events() == before


async def test_whoever_loses_a_race_tells_nobody_of_its_own_image(shop: Workshop) -> None:
    live = await ready(shop)
    rival = replace(live)
    await shop.assembly.journal.apply(rival, Cancelled(actor="rival"))

    with shop.assembly.hub.watch(live.id) as changed, pytest.raises(Lost):
        await shop.assembly.journal.apply(live, CANCEL)

    assert not changed.is_set()
    assert live.result is None


async def test_a_change_is_told_after_it_is_on_disk(shop: Workshop) -> None:
    live = await ready(shop)
    told: list[bool] = []
    with shop.assembly.hub.watch(live.id) as changed:
        for point in ("store.begin", "store.written", "store.committed"):
            shop.points.planned[point] = lambda: told.append(changed.is_set())
        await shop.assembly.journal.apply(live, CANCEL)

        assert (told, changed.is_set()) == ([False] * 3, True)


async def test_a_change_that_the_store_refuses_did_not_happen_for_anybody(shop: Workshop) -> None:
    live = await ready(shop)
    before = live.operation
    shop.refuse_next()
    with shop.assembly.hub.watch(live.id) as changed, pytest.raises(Unavailable):
        await shop.assembly.journal.apply(live, CANCEL)

    assert not changed.is_set()
    assert live.operation == before == await shop.store.get(live.id)


async def test_a_change_whose_fate_is_unknown_is_told_to_nobody_and_nothing_is_taken_after_it(shop: Workshop) -> None:
    live = await ready(shop)
    before = live.operation
    shop.lose_next()
    with shop.assembly.hub.watch(live.id) as changed, pytest.raises(StoreUnknown):
        await shop.assembly.journal.apply(live, CANCEL)
    with pytest.raises(StoreUnknown):
        await shop.assembly.journal.apply_surely(live, CANCEL)

    assert not changed.is_set()
    assert live.operation == before
    assert shop.clock.slept == []


async def test_an_observation_is_offered_with_growing_pauses_until_the_store_takes_it(shop: Workshop) -> None:
    live = await ready(shop)
    shop.refuse_next(times=5)
    await shop.assembly.journal.apply_surely(live, CANCEL)

    assert live.operation.state is State.CANCELLED
    assert len(shop.clock.slept) == 4
    assert shop.clock.slept == sorted(shop.clock.slept)
    assert max(shop.clock.slept) <= 2.0


async def test_what_is_offered_again_is_not_offered_to_a_store_that_is_lost_by_then(shop: Workshop) -> None:
    live = await ready(shop)
    shop.refuse_next()
    refuse = shop.points.planned.pop(RULED)

    def refuse_then_lose() -> None:
        shop.lose_next()
        refuse()

    shop.points.planned[RULED] = refuse_then_lose
    with pytest.raises(StoreUnknown):
        await shop.assembly.journal.apply_surely(live, CANCEL)

    assert shop.clock.slept == []


async def test_what_is_offered_again_is_decided_again(shop: Workshop) -> None:
    live = await ready(shop)
    decided: list[int] = []

    def decide(taken: Step) -> tuple[Step, dict[PayloadKind, bytes]]:
        decided.append(taken.operation.final_ms or 0)
        return taken, {}

    shop.refuse_next(times=2)
    await shop.assembly.journal.apply_surely(live, CANCEL, finish=decide)

    # The second offer is made at once, the third after a pause: by then it is later.
    assert decided[0] == decided[1] < decided[2] == shop.clock.wall_ms()
    assert (await shop.events()).count("cancel") == 1


async def test_a_lost_race_is_no_refusal_and_is_not_offered_again(shop: Workshop) -> None:
    live = await ready(shop)
    rival = replace(live)
    await shop.assembly.journal.apply(rival, CANCEL)

    with pytest.raises(Lost):
        await shop.assembly.journal.apply_surely(live, CANCEL)

    assert shop.clock.slept == []


async def test_an_event_that_does_not_fit_reaches_no_store(shop: Workshop) -> None:
    live = await ready(shop)
    shop.points.hits.clear()

    with pytest.raises(IllegalMoveError):
        await shop.assembly.journal.apply(live, LeaseLost())

    assert shop.points.hits == []


async def test_a_result_travels_with_the_outcome_in_one_transaction(shop: Workshop) -> None:
    live = await ready(shop)
    shop.refuse_next()
    with pytest.raises(Unavailable):
        await shop.assembly.journal.apply(live, CANCEL, finish=lambda taken: (taken, {PayloadKind.RESULT: b"1"}))
    assert (await shop.store.payload(live.id, PayloadKind.RESULT), live.result) == (None, None)

    await shop.assembly.journal.apply(live, CANCEL, finish=lambda taken: (taken, {PayloadKind.RESULT: b"1"}))
    assert (await shop.store.payload(live.id, PayloadKind.RESULT), live.result) == (b"1", b"1")


async def test_only_the_end_of_what_cannot_be_undone_is_sealed_at_once(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    shop.outside.reads.append(DONE)
    seals = [await _seals(shop)]
    await shop.submit("read")
    seals.append(await _seals(shop))
    shop.outside.writes.insert(0, UNSENT)
    await shop.submit()
    seals.append(await _seals(shop))
    await shop.pass_on(5)
    seals.append(await _seals(shop))

    assert [after - before for before, after in pairwise(seals)] == [0, 0, 1]


async def _seals(shop: Workshop) -> int:
    return sum(orjson.loads(item.frame)["kind"] == "seal" for item in await shop.store.tail(1000))


async def test_admission_and_first_begin_are_one_transaction_and_one_version(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    shop.points.hits.clear()
    view = await shop.begin()
    before = shop.points.hits.count("store.begin")
    await shop.quiet()

    assert before == 1
    assert (view.operation.state, view.operation.version) == (State.SENDING, 0)
    assert shop.points.hits.count("store.begin") == 2


async def test_alerts_reach_people_after_the_change_that_raised_them(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    with shop.assembly.hub.subscribe(None) as stream:
        made = await shop.submit("make.blind")
        kinds = [(notice.kind, notice.data.get("alert"), notice.data["operation_id"]) for notice in stream.queue]

    assert ("alert", "unresolved", made) in kinds


async def test_what_was_seen_can_be_kept_aside_without_winning_any_race(shop: Workshop) -> None:
    live = await ready(shop)
    rival = replace(live)
    await shop.assembly.journal.apply(rival, CANCEL)
    stale = live.operation

    await shop.assembly.journal.keep_aside(live, 1, TIMEOUT)

    kept = await shop.store.observations(live.id)
    assert (kept[-1]["phase"], kept[-1]["attempt"], kept[-1]["nothing_left"]) == ("request_written", 1, False)
    assert (await shop.events())[-1] == "observation_kept_aside"
    assert live.operation == stale
    assert await shop.store.get(live.id) == rival.operation


async def test_records_say_who_what_and_where_and_hold_no_argument(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    await shop.submit(name="personal")
    frames = [orjson.loads(item.frame) for item in await shop.store.tail(100)]
    bodies = [frame["body"] for frame in frames if frame["kind"] == "data"]

    assert "personal" not in orjson.dumps(bodies).decode()
    for body in bodies:
        assert (body["caller"], body["owner"], body["action"], body["service"]) == ("agent-a", "ann", "make", "svc")
        assert body["at"] == shop.clock.wall_ms()
        assert [name for name, value in body.items() if value is None] in ([], ["op_prev"])


async def test_changes_of_one_operation_in_this_process_wait_for_each_other(shop: Workshop) -> None:
    live = await ready(shop)
    async with live.lock:
        waiting = shop.assembly.tasks.start(shop.assembly.journal.apply(live, DeadlinePassed()), "waits")
        await shop.turns()
        assert not waiting.done()
        version = live.operation.version
    shop.clock.move(61)
    await shop.quiet()

    assert live.operation.version == version + 1
