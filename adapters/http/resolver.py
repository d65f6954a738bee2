"""Name look-up that hands out vetted addresses only, so that what was checked is what is dialled."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

from adapters.contract import Clock
from adapters.http.refusals import AddressRefused

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Addresses of (host, port), best first; raises `OSError` when there is none."""

Judge = Callable[[str, int], str | None]

CACHE_MS = 5_000
CACHE_MAX = 1_000


async def system_lookup(host: str, port: int) -> Sequence[str]:
    """Ask the operating system."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class VettedResolver(AbstractResolver):
    """Drops every address that the current attempt may not dial; refuses when none is left.

    Answers are kept for `CACHE_MS`; the rules are applied to each use, since two targets may share a name and differ in
    what they allow.
    """

    def __init__(self, lookup: Lookup, judge: Judge, clock: Clock) -> None:
        self._lookup = lookup
        self._judge = judge
        self._clock = clock
        self._cache: dict[tuple[str, int], tuple[int, Sequence[str]]] = {}

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,
    ) -> list[ResolveResult]:
        """Raises `OSError` when the name has no address, `AddressRefused` when it has no allowed one."""
        allowed: list[ResolveResult] = []
        sentence = None
        for address in await self._addresses(host, port):
            reason = self._judge(address, port)
            if reason is None:
                allowed.append(_result(host, address, port))
            else:
                sentence = sentence or reason
        if allowed:
            return allowed
        if sentence is not None:
            raise AddressRefused(sentence)
        raise OSError("the name has no address")

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        now = self._clock.boot_ms()
        kept = self._cache.get((host, port))
        if kept is not None and now < kept[0]:
            return kept[1]
        addresses = await self._lookup(host, port)
        if len(self._cache) >= CACHE_MAX:
            self._cache.clear()
        self._cache[host, port] = (now + CACHE_MS, addresses)
        return addresses

    async def close(self) -> None:
        """Forget what was looked up."""
        self._cache.clear()


def _result(host: str, address: str, port: int) -> ResolveResult:
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
        "proto": socket.IPPROTO_TCP,
        "flags": socket.AI_NUMERICHOST,
    }
