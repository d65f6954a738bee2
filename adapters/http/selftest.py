"""The start-up self-test: on loopback, with the real adapter, every promise that a library upgrade could break.

Safety here rests on what aiohttp and the event loop do with our socket objects, our connector and our middleware. A
newer version that does otherwise would still answer every request, so it is asked before the first action is sent.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from adapters.contract import Hooks, HttpExchange, HttpTarget, Observation, SelfTestFailed, Transport

_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_STRAY: Final = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nstray"
_BIG: Final = b"x" * (8 * 1024 * 1024)
_SECONDS: Final = 5.0
_IMPATIENT_SECONDS: Final = 0.2


class _Listener:
    """A loopback server that reads whole requests, answers with fixed bytes, and remembers what came."""

    def __init__(self, answer: bytes | None, *, read: bool = True) -> None:
        self.connections = 0
        self.received = 0
        self.requests = 0
        self.ended = asyncio.Event()
        self.given_up = asyncio.Event()
        self.port = 0
        self.reset = False
        self._answer = answer
        self._read = read

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._converse(reader, writer)
        except OSError:
            self.reset = True
        except asyncio.IncompleteReadError:
            pass  # the client ended early, which the counts show
        finally:
            await self._close(writer)
            self.ended.set()

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            # Asked for, or the loop could print it after the words of a gateway that refuses to start.
            self.reset = True

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._read:
            await self.given_up.wait()
            while data := await reader.read(65536):
                self.received += len(data)
            return
        head = await reader.readuntil(b"\r\n\r\n")
        self.received += len(head)
        body = await reader.readexactly(_content_length(head))
        self.received += len(body)
        self.requests += 1
        if self._answer is not None:
            writer.write(self._answer)
            await writer.drain()
            self.received += len(await reader.read(65536))


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


@asynccontextmanager
async def _listening(answer: bytes | None, *, read: bool = True) -> AsyncIterator[_Listener]:
    listener = _Listener(answer, read=read)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        await server.wait_closed()


def _exchange(
    port: int, method: str, *, body: bytes = b"{}", seconds: float = _SECONDS, private: bool = True
) -> HttpExchange:
    origin = f"http://127.0.0.1:{port}"
    return HttpExchange(
        method=method,
        url=f"{origin}/self-test",
        headers=(("Content-Type", "application/json"),),
        body=body,
        target=HttpTarget(origin=origin, allow_private=private),
        request_seconds=seconds,
    )


def _go() -> str | None:
    return None


def _stop() -> str | None:
    return "refused by the self-test"


def _require(promise: str, observation: Observation, *, kept: bool) -> None:
    if not kept:
        raise SelfTestFailed(f"{promise}: not kept by this build ({observation.summary})")


async def _counts(adapter: Transport, promise: str) -> None:
    async with _listening(_OK) as listener:
        seen = await adapter.attempt(_exchange(listener.port, "POST"), Hooks(before_send=_go))
    exact = seen.bytes_written == seen.bytes_expected == listener.received
    _require(promise, seen, kept=seen.answered and exact and listener.requests == 1)


async def _refusal(adapter: Transport, promise: str) -> None:
    async with _listening(_OK) as listener:
        seen = await adapter.attempt(_exchange(listener.port, "POST"), Hooks(before_send=_stop))
        await asyncio.wait_for(listener.ended.wait(), _SECONDS)
    _require(promise, seen, kept=seen.nothing_left and seen.status is None and listener.received == 0)


async def _no_resend(adapter: Transport, promise: str) -> None:
    async with _listening(None) as listener:
        seen = await adapter.attempt(_exchange(listener.port, "PUT"), Hooks(before_send=_go))
    _require(promise, seen, kept=listener.connections == 1 and listener.requests == 1 and not seen.nothing_left)


async def _no_stray(adapter: Transport, promise: str) -> None:
    async with _listening(_OK + _STRAY) as listener:
        await adapter.attempt(_exchange(listener.port, "POST"), Hooks(before_send=_go))
        seen = await adapter.attempt(_exchange(listener.port, "POST"), Hooks(before_send=_go))
    _require(promise, seen, kept=seen.status != 201 and listener.connections == 2 and listener.requests == 2)


async def _reset(adapter: Transport, promise: str) -> None:
    async with _listening(None, read=False) as listener:
        exchange = _exchange(listener.port, "POST", body=_BIG, seconds=_IMPATIENT_SECONDS)
        seen = await adapter.attempt(exchange, Hooks(before_send=_go))
        listener.given_up.set()
        await asyncio.wait_for(listener.ended.wait(), _SECONDS)
    _require(promise, seen, kept=listener.reset and listener.received < len(_BIG) and not seen.nothing_left)


async def _address(adapter: Transport, promise: str) -> None:
    async with _listening(_OK) as listener:
        seen = await adapter.attempt(_exchange(listener.port, "POST", private=False), Hooks(before_send=_go))
    _require(promise, seen, kept=seen.nothing_left and listener.connections == 0)


_PROOFS: Final[Mapping[str, Callable[[Transport, str], Awaitable[None]]]] = {
    "the byte counter counts exactly what leaves": _counts,
    "a refusal before sending sends nothing": _refusal,
    "a PUT whose answer is lost is not sent again": _no_resend,
    "a stray answer is not taken for the next one": _no_stray,
    "a request given up does not arrive later": _reset,
    "a forbidden address is not dialled": _address,
}


async def prove(adapter: Transport) -> Mapping[str, str]:
    """Run every proof; returns promise → `kept`. Raises `SelfTestFailed` with the first promise that is not."""
    for promise, proof in _PROOFS.items():
        await proof(adapter, promise)
    return dict.fromkeys(_PROOFS, "kept")
