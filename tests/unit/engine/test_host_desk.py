"""Questions to hosts: the right one is asked, and what is no answer is a problem or a finding with a sentence."""

import json
from typing import Any

import pytest

from adapters.contract import Hooks, HostExchange, HostVerb, Observation, Phase
from gateway.core.hostcheck import Level
from gateway.engine.host_desk import HostDesk
from gateway.model.problem import Code, Problem
from tests.unit.catalog.commands import changed, checked
from tests.unit.core.builders import TIMEOUT, UNSENT, answer
from tests.unit.core.test_hostcheck import GOOD
from tests.unit.engine.test_outbound_hosts import BASTION, Keys
from tests.unit.engine.workshop import ElasticClock

LOCK = {
    "phase": "ok", "store_id": "s0123456789abcdef", "lock": "web", "number": 3, "state": "held", "holder": "op_1",
    "holder_attempt": 1, "holder_phase": "lost", "until": 9,
}  # fmt: skip


class Way:
    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.exchanges: list[HostExchange] = []

    async def attempt(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        assert hooks.before_send() is None
        self.exchanges.append(exchange)
        return self.seen

    async def close(self) -> None:
        """Nothing is open."""


def desk(seen: Observation | dict[str, Any], *, missing: str = "") -> tuple[HostDesk, Way]:
    found = checked(changed(("actions:\n", BASTION)))
    assert found.catalog is not None
    way = Way(answer(0, json.dumps(seen).encode()) if isinstance(seen, dict) else seen)
    return HostDesk(found.catalog.hosts, Keys(missing), way, ElasticClock()), way


async def problem_of(call: Any) -> Problem:
    with pytest.raises(Problem) as raised:
        await call
    return raised.value


async def test_a_check_asks_the_host_what_it_offers() -> None:
    asked, way = desk(GOOD | {"store_id": "s0123456789abcdef"})
    seen = await asked.check("web-1")

    (exchange,) = way.exchanges
    assert (exchange.verb, exchange.store, exchange.argv) == (HostVerb.CHECK, "/var/lib/gateway-runner", ())
    assert all(item.level is not Level.FINDING for item in seen.findings if item.check != "clock")


async def test_a_host_without_a_store_is_asked_below_a_place_where_nothing_can_be() -> None:
    asked, way = desk({"phase": "refused", "reason": "store_write", "store_id": ""})

    assert (await asked.check("bastion")).fine
    assert way.exchanges[0].store == "/dev/null"
    for call in (asked.operations("bastion"), asked.lock("bastion", "web")):
        assert (await problem_of(call)).code is Code.WRONG_STATE


async def test_a_credential_that_is_missing_is_a_finding_and_nothing_is_sent() -> None:
    asked, way = desk(GOOD, missing="deploy-key")
    seen = await asked.check("web-1")

    assert (seen.fine, [item.check for item in seen.findings], way.exchanges) == (False, ["credential"], [])


async def test_a_page_of_the_store_goes_on_after_a_name() -> None:
    asked, way = desk({"phase": "ok", "operations": [{"operation": "op_2"}], "more": True})

    assert await asked.operations("web-1", "op_1") == ([{"operation": "op_2"}], True)
    assert (way.exchanges[0].verb, way.exchanges[0].operation) == (HostVerb.LIST, "op_1")


async def test_a_lock_is_shown_with_a_digest_of_what_was_shown() -> None:
    asked, way = desk(LOCK)
    shown = await asked.lock("web-1", "web")
    later, _ = desk(LOCK | {"holder_phase": "running"})

    assert (shown["holder"], shown["number"], len(shown["digest"])) == ("op_1", 3, 64)
    assert shown["digest"] != (await later.lock("web-1", "web"))["digest"]
    assert (way.exchanges[0].verb, way.exchanges[0].lock) == (HostVerb.LOCK, "web")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (UNSENT, "It was not reached"),
        (TIMEOUT, "the runner did not answer"),
        (answer(0, b"[]"), "the runner did not answer"),
        ({"phase": "refused", "reason": "store_mismatch"}, "another store"),
    ],
)
async def test_what_is_no_answer_is_a_problem_with_a_sentence(seen: Observation | dict[str, Any], words: str) -> None:
    asked, _ = desk(seen)
    problem = await problem_of(asked.operations("web-1"))

    assert (problem.code, problem.info.status) == (Code.HOST_UNAVAILABLE, 502)
    assert words in problem.detail
    assert problem.detail.startswith("web-1: ")


async def test_a_host_that_is_not_declared_does_not_exist() -> None:
    asked, way = desk(GOOD)

    assert (await problem_of(asked.check("web-9"))).code is Code.NOT_FOUND
    assert way.exchanges == []


def test_a_phase_of_the_adapter_decides_what_counts_as_answered() -> None:
    assert answer(0, b"{}").phase is Phase.RESPONSE_COMPLETE
