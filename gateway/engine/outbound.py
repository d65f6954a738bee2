"""The one function through which a request of any kind leaves: credential joined last, answer masked first."""

from dataclasses import replace

import orjson

from adapters.contract import (
    Hooks,
    HostExchange,
    HostTarget,
    HostTransport,
    HostVerb,
    HttpExchange,
    HttpTarget,
    Observation,
    Phase,
    Transport,
)
from gateway.core.template import Rendered, known_origin
from gateway.engine.clock import Clock
from gateway.engine.live import Live
from gateway.engine.ports import Credentials, Shaper
from gateway.engine.stepping import Stepping
from gateway.model.action import Action, Host
from gateway.model.problem import Problem, present
from gateway.model.step import StepSeen

SIGNAL = "Signal"
"""Header of a cancel: what it sends to a command that has begun."""


def target_of_host(host: Host, credentials: Credentials) -> HostTarget:
    """The host with its credential, and each host on the way to it with its own. Raises Problem(credential_missing)."""
    return HostTarget(
        name=host.name,
        address=host.address,
        port=host.port,
        user=host.user,
        credential=credentials.secret_for(host.credential, host.origin),
        host_keys=host.host_keys,
        host_authorities=host.host_authorities,
        revoked_keys=host.revoked_keys,
        allow_private=host.allow_private,
        jump=None if host.jump is None else target_of_host(host.jump, credentials),
    )


def target_of(action: Action) -> HttpTarget:
    """Where the action's exchanges may go: fixed by its service definition."""
    service = action.service
    return HttpTarget(
        origin=known_origin(service.base_url),
        allow_private=service.allow_private,
        ca_file=service.ca_file,
        connect_seconds=action.deadlines.connect_seconds,
        proxy=service.proxy,
        reuse=service.reuse and action.is_read,
    )


class Outbound:
    """Sends exchanges. Whoever calls it for a write has made the begin durable before."""

    def __init__(
        self,
        transport: Transport,
        credentials: Credentials,
        shaper: Shaper,
        clock: Clock,
        hosts: HostTransport | None = None,
    ) -> None:
        """All are ports. `hosts` is needed once an action runs on a host."""
        self._transport = transport
        self._hosts = hosts
        self._credentials = credentials
        self._shaper = shaper
        self._clock = clock

    async def send(
        self,
        action: Action,
        request: Rendered,
        hooks: Hooks,
        *,
        is_read: bool,
        body_max_bytes: int,
        about: Live | None = None,
    ) -> Observation:
        """Carry out one exchange. A credential that is missing now is an observation: nothing left.

        `about` names the operation: a host is asked by it, a service by the request alone.
        """
        host = action.service.host
        if host is not None:
            live = present(about, "a host is asked about an operation")
            return await self._to_host(host, live, request, hooks, body_max_bytes)
        target = target_of(action)
        name = action.service.credential
        try:
            secret = None if name is None else self._credentials.secret_for(name, target.origin)
        except Problem as problem:
            return self._unsent(problem.detail)
        exchange = HttpExchange(
            method=request.method,
            url=request.url,
            headers=request.headers,
            body=request.body,
            target=target,
            request_seconds=action.deadlines.request_seconds,
            body_max_bytes=body_max_bytes,
            secret=secret,
            is_read=is_read,
        )
        return self._shaper.mask(await self._transport.attempt(exchange, hooks))

    async def _to_host(
        self, host: Host, live: Live, request: Rendered, hooks: Hooks, body_max_bytes: int
    ) -> Observation:
        operation, action = live.operation, live.action
        try:
            target = target_of_host(host, self._credentials)
        except Problem as problem:
            return self._unsent(problem.detail)
        exchange = HostExchange(
            verb=HostVerb(request.method),
            argv=_words(request),
            command=_words(live.request),
            target=target,
            store=present(host.store, "a host that runs commands has a store"),
            store_id=present(host.store_id, "a store has an identity"),
            operation=operation.id,
            # Fences have numbers of their own here and none on the host.
            attempt=max(len(operation.sends), 1),
            attempts_max=action.attempts_max,
            issued_ms=operation.begun_ms or operation.created_ms,
            connect_seconds=action.deadlines.connect_seconds,
            request_seconds=action.deadlines.request_seconds,
            body_max_bytes=body_max_bytes,
            lock=action.lock,
            signal=dict(request.headers).get(SIGNAL, "TERM"),
        )
        if action.steps:
            return await self._through_steps(live, exchange, hooks)
        return await self._ask_host(exchange, hooks)

    async def _ask_host(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        hosts = present(self._hosts, "whoever serves actions on hosts has a way to them")
        return self._shaper.mask(await hosts.attempt(exchange, hooks))

    async def _through_steps(self, live: Live, job: HostExchange, hooks: Hooks) -> Observation:
        """One pass over a job's steps: each is a command of its own to the host, under a name of its own."""
        words = [tuple(step["argv"]) for step in orjson.loads(live.request.body)["steps"]]

        async def ask(verb: HostVerb, index: int, known: StepSeen, seconds: float) -> Observation:
            step = replace(
                job,
                verb=verb,
                argv=words[index] if verb is HostVerb.RUN else (),
                command=words[index],
                operation=f"{job.operation}.{known.name}",
                attempt=known.marker,
                request_seconds=seconds,
                body_max_bytes=job.body_max_bytes // len(words),
                lock=live.action.steps[index].lock,
            )
            return await self._ask_host(step, hooks)

        return await Stepping(live, ask, self._clock).go(job.verb)

    def _unsent(self, summary: str) -> Observation:
        wall_ms = self._clock.wall_ms()
        return Observation(
            phase=Phase.PREPARED,
            nothing_left=True,
            started_ms=wall_ms,
            ended_ms=wall_ms,
            closed_boot_ms=self._clock.boot_ms(),
            summary=summary,
        )


def _words(request: Rendered) -> tuple[str, ...]:
    """The words that a request to a host carries, if it is about a single command."""
    return tuple(orjson.loads(request.body).get("argv", ())) if request.body else ()
