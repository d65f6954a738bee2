"""Which keys a host presents: a key exchange for each kind of key, and nothing after it.

Whoever presents a key proves in the exchange that they hold it, and no more: whose host it is, a person must say.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol

import asyncssh

from adapters.contract import HostPlace, Presented
from adapters.contract_ssh import SshCredential, SshLimits, SshPins, SshRoute
from adapters.http.refusals import Stop
from adapters.http.resolver import Lookup, system_lookup
from adapters.http.sockets import Denied
from adapters.ssh.line import Dialler, Line
from adapters.ssh.recipe import quiet_library
from adapters.ssh.transport import route_of

KINDS: Final[tuple[tuple[str, ...], ...]] = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)
"""Each is asked for on a connection of its own: a host shows one key in an exchange. The first connection only hears
which kinds there are: a host hangs up on whoever asks for one that it has not, and that must not look like a loss."""
_GREETING: Final = b"SSH-2.0-asyncssh\r\n"
_GREETING_LINES_MAX: Final = 50
_PACKET_BYTES_MAX: Final = 35_000
"""RFC 4253 section 6.1."""
_KEXINIT: Final = 20
_KEXINIT_BYTES_MIN: Final = 26
_NO_KEY: Final = "the host offers no key of a kind that is believed (Ed25519, ECDSA, RSA with SHA-2)"
_SENTENCES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (TimeoutError, "the host did not present its keys in time"),
    (socket.gaierror, "the host's name could not be resolved"),
    (ConnectionRefusedError, "the host refused the connection"),
    (asyncssh.HostKeyNotVerifiable, "the jump host's key is none of those it is believed by"),
    (asyncssh.PermissionDenied, "the jump host did not accept the credential"),
    (asyncssh.ChannelOpenError, "the jump host did not reach the host behind it"),
    (asyncssh.DisconnectError, "the host ended the connection before it presented a key"),
    (ConnectionError, "the connection ended before the host presented a key"),
    (EOFError, "the host ended the connection before it presented a key"),
    (ValueError, "what answers there speaks no SSH"),
)


class HostKeyReader:
    """Implements `adapters.contract.HostKeys`."""

    def __init__(self, *, denied: Denied | None = None, lookup: Lookup = system_lookup) -> None:
        """As for `SshAdapter`."""
        self._dialler = Dialler(lookup, denied)
        quiet_library()

    async def presented(self, place: HostPlace, *, connect_seconds: float, seconds: float) -> Presented:
        """As the contract says. The library's own texts may hold the host's; none of them goes further."""
        keys: list[str] = []
        try:
            async with asyncio.timeout(seconds):
                limits = SshLimits(connect_seconds=connect_seconds, login_seconds=connect_seconds)
                offered = await self._offered(place, limits)
                for kind in KINDS:
                    wanted = [algorithm for algorithm in kind if algorithm in offered]
                    if wanted:
                        keys.append(await self._key(place, limits, wanted))
        except Stop as stop:
            return Presented(tuple(keys), stop.sentence)
        except (asyncssh.Error, OSError, EOFError, ValueError) as error:
            return Presented(tuple(keys), _said(error))
        return Presented(tuple(keys), None if keys else _NO_KEY)

    async def _offered(self, place: HostPlace, limits: SshLimits) -> frozenset[str]:
        async with self._way(place, limits) as way:
            if "tunnel" in way:
                reader, writer = await way["tunnel"].open_connection(way["host"], way["port"], encoding=None)
                try:
                    return await _greeted(reader, writer)
                finally:
                    writer.close()
            reader, writer = await asyncio.open_connection(**way)
            try:
                return await _greeted(reader, writer)
            finally:
                writer.transport.abort()
                with suppress(OSError):  # a reset that nobody asks about could be printed by the event loop
                    await writer.wait_closed()

    async def _key(self, place: HostPlace, limits: SshLimits, kind: list[str]) -> str:
        async with self._way(place, limits) as way:
            options = asyncssh.SSHClientConnectionOptions(
                # Nothing of the operator's home, and nobody to log in as: it never comes to that.
                config=None, client_keys=None, agent_path=None, gss_host=None, known_hosts=None, username="nobody",
                connect_timeout=limits.login_seconds,
            )  # fmt: skip
            key = await asyncssh.get_server_host_key(options=options, config=None, server_host_key_algs=kind, **way)
        if key is None:
            raise asyncssh.KeyExchangeFailed("no key was presented")
        algorithm, text, *_comment = key.export_public_key().decode().split()
        return f"{algorithm} {text}"

    @asynccontextmanager
    async def _way(self, place: HostPlace, limits: SshLimits) -> AsyncIterator[dict[str, Any]]:
        if place.jump is None:
            sock = await self._dialler.connect(_bare_route(place), limits)
            try:
                yield {"sock": sock}
            finally:
                sock.close()
            return
        jump = route_of(place.jump)
        line = Line(await self._dialler.connect(jump, limits), asyncio.get_running_loop().time())
        try:
            await line.login(jump, limits, _unlimited)
            self._dialler.check_behind(_bare_route(place))
            yield {"tunnel": line.last, "host": place.address, "port": place.port}
        finally:
            line.cut()
            await line.gone.wait()


class _Reader(Protocol):
    async def readuntil(self, separator: bytes) -> bytes: ...
    async def readexactly(self, n: int) -> bytes: ...


class _Writer(Protocol):
    def write(self, data: bytes, /) -> None: ...


async def _greeted(reader: _Reader, writer: _Writer) -> frozenset[str]:
    writer.write(_GREETING)
    return await offered_kinds(reader)


async def offered_kinds(reader: _Reader) -> frozenset[str]:
    """The kinds of host keys that a server names when it opens a key exchange (RFC 4253 sections 4.2 and 7.1).

    Raises ValueError for what is no such opening; EOFError where it ends too soon.
    """
    try:
        for _ in range(_GREETING_LINES_MAX):
            if (await reader.readuntil(b"\n")).startswith(b"SSH-"):
                break
        else:
            raise ValueError("no greeting")
    except asyncio.LimitOverrunError:
        raise ValueError("no greeting") from None
    length = int.from_bytes(await reader.readexactly(4))
    if not _KEXINIT_BYTES_MIN <= length <= _PACKET_BYTES_MAX:
        raise ValueError("no packet")
    packet = await reader.readexactly(length)
    if packet[1] != _KEXINIT:
        raise ValueError("no opening of a key exchange")
    # Padding length, type, cookie; then lists of names, of which the second is ours.
    rest = packet[18:]
    exchanges = int.from_bytes(rest[:4])
    rest = rest[4 + exchanges :]
    names = rest[4 : 4 + int.from_bytes(rest[:4])]
    return frozenset(names.decode("ascii").split(","))


def _bare_route(place: HostPlace) -> SshRoute:
    """The place as a route, for dialling only."""
    nobody = SshCredential("")
    return SshRoute(
        place.address, place.address, "nobody", SshPins(), nobody, port=place.port, allow_private=place.allow_private
    )


def _unlimited(_seconds: float) -> None:
    """The time for everything together limits each login as well."""


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH}:
        return "the host's network cannot be reached"
    return next((words for kind, words in _SENTENCES if isinstance(error, kind)), "the host presented no key")
