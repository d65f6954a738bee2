"""The HTTP adapter: carries out one exchange and reports what was seen; it decides nothing and repeats nothing."""

from collections.abc import Mapping

from aiohttp import ClientResponse, ClientSession

from adapters.contract import Clock, Hooks, HttpExchange, Observation, Phase
from adapters.http import report, tls
from adapters.http.addresses import refusal, spellings
from adapters.http.connector import open_session, socket_factory
from adapters.http.flight import Flight, current
from adapters.http.refusals import ConnectDeadline, Refused, Stop
from adapters.http.request import origin_of, prepare
from adapters.http.resolver import Lookup, VettedResolver, system_lookup
from adapters.http.selftest import prove
from adapters.http.sockets import Denied


class HttpAdapter:
    """Implements `adapters.contract.Transport`. One per event loop; made anywhere, opened by its first attempt.

    `denied` names the gateway's own listeners; `lookup` replaces the system's name look-up.
    """

    def __init__(self, clock: Clock, *, denied: Denied | None = None, lookup: Lookup = system_lookup) -> None:
        self._clock = clock
        self._sockets = socket_factory()
        if denied is not None:
            self._sockets.deny(denied)
        self._resolver = VettedResolver(lookup, self._sockets.judge, clock)
        self._once: ClientSession | None = None
        self._pooled: ClientSession | None = None
        self._flights: set[Flight] = set()
        self._closed = False

    async def attempt(self, exchange: HttpExchange, hooks: Hooks) -> Observation:
        """One exchange on one connection. Raises nothing but `CancelledError`, after closing the socket hard."""
        started_ms = self._clock.wall_ms()
        keep = exchange.is_read and exchange.target.reuse
        try:
            if self._closed:
                raise Refused("the adapter is closed")
            flight = Flight(exchange, prepare(exchange, keep_alive=keep), hooks)
            _check_proxied_address(exchange)
            context = tls.context_for(exchange.target.ca_file) if flight.prepared.url.scheme == "https" else True
        except Stop as stop:
            return report.refused(stop, self._clock)
        self._flights.add(flight)
        token = current.set(flight)
        error: Exception | None = None
        kept = False
        try:
            async with flight.clock:
                await self._converse(flight, self._session(keep=keep), context=context)
            kept = keep and flight.may_be_kept
        except Exception as exc:  # noqa: BLE001 (whatever broke is an observation; a verdict needs every attempt's end)
            error = _reason(flight, exc)
        finally:
            if not kept:
                flight.note_written()
                flight.cut()
            current.reset(token)
            self._flights.discard(flight)
        return report.observe(
            flight,
            error,
            started_ms=started_ms,
            ended_ms=self._clock.wall_ms(),
            closed_boot_ms=None if kept else self._clock.boot_ms(),
        )

    async def _converse(self, flight: Flight, session: ClientSession, *, context: bool | tls.Context) -> None:
        request = flight.prepared
        response = await session.request(
            flight.exchange.method, request.url, ssl=context, proxy=request.proxy, allow_redirects=False
        )
        try:
            await self._read(flight, response)
        finally:
            if not response.closed:
                response.close()

    async def _read(self, flight: Flight, response: ClientResponse) -> None:
        head = flight.take_head(response)
        if head.status < 200:
            return
        if flight.hooks.on_head is not None:
            await flight.hooks.on_head(head)
        await flight.read_body(response)

    def _session(self, *, keep: bool) -> ClientSession:
        if keep:
            if self._pooled is None:
                self._pooled = open_session(self._sockets, self._resolver, reuse=True)
            return self._pooled
        if self._once is None:
            self._once = open_session(self._sockets, self._resolver, reuse=False)
        return self._once

    async def self_test(self) -> Mapping[str, str]:
        """Prove the promises on loopback; raises `SelfTestFailed` naming the first broken one."""
        return await prove(self)

    async def close(self) -> None:
        """Abort every attempt under way and release both pools."""
        self._closed = True
        for flight in tuple(self._flights):
            flight.cut()
        for session in (self._once, self._pooled):
            if session is not None:
                await session.close()
        await self._resolver.close()


def _reason(flight: Flight, error: Exception) -> Exception:
    """What really ended the attempt, where the library's exception does not say so."""
    if flight.address_refused is not None and flight.phase is Phase.CONNECTING:
        return flight.address_refused
    early = flight.phase is Phase.CONNECTING and flight.clock.expired()
    if early and flight.exchange.target.connect_seconds < flight.exchange.request_seconds:
        return ConnectDeadline("no connection within the connect deadline")
    return error


def _check_proxied_address(exchange: HttpExchange) -> None:
    """Behind a proxy our own dialling rules see the proxy only; an address literal can still be judged here."""
    target = exchange.target
    if target.proxy is None:
        return
    host = origin_of(target.origin)[1]
    kind = refusal(host, allow_private=target.allow_private) if spellings(host) else None
    if kind is not None:
        raise Refused(f"the target's address is {kind}, which is not allowed for this service")
