"""One attempt under way: its connection, its byte counts, how far it got, and the hard close that ends it."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from aiohttp import ClientResponse, StreamReader
from aiohttp.connector import Connection

from adapters.contract import Framing, Head, Hooks, HttpExchange, Phase
from adapters.http import tls
from adapters.http.answer import framing, kept_headers
from adapters.http.body import BodySink
from adapters.http.refusals import AddressRefused, SendRefused, SentTwice
from adapters.http.request import Prepared
from adapters.http.sockets import CountingSocket

current: ContextVar["Flight"] = ContextVar("adapters_http_flight")
"""The attempt that the running task is making: how a shared connector knows whose turn it is."""


class Flight:
    """State of one attempt. Everything the observation will say is collected here.

    One clock serves both deadlines: it runs for the connect deadline first and is set on when a connection stands.
    """

    def __init__(self, exchange: HttpExchange, prepared: Prepared, hooks: Hooks) -> None:
        start = asyncio.get_running_loop().time()
        self.deadline = start + exchange.request_seconds
        self.clock = asyncio.timeout_at(min(self.deadline, start + exchange.target.connect_seconds))
        self.exchange = exchange
        self.prepared = prepared
        self.hooks = hooks
        self.phase = Phase.CONNECTING
        self.entered = False
        self.address_refused: AddressRefused | None = None
        self.socket: CountingSocket | None = None
        self.baseline = 0
        self.expected: int | None = None
        self.peer: str | None = None
        self.tls: str | None = None
        self.head: Head | None = None
        self.framing: Framing | None = None
        self.sink: BodySink | None = None
        self.request_complete = False
        self.contradictions: list[str] = []
        self._transport: asyncio.Transport | None = None
        self._raw: asyncio.Transport | None = None

    @property
    def allow_private(self) -> bool:
        """An explicit proxy is the operator's own choice of address; where it connects to is its own to judge."""
        target = self.exchange.target
        return target.allow_private or target.proxy is not None

    def enter(self) -> None:
        """The sending path is entered; raises `SentTwice` the second time."""
        if self.entered:
            raise SentTwice("a second send within one attempt was stopped")
        self.entered = True

    def connected(self, connection: Connection, sock: CountingSocket | None) -> None:
        """A connection stands: note the byte count, then let the owner say no. Raises `SendRefused`.

        Nothing of the request has been handed to the transport here, so a refusal is proof that nothing left.
        """
        transport = connection.transport
        if transport is None or sock is None:
            raise SendRefused("the connection's bytes cannot be counted")
        self.clock.reschedule(self.deadline)
        self._transport = transport
        self._raw = _below_tls(transport)
        self.socket = sock
        self.phase = Phase.CONNECTED
        self.baseline = sock.sent
        if sock.quiet_at is not None:
            sock.harden()
        self.expected = len(self.prepared.message)
        self.peer = _peer(transport)
        self.tls = tls.evidence(transport)
        try:
            sentence = self.hooks.before_send()
        except Exception as exc:  # the owner's check is foreign code; its failure must refuse, not send
            raise SendRefused("the check before sending failed") from exc
        if sentence is not None:
            raise SendRefused(sentence)
        sock.expect_head()
        self.phase = Phase.REQUEST_STARTED

    @property
    def bytes_written(self) -> int | None:
        """Request bytes the operating system took; None without a connection."""
        return None if self.socket is None else self.socket.sent - self.baseline

    def everything_written(self) -> bool:
        """Whether the whole request, and nothing less, was handed to the operating system.

        In plain text the count alone says so. Under TLS record overhead blurs it, so every buffer above the socket must
        be empty as well; body and head were handed over in one piece.
        """
        sock, transport, written = self.socket, self._transport, self.bytes_written
        if sock is None or transport is None or written is None or self.expected is None:
            return False
        if written < self.expected:
            return False
        return self.tls is None or (sock.drained and _held_back(transport) == 0)

    def take_head(self, response: ClientResponse) -> Head:
        """A final head was parsed: note it, and whether our message was whole by then."""
        self.note_written()
        sock = self.socket
        if sock is not None:
            sock.expect_body()
        version = response.version or (1, 0)
        raw = response.raw_headers
        self.head = head = Head(response.status, kept_headers(raw))
        self.phase = Phase.RESPONSE_STARTED
        method = self.exchange.method
        self.framing, trouble = framing(method, head.status, (version[0], version[1]), raw)
        if trouble is not None:
            self.contradictions.append(trouble)
        if head.status < 200:
            self.contradictions.append("the service switched to another protocol")
        elif head.status < 400 and not self.request_complete:
            self.contradictions.append("the answer came before the request was fully written")
        encoding = response.headers.get("Content-Encoding", "")
        self.sink = BodySink("" if self.framing is Framing.EMPTY else encoding, self.exchange.body_max_bytes)
        return head

    def note_written(self) -> None:
        """Judge completeness while the connection still stands."""
        if not self.request_complete and self.everything_written():
            self.request_complete = True
            if self.phase is Phase.REQUEST_STARTED:
                self.phase = Phase.REQUEST_WRITTEN

    async def read_body(self, response: ClientResponse) -> None:
        """Read to the end that the framing promises; whatever ends it earlier is raised as it comes."""
        content, sink, sock = response.content, self.sink, self.socket
        if sink is None or sock is None:
            return
        content.on_eof(self._answer_ended)
        sock.on_close = _wake(content)
        try:
            while chunk := await content.readany():
                if not sink.feed(chunk):
                    return
        finally:
            sock.on_close = None
        if self.framing is not Framing.UNTIL_CLOSE:
            sink.end()
            self.phase = Phase.RESPONSE_COMPLETE

    def _answer_ended(self) -> None:
        """Runs where the library lets go of the connection, just before the socket closes or goes back to its pool."""
        if self.socket is not None and self.request_complete and self.framing is not Framing.UNTIL_CLOSE:
            self.socket.soften()
            self.socket.quiet_at = self.socket.received

    @property
    def may_be_kept(self) -> bool:
        """Whether the connection may serve another read: a whole answer to a whole request, nothing out of place."""
        return self.phase is Phase.RESPONSE_COMPLETE and self.request_complete and not self.contradictions

    def cut(self) -> None:
        """Close for good, at once: afterwards no byte of ours can leave, neither from here nor from the kernel.

        Aborting empties the transport's own buffer and detaches it from the loop, but it closes the socket only in the
        loop's next turn; closing it here makes "closed" true when this returns.
        """
        if self._raw is not None:
            self._raw.abort()
        if self.socket is not None:
            self.socket.on_close = None
            self.socket.close()


def _below_tls(transport: asyncio.Transport) -> asyncio.Transport:
    """The transport that owns the socket.

    Closed twice, as happens when the peer closes first, asyncio's TLS transport forgets the layer below: its `abort`
    does nothing then, and the socket stays open until the TLS shutdown gives up. There is no public way down.
    """
    below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    return below if isinstance(below, asyncio.Transport) else transport


def _held_back(transport: asyncio.Transport) -> int:
    """Bytes above the socket's own transport. A TLS transport that forgot its layer was flushed before."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:
        return 0


def _peer(transport: asyncio.Transport) -> str | None:
    name = transport.get_extra_info("peername")
    if not name:
        return None
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


class BodyCut(ConnectionError):
    """The connection ended inside a body and the parser did not say so."""


def _wake(content: StreamReader) -> Callable[[], None]:
    """The parser forgets a body whose chunk was malformed: its reader would wait for the whole deadline."""

    def wake() -> None:
        if not content.is_eof() and content.exception() is None:
            content.set_exception(BodyCut())

    return wake
