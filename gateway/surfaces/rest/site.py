"""The REST door: listens, authenticates, bounds, answers every failure as a problem, and drains in order."""

import asyncio
import ipaddress
from typing import Any, Self
from urllib.parse import urlsplit

import orjson
import structlog
from aiohttp import web

from gateway.engine.gate import Bucket
from gateway.model.problem import Code, Problem
from gateway.surfaces.rest import openapi
from gateway.surfaces.rest.call import Call, Reply, SitePorts
from gateway.surfaces.rest.events import Stream, stream
from gateway.surfaces.rest.health import Metrics, metrics
from gateway.surfaces.rest.routes import ROUTES, Route
from gateway.surfaces.wire import problem_document

log = structlog.get_logger(__name__)

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


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
        self._metrics = Metrics()
        self._streams: set[Stream] = set()
        self._openapi = orjson.dumps(openapi.document())
        self._runner: web.AppRunner | None = None
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
        """Listen."""
        app = web.Application(client_max_size=self._ports.settings.limits.body_max_bytes)
        for route in ROUTES:
            app.router.add_route(route.method, route.path, self._endpoint(route))
        app.router.add_route("*", "/{rest:.*}", self._nowhere)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=1.0, handler_cancellation=False
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._server.host, self._server.port, reuse_address=True)
        await site.start()
        self.addresses = {(name[0], name[1]) for name in self._runner.addresses}
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop listening and close what is left."""
        for reader in set(self._streams):
            reader.end()
        if self._runner is not None:
            await self._runner.cleanup()

    async def drain(self, seconds: float) -> None:
        """Let the requests under way be answered; new operations are refused meanwhile."""
        for reader in set(self._streams):
            reader.end()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("drain_incomplete", requests=self._under_way)

    # -- one request ---------------------------------------------------------------------------------------------

    def _endpoint(self, route: Route) -> Any:  # noqa: ANN401 - aiohttp's handler type
        async def handle(request: web.Request) -> web.StreamResponse:
            self._under_way += 1
            self._idle.clear()
            try:
                return await self._answer(route, request)
            finally:
                self._under_way -= 1
                if not self._under_way:
                    self._idle.set()

        return handle

    async def _answer(self, route: Route, request: web.Request) -> web.StreamResponse:
        call = Call(request, self._ports)
        try:
            self._check_origin(request)
            if not route.open:
                call.principal = self._ports.keys.authenticate(request.headers.get("Authorization"))
                self._check_rate(call)
            if route.path == "/v1/events":
                return await stream(call, self._streams)
            reply = await self._reply(route, call)
        except Problem as problem:
            reply = self._problem(problem)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            # The traceback goes to the log, where the mask covers it; the caller learns that it is our fault.
            log.exception("request_failed", route=route.path)
            reply = self._problem(
                Problem(
                    Code.INTERNAL,
                    "The gateway failed in an unexpected way while answering.",
                    "Whether anything was created is not certain: ask by your key before you submit again.",
                )
            )
        self._metrics.requests.labels(route.path, str(reply.status)).inc()
        return await self._write(request, reply)

    async def _reply(self, route: Route, call: Call) -> Reply:
        if route.handler is not None:
            return await route.handler(call)
        match route.path:
            case "/metrics":
                return await metrics(call, self._metrics)
            case "/openapi.json":
                return Reply(200, content=self._openapi)
            case _:
                return Reply(200, content=openapi.page().encode(), content_type="text/html; charset=utf-8")

    async def _write(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        content = reply.content if reply.content is not None else b""
        if reply.content is None and reply.status != 204:
            content = orjson.dumps(reply.document)
        headers = {**SECURITY_HEADERS, **reply.headers}
        if reply.status != 204:
            headers["Content-Type"] = reply.content_type
        response = web.Response(status=reply.status, body=content or None, headers=headers)
        if reply.written is not None:
            await response.prepare(request)
            await response.write_eof()
            await reply.written()
        return response

    def _problem(self, problem: Problem) -> Reply:
        self._metrics.problems.labels(problem.code.value).inc()
        headers = {} if problem.info.retryable else {"x-should-retry": "false"}
        if problem.retry_after_seconds is not None:
            headers["Retry-After"] = str(max(1, round(problem.retry_after_seconds)))
        if problem.code is Code.UNAUTHENTICATED:
            headers["WWW-Authenticate"] = 'Bearer realm="action-gateway"'
        document = problem_document(problem, now_ms=self._ports.clock.wall_ms())
        return Reply(problem.info.status, document, headers, content_type="application/problem+json")

    # -- refusals at the door --------------------------------------------------------------------------------------

    def _check_origin(self, request: web.Request) -> None:
        """A page in a browser must not reach a local gateway, by a foreign origin or by a name rebound to loopback."""
        host = request.headers.get("Host", "")
        origin = request.headers.get("Origin")
        if (origin is not None and urlsplit(origin).netloc != host) or not self._is_own_name(host):
            raise Problem(
                Code.FORBIDDEN,
                "The request names another host or comes from another site's page.",
                "Call the gateway by its own address, and not from a web page.",
            )

    def _is_own_name(self, host: str) -> bool:
        name = urlsplit(f"//{host}").hostname or ""
        if not _is_loopback(self._server.host):
            return True
        return name == "localhost" or _is_loopback(name)

    def _check_rate(self, call: Call) -> None:
        wait = self._bucket.take(call.who.key_id)
        if wait > 0:
            raise Problem(
                Code.TOO_MANY_REQUESTS,
                "Too many requests came under this key; nothing was done.",
                "Wait, then send it again with the same key.",
                retry_after_seconds=wait,
            )

    async def _nowhere(self, request: web.Request) -> web.StreamResponse:
        methods = sorted(route.method for route in ROUTES if _fits(route.path, request.path))
        if methods:
            problem = Problem(
                Code.METHOD_NOT_ALLOWED, f"This address takes {', '.join(methods)} only.", "See `/openapi.json`."
            )
        else:
            problem = Problem(Code.NOT_FOUND, "There is nothing at this address.", "See `/docs` for what there is.")
        reply = self._problem(problem)
        if methods:
            reply = Reply(
                reply.status, reply.document, {**reply.headers, "Allow": ", ".join(methods)}, None, reply.content_type
            )
        return await self._write(request, reply)


def _fits(pattern: str, path: str) -> bool:
    wanted, given = pattern.split("/"), path.split("/")
    return len(wanted) == len(given) and all(
        part == seen or (part.startswith("{") and seen) for part, seen in zip(wanted, given, strict=True)
    )


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
