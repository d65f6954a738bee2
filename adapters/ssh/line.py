"""One connection to a host, jump hosts included: how it is made, shared, given up and closed."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

import asyncssh

from adapters.contract_ssh import SshLimits, SshRoute
from adapters.http.addresses import refusal, spellings
from adapters.http.refusals import AddressRefused, ConnectDeadline
from adapters.http.resolver import Lookup
from adapters.http.sockets import CountingSocket, Denied, SocketFactory
from adapters.ssh.recipe import options_of
from adapters.ssh.trust import Gatekeeper, identity_of, known_hosts

SESSIONS_MAX = 8
"""Of one connection. OpenSSH allows ten; two are left for whoever comes with the same key by other means."""


class Line:
    """A connection that is logged in. Its socket resets when it is cut, so that nothing leaves afterwards."""

    def __init__(self, sock: CountingSocket, now: float) -> None:
        self.sock = sock
        self.born = now
        self.timer: asyncio.TimerHandle | None = None
        self.sessions = 0
        self.sessions_max = SESSIONS_MAX
        self.retired = False
        """It takes no more commands."""
        self.closing = False
        """Cut or closed; `gone` is about to be set."""
        self.ready = False
        self.gatekeeper = Gatekeeper()
        self.peer = _peer(sock)
        self.gone = asyncio.Event()
        self._hops: list[asyncssh.SSHClientConnection] = []
        self._gatekeepers: list[Gatekeeper] = []
        self._way_length = 1
        sock.on_close = self.gone.set

    @property
    def alive(self) -> bool:
        """Logged in, as far as is known: a peer that fell silent is alive until a time limit says otherwise."""
        return self.ready and not self.gatekeeper.lost and not self.retired

    @property
    def last(self) -> asyncssh.SSHClientConnection:
        """The connection to the host itself."""
        return self._hops[-1]

    @property
    def hops_short(self) -> int:
        """How many hosts before the last one the login has come to its end; asked as it fails, before it is cut.

        Where several are lost, the first has taken the others with it.
        """
        lost = next((rank for rank, each in enumerate(self._gatekeepers) if each.lost), len(self._gatekeepers))
        at = min(lost + 1, max(len(self._gatekeepers), 1))
        return self._way_length - at

    async def login(self, route: SshRoute, limits: SshLimits, allow: Callable[[float], None]) -> None:
        """Log in to every host on the way; `allow` sets the caller's clock for each.

        Raises:
            Refused: pins or credential cannot be used.
            asyncssh.Error, OSError, ValueError: what the library found.
        """
        hops = way(route)
        self._way_length = len(hops)
        for hop in hops:
            allow(limits.login_seconds)
            gatekeeper = Gatekeeper()
            self.gatekeeper = gatekeeper
            self._gatekeepers.append(gatekeeper)
            options = options_of(hop, known_hosts(hop.pins), identity_of(hop.credential), limits, gatekeeper)
            first: dict[str, Any] = {"sock": self.sock, "tunnel": None}
            onward = {"tunnel": self._hops[-1]} if self._hops else first
            self._hops.append(await asyncssh.connect(**options, **onward))
        self.ready = True

    def cut(self) -> None:
        """Give it up at once, with whatever is still queued; `gone` says when the socket is closed."""
        self.retired = self.closing = True
        if not self._hops:
            # A login that failed has left the socket to nobody: the library's transport is off it, or never was on it.
            self.sock.close()
        for hop in reversed(self._hops):
            hop.abort()

    def close(self) -> None:
        """Take leave in peace; nothing is under way."""
        self.retired = self.closing = True
        self.sock.soften()
        for hop in reversed(self._hops):
            hop.close()


def way(route: SshRoute) -> Sequence[SshRoute]:
    """The hosts to log in to, first to last."""
    hops = [route]
    while hops[-1].jump is not None:
        hops.append(hops[-1].jump)
    return hops[::-1]


class Dialler:
    """Connects sockets under the address rules that hold for every adapter."""

    def __init__(self, lookup: Lookup, denied: Denied | None) -> None:
        self._lookup = lookup
        self._denied = denied

    async def connect(self, route: SshRoute, limits: SshLimits) -> CountingSocket:
        """A connected socket to the first host on the way.

        Raises:
            AddressRefused: an address on the way is none that may be dialled.
            ConnectDeadline: no address answered in time.
            OSError: the name has no address, or none could be connected.
        """
        first, *further = way(route)
        for hop in further:
            self.check_behind(hop)
        factory = SocketFactory(lambda: first.allow_private, _ignore)
        if self._denied is not None:
            factory.deny(self._denied)
        failure: OSError | None = None
        try:
            async with asyncio.timeout(limits.connect_seconds):
                for address in await self._addresses(first):
                    try:
                        return await _dial(factory, address, first.port)
                    except OSError as error:
                        failure = error
        except TimeoutError:
            raise ConnectDeadline("no connection within the connect deadline") from None
        raise failure or OSError("the name has no address")

    @staticmethod
    def check_behind(hop: SshRoute) -> None:
        """Behind a jump host our dialling sees the first hop only; an address literal can still be judged here.

        Raises AddressRefused.
        """
        kind = refusal(hop.address, allow_private=hop.allow_private) if spellings(hop.address) else None
        if kind is not None:
            raise AddressRefused(f"the target's address is {kind}, which is not allowed for this host")

    async def _addresses(self, hop: SshRoute) -> Sequence[str]:
        return [hop.address] if spellings(hop.address) else await self._lookup(hop.address, hop.port)


async def _dial(factory: SocketFactory, address: str, port: int) -> CountingSocket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = factory((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)))
    if not isinstance(sock, CountingSocket):
        raise TypeError("the socket factory makes counting sockets")
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _ignore(_stop: AddressRefused) -> None:
    """The refusal is raised as well; nobody swallows it here."""


def _peer(sock: socket.socket) -> str:
    host, port, *_ = sock.getpeername()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
