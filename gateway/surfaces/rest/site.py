"""The REST door: listens, authenticates, bounds, answers every failure as a problem, and drains in order."""

import asyncio
import errno
import ipaddress
import os
from dataclasses import replace
from functools import lru_cache
from typing import Self
from urllib.parse import urlsplit

import orjson
import structlog
from aiohttp import hdrs, web

from gateway.engine.gate import Bucket
from gateway.model.problem import Code, Problem
from gateway.store.port import Refused, StoreUnknown, Unavailable
from gateway.surfaces.rest import openapi
from gateway.surfaces.rest.call import Call, Reply, SitePorts
from gateway.surfaces.rest.events import Stream, stream
from gateway.surfaces.rest.health import Metrics, metrics
from gateway.surfaces.rest.protocol import SECURITY_HEADERS, Server, store_unavailable, unexpected
from gateway.surfaces.rest.routes import ROUTES, Route
from gateway.surfaces.rest.table import Place, Table
from gateway.surfaces.wire import problem_document

log = structlog.get_logger(__name__)

IDLE_SECONDS = 75.0
"""A connection without a whole request is closed after this long: a head that never ends holds nothing for ever."""
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read and thrown away, so that its sender gets to read the refusal."""
_READS = (hdrs.METH_GET, hdrs.METH_HEAD)
RETRY_SECONDS = 1.0
"""`Retry-After` of a refusal that names no time of its own but may be tried again."""


class Site:
    """One listener. Use as an asynchronous context manager; `address` is known once it is entered."""

    def __init__(self, ports: SitePorts) -> None:
        """Nothing listens before entering."""
        self._ports = ports
        self._server = ports.settings.server
        limits = ports.settings.limits
        self._bucket = Bucket(
            ports.clock, per_second=limits.rate_per_key_per_second_max, burst=limits.burst_per_key_max
        )
        self._table = Table(ROUTES)
        self._metrics = Metrics()
        self._streams: set[Stream] = set()
        self._openapi = orjson.dumps(openapi.document())
        self._runner: web.ServerRunner | None = None
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.addresses: set[tuple[str, int]] = set()

    @property
    def address(self) -> str:
        """`http://host:port` of the listener."""
        host, port = min(self.addresses)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        """Listen. Raises `store.port.Refused` if the address cannot be had."""
        # Bodies stay as they came: what is compressed is refused, so that a small body cannot grow into a huge one.
        server = Server(
            self._handle,
            head_seconds=self._server.head_seconds,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            auto_decompress=False,
        )
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._server.host, self._server.port, reuse_address=True)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._server.host}:{self._server.port}"
            # The loop's own words repeat the address; the number's are those of the system.
            number = error.errno or 0
            reason = os.strerror(number) if number in errno.errorcode else error.strerror
            hint = "“server.port” in gateway.yaml or GATEWAY_ADDR names another one."
            raise Refused(f"The gateway cannot listen at {where}: {reason}. {hint}") from error
        self.addresses = {(name[0], name[1]) for name in self._runner.addresses}
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop listening and close what is left."""
        self._end_streams()
        if self._runner is not None:
            await self._runner.cleanup()

    async def drain(self, seconds: float) -> None:
        """Let the requests under way be answered; new operations are refused meanwhile."""
        self._end_streams()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("drain_incomplete", requests=self._under_way)

    def _end_streams(self) -> None:
        for reader in set(self._streams):
            reader.end()

    # -- one request ---------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._under_way += 1
        self._idle.clear()
        try:
            return await self._answer(request)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        place = self._table.find(request.rel_url.raw_path)
        route = place.routes.get(request.method)
        call = Call(request, self._ports, place.parameters)
        name = "none" if route is None else route.path
        try:
            self._check_origin(call)
            if route is None:
                return await self._write(request, self._nowhere(place), name)
            if not route.open:
                call.principal = self._ports.keys.authenticate(call.header("Authorization"))
                self._check_rate(call)
            if route.path == "/v1/events":
                self._metrics.requests.labels(name, "200").inc()
                return await stream(call, self._streams)
            reply = await self._reply(route, call)
        except Problem as problem:
            reply = self._problem(problem)
        except (Unavailable, StoreUnknown) as error:
            # Where a submission or a change meets this it says more; here ends whatever else asks the store.
            log.warning("store_unavailable", route=name, reason=str(error))
            reply = self._problem(store_unavailable(call.parameters.get("id"), reads=request.method in _READS))
        except ConnectionError:
            raise
        except Exception:
            # The traceback goes to the log, where the mask covers it; the caller learns that it is our fault.
            log.exception("request_failed", route=name)
            reply = self._problem(unexpected())
        return await self._write(request, reply, name)

    async def _reply(self, route: Route, call: Call) -> Reply:
        if route.handler is not None:
            return await route.handler(call)
        match route.path:
            case "/metrics":
                return await metrics(call, self._metrics)
            case "/openapi.json":
                call.query({})
                return Reply(200, content=self._openapi)
            case _:
                call.query({})
                return Reply(200, content=openapi.page().encode(), content_type="text/html; charset=utf-8")

    async def _write(self, request: web.BaseRequest, reply: Reply, route: str) -> web.StreamResponse:
        self._metrics.requests.labels(route, str(reply.status)).inc()
        headers = {**SECURITY_HEADERS, **reply.headers}
        content = None
        if reply.status != 204:
            content = orjson.dumps(reply.document) if reply.content is None else reply.content
            headers[hdrs.CONTENT_TYPE] = reply.content_type
        response = web.Response(status=reply.status, body=content, headers=headers)
        if reply.written is not None and request.method != hdrs.METH_HEAD:
            await response.prepare(request)
            await response.write_eof()
            await reply.written()
        return response

    def _problem(self, problem: Problem) -> Reply:
        self._metrics.problems.labels(problem.code.value).inc()
        headers = {} if problem.info.retryable else {"x-should-retry": "false"}
        if problem.info.retryable or problem.retry_after_seconds is not None:
            headers["Retry-After"] = str(max(1, round(problem.retry_after_seconds or RETRY_SECONDS)))
        if problem.code is Code.UNAUTHENTICATED:
            headers["WWW-Authenticate"] = 'Bearer realm="action-gateway"'
        document = problem_document(problem, now_ms=self._ports.clock.wall_ms())
        return Reply(problem.info.status, document, headers, content_type="application/problem+json")

    def _nowhere(self, place: Place) -> Reply:
        if not place.routes:
            return self._problem(
                Problem(Code.NOT_FOUND, "There is nothing at this address.", "See `/docs` for what there is.")
            )
        reply = self._problem(
            Problem(Code.METHOD_NOT_ALLOWED, f"This address takes {place.methods} only.", "See `/openapi.json`.")
        )
        return replace(reply, headers={**reply.headers, "Allow": place.methods})

    # -- refusals at the door --------------------------------------------------------------------------------------

    def _check_origin(self, call: Call) -> None:
        """A page in a browser must not reach a local gateway, by a foreign origin or by a name rebound to loopback."""
        if _is_foreign(call.header("Host") or "", call.header("Origin"), self._server.host):
            raise Problem(
                Code.FORBIDDEN,
                "The request names another host or comes from another site's page.",
                "Call the gateway by its own address, and not from a web page.",
            )

    def _check_rate(self, call: Call) -> None:
        wait = self._bucket.take(call.who.key_id)
        if wait > 0:
            raise Problem(
                Code.TOO_MANY_REQUESTS,
                "Too many requests came under this key; nothing was done.",
                "Wait, then send it again with the same key.",
                retry_after_seconds=wait,
            )


@lru_cache(maxsize=256)
def _is_foreign(host: str, origin: str | None, listens_at: str) -> bool:
    """Callers name the same few hosts again and again."""
    try:
        foreign = origin is not None and urlsplit(origin).netloc != host
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return True
    return foreign or (_is_loopback(listens_at) and not _is_loopback(name))


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
