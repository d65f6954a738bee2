"""Everything unsettled comes back: when it is due, after a restart, and never to two drivers at once."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.core.agenda import Act, Item
from gateway.core.events import Cancelled
from gateway.engine.hub import Hub
from gateway.engine.journal import Journal
from gateway.engine.live import Live
from gateway.engine.recovery import OUTDATED_MAX, RESTART_CONCURRENCY, Recovery
from gateway.engine.revive import Revival
from gateway.model.operation import Operation, State
from gateway.store.port import StoreUnknown
from tests.unit.core.builders import TIMEOUT, UNSENT, answer
from tests.unit.engine.keeping import CountedChance
from tests.unit.engine.workshop import CALLER, DONE, OTHER, SICK, SWEEP_SECONDS, Held, Workshop, definitions


async def test_what_is_settled_is_let_go_and_what_is_not_is_kept_and_counted(shop: Workshop) -> None:
    recovery = shop.assembly.recovery
    shop.outside.writes += [DONE, TIMEOUT, TIMEOUT]
    done = await shop.submit(name="a")
    doubt = await shop.submit(name="b")
    await shop.submit(name="c", who=OTHER)

    assert (recovery.find(done), len(recovery), recovery.busy) == (None, 2, 0)
    assert recovery.find(doubt) is not None
    assert (recovery.count_of(CALLER.name), recovery.count_of(OTHER.name), recovery.count_of("nobody")) == (1, 1, 0)


async def test_what_nobody_can_settle_but_a_person_is_let_go(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    made = await shop.submit("make.blind")

    assert await shop.state(made) == "unresolved, ambiguous"
    assert (shop.assembly.recovery.find(made), shop.assembly.recovery.count_of(CALLER.name)) == (None, 0)


async def test_what_is_unresolved_but_can_be_looked_up_is_kept_and_watched(shop: Workshop) -> None:
    shop.outside.writes.append(TIMEOUT)
    shop.outside.reads += [SICK] * 3
    made = await shop.submit()
    await shop.pass_on(61)
    await shop.pass_on(61)
    assert await shop.state(made) == "unresolved, ambiguous"
    shop.outside.reads[:] = [answer(200, b'{"state": "succeeded", "key": "%s"}' % made.encode())] * 2
    await shop.pass_on(61)

    assert await shop.ending(made) == ("succeeded", "yes", "probe")


async def test_nothing_is_brought_back_before_it_is_due(shop: Workshop) -> None:
    shop.outside.writes += [UNSENT, DONE]
    made = await shop.submit()
    due_ms = (await shop.show(made)).next_ms
    assert due_ms is not None
    left = (due_ms - shop.clock.wall_ms()) / 1000
    await shop.pass_on(left - 0.001)
    assert shop.outside.posts == 1
    await shop.pass_on(0.001)

    assert shop.outside.posts == 2


class Scripted:
    """A driver that counts, and ends when it is let."""

    def __init__(self) -> None:
        self.calls = 0
        self.at_work = 0
        self.may_end = asyncio.Semaphore(0)

    async def drive(self, _live: Live, *, begun: bool = False) -> Item:
        self.calls += 1
        self.at_work += 1
        assert self.at_work == 1
        await self.may_end.acquire()
        self.at_work -= 1
        return Item(Act.WAIT, None)


def recovery_with(shop: Workshop, driver: object) -> Recovery:
    return Recovery(
        shop.assembly.journal,
        driver,  # type: ignore[arg-type]  # the one call that is made of it
        Revival(shop.store, definitions()),
        shop.assembly.tasks,
        shop.clock,
        sweep_seconds=1.0,
        on_dead=shop.dead.append,
    )


async def test_a_nudge_during_the_work_is_a_second_look_and_not_a_second_driver(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    live = shop.live(await shop.submit())
    driver = Scripted()
    recovery = recovery_with(shop, driver)
    recovery.adopt(live, begun=False)
    await shop.turns()
    for _ in range(3):
        recovery.nudge(live)
    await shop.turns()
    assert (driver.calls, recovery.busy) == (1, 1)
    driver.may_end.release()
    await shop.turns()
    assert (driver.calls, recovery.busy) == (2, 1)
    driver.may_end.release()
    await shop.turns()

    assert (driver.calls, recovery.busy, live.nudged, live.driven) == (2, 0, False, False)


class Postponing:
    """A driver that wants to come back a little later each time."""

    def __init__(self, first_ms: int) -> None:
        self.calls = 0
        self.first_ms = first_ms

    async def drive(self, _live: Live, *, begun: bool = False) -> Item:
        self.calls += 1
        return Item(Act.WAIT, self.first_ms + self.calls)


async def test_times_that_no_longer_count_do_not_pile_up_and_bring_nothing_back(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    live = shop.live(await shop.submit())
    driver = Postponing(shop.clock.wall_ms() + 60_000)
    recovery = recovery_with(shop, driver)
    recovery.adopt(live, begun=False)
    for _ in range(3 * OUTDATED_MAX):
        while live.driven:
            await asyncio.sleep(0)
        recovery.nudge(live)
    await shop.turns()
    told = driver.calls
    assert told == 1 + 3 * OUTDATED_MAX
    assert len(recovery._due) <= OUTDATED_MAX + 3
    shop.clock.move((60_000 + told - 1) / 1000)
    recovery._bring_back()
    await shop.turns()
    assert driver.calls == told
    shop.clock.move(0.001)
    recovery._bring_back()
    await shop.turns()

    assert driver.calls == told + 1


async def test_what_is_driven_is_not_brought_back_as_well(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    view = await shop.begin()
    await shop.until(reaction.begun.is_set)
    shop.assembly.recovery.schedule(view.operation.id, shop.clock.wall_ms())
    await shop.one_round()
    await shop.turns()

    # A second driver would have taken this mark with it when it ended.
    assert shop.live(view.operation.id).driven
    assert shop.assembly.recovery.busy == 1
    reaction.may_end.set()
    await shop.quiet()


async def test_after_the_end_was_announced_a_nudge_starts_nothing(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    live = shop.live(await shop.submit())
    shop.assembly.recovery.stop()
    shop.clock.move(5)
    shop.assembly.recovery.nudge(live)
    await shop.turns()

    assert (live.driven, shop.outside.posts) == (False, 1)


# -- the loop -------------------------------------------------------------------------------------------------------


async def test_the_loop_wakes_for_what_became_due_first_and_stops_when_told(shop: Workshop) -> None:
    running = asyncio.ensure_future(shop.assembly.recovery.run())
    shop.outside.writes += [UNSENT, DONE]
    made = await shop.submit()
    shop.clock.move(10)
    shop.assembly.recovery.schedule(made, shop.clock.wall_ms())
    await shop.until(lambda: shop.outside.posts == 2)
    await shop.quiet()
    shop.assembly.recovery.stop()
    await shop.until(running.done)

    assert await shop.ending(made) == ("succeeded", "yes", "answer")


async def test_the_loop_wakes_in_time_for_what_is_due_long_before_the_next_sweep(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    due_ms = (await shop.show(await shop.submit())).next_ms
    assert due_ms is not None
    shop.clock.move((due_ms - shop.clock.wall_ms() - 5) / 1000)
    running = asyncio.ensure_future(shop.assembly.recovery.run())
    await shop.turns()
    assert shop.outside.posts == 1
    shop.outside.writes.append(DONE)
    shop.clock.step_wall(1)
    await until(lambda: shop.outside.posts == 2)
    shop.assembly.recovery.stop()
    await running


def swept(shop: Workshop, dead: list[str]) -> Recovery:
    """A recovery that sweeps all the time, beside the workshop's own."""
    assembly = shop.assembly
    revival = Revival(shop.store, definitions())
    return Recovery(
        assembly.journal,
        assembly.driver,
        revival,
        assembly.tasks,
        shop.clock,
        sweep_seconds=0.001,
        on_dead=dead.append,
    )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(40):
        while not holds():
            await asyncio.sleep(0)


