"""The way to a host: which attempt is meant, believed by what, with the credential of each host on the way."""

from dataclasses import replace

import pytest

from adapters.contract import Hooks, HostExchange, HostVerb, Observation, Secret
from gateway.core.strictjson import canonical
from gateway.core.template import Rendered, render_request
from gateway.engine.gate import Doorkeeper
from gateway.engine.live import Live
from gateway.engine.outbound import Outbound
from gateway.model.action import Action
from gateway.model.operation import Attempt, Kind, Standing
from gateway.model.problem import Code, Problem
from gateway.model.step import StepSeen, StepState
from tests.unit.catalog.commands import COMMAND, KEYS, changed, checked, compiled
from tests.unit.core.builders import OP_ID, T0, answer, operation
from tests.unit.engine.workshop import ElasticClock, Outside, PlainShaper

HOOKS = Hooks(before_send=lambda: None)
BASTION = """\
  bastion:
    address: bastion.example.com
    user: hop
    credential: hop-key
    host_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1sVDrVWpbSrxBzHhLwQvnGyLSLYt4/4vvcnzLnRTBe"]
actions:
"""


def action() -> Action:
    found = checked(changed((KEYS, f"{KEYS}    jump: bastion\n    port: 2222\n"), ("actions:\n", BASTION)))
    assert found.catalog is not None, found.mistakes
    return found.catalog.actions["release.migrate"]


