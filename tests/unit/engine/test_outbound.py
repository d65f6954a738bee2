"""The one way out: bound to the declared origin, the credential joined last, and nothing sent without it."""

from dataclasses import replace

from adapters.contract import Hooks, Observation, Phase, Secret
from gateway.core.template import Rendered
from gateway.engine.outbound import Outbound, target_of
from gateway.model.action import Action
from tests.canary import Canaries
from tests.unit.core.builders import UNSENT, answer
from tests.unit.engine.workshop import BASE, DONE, ElasticClock, NoVault, Outside, PlainShaper, definitions

REQUEST = Rendered("POST", f"{BASE}/things", (("A", "b"),), b"{}")
HOOKS = Hooks(before_send=lambda: None)


def action(name: str) -> Action:
    return definitions().actions[name]


class OneSecret:
    """A vault with one entry, made up."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.asked: list[tuple[str, str]] = []

    def secret_for(self, name: str, origin: str) -> Secret:
        self.asked.append((name, origin))
        return Secret("bearer", "Authorization", f"Bearer {self.value}")


class Masking(PlainShaper):
    """Takes one text out of every body."""

    def __init__(self, text: str) -> None:
        self.text = text.encode()

    def mask(self, observation: Observation) -> Observation:
        return replace(observation, body=observation.body.replace(self.text, b"[masked]"))


async def test_the_credential_of_the_service_is_joined_last_and_for_its_origin_only(canaries: Canaries) -> None:
    clock = ElasticClock()
    outside, vault = Outside(clock), OneSecret(canaries.mint())
    outside.writes += [DONE, DONE]
    way = Outbound(outside, vault, PlainShaper(), clock)
    for name in ("make.locked", "make"):
        await way.send(action(name), REQUEST, HOOKS, is_read=False, body_max_bytes=10)

    first, second = outside.exchanges
    assert vault.asked == [("token", BASE)]
    assert first.secret is not None
    assert second.secret is None
    assert vault.value not in repr(first)
    assert (first.method, first.url, first.headers, first.body) == ("POST", f"{BASE}/things", (("A", "b"),), b"{}")


async def test_bounds_are_those_of_the_action_and_of_whoever_asks() -> None:
    clock = ElasticClock()
    outside = Outside(clock)
    outside.writes.append(DONE)
    way = Outbound(outside, NoVault(), PlainShaper(), clock)
    await way.send(action("make"), REQUEST, HOOKS, is_read=True, body_max_bytes=10)

    (sent,) = outside.exchanges
    assert (sent.target.origin, sent.target.connect_seconds, sent.request_seconds) == (BASE, 1.0, 2.0)
    assert (sent.body_max_bytes, sent.is_read) == (10, True)


async def test_an_answer_is_masked_before_anybody_sees_it(canaries: Canaries) -> None:
    clock, secret = ElasticClock(), canaries.mint()
    outside = Outside(clock)
    outside.writes.append(answer(200, f'{{"echo": "{secret}"}}'.encode()))
    way = Outbound(outside, OneSecret(secret), Masking(secret), clock)
    seen = await way.send(action("make.locked"), REQUEST, HOOKS, is_read=False, body_max_bytes=1000)

    assert seen.body == b'{"echo": "[masked]"}'


async def test_a_credential_that_is_gone_by_now_is_an_observation_that_nothing_left() -> None:
    clock = ElasticClock()
    outside = Outside(clock)
    way = Outbound(outside, NoVault(), PlainShaper(), clock)
    seen = await way.send(action("make.locked"), REQUEST, HOOKS, is_read=False, body_max_bytes=10)

    assert (seen.phase, seen.nothing_left, seen.status) == (Phase.PREPARED, True, None)
    assert (seen.started_ms, seen.closed_boot_ms) == (clock.wall_ms(), clock.boot_ms())
    assert "token" in seen.summary
    assert outside.exchanges == []


async def test_the_hooks_of_whoever_asks_are_the_transport_s() -> None:
    clock = ElasticClock()
    outside = Outside(clock)
    way = Outbound(outside, NoVault(), PlainShaper(), clock)
    hooks = Hooks(before_send=lambda: "not now")
    seen = await way.send(action("make"), REQUEST, hooks, is_read=False, body_max_bytes=10)

    assert (outside.refused, outside.exchanges) == (["not now"], [])
    assert seen.nothing_left is UNSENT.nothing_left is True


def test_connections_are_reused_for_reads_only_even_where_the_service_allows_it() -> None:
    def reusing(name: str) -> Action:
        found = action(name)
        return replace(found, service=replace(found.service, reuse=True))

    assert (target_of(reusing("read")).reuse, target_of(reusing("make")).reuse) == (True, False)
    assert not target_of(action("read")).reuse


def test_where_it_may_go_is_the_service_s_word_alone() -> None:
    service = replace(action("make").service, allow_private=True, ca_file="ca.pem", proxy="http://proxy.example")
    target = target_of(replace(action("make"), service=service))

    assert (target.allow_private, target.ca_file, target.proxy) == (True, "ca.pem", "http://proxy.example")
    assert not target_of(action("make")).allow_private
