"""Sockets that count what the operating system took, and that reset instead of flushing when they are closed early.

Only an object below the transport knows what left: library counters count what was handed over, and trace hooks run
before the bytes. The event loop's transports call `send`, `sendmsg`, `recv` and `recv_into` of the socket object they
were given. (uvloop does not; the start-up self-test refuses to run there.)
"""

import socket
import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from aiohttp.connector import AddrInfoType

from adapters.http.addresses import refusal, written
from adapters.http.refusals import AddressRefused

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer  # exists for type checkers only

Denied = Callable[[str, int], bool]
"""Says whether (address, port) is a listener of our own, which no action may reach."""

HEAD_BYTES_MAX = 512 * 1024
"""Bytes a peer may send before the head of a final answer is complete. A flood of interim answers ends here."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FLUSH_ON_CLOSE = struct.pack("ii", 0, 0)
_NO_BOUND = 1 << 62


class CountingSocket(socket.socket):
    """A TCP socket with two counters. Closing it, or dying with it, resets the connection until `soften` is called.

    Closing a plain socket hands what is still queued to the peer, even after the process was killed, so a request given
    up at its deadline would arrive complete later. With SO_LINGER on and zero seconds the kernel drops the queue.
    """

    __slots__ = ("_family", "_kind", "drained", "on_close", "quiet_at", "received", "received_max", "sent")

    sent: int
    """Bytes the operating system took, all of them: handshakes too."""
    drained: bool
    """The last write was taken whole, so the transport above holds nothing back."""
    received: int
    received_max: int
    """Reading more than this fails: a bound on what may come before an answer."""
    quiet_at: int | None
    """`received` when the last answer ended; None on a connection that was never used."""
    on_close: Callable[[], None] | None

    def __init__(self, family: int, kind: int, proto: int) -> None:
        super().__init__(family, kind, proto)
        self._family = family if isinstance(family, socket.AddressFamily) else socket.AddressFamily(family)
        self._kind = kind if isinstance(kind, socket.SocketKind) else socket.SocketKind(kind)
        self.sent = self.received = 0
        self.received_max = _NO_BOUND
        self.drained = True
        self.quiet_at = None
        self.on_close = None
        self.harden()

    @property
    def family(self) -> socket.AddressFamily:
        """As the original, which makes the enumeration anew each time; the event loop asks many times a connection."""
        return self._family

    @property
    def type(self) -> socket.SocketKind:
        """As `family`."""
        return self._kind

    def harden(self) -> None:
        """Reset on close: from birth, and again when a used connection is taken for another request."""
        self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def soften(self) -> None:
        """Close in peace from now on: the answer is complete and nothing of ours is left to be dropped."""
        if self.fileno() >= 0:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _FLUSH_ON_CLOSE)

    def expect_head(self) -> None:
        """Bound what may arrive from here on until `expect_body`."""
        self.received_max = self.received + HEAD_BYTES_MAX

    def expect_body(self) -> None:
        """The head is there; the reader of the body has its own bound."""
        self.received_max = _NO_BOUND

    def spoke_while_idle(self) -> bool:
        """Whether a reused connection brought bytes, or its end, that belong to no request of ours.

        What aiohttp does with them is hand them to the next request as its answer (aio-libs/aiohttp#13656).
        """
        if self.quiet_at is None:
            return False
        if self.received != self.quiet_at:
            return True
        try:
            super().recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def send(self, data: "ReadableBuffer", flags: int = 0, /) -> int:
        """As the original, counted."""
        self.drained = False
        taken = super().send(data, flags)
        self.sent += taken
        self.drained = taken == len(memoryview(data))
        return taken

    def sendmsg(self, buffers: "Iterable[ReadableBuffer]", /, *rest: Any) -> int:  # noqa: ANN401 (passed through)
        """As the original, counted."""
        parts = tuple(buffers)
        self.drained = False
        taken = super().sendmsg(parts, *rest)
        self.sent += taken
        self.drained = taken == sum(len(memoryview(part)) for part in parts)
        return taken

    def sendall(self, data: "ReadableBuffer", flags: int = 0, /) -> None:
        """Through `send`, so that it is counted."""
        view = memoryview(data)
        while view:
            view = view[self.send(view, flags) :]

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """As the original, counted and bounded."""
        data = super().recv(size, flags)
        self._count_received(len(data))
        return data

    def recv_into(self, buffer: "WriteableBuffer", nbytes: int = 0, flags: int = 0) -> int:
        """As the original, counted and bounded."""
        count = super().recv_into(buffer, nbytes, flags)
        self._count_received(count)
        return count

    def _count_received(self, count: int) -> None:
        self.received += count
        if self.received > self.received_max:
            raise ConnectionAbortedError("the peer sent too much before the head of an answer")

    def close(self) -> None:
        """Close, then tell whoever still waits for bytes from here."""
        super().close()
        callback, self.on_close = self.on_close, None
        if callback is not None:
            callback()


class SocketFactory:
    """Makes every socket of a connector, after the address rules passed for the very address that will be dialled."""

    def __init__(self, allow_private: Callable[[], bool], on_refusal: Callable[[AddressRefused], None]) -> None:
        self._allow_private = allow_private
        self._on_refusal = on_refusal
        self._denied: Denied = _nothing_denied
        self._open: WeakValueDictionary[int, CountingSocket] = WeakValueDictionary()

    def deny(self, denied: Denied) -> None:
        """Set the listeners that are out of bounds."""
        self._denied = denied

    def __call__(self, info: AddrInfoType) -> socket.socket:
        """Raises `AddressRefused`, and reports it, since racing connections swallow what is no `OSError`."""
        family, kind, proto, _, address = info
        sentence = self.judge(str(address[0]), int(address[1]))
        if sentence is not None:
            stop = AddressRefused(sentence)
            self._on_refusal(stop)
            raise stop
        sock = CountingSocket(family, kind, proto)
        self._open[sock.fileno()] = sock
        return sock

    def judge(self, host: str, port: int) -> str | None:
        """Why (address, port) must not be dialled for the current attempt; None when it may be."""
        kind = refusal(host, allow_private=self._allow_private())
        if kind is not None:
            return f"the target's address is {kind}, which is not allowed for this service"
        if any(self._denied(address, port) for address in written(host)):
            return "the target is a listener of this gateway itself"
        return None

    def find(self, fileno: int) -> CountingSocket | None:
        """The counting socket behind a transport, by its file number."""
        return self._open.get(fileno)


def _nothing_denied(_host: str, _port: int) -> bool:
    return False
