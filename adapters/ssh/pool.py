"""Connections that serve more than one command: who may share one, how long it lives, and when it is given up."""

import asyncio
import hashlib
from collections.abc import Hashable
from weakref import WeakValueDictionary

from adapters.contract_ssh import SshCredential, SshRoute
from adapters.http.refusals import AddressRefused
from adapters.ssh.flight import Flight
from adapters.ssh.line import Dialler, Line, way

IDLE_SECONDS = 60.0
"""After this an unused connection is closed: sooner than most hosts and middle boxes forget it."""
AGE_SECONDS = 1800.0
"""After this a connection takes no more commands: the host's keys and the credential are proven anew."""


def key_of(route: SshRoute) -> Hashable:
    """What two commands must have in common to share a connection. Of the credential only a digest is kept."""
    return (
        (route.name, route.address, route.port, route.user, route.allow_private),
        (route.pins, _digest(route.credential)),
        None if route.jump is None else key_of(route.jump),
    )


def _digest(credential: SshCredential) -> str:
    text = f"{credential.private_key}\0{credential.certificate or ''}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Pool:
    """One per adapter. A connection that is in doubt is never handed out again."""

    def __init__(self, dialler: Dialler, *, idle_seconds: float, age_seconds: float) -> None:
        self._dialler = dialler
        self._idle_seconds = idle_seconds
        self._age_seconds = age_seconds
        self._shared: dict[Hashable, list[Line]] = {}
        self._dialling: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._lines: set[Line] = set()

    async def take(self, flight: Flight) -> None:
        """Give the attempt a connection with a free session; `flight.line` is it, also where its login fails.

        Several attempts at once dial one after the other, since a host drops connections that log in side by side
        (OpenSSH's MaxStartups), and all but the first then find a session on what the first has made.
        """
        route, limits = flight.exchange.route, flight.exchange.limits
        if flight.exchange.fresh:
            await self._dial(flight)
            return
        key = key_of(route)
        if self._sit_down(flight, key):
            return
        lock = self._dialling.setdefault(key, asyncio.Lock())
        flight.allow(limits.connect_seconds + limits.login_seconds * len(way(route)))
        async with lock:
            if self._sit_down(flight, key):
                return
            line = await self._dial(flight)
            self._shared.setdefault(key, []).append(line)

    def _sit_down(self, flight: Flight, key: Hashable) -> bool:
        now = asyncio.get_running_loop().time()
        lines = [line for line in self._shared.get(key, ()) if line in self._lines]
        for line in lines:
            if line.alive and line.sessions < line.sessions_max and now - line.born < self._age_seconds:
                if line.timer is not None:
                    line.timer.cancel()
                line.sessions += 1
                flight.line, flight.reused = line, True
                return True
        return False

    async def _dial(self, flight: Flight) -> Line:
        route, limits = flight.exchange.route, flight.exchange.limits
        flight.allow(limits.connect_seconds + 1.0)
        try:
            sock = await self._dialler.connect(route, limits)
        except AddressRefused:
            raise
        except BaseException:
            flight.hops_short = len(way(route)) - 1
            raise
        line = Line(sock, asyncio.get_running_loop().time())
        line.sessions = 1
        self._lines.add(line)
        flight.line, flight.reused = line, False
        try:
            await line.login(route, limits, flight.allow)
        except BaseException:
            flight.hops_short = line.hops_short
            raise
        return line

    def give_back(self, line: Line, *, keep: bool, hard: bool) -> None:
        """An attempt is done with its session.

        Args:
            line: the connection.
            keep: nothing about it is in doubt.
            hard: if it is closed, then at once, so that nothing of ours that is still queued can leave. It waits for
                others on the same connection: cutting it would make their commands unknown as well.
        """
        line.sessions -= 1
        loop = asyncio.get_running_loop()
        if line.gatekeeper.lost or (not line.sessions and hard and not keep):
            self._forget(line)
            line.cut()
        elif not keep or loop.time() - line.born >= self._age_seconds:
            line.retired = True
        if line.sessions or line not in self._lines:
            return
        if line.retired:
            self._close(line)
        else:
            line.timer = loop.call_later(self._idle_seconds, self._close, line)

    def _close(self, line: Line) -> None:
        self._forget(line)
        line.close()

    def _forget(self, line: Line) -> None:
        self._lines.discard(line)
        if line.timer is not None:
            line.timer.cancel()
        for key, lines in tuple(self._shared.items()):
            if line in lines:
                lines.remove(line)
            if not lines:
                del self._shared[key]

    async def close(self) -> None:
        """Close every connection; what is under way on one is lost."""
        lines = tuple(self._lines)
        for line in lines:
            self._forget(line)
            line.cut() if line.sessions else line.close()
        for line in lines:
            await line.gone.wait()
