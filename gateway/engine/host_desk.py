"""Questions to declared hosts on behalf of people: what a host offers, what its store holds, who has a lock.

They read only. What changes a host is an operation (`engine.upkeep`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from adapters.contract import Hooks, HostExchange, HostTransport, HostVerb, Observation, Phase
from gateway.catalog.declared_hosts import DeclaredHosts
from gateway.core.hostcheck import Finding, Level, look_at, not_answered, refused
from gateway.core.strictjson import digest
from gateway.engine.clock import Clock
from gateway.engine.outbound import target_of_host
from gateway.engine.ports import Credentials
from gateway.model.action import Host
from gateway.model.problem import Code, Problem

CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
_NOWHERE: Final = "/dev/null"
"""In place of a store where a host has none: nothing can ever be made below it."""
_BODY_BYTES_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Checkup:
    """A look at one host."""

    host: str
    findings: Sequence[Finding]

    @property
    def fine(self) -> bool:
        """Nothing stands in the way."""
        return all(item.level is not Level.FINDING for item in self.findings)


class HostDesk:
    """Asks hosts. One per process."""

    def __init__(self, hosts: DeclaredHosts, credentials: Credentials, way: HostTransport, clock: Clock) -> None:
        """`hosts` are those of the catalog in use."""
        self.hosts = hosts
        self._credentials = credentials
        self._way = way
        self._clock = clock

    def host(self, name: str) -> Host:
        """A declared host. Raises Problem(not_found)."""
        found = self.hosts.get(name)
        if found is None:
            raise Problem(
                Code.NOT_FOUND,
                "There is no host of that name in the catalog that the gateway was started with.",
                "Look at `hosts` in the catalog; after a change the gateway is started anew.",
            )
        return found

    def stored(self, name: str) -> Host:
        """A declared host with a store. Raises Problem."""
        found = self.host(name)
        if found.store is None:
            raise Problem(
                Code.WRONG_STATE,
                "This host has no store: it is only passed through, and keeps no record of anything.",
                "Ask the host that lies behind it.",
            )
        return found

    async def check(self, name: str) -> Checkup:
        """Look at everything that commands on the host rest on. What is wrong is a finding, never a problem."""
        host = self.host(name)
        try:
            seen = await self._ask(host, HostVerb.CHECK)
        except Problem as problem:
            # A credential that is not there: nothing left.
            return Checkup(name, (Finding("credential", Level.FINDING, problem.detail, problem.guidance),))
        return Checkup(name, tuple(look_at(host, seen, _content(seen))))

    async def operations(self, name: str, after: str = "") -> tuple[Sequence[Mapping[str, Any]], bool]:
        """A page of what the store holds, by name, and whether there is more. Raises Problem."""
        answer = await self._answer(self.stored(name), HostVerb.LIST, operation=after)
        return answer["operations"], answer["more"]

    async def lock(self, name: str, lock: str) -> Mapping[str, Any]:
        """Who holds a lock, whether they live, and until when it stays theirs; with a digest of it. Raises Problem."""
        answer = await self._answer(self.stored(name), HostVerb.LOCK, lock=lock)
        names = ("lock", "number", "state", "holder", "holder_attempt", "holder_phase", "until")
        shown = {"host": name} | {field: answer[field] for field in names}
        return shown | {"digest": digest(shown)}

    async def _answer(self, host: Host, verb: HostVerb, **about: str) -> dict[str, Any]:
        seen = await self._ask(host, verb, **about)
        answer = _content(seen)
        if answer is None:
            detail, advice = not_answered(host, seen)
            raise Problem(Code.HOST_UNAVAILABLE, f"{host.name}: {detail}", advice)
        if answer["phase"] != "ok":
            detail, advice = refused(host, answer.get("reason"))
            raise Problem(Code.HOST_UNAVAILABLE, f"{host.name}: {detail}", advice)
        return answer

    async def _ask(self, host: Host, verb: HostVerb, *, operation: str = "", lock: str | None = None) -> Observation:
        exchange = HostExchange(
            verb=verb,
            argv=(),
            command=(),
            target=target_of_host(host, self._credentials),
            store=host.store or _NOWHERE,
            store_id=host.store_id or "",
            operation=operation,
            attempt=1,
            attempts_max=1,
            issued_ms=self._clock.wall_ms(),
            connect_seconds=CONNECT_SECONDS,
            request_seconds=REQUEST_SECONDS,
            body_max_bytes=_BODY_BYTES_MAX,
            lock=lock,
        )
        return await self._way.attempt(exchange, Hooks(before_send=_nothing_against_it))


def _nothing_against_it() -> None:
    """A question changes nothing, so nothing has to be durable before it."""
    return


def _content(seen: Observation) -> dict[str, Any] | None:
    """What the runner said; None where it is no answer of the runner's."""
    if not seen.answered or seen.phase is not Phase.RESPONSE_COMPLETE:
        return None
    content = orjson.loads(seen.body)
    return content if isinstance(content, dict) else None
