"""The one function through which a request of any kind leaves: credential joined last, answer masked first."""

from adapters.contract import Hooks, HttpExchange, HttpTarget, Observation, Phase, Transport
from gateway.core.template import Rendered, known_origin
from gateway.engine.clock import Clock
from gateway.engine.ports import Credentials, Shaper
from gateway.model.action import Action
from gateway.model.problem import Problem


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

    def __init__(self, transport: Transport, credentials: Credentials, shaper: Shaper, clock: Clock) -> None:
        """All are ports."""
        self._transport = transport
        self._credentials = credentials
        self._shaper = shaper
        self._clock = clock

    async def send(
        self, action: Action, request: Rendered, hooks: Hooks, *, is_read: bool, body_max_bytes: int
    ) -> Observation:
        """Carry out one exchange. A credential that is missing now is an observation: nothing left."""
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
