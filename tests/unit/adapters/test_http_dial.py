"""The short way to a connection: judged, hardened and closed as on the long one."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator

import pytest

from adapters.http.connector import Connector
from adapters.http.dial import address_info, dial
from adapters.http.refusals import AddressRefused
from adapters.http.sockets import CountingSocket, SocketFactory
from tests.unit.adapters.conftest import AdapterMaker, Exchanger, Owner
from tests.unit.adapters.raw_server import Conversation, serving
from tests.unit.adapters.test_http_connecting import full_backlog, unused_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def factory(*, allow_private: bool = True) -> SocketFactory:
    return SocketFactory(lambda: allow_private, lambda _stop: None)


@pytest.fixture
async def listener() -> AsyncIterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()


async def test_peer_on_this_machine_is_reached_without_waiting(listener: tuple[str, int]) -> None:
    info = address_info(*listener)
    assert info is not None
    steps = dial(factory(), info)
    with pytest.raises(StopIteration) as ended:
        steps.send(None)
    with ended.value.value as sock:
        assert isinstance(sock, CountingSocket)
        assert sock.getpeername() == listener
        assert not sock.getblocking()
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)[:4] == b"\1\0\0\0"


async def test_peer_that_takes_its_time_is_waited_for(
    listener: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def far_away(_sock: CountingSocket) -> None:
        raise OSError(errno.ENOTCONN, "not yet")

    monkeypatch.setattr(CountingSocket, "getpeername", far_away)
    info = address_info(*listener)
    assert info is not None
    with await dial(factory(), info) as sock:
        monkeypatch.undo()
        assert sock.getpeername() == listener


async def test_refused_connection_keeps_the_systems_number_and_leaves_no_socket() -> None:
    sockets = factory()
    info = address_info("127.0.0.1", unused_port())
    assert info is not None
    with pytest.raises(ConnectionRefusedError) as refused:
        await dial(sockets, info)
    assert refused.value.errno == errno.ECONNREFUSED
    assert all(sock.fileno() < 0 for sock in sockets._open.values())


async def test_cancelled_wait_leaves_no_socket() -> None:
    sockets = factory()
    with full_backlog() as port:
        info = address_info("127.0.0.1", port)
        assert info is not None
        task = asyncio.create_task(dial(sockets, info))
        while not sockets._open:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert all(sock.fileno() < 0 for sock in sockets._open.values())


async def test_forbidden_address_is_judged_here_too(listener: tuple[str, int]) -> None:
    info = address_info(*listener)
    assert info is not None
    with pytest.raises(AddressRefused):
        await dial(factory(allow_private=False), info)


@pytest.mark.parametrize("host", ["service.example", "fe80::1%lo", "127.1", "0x7f.1", ""])
def test_what_is_no_plain_address_is_left_to_the_long_way(host: str) -> None:
    assert address_info(host, 80) is None


def test_address_of_the_sixth_version_is_dialled_as_one() -> None:
    assert address_info("::1", 80) == (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("::1", 80, 0, 0))


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]], ids=["one", "several"])
@pytest.mark.parametrize("way", ["short", "long"])
async def test_both_ways_lead_to_the_same_answer(  # noqa: PLR0917 (fixtures)
    addresses: list[str],
    way: str,
    make_adapter: AdapterMaker,
    owner: Owner,
    exchange: Exchanger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A version of the library that does not ask for the short way loses nothing but time."""

    async def answer(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(OK)

    async def lookup(_host: str, _port: int) -> list[str]:
        return addresses

    if way == "long":
        monkeypatch.delattr(Connector, "_create_connection")
    adapter = make_adapter(lookup=lookup)
    async with serving(answer) as peer:
        seen = await adapter.attempt(exchange(f"http://service.example:{peer.port}"), owner.hooks)
    assert seen.answered
    assert seen.bytes_written == seen.bytes_expected == len(peer.requests[0])
    assert seen.peer == f"127.0.0.1:{peer.port}"
