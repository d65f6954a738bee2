"""A raw loopback server for adapter tests: counts connections and whole requests, and misbehaves exactly as told."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trustme

from adapters.http.client import HttpAdapter
from adapters.http.flight import Flight
from tests.streams import ended

SECONDS_MAX = 40.0
LOOK_SECONDS = 0.002
_RESET = struct.pack("ii", 1, 0)
_TURNS_TO_ACCEPT = 6
"""Turns of the loop in which a connection that waits in the listener's queue becomes a conversation, and then some."""


@dataclass
class Authority:
    """A certificate authority of the test run's own."""

    ca: trustme.CA
    ca_file: str
    server: ssl.SSLContext

    @classmethod
    def make(cls, folder: str) -> "Authority":
        ca = trustme.CA()
        path = f"{folder}/ca.pem"
        ca.cert_pem.write_to_path(path)
        return cls(ca, path, server_context(ca))


def server_context(ca: trustme.CA, *, client_certificates: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    if client_certificates:
        ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@dataclass
class Conversation:
    """One accepted connection."""

    peer: "Peer"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read_head(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.peer.heads.append(head)
        return head

    async def read_request(self) -> bytes:
        """Read one whole request and count it: this is where a service would commit."""
        head = await self.read_head()
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        body = await self.reader.readexactly(length)
        self.peer.requests.append(head + body)
        return head + body

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)  # let the loop notice a reset: under TLS drain() alone never does

    async def gone(self) -> int:
        """Wait until the client closed or reset; returns how many bytes still came."""
        count = 0
        try:
            while data := await self.reader.read(65536):
                count += len(data)
        except OSError:
            self.peer.resets += 1
        self.peer.late_bytes += count
        return count

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()


Behaviour = Callable[[Conversation], Awaitable[None]]


@dataclass
class Peer:
    """What the server saw."""

    port: int = 0
    tls: bool = False
    connections: int = 0
    ended: int = 0
    resets: int = 0
    late_bytes: int = 0
    heads: list[bytes] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def origin(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def all_ended(self) -> None:
        """Every connection that was made has ended."""
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        async with asyncio.timeout(SECONDS_MAX), self.changed:
            await self.changed.wait_for(lambda: self.ended == self.connections)


async def run_out(adapter: HttpAdapter, is_far: Callable[[Flight], object]) -> None:
    """Let the deadline of the attempt under way pass once it has come far enough, however long that took.

    A short deadline instead would strike earlier on a busy machine, and the test would show another thing.
    """
    async with asyncio.timeout(SECONDS_MAX):
        while not any(map(is_far, adapter._flights)):
            await asyncio.sleep(LOOK_SECONDS)
    for flight in adapter._flights:
        flight.clock.reschedule(0)


@asynccontextmanager
async def serving(
    behaviour: Behaviour, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Peer]:
    peer = Peer(tls=tls is not None)

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.connections += 1
        try:
            await behaviour(Conversation(peer, reader, writer))
        except (OSError, asyncio.IncompleteReadError) as exc:
            peer.failures.append(exc)
        finally:
            writer.close()
            async with peer.changed:
                peer.ended += 1
                peer.changed.notify_all()
            await ended(writer)

    server = await asyncio.start_server(accepted, host, 0, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        await peer.all_ended()
        await server.wait_closed()
