"""Connects one socket to one address: what is left of connecting when there is nothing to choose between."""

import asyncio
import errno
import functools
import os
import socket

from aiohttp.connector import AddrInfoType

from adapters.http.addresses import spellings
from adapters.http.sockets import SocketFactory

_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR})


@functools.lru_cache(maxsize=4096)
def address_info(host: str, port: int) -> AddrInfoType | None:
    """The address as `dial` takes it; None when the host is a name, or an address that holds for one interface only."""
    found = spellings(host)
    if not found or "%" in host:
        return None
    if found[0].version == 4:
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)


async def dial(factory: SocketFactory, info: AddrInfoType) -> socket.socket:
    """A connected socket of the factory, which judges the address. Raises what it raises, or `OSError`."""
    sock = factory(info)
    try:
        sock.setblocking(False)
        if not _stands_at_once(sock, info[4]):
            await _connected(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def _stands_at_once(sock: socket.socket, address: tuple[str | int, ...]) -> bool:
    """Begin to connect. A peer on this machine has agreed when the call returns, and there is nothing to wait for."""
    error = sock.connect_ex(address)
    if error not in _UNDER_WAY:
        _raise(error)
        return True
    try:
        sock.getpeername()
    except OSError:  # no peer yet, or none any more; the latter is said by what follows
        return False
    return True


async def _connected(sock: socket.socket) -> None:
    """Wait until the connection stands or has failed. Raises `OSError` with the system's number."""
    loop = asyncio.get_running_loop()
    decided: asyncio.Future[None] = loop.create_future()
    loop.add_writer(sock, _settle, decided)
    try:
        await decided
    finally:
        loop.remove_writer(sock)
    _raise(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def _settle(decided: asyncio.Future[None]) -> None:
    if not decided.done():
        decided.set_result(None)


def _raise(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
