"""A cancel leaves after its begin is on record, carries its signal, and what the host says of it is kept."""

from typing import Any

import pytest

from adapters.contract import Hooks, HostExchange, HostVerb, Observation
from gateway.core.events import CancelObserved, Event
from gateway.core.transitions import IllegalMoveError
from gateway.engine.cancelling import Cancelling
from gateway.engine.journal import Lost
from gateway.engine.outbound import Outbound
from gateway.model.operation import Attempt, Kind, Standing, State
from tests.unit.core.builders import T0, TIMEOUT, answer, operation
from tests.unit.engine.test_outbound_hosts import Keys, live
from tests.unit.engine.workshop import ElasticClock, Outside, PlainShaper


class Store:
    failed: str | None = None


class Kept:
    """The journal's place: keeps what it is told, and refuses as it was told."""

    def __init__(self, *refusals: Exception) -> None:
        self.store = Store()
        self.refusals = list(refusals)
        self.events: list[Event] = []
        self.aside: list[int] = []

    async def apply_surely(self, at: Any, event: Event) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.events.append(event)

    async def keep_aside(self, at: Any, number: int, seen: Observation) -> None:
        self.aside.append(number)


class Way:
    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.exchanges: list[HostExchange] = []
        self.refusal: str | None = None

    async def attempt(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        self.exchanges.append(exchange)
        self.refusal = hooks.before_send()
        return self.seen

    async def close(self) -> None:
        """Nothing is open."""


async def carried_out(seen: Observation, *refusals: Exception, open_: bool = True) -> tuple[Kept, Way]:
    at = live(Kind.SEND)
    standing = Standing.OPEN if open_ else Standing.SETTLED
    begun = Attempt(2, Kind.CANCEL, 2, 0, 0, "boot-1", standing)
    at.operation = operation(attempts=(*at.operation.attempts, begun), begun_ms=T0, state=State.IN_DOUBT)
    kept, way, clock = Kept(*refusals), Way(seen), ElasticClock()
    outbound = Outbound(Outside(clock), Keys(), PlainShaper(), clock, way)
    await Cancelling(kept, outbound).carry_out(at, "KILL")  # type: ignore[arg-type]  # what it asks of a journal
    return kept, way


@pytest.mark.parametrize(
    ("phase", "fenced"),
    [
        ("fenced", True),
        ("running", False),
        ("exited", False),
        ("lost", False),
        ("unverifiable", False),
        ("absent", None),
        ("accepted", None),
    ],
)
async def test_what_the_host_says_of_a_cancel(phase: str, fenced: bool | None) -> None:
    seen = answer(0, b"{}", ("Phase", phase))
    kept, way = await carried_out(seen)

    assert kept.events == [CancelObserved(2, seen, fenced)]
    (exchange,) = way.exchanges
    assert (exchange.verb, exchange.signal, exchange.attempt, exchange.argv) == (HostVerb.CANCEL, "KILL", 1, ())
    assert way.refusal is None


async def test_a_lost_answer_proves_neither() -> None:
    kept, _ = await carried_out(TIMEOUT)

    assert kept.events == [CancelObserved(2, TIMEOUT, None)]


async def test_a_cancel_that_was_settled_meanwhile_is_not_sent() -> None:
    kept, way = await carried_out(TIMEOUT, open_=False)

    assert (kept.events, way.exchanges) == ([], [])


async def test_what_was_seen_is_offered_again_after_a_lost_race() -> None:
    kept, _ = await carried_out(TIMEOUT, Lost("op"))

    assert len(kept.events) == 1


async def test_what_the_lifecycle_has_no_use_for_is_kept_aside() -> None:
    kept, _ = await carried_out(TIMEOUT, IllegalMoveError(State.READY, "cancel_seen", "no arrow"))

    assert (kept.events, kept.aside) == ([], [2])