async def test_a_wall_clock_that_is_set_forward_is_noticed_by_the_sweep(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()
    shop.assembly.recovery.stop()
    recovery = swept(shop, shop.dead)
    assert await recovery.take_over() == 1
    running = asyncio.ensure_future(recovery.run())
    await shop.turns()
    assert shop.outside.posts == 1
    shop.outside.writes.append(DONE)
    # Nobody schedules anything and nothing wakes the loop but its own sweep.
    shop.clock.step_wall(30)
    await until(lambda: shop.outside.posts == 2)
    recovery.stop()
    await running
    await shop.quiet()

    stored = await shop.store.get(made)
    assert stored is not None
    assert stored.state is State.SUCCEEDED


async def test_what_could_not_be_done_comes_back_with_the_next_sweep(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    await shop.submit()
    shop.assembly.driver.writes_held = True
    await shop.pass_on(10)
    shop.assembly.driver.writes_held = False
    await shop.pass_on(SWEEP_SECONDS - 1)
    assert shop.outside.posts == 1
    shop.outside.writes.append(DONE)
    await shop.pass_on(1)

    assert shop.outside.posts == 2


async def test_a_store_that_anybody_lost_ends_the_loop_and_the_process(shop: Workshop) -> None:
    shop.lose_next()
    with pytest.raises(StoreUnknown):
        await shop.store.heartbeat()
    await shop.assembly.recovery.run()

    assert shop.dead == [shop.store.failed]
    shop.dead.clear()


async def test_a_driver_that_loses_the_store_ends_the_process(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    await shop.begin()
    await shop.until(reaction.begun.is_set)
    shop.lose_next()
    reaction.may_end.set()
    await shop.quiet()

    assert shop.dead == [shop.store.failed]
    shop.dead.clear()


# -- a restart ------------------------------------------------------------------------------------------------------


async def test_a_restart_goes_on_with_what_was_unsettled_and_sends_nothing_twice(shop: Workshop) -> None:
    shop.outside.writes += [TIMEOUT, UNSENT, DONE]
    doubt, unsent, done = [await shop.submit(name=name) for name in "abc"]
    again = await shop.reopen()
    assert await again.assembly.recovery.take_over() == 2
    again.outside.reads.append(answer(200, f'{{"state": "succeeded", "key": "{doubt}"}}'.encode()))
    again.outside.writes.append(DONE)
    await again.pass_on(20)

    assert await again.ending(doubt) == ("succeeded", "yes", "probe")
    assert await again.ending(unsent) == ("succeeded", "yes", "answer")
    assert await again.ending(done) == ("succeeded", "yes", "answer")
    assert again.outside.posts == 1
    await again.close()


async def test_an_attempt_that_was_under_way_is_in_doubt_after_a_restart(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    view = await shop.begin()
    await shop.until(reaction.begun.is_set)
    again = await shop.reopen()
    await again.assembly.recovery.take_over()

    assert await again.state(view.operation.id) == "in_doubt, ambiguous"
    assert again.outside.posts == 0
    await again.close()


async def test_settle_times_start_anew_at_a_restart(shop: Workshop) -> None:
    reaction = Held(DONE)
    shop.outside.writes.append(reaction)
    made = (await shop.begin()).operation.id
    await shop.until(reaction.begun.is_set)
    # Nobody knows when the dead process's socket closed, only that it has by now.
    shop.clock.move(4)
    again = await shop.reopen()
    await again.assembly.recovery.take_over()
    again.outside.reads += [answer(404, b"{}")] * 6
    await again.pass_on(2)
    await again.pass_on(2)
    assert await again.state(made) == "in_doubt, ambiguous"
    await again.pass_on(5)
    await again.pass_on(5)

    assert await again.ending(made) == ("failed", "no", "absence")
    await again.close()


async def test_what_waits_for_a_person_is_left_as_it_is_by_a_restart(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    live = shop.live(await shop.submit())
    held = live.operation.but(state=State.HELD, version=live.operation.version, attempts=())
    recovery = swept(shop, shop.dead)
    recovery.adopt(Live(held, live.action, live.arguments, live.request), begun=False)
    await shop.quiet()

    kept = recovery.find(live.id)
    assert kept is not None
    assert kept.operation == held


async def test_what_a_restored_store_believes_unsent_is_in_doubt_and_nothing_else_is(shop: Workshop) -> None:
    shop.outside.writes += [UNSENT, TIMEOUT]
    shop.outside.reads.append(UNSENT)
    unsent, doubt = await shop.submit(name="a"), await shop.submit(name="b")
    read = await shop.submit("read", name="c")
    again = await shop.reopen()
    await again.assembly.recovery.take_over(restored=True)

    assert await again.state(unsent) == "in_doubt, ambiguous"
    assert len((await again.show(unsent)).attempts) == 2
    assert len((await again.show(doubt)).attempts) == 1
    assert await again.state(read) == "ready"
    await again.close()


async def test_a_start_that_loses_the_store_says_so_alone(shop: Workshop) -> None:
    shop.outside.writes += [UNSENT, UNSENT]
    for name in "ab":
        await shop.submit(name=name)
    again = await shop.reopen()
    again.lose_next()

    with pytest.raises(StoreUnknown):
        await again.assembly.recovery.take_over()
    assert again.outside.exchanges == []


async def test_an_operation_that_is_taken_over_elsewhere_is_kept_with_its_stored_image(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    live = shop.live(await shop.submit())
    await shop.assembly.journal.apply(live, Cancelled(actor="rival"))
    current = live.operation

    class Overtaken:
        """Revives an image that is not the newest one any more."""

        async def revive(self, operation: Operation) -> Live:
            revived = await Revival(shop.store, definitions()).revive(operation)
            revived.operation = operation.but(version=operation.version - 1, state=State.READY)
            return revived

    stale = current.but(state=State.READY, version=current.version - 1)

    class Behind:
        """A store whose list was read before the rival came."""

        failed = None

        async def unsettled(self) -> list[Operation]:
            return [stale.but(version=stale.version + 1)]

        def __getattr__(self, name: str) -> object:
            return getattr(shop.store, name)

    journal = Journal(Behind(), shop.clock, CountedChance(), Hub(), "late")  # type: ignore[arg-type]  # all but a list
    recovery = Recovery(
        journal,
        shop.assembly.driver,
        Overtaken(),
        shop.assembly.tasks,
        shop.clock,
        sweep_seconds=1.0,
        on_dead=shop.dead.append,
    )
    assert await recovery.take_over() == 1

    taken = recovery.find(live.id)
    assert taken is not None
    assert taken.operation == current


async def test_a_restart_takes_over_only_so_many_at_once(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = shop.live(await shop.submit()).operation
    count = RESTART_CONCURRENCY + 30
    under_way: list[int] = [0, 0]
    go_on = asyncio.Event()

    class Slow:
        async def revive(self, operation: Operation) -> Live:
            under_way[0] += 1
            under_way[1] = max(under_way)
            await go_on.wait()
            under_way[0] -= 1
            revived = await Revival(shop.store, definitions()).revive(made)
            revived.operation = operation
            return revived

    class Many:
        """A store full of operations that wait for a person, so that nothing is written for them."""

        failed = None

        async def unsettled(self) -> list[Operation]:
            return [made.but(id=f"{made.id}{number}", state=State.HELD) for number in range(count)]

    journal = Journal(Many(), shop.clock, CountedChance(), Hub(), "many")  # type: ignore[arg-type]  # only listed
    recovery = Recovery(
        journal,
        shop.assembly.driver,
        Slow(),
        shop.assembly.tasks,
        shop.clock,
        sweep_seconds=1.0,
        on_dead=shop.dead.append,
    )
    taking = asyncio.ensure_future(recovery.take_over())
    for _ in range(count * 2):
        await asyncio.sleep(0)
    assert under_way == [RESTART_CONCURRENCY, RESTART_CONCURRENCY]
    go_on.set()
    assert await taking == count

    assert (len(recovery), under_way[1]) == (count, RESTART_CONCURRENCY)
    assert recovery.count_of(CALLER.name) == count


async def test_a_restart_has_every_operation_looked_at_when_it_was_due(shop: Workshop) -> None:
    shop.outside.writes.append(UNSENT)
    made = await shop.submit()
    due_ms = (await shop.show(made)).next_ms
    again = await shop.reopen()
    await again.assembly.recovery.take_over()
    assert due_ms is not None
    await again.pass_on((due_ms - again.clock.wall_ms() - 1) / 1000)
    assert again.outside.posts == 0
    again.outside.writes.append(DONE)
    await again.pass_on(0.001)

    assert again.outside.posts == 1
    await again.close()
