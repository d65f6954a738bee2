"""Bounds and permissions before an operation exists."""

import pytest

from gateway.engine.gate import Bucket
from gateway.engine.submit import Request
from gateway.model.principal import Principal
from gateway.model.problem import Code, Problem
from gateway.store.port import StoreUnknown
from tests.unit.core.builders import TIMEOUT, UNSENT
from tests.unit.engine.keeping import HandClock
from tests.unit.engine.workshop import CALLER, DONE, OTHER, PERSON, Held, Workshop, open_workshop


async def refused(shop: Workshop, request: Request, who: Principal = CALLER) -> Problem:
    before = await shop.store.tail(1000) if shop.store.failed is None else []
    with pytest.raises(Problem) as problem:
        await shop.assembly.gateway.submit(who, request)
    if shop.store.failed is None:
        assert await shop.store.tail(1000) == before
    return problem.value


def make(name: str = "a") -> Request:
    return Request("make.blind", {"name": name})


# -- the rate -------------------------------------------------------------------------------------------------------


def test_a_bucket_gives_a_burst_then_a_steady_rate_to_each_key_alone() -> None:
    clock = HandClock()
    bucket = Bucket(clock, per_second=2.0, burst=3)

    assert [bucket.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert bucket.take("b") == 0.0
    clock.now_ms += 250
    assert bucket.take("a") == pytest.approx(0.25)
    clock.now_ms += 250
    assert bucket.take("a") == 0.0


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    clock = HandClock()
    bucket = Bucket(clock, per_second=2.0, burst=3)
    bucket.take("a")
    clock.now_ms += 3_600_000

    assert [bucket.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_whoever_is_refused_pays_nothing_for_it() -> None:
    clock = HandClock()
    bucket = Bucket(clock, per_second=1.0, burst=1)
    bucket.take("a")
    waits = []
    for _ in range(4):
        clock.now_ms += 200
        waits.append(bucket.take("a"))

    assert waits == pytest.approx([0.8, 0.6, 0.4, 0.2])
    clock.now_ms += 201
    assert bucket.take("a") == 0.0


def test_the_rate_is_counted_on_a_clock_that_nobody_can_step() -> None:
    class Stepped(HandClock):
        def wall_ms(self) -> int:
            return self.now_ms + 3_600_000 * self.steps

        steps = 0

    clock = Stepped()
    bucket = Bucket(clock, per_second=1.0, burst=1)
    bucket.take("a")
    clock.steps = 1

    assert bucket.take("a") == 1.0


# -- room -----------------------------------------------------------------------------------------------------------


async def test_a_gateway_that_ends_takes_nothing_new(shop: Workshop) -> None:
    doorkeeper = shop.assembly.gateway.doorkeeper
    assert doorkeeper.unready() is None
    doorkeeper.draining = True

    assert (await refused(shop, make())).code is Code.SHUTTING_DOWN
    assert doorkeeper.unready() == "shutting down"


async def test_a_log_that_cannot_follow_refuses_in_its_own_words(shop: Workshop) -> None:
    doorkeeper = shop.assembly.gateway.doorkeeper
    doorkeeper.log_refusal = lambda: "The log is full."
    problem = await refused(shop, make())

    assert (problem.code, "The log is full." in problem.detail) == (Code.AUDIT_UNAVAILABLE, True)
    assert problem.retry_after_seconds is not None
    assert doorkeeper.unready() == "The log is full."


async def test_a_lost_store_refuses_whoever_comes_and_says_to_ask_by_key(shop: Workshop) -> None:
    shop.lose_next()
    with pytest.raises(StoreUnknown):
        await shop.store.heartbeat()
    problem = await refused(shop, make())

    assert (problem.code, "Ask by key" in (problem.guidance or "")) == (Code.STORE_UNAVAILABLE, True)
    assert shop.assembly.gateway.doorkeeper.unready() == "the store's state is unknown"
    assert shop.outside.exchanges == []


async def test_a_caller_has_only_so_many_unsettled_operations_and_leaves_room_for_others() -> None:
    shop = await open_workshop(in_flight_per_caller_max=1)
    shop.outside.writes += [UNSENT, UNSENT, TIMEOUT]
    await shop.submit(name="a")
    problem = await refused(shop, make("b"))
    assert (problem.code, problem.retry_after_seconds) == (Code.TOO_MANY_REQUESTS, 1.0)
    other = await shop.submit(name="b", who=OTHER)

    await shop.assembly.gateway.cancel(OTHER, other)
    await shop.quiet()
    await shop.submit("make.blind", name="c", who=OTHER)
    await shop.close()


async def test_only_so_many_operations_are_carried_out_at_once() -> None:
    shop = await open_workshop(in_flight_max=1)
    reaction = Held(DONE)
    shop.outside.writes += [reaction, DONE]
    await shop.begin(name="a")
    await shop.until(reaction.begun.is_set)
    assert (await refused(shop, make("b"), OTHER)).code is Code.TOO_MANY_REQUESTS
    reaction.may_end.set()
    await shop.quiet()
    await shop.submit(name="b", who=OTHER)
    await shop.close()


# -- parents --------------------------------------------------------------------------------------------------------


async def chain(shop: Workshop, depth: int) -> str | None:
    parent = None
    for number in range(depth):
        shop.outside.reads.append(DONE)
        parent = await shop.submit("read", name=f"n{number}", parent=parent)
    return parent


async def test_a_chain_of_parents_may_be_as_deep_as_the_bound_and_no_deeper() -> None:
    shop = await open_workshop(call_depth_max=2)
    at_the_bound = await chain(shop, 3)
    problem = await refused(shop, Request("read", {"name": "x"}, parent=at_the_bound))

    assert (problem.code, "deeper than 2" in problem.detail) == (Code.FORBIDDEN, True)
    await shop.close()


@pytest.mark.parametrize("parent", ["foreign", "op_nothing"])
async def test_a_parent_that_this_key_cannot_see_does_not_exist(parent: str, shop: Workshop) -> None:
    shop.outside.reads.append(DONE)
    foreign = await shop.submit("read", who=OTHER)
    wanted = foreign if parent == "foreign" else parent
    problem = await refused(shop, Request("read", {"name": "x"}, parent=wanted))

    assert (problem.code, problem.errors[0].pointer) == (Code.NOT_FOUND, "/parent")


async def test_a_foreign_grandparent_is_as_invisible_as_a_foreign_parent(shop: Workshop) -> None:
    shop.outside.reads += [DONE, DONE]
    foreign = await shop.submit("read", who=OTHER)
    middle = await shop.show(foreign)
    # Whatever brought such a row into the store, a caller learns nothing through it.
    own = middle.but(id=f"{foreign[:-1]}z", caller=CALLER.name, parent=foreign, fingerprint="e" * 64)
    getting = shop.store.get

    async def get(operation_id: str) -> object:
        return own if operation_id == own.id else await getting(operation_id)

    shop.assembly.gateway.doorkeeper._store = _With(shop.store, get)  # type: ignore[assignment]  # one call differs
    assert (await refused(shop, Request("read", {"name": "x"}, parent=own.id))).code is Code.NOT_FOUND


async def test_a_chain_that_leads_back_to_itself_ends(shop: Workshop) -> None:
    shop.outside.reads.append(DONE)
    first = await shop.show(await shop.submit("read"))

    async def get(_operation_id: str) -> object:
        return first.but(parent=first.id)

    shop.assembly.gateway.doorkeeper._store = _With(shop.store, get)  # type: ignore[assignment]  # one call differs
    problem = await refused(shop, Request("read", {"name": "x"}, parent=first.id))

    assert problem.code is Code.FORBIDDEN


class _With:
    """A store in which one call answers otherwise."""

    def __init__(self, store: object, get: object) -> None:
        self._of = store
        self.get = get

    def __getattr__(self, name: str) -> object:
        return getattr(self._of, name)


# -- credentials and quarantine -------------------------------------------------------------------------------------


async def test_an_action_whose_credential_is_missing_is_refused_before_it_exists(shop: Workshop) -> None:
    assert (await refused(shop, Request("make.locked", {"name": "a"}))).code is Code.CREDENTIAL_MISSING


async def test_in_quarantine_writes_are_refused_and_reads_go_on(shop: Workshop) -> None:
    shop.assembly.gateway.doorkeeper.quarantined = True
    assert (await refused(shop, make())).code is Code.QUARANTINED
    shop.outside.reads.append(DONE)
    made = await shop.submit("read")

    assert (await shop.ending(made))[0] == "succeeded"


async def test_access_is_asked_before_quarantine_is_told(shop: Workshop) -> None:
    shop.assembly.gateway.doorkeeper.quarantined = True

    assert (await refused(shop, make("z"))).code is Code.FORBIDDEN
    assert (await refused(shop, make(), PERSON)).code is Code.FORBIDDEN
