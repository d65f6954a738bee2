"""Giving up means that nothing arrives later: sockets reset, stray answers go nowhere, nothing is sent twice."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

from adapters.contract import SelfTestFailed
from adapters.http import connector as connecting
from adapters.http.client import HttpAdapter
from adapters.http.flight import Flight
from adapters.http.refusals import Broken, SendRefused
from adapters.http.sockets import CountingSocket
from tests.unit.adapters.conftest import AdapterMaker, Exchanger, Owner
from tests.unit.adapters.raw_server import Authority, Conversation, run_out, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STRAY = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nstray"
BIG = b"x" * (20 * 1024 * 1024)


async def slow_reader(conversation: Conversation) -> None:
    """Takes the head, then reads nothing until the client has given up, then everything that still comes."""
    await conversation.read_head()
    conversation.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a read transport in fact
    await conversation.peer.given_up.wait()
    conversation.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a read transport in fact
    await conversation.gone()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_request_given_up_at_its_deadline_never_arrives_complete(
    tls: bool, adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async with serving(slow_reader, tls=authority.server if tls else None) as peer:
        async with asyncio.TaskGroup() as group:
            seeing = group.create_task(adapter.attempt(exchange(peer, body=BIG, seconds=60.0), owner.hooks))
            await run_out(adapter, lambda flight: peer.heads and flight.bytes_written)
        seen = seeing.result()
        sockets = list(adapter._sockets._open.values())
        peer.given_up.set()
        await peer.all_ended()
    assert all(sock.fileno() < 0 for sock in sockets)
    assert seen.closed_boot_ms is not None
    assert not seen.request_complete
    assert seen.bytes_written is not None
    assert 0 < seen.bytes_written < len(BIG)
    assert peer.late_bytes < len(BIG)
    assert tls or peer.resets == 1


async def test_killed_process_resets_instead_of_flushing(exchange: Exchanger) -> None:
    """The kernel of a killed process delivers what is queued, with a clean end, unless lingering is off from birth."""
    program = textwrap.dedent(
        """
        import asyncio, sys, time
        from adapters.contract import Hooks, HttpExchange, HttpTarget
        from adapters.http.client import HttpAdapter

        class Clock:
            def wall_ms(self): return 0
            def boot_ms(self): return 0

        origin = sys.argv[1]
        sent = HttpExchange("POST", origin + "/", (), b"x" * 20_000_000, HttpTarget(origin, allow_private=True), 60.0)
        asyncio.run(HttpAdapter(Clock()).attempt(sent, Hooks(before_send=lambda: None)))
        """
    )
    async with serving(slow_reader) as peer:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, peer.origin, env=os.environ | {"PYTHONPATH": str(Path.cwd())}
        )
        async with asyncio.timeout(40):
            while not peer.heads:
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        peer.given_up.set()
        await peer.all_ended()
    assert peer.resets == 1
    assert peer.late_bytes < 20_000_000


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_connection_is_closed_in_peace_after_a_whole_answer(
    tls: bool, adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(OK)
        await conversation.gone()

    async with serving(behave, tls=authority.server if tls else None) as peer:
        seen = await adapter.attempt(exchange(peer), owner.hooks)
        await peer.all_ended()
    assert seen.answered
    assert peer.resets == 0


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_stray_answer_is_never_the_answer_to_the_next_request(
    tls: bool, adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(OK + STRAY)
        await conversation.gone()

    async with serving(behave, tls=authority.server if tls else None) as peer:
        seen = [await adapter.attempt(exchange(peer), owner.hooks) for _ in range(3)]
    assert [one.body for one in seen] == [b"ok"] * 3
    assert len(peer.requests) == peer.connections == 3


async def keep_answering(conversation: Conversation) -> None:
    while True:
        await conversation.read_request()
        await conversation.send(OK)


async def test_reads_of_a_service_that_allows_it_share_a_connection(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(keep_answering) as peer:
        sent = exchange(peer, "GET", body=b"", reuse=True)
        seen = [await adapter.attempt(sent, owner.hooks) for _ in range(3)]
        write = await adapter.attempt(exchange(peer, "POST"), owner.hooks)
        await adapter.close()
    assert all(one.answered for one in seen)
    assert all(one.bytes_written == one.bytes_expected for one in seen)
    assert all(one.closed_boot_ms is None for one in seen)
    assert write.answered
    assert write.closed_boot_ms is not None
    assert peer.connections == 2


async def test_shared_connection_is_closed_after_an_answer_that_was_not_whole(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async def endless(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99000000\r\n\r\n")
        for _ in range(80):
            await conversation.send(bytes(256 * 1024))
        await conversation.gone()

    async with serving(endless) as peer:
        seen = await adapter.attempt(exchange(peer, "GET", body=b"", reuse=True), owner.hooks)
        await peer.all_ended()
    assert not seen.answered
    assert seen.closed_boot_ms is not None


async def test_attempts_that_are_no_shared_reads_never_go_back_to_a_pool(adapter: HttpAdapter) -> None:
    connector = adapter._session(keep=False).connector
    assert connector is not None
    assert connector.force_close


@pytest.mark.parametrize("moment", ["with_the_answer", "while_idle", "closed_while_idle"])
async def test_shared_connection_that_spoke_out_of_turn_is_dropped(
    moment: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    spoken = asyncio.Event()

    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(OK + STRAY if moment == "with_the_answer" else OK)
        await conversation.peer.given_up.wait()
        if moment == "while_idle":
            await conversation.send(STRAY)
        spoken.set()
        if moment != "closed_while_idle":
            await conversation.gone()

    async with serving(behave) as peer:
        sent = exchange(peer, "GET", body=b"", reuse=True)
        first = await adapter.attempt(sent, owner.hooks)
        peer.given_up.set()
        await (peer.all_ended() if moment == "closed_while_idle" else spoken.wait())
        second = await adapter.attempt(sent, owner.hooks)
        await adapter.close()
    assert first.body == second.body == b"ok"
    assert len(peer.requests) == peer.connections == 2


async def test_second_send_within_one_attempt_is_stopped(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a later library resend after some other error: the second entry fails before a second connection."""

    async def resending(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        with pytest.raises(Broken):
            await connecting.never_again(request, handler)
        return await connecting.never_again(request, handler)

    async def fin(conversation: Conversation) -> None:
        await conversation.read_request()

    session = adapter._session(keep=False)
    monkeypatch.setattr(session, "_middlewares", (resending,))
    async with serving(fin) as peer:
        seen = await adapter.attempt(exchange(peer, "PUT"), owner.hooks)
    assert seen.error_class == "SentTwice"
    assert not seen.nothing_left
    assert peer.connections == 1


async def test_self_test_passes_on_this_build(adapter: HttpAdapter) -> None:
    kept = await adapter.self_test()
    assert set(kept.values()) == {"kept"}
    assert len(kept) == 6


@pytest.fixture
def unretrieved() -> Iterator[Callable[[], list[BaseException | None]]]:
    """What futures hold and nobody asked for; the collector must not run meanwhile: it would take the evidence away."""

    def found() -> list[BaseException | None]:
        futures = [thing for thing in gc.get_objects() if isinstance(thing, asyncio.Future)]
        # What the loop itself reads before it prints "exception was never retrieved".
        return [future.exception() for future in futures if getattr(future, "_log_traceback", False)]

    gc.collect()
    gc.disable()
    found()
    yield found
    gc.enable()


async def test_self_test_leaves_nothing_for_the_loop_to_print(
    adapter: HttpAdapter, unretrieved: Callable[[], list[BaseException | None]]
) -> None:
    await adapter.self_test()
    assert unretrieved() == []


def _uncounted(sock: CountingSocket, data: bytes, flags: int = 0, /) -> int:
    return super(CountingSocket, sock).send(data, flags)


_connected = Flight.connected


def _deaf(self: Flight, *what: Any) -> None:
    with contextlib.suppress(SendRefused):
        _connected(self, *what)


async def _plain_handler(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    return await handler(request)


BROKEN_PROMISES = {
    "the byte counter counts exactly what leaves": lambda patch: patch.setattr(CountingSocket, "send", _uncounted),
    "a refusal before sending sends nothing": lambda patch: patch.setattr(Flight, "connected", _deaf),
    "a PUT whose answer is lost is not sent again": lambda patch: patch.setattr(
        connecting, "never_again", _plain_handler
    ),
    "a request given up does not arrive later": lambda patch: patch.setattr(
        CountingSocket, "harden", CountingSocket.soften
    ),
    "a forbidden address is not dialled": lambda patch: patch.setattr(
        "adapters.http.sockets.refusal", lambda _host, **_rules: None
    ),
}


@pytest.mark.parametrize("promise", BROKEN_PROMISES)
async def test_self_test_names_the_promise_that_a_build_breaks(
    promise: str, make_adapter: AdapterMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    BROKEN_PROMISES[promise](monkeypatch)
    adapter = make_adapter()
    with pytest.raises(SelfTestFailed, match=promise):
        await adapter.self_test()
