"""The shared connector and session: where every attempt's connection is made, vetted, counted and refused.

Overriding `connect`, a public method, gives the place where a connection stands and no byte has been handed over. A
trace hook on sent headers runs at the same moment, but costs every attempt a chain of tracing calls and does not show
the connection.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiohttp import (
    ClientConnectionResetError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientHandlerType,
    ClientOSError,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    TCPConnector,
    hdrs,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType, Connection
from aiohttp.http import StreamWriter
from aiohttp.typedefs import LooseHeaders
from multidict import CIMultiDict

from adapters.http.dial import address_info, dial
from adapters.http.flight import Flight, current
from adapters.http.refusals import AddressRefused, Broken
from adapters.http.resolver import VettedResolver
from adapters.http.sockets import CountingSocket, SocketFactory

if TYPE_CHECKING:
    from aiohttp.tracing import Trace

_NO_TIMEOUT = ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=None)
"""Both deadlines are ours: the library's total clock would also cover what we do after the answer."""


class WholeRequest(ClientRequest):
    """The request of the current attempt, whose bytes are final: nothing is added, and all of it is written at once.

    The library would make the head anew from its own idea of the headers, and hand a body over in a task of its own.
    """

    def update_headers(self, headers: LooseHeaders | None) -> None:
        """For a proxy's CONNECT, which the library writes, and which takes the name of the host from here."""
        del headers  # there are none: they are in the message
        self.headers = CIMultiDict({hdrs.HOST: self.url.host_port_subcomponent or ""})

    def update_auto_headers(self, skip_auto_headers: Iterable[str] | None) -> None:
        """Nothing to add."""

    def update_content_encoding(self, data: object) -> None:
        """Nothing to encode."""

    def update_body_from_data(self, body: object, _stacklevel: int = 3) -> None:
        """Nothing to take: the message holds the body."""

    def update_transfer_encoding(self) -> None:
        """Nothing to choose: the message states its length."""

    async def send(self, conn: Connection) -> ClientResponse:
        """Hand the message to the transport and await its answer. Raises `ClientOSError` if the connection is gone."""
        protocol = conn.protocol
        if protocol is None:
            raise ClientOSError("the connection ended before the request")
        writer = StreamWriter(protocol, self.loop)
        try:
            await writer.write(current.get().prepared.message, drain=False)
        except ClientConnectionResetError as exc:
            raise ClientOSError("the connection ended before the request") from exc
        return self.response_class(
            self.method,
            self.url,
            writer=None,
            continue100=None,
            timer=self._timer,
            request_info=self.request_info,
            traces=[],
            loop=self.loop,
            session=self._session,
            stream_writer=writer,
        )


class Connector(TCPConnector):
    """A TCP connector that hands a connection over only after the attempt's own check."""

    def __init__(self, factory: SocketFactory, resolver: VettedResolver, *, force_close: bool) -> None:
        super().__init__(
            limit=0,
            force_close=force_close,
            use_dns_cache=False,
            resolver=resolver,
            socket_factory=factory,
        )
        self._sockets = factory

    async def connect(
        self,
        req: ClientRequest,
        traces: "list[Trace]",
        timeout: ClientTimeout,  # noqa: ASYNC109 (the library's signature)
    ) -> Connection:
        """Raises `SendRefused`, or what the library raises while connecting."""
        connection, sock = await self._quiet_connection(req, traces, timeout)
        try:
            current.get().connected(connection, sock)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: "list[Trace]",
        timeout: ClientTimeout,  # noqa: ASYNC109 (the library's signature)
    ) -> ResponseHandler:
        """The short way in plain text to the only address there is; everything else goes the library's way.

        It saves time and decides nothing: a version of the library that does not ask here goes its own way always, to
        the same socket factory, which judges the address.
        """
        if req.proxy is None and not req.is_ssl():
            info = await self._only_address(req)
            if info is not None:
                try:
                    sock = await dial(self._sockets, info)
                    _, protocol = await self._loop.create_connection(self._factory, sock=sock)
                except OSError as exc:
                    raise ClientConnectorError(req.connection_key, exc) from exc
                return protocol
        return await super()._create_connection(req, traces, timeout)

    async def _only_address(self, req: ClientRequest) -> AddrInfoType | None:
        host, port = req.host, req.port
        if port is None:
            return None
        literal = address_info(host, port)
        if literal is not None:
            return literal
        try:
            found = await self._resolver.resolve(host, port)
        except OSError as exc:
            raise ClientConnectorDNSError(req.connection_key, exc) from exc
        return address_info(found[0]["host"], port) if len(found) == 1 else None

    async def _quiet_connection(
        self,
        req: ClientRequest,
        traces: "list[Trace]",
        timeout: ClientTimeout,  # noqa: ASYNC109 (passed through)
    ) -> tuple[Connection, CountingSocket | None]:
        """A connection on which nobody spoke out of turn. Nothing was sent on those that are dropped here."""
        while True:
            connection = await super().connect(req, traces, timeout)
            sock = self._socket_of(connection)
            if sock is None or not sock.spoke_while_idle():
                return connection, sock
            connection.close()

    def _socket_of(self, connection: Connection) -> CountingSocket | None:
        transport = connection.transport
        wrapped = None if transport is None else transport.get_extra_info("socket")
        return None if wrapped is None else self._sockets.find(wrapped.fileno())


async def never_again(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Middleware: let one send through, and turn the two errors that make aiohttp send again into one that does not."""
    current.get().enter()
    try:
        return await handler(request)
    except ClientConnectorError:
        raise
    except (ClientOSError, ServerDisconnectedError) as exc:
        raise Broken("the connection ended before an answer") from exc


def socket_factory() -> SocketFactory:
    """A factory that reads the address policy of whichever attempt is connecting."""
    return SocketFactory(_current_allows_private, _note_refusal)


def open_session(factory: SocketFactory, resolver: VettedResolver, *, reuse: bool) -> ClientSession:
    """A session without memory: no cookies, no environment, no decoding, no defaults. Needs a running loop."""
    connector = Connector(factory, resolver, force_close=not reuse)
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        timeout=_NO_TIMEOUT,
        trust_env=False,
        auto_decompress=False,
        request_class=WholeRequest,
        raise_for_status=False,
        middlewares=(never_again,),
    )


def _current_allows_private() -> bool:
    return current.get().allow_private


def _note_refusal(stop: AddressRefused) -> None:
    flight: Flight = current.get()
    flight.address_refused = stop