class Way:
    """Where exchanges with hosts end; what was asked for has ended with 0 where it is `exited`."""

    def __init__(self, *, exited: bool = False) -> None:
        self.exchanges: list[HostExchange] = []
        self._headers = [("Exited", "0")] if exited else []

    async def attempt(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        self.exchanges.append(exchange)
        return answer(0, b"{}", *self._headers)

    async def close(self) -> None:
        """Nothing is open."""


class Keys:
    """A vault of private keys, made up; what is `missing` is not there."""

    def __init__(self, missing: str = "") -> None:
        self.missing = missing

    def secret_for(self, name: str, origin: str) -> Secret:
        if name == self.missing:
            raise Problem(Code.CREDENTIAL_MISSING, f"The credential {name} is not in the vault.", "Set it.")
        return Secret("ssh_key", "", f"{name} for {origin}")


def live(*kinds: Kind) -> Live:
    attempts = tuple(
        Attempt(number, kind, number, 0, 0, "boot-1", Standing.DOUBT) for number, kind in enumerate(kinds, 1)
    )
    request = Rendered(
        "RUN", "ssh://deploy@web-1.example.com:2222", (), canonical({"argv": ["migrate-db", "--to", "7"]})
    )
    return Live(operation(attempts=attempts, begun_ms=T0 + 5), action(), {"version": "7", "list": []}, request)


async def sent(
    at: Live, request: Rendered, keys: Keys | None = None, *, exited: bool = False
) -> tuple[Way, Observation]:
    way, clock = Way(exited=exited), ElasticClock()
    out = Outbound(Outside(clock), keys or Keys(), PlainShaper(), clock, way)
    seen = await out.send(at.action, request, HOOKS, is_read=False, body_max_bytes=99, about=at)
    return way, seen


async def test_an_attempt_names_its_operation_its_number_and_its_words() -> None:
    at = live(Kind.SEND)
    way, _ = await sent(at, at.request)

    (exchange,) = way.exchanges
    assert (exchange.verb, exchange.argv, exchange.command) == (
        HostVerb.RUN,
        ("migrate-db", "--to", "7"),
        exchange.argv,
    )
    assert (exchange.operation, exchange.attempt, exchange.attempts_max, exchange.issued_ms) == (OP_ID, 1, 3, T0 + 5)
    assert (exchange.store, exchange.store_id) == ("/var/lib/gateway-runner", "s0123456789abcdef")
    assert (exchange.connect_seconds, exchange.request_seconds, exchange.body_max_bytes) == (5.0, 10.0, 99)


async def test_looks_and_fences_mean_the_last_send_for_fences_have_no_number_on_the_host() -> None:
    at = live(Kind.SEND, Kind.SEND, Kind.FENCE)
    for verb in ("STATUS", "FENCE"):
        template = replace(at.action.request, method=verb, body=None)
        way, _ = await sent(at, render_request(template, at.variables(), base_url=at.action.service.base_url))

        (exchange,) = way.exchanges
        assert (exchange.verb, exchange.argv, exchange.attempt) == (HostVerb(verb), (), 2)
        # What an answer must be about, whichever question it answers.
        assert exchange.command == ("migrate-db", "--to", "7")


async def test_each_host_on_the_way_has_its_own_keys_and_credential() -> None:
    at = live(Kind.SEND)
    way, _ = await sent(at, at.request)

    target = way.exchanges[0].target
    assert target.jump is not None
    assert (target.address, target.port, target.user) == ("web-1.example.com", 2222, "deploy")
    assert (target.jump.address, target.jump.port, target.jump.user) == ("bastion.example.com", 22, "hop")
    assert target.credential.value == "deploy-key for ssh://web-1.example.com:2222"
    assert target.jump.credential.value == "hop-key for ssh://bastion.example.com"
    assert target.host_keys
    assert target.jump.host_keys
    assert target.credential.value not in repr(target)


def test_a_command_is_refused_before_it_exists_where_a_credential_on_the_way_is_missing() -> None:
    def check(keys: Keys) -> None:
        door = Doorkeeper.__new__(Doorkeeper)
        door._credentials = keys
        door.check_credential(action())

    check(Keys())
    for name in ("deploy-key", "hop-key"):
        with pytest.raises(Problem, match=name):
            check(Keys(missing=name))


async def test_without_the_credential_of_a_host_on_the_way_nothing_is_sent() -> None:
    at = live(Kind.SEND)
    way, seen = await sent(at, at.request, Keys(missing="hop-key"))

    assert way.exchanges == []
    assert seen.nothing_left
    assert "hop-key" in seen.summary


async def test_each_step_of_a_job_is_asked_for_under_a_name_of_its_own() -> None:
    steps = """\
    steps:
      - {name: migrate, command: [migrate-db]}
      - {name: restart, command: [restart, app], lock: app}
"""
    found = compiled((COMMAND, steps))
    words = {"steps": [{"name": "migrate", "argv": ["migrate-db"]}, {"name": "restart", "argv": ["restart", "app"]}]}
    at = live(Kind.SEND)
    at.action, at.request = found, replace(at.request, body=canonical(words))
    way, seen = await sent(at, at.request)

    (migrate,) = way.exchanges
    assert (migrate.verb, migrate.argv, migrate.command) == (HostVerb.RUN, ("migrate-db",), ("migrate-db",))
    assert (migrate.operation, migrate.attempt, migrate.issued_ms) == (f"{OP_ID}.migrate", 1, T0 + 5)
    assert (migrate.body_max_bytes, migrate.lock) == (49, None)
    assert not seen.answered

    at.operation = replace(at.operation, steps=(StepSeen("migrate", StepState.SUCCEEDED, 0), StepSeen("restart")))
    way, _ = await sent(at, at.request, exited=True)
    asked, ran = way.exchanges
    assert (asked.verb, asked.argv, asked.operation) == (HostVerb.STATUS, (), f"{OP_ID}.migrate")
    assert (ran.verb, ran.argv, ran.operation) == (HostVerb.RUN, ("restart", "app"), f"{OP_ID}.restart")
    assert ran.lock == "app"

    cancel = replace(at.request, method="CANCEL", headers=(("Signal", "KILL"),), body=b"")
    way, _ = await sent(at, cancel)
    assert (way.exchanges[-1].verb, way.exchanges[-1].operation) == (HostVerb.CANCEL, f"{OP_ID}.migrate")
    assert way.exchanges[-1].signal == "KILL"
