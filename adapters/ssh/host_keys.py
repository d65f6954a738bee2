"""Which keys a host presents: a key exchange for each kind of key, and nothing after it.

Whoever presents a key proves in the exchange that they hold it, and no more: whose host it is, a person must say.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import asyncssh

from adapters.contract import HostPlace, Presented
from adapters.contract_ssh import SshCredential, SshLimits, SshPins, SshRoute
from adapters.http.refusals import Stop
from adapters.http.resolver import Lookup, system_lookup
from adapters.http.sockets import Denied
from adapters.ssh.line import Dialler, Line, way
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
_ITSELF: Final = ("the host", "present its keys", "presented a key")
_SENTENCES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (TimeoutError, "{host} did not {deed} in time"),
    (socket.gaierror, "{host}'s name could not be resolved"),
    (ConnectionRefusedError, "{host} refused the connection"),
    (asyncssh.HostKeyNotVerifiable, "the jump host's key is none of those it is believed by"),
    (asyncssh.PermissionDenied, "the jump host did not accept the credential"),
    (asyncssh.ChannelOpenError, "the jump host did not reach the host behind it"),
    (asyncssh.DisconnectError, "{host} ended the connection before it {done}"),
    (ConnectionError, "the connection ended before {host} {done}"),
    (EOFError, "{host} ended the connection before it {done}"),
    (ValueError, "what answers there speaks no SSH"),
)


@dataclass(slots=True)
class _SoFar:
    """How far the way to a host has come."""

    hops_short: int = 0


class HostKeyReader:
    """Implements `adapters.contract.HostKeys`."""

    def __init__(self, *, denied: Denied | None = None, lookup: Lookup = system_lookup) -> None:
        """As for `SshAdapter`."""
        self._dialler = Dialler(lookup, denied)
        quiet_library()

    async def presented(self, place: HostPlace, *, connect_seconds: float, seconds: float) -> Presented:
        """As the contract says. The library's own texts may hold the host's; none of them goes further."""
        keys: list[str] = []
        so_far = _SoFar()
        try:
            async with asyncio.timeout(seconds):
                limits = SshLimits(connect_seconds=connect_seconds, login_seconds=connect_seconds)
                offered = await self._offered(place, limits, so_far)
                for kind in KINDS:
                    wanted = [algorithm for algorithm in kind if algorithm in offered]
                    if wanted:
                        keys.append(await self._key(place, limits, wanted, so_far))
        except Stop as stop:
            there = " at the jump host" if so_far.hops_short else ""
            return Presented(tuple(keys), f"{stop.sentence}{there}", so_far.hops_short)
        except (asyncssh.Error, OSError, EOFError, ValueError) as error:
            return Presented(tuple(keys), _said(error, so_far.hops_short), so_far.hops_short)
        return Presented(tuple(keys), None if keys else _NO_KEY)

    async def _offered(self, place: HostPlace, limits: SshLimits, so_far: "_SoFar") -> frozenset[str]:
        async with self._way(place, limits, so_far) as there:
            if "tunnel" in there:
                reader, writer = await there["tunnel"].open_connection(there["host"], there["port"], encoding=None)
                try:
                    return await _greeted(reader, writer)
                finally:
                    writer.close()
            reader, writer = await asyncio.open_connection(**there)
            try:
                return await _greeted(reader, writer)
            finally:
                writer.transport.abort()
                with suppress(OSError):  # a reset that nobody asks about could be printed by the event loop
                    await writer.wait_closed()

    async def _key(self, place: HostPlace, limits: SshLimits, kind: list[str], so_far: "_SoFar") -> str:
        async with self._way(place, limits, so_far) as there:
            options = asyncssh.SSHClientConnectionOptions(
                # Nothing of the operator's home, and nobody to log in as: it never comes to that.
                config=None, client_keys=None, agent_path=None, gss_host=None, known_hosts=None, username="nobody",
                connect_timeout=limits.login_seconds,
            )  # fmt: skip
            key = await asyncssh.get_server_host_key(options=options, config=None, server_host_key_algs=kind, **there)
        if key is None:
            raise asyncssh.KeyExchangeFailed("no key was presented")
        algorithm, text, *_comment = key.export_public_key().decode().split()
        return f"{algorithm} {text}"

    @asynccontextmanager
    async def _way(self, place: HostPlace, limits: SshLimits, so_far: "_SoFar") -> AsyncIterator[dict[str, Any]]:
        if place.jump is None:
            sock = await self._dialler.connect(_bare_route(place), limits)
            try:
                yield {"sock": sock}
            finally:
                sock.close()
            return
        jump = route_of(place.jump)
        so_far.hops_short = len(way(jump))
        line = Line(await self._dialler.connect(jump, limits), asyncio.get_running_loop().time())
        try:
            try:
                await line.login(jump, limits, _unlimited)
            except BaseException:
                so_far.hops_short = 1 + line.hops_short
                raise
            so_far.hops_short = 0
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


def _said(error: Exception, hops_short: int) -> str:
    who, deed, done = ("the jump host", "let us in", "let us in") if hops_short else _ITSELF
    if isinstance(error, OSError) and error.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH}:
        return f"{who}'s network cannot be reached"
    said = next((words for kind, words in _SENTENCES if isinstance(error, kind)), "{host} presented no key")
    return said.format(host=who, deed=deed, done=done)
