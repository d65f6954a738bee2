"""aiohttp's low-level server with the three things that a door to untrusted clients needs to be different.

Who connects and says nothing is shown out. What cannot be read as HTTP is answered as a problem, and is never written
to the log: a header line that does not parse may be the one with the key in it.
"""

import asyncio
from typing import Any

import orjson
import structlog
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from gateway.core.ids import PREFIX
from gateway.model.problem import Code, Problem
from gateway.surfaces.wire import problem_document

log = structlog.get_logger(__name__)

SECURITY_HEADERS = {
    # Said here, or the library adds one that names its version and that of the language.
    "Server": "action-gateway",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def unexpected() -> Problem:
    """Our own fault, and no more is known about it."""
    return Problem(
        Code.INTERNAL,
        "The gateway failed in an unexpected way while answering.",
        "Whether anything was created is not certain: ask by your key before you submit again.",
    )


def store_unavailable(named: str | None, *, reads: bool) -> Problem:
    """The store did not answer. `named` is the id in the address, of an operation or of anything else."""
    guidance = (
        "Ask again in a moment; reading changes nothing. Do not submit anything again in another form."
        if reads
        else "Whether this call changed anything is not certain: read what is there before you make it again."
    )
    return Problem(
        Code.STORE_UNAVAILABLE,
        "The store could not be read, so what it holds is not known just now.",
        guidance,
        operation_id=named if named is not None and named.startswith(PREFIX) else None,
        retry_after_seconds=1.0 if reads else None,
    )


def _unreadable() -> Problem:
    detail = "That is not HTTP as it can be read in one way only; nothing was done."
    return Problem(Code.MALFORMED, detail, "Use an HTTP/1.1 client.")


class Connection(web.RequestHandler):
    """One client's connection. Ended if its first request does not come in time; between requests the library watches.

    Whoever has no key may connect, too: without an end for the silent they could take every descriptor there is.
    """

    __slots__ = ("_greeting", "_head_seconds")

    def __init__(self, manager: "Server", head_seconds: float, **options: Any) -> None:  # noqa: ANN401 - as below
        """`head_seconds` is how long the head of the first request may take to arrive."""
        super().__init__(manager, loop=asyncio.get_running_loop(), **options)
        self._head_seconds = head_seconds
        self._greeting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """From here on it is waited for the first request."""
        super().connection_made(transport)
        self._greeting = asyncio.get_running_loop().call_later(self._head_seconds, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Nothing more is waited for."""
        self.greeted()
        super().connection_lost(exc)

    def greeted(self) -> None:
        """The head of a request is there."""
        if self._greeting is not None:
            self._greeting.cancel()
            self._greeting = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A problem for what the parser refused (400), or for a failure outside of any handler (500)."""
        if request.writer.output_size > 0 or isinstance(exc, ConnectionError):
            raise ConnectionError("nobody is there to answer")
        # The name of the error only: its text quotes what was sent.
        log.warning("request_unreadable", status=status, error=type(exc).__name__)
        problem = _unreadable() if status < 500 else unexpected()
        response = web.Response(
            status=problem.info.status,
            body=orjson.dumps(problem_document(problem, now_ms=0)),
            headers={**SECURITY_HEADERS, "Content-Type": "application/problem+json", "x-should-retry": "false"},
        )
        response.force_close()
        return response


class Server(web.Server):
    """Makes a `Connection` for each client."""

    def __init__(self, handler: Any, *, head_seconds: float, **options: Any) -> None:  # noqa: ANN401 - aiohttp's own types
        """`options` are those of `aiohttp.web.RequestHandler`."""
        super().__init__(handler, request_factory=_request)
        self._head_seconds = head_seconds
        self._options = options

    def __call__(self) -> Connection:
        """For the loop, at each new connection."""
        return Connection(self, self._head_seconds, **self._options)


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    if isinstance(protocol, Connection):
        protocol.greeted()
    return web.BaseRequest(message, payload, protocol, writer, task, task.get_loop())
