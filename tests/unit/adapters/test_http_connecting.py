"""Everything that ends before the first request byte: each is proof that nothing was sent, and nothing else is."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from adapters.contract import Hooks, Phase
from adapters.http.client import HttpAdapter
from tests.streams import ended
from tests.unit.adapters.conftest import AdapterMaker, Exchanger, Owner
from tests.unit.adapters.raw_server import Authority, Conversation, server_context, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SHORT_SECONDS = 0.2


async def answer(conversation: Conversation) -> None:
    await conversation.read_request()
    await conversation.send(OK)


async def read_until_gone(conversation: Conversation) -> None:
    await conversation.gone()


async def close_at_once(conversation: Conversation) -> None:
    """A handshake cut by the peer."""


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def test_refused_connection_is_proof_that_nothing_left(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    seen = await adapter.attempt(exchange(f"http://127.0.0.1:{unused_port()}"), owner.hooks)
    assert seen.nothing_left
    assert seen.phase is Phase.CONNECTING
    assert seen.error_class == "ClientConnectorError"
    assert seen.error_cause == "ConnectionRefusedError ECONNREFUSED"
    assert owner.asked == 0


async def test_unknown_name_is_proof_that_nothing_left(
    make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger
) -> None:
    async def nothing_found(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    adapter = make_adapter(lookup=nothing_found)
    seen = await adapter.attempt(exchange("http://service.example"), owner.hooks)
    assert seen.nothing_left
    assert seen.summary == "the service's name could not be resolved"


@pytest.mark.parametrize("connect_seconds", [SHORT_SECONDS, 60.0], ids=["connect_deadline", "request_deadline"])
@pytest.mark.parametrize("stage", ["lookup", "tcp", "tls"])
async def test_deadline_while_connecting_is_proof_that_nothing_left(
    stage: str, connect_seconds: float, make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger
) -> None:
    """A full backlog leaves the TCP handshake unanswered; a silent server leaves the TLS handshake unanswered."""

    async def hangs(_host: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    adapter = make_adapter(lookup=hangs)
    async with contextlib.AsyncExitStack() as stack:
        if stage == "lookup":
            origin = "http://service.example"
        elif stage == "tcp":
            origin = f"http://127.0.0.1:{stack.enter_context(full_backlog())}"
        else:
            peer = await stack.enter_async_context(serving(read_until_gone))
            origin = f"https://127.0.0.1:{peer.port}"
        sent = exchange(origin, connect_seconds=connect_seconds, seconds=SHORT_SECONDS if connect_seconds > 1 else 60.0)
        seen = await adapter.attempt(sent, owner.hooks)
    assert seen.nothing_left
    assert seen.phase is Phase.CONNECTING
    assert "deadline" in seen.summary
    assert owner.asked == 0


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A listener whose queue is full, so that the kernel answers no further SYN."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_untrusted_certificate_is_proof_that_nothing_left(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async with serving(answer, tls=authority.server) as peer:
        seen = await adapter.attempt(exchange(peer, ca_file=None), owner.hooks)
    assert seen.nothing_left
    assert seen.summary == "the service's certificate is not trusted"
    assert seen.error_cause == "SSLCertVerificationError CERTIFICATE_VERIFY_FAILED"
    assert not peer.heads


async def test_certificate_for_another_name_is_proof_that_nothing_left(
    make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async def loopback(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    adapter = make_adapter(lookup=loopback)
    async with serving(answer, tls=authority.server) as peer:
        seen = await adapter.attempt(exchange(f"https://other.example:{peer.port}"), owner.hooks)
    assert seen.nothing_left
    assert not peer.heads


async def test_handshake_cut_is_proof_that_nothing_left(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(close_at_once) as peer:
        seen = await adapter.attempt(exchange(f"https://127.0.0.1:{peer.port}"), owner.hooks)
    assert seen.nothing_left
    assert owner.asked == 0


async def test_tls_to_a_plain_server_is_proof_that_nothing_left(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async def plain(conversation: Conversation) -> None:
        await conversation.reader.read(10)
        await conversation.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with serving(plain) as peer:
        seen = await adapter.attempt(exchange(f"https://127.0.0.1:{peer.port}"), owner.hooks)
    assert seen.nothing_left
    assert seen.status is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["tls12", "tls13"])
async def test_missing_client_certificate_proves_nothing_left_only_before_tls_1_3(
    version: ssl.TLSVersion, adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    context = server_context(authority.ca, client_certificates=True)
    context.minimum_version = context.maximum_version = version
    async with serving(answer, tls=context) as peer:
        seen = await adapter.attempt(exchange(peer), owner.hooks)
    assert seen.status is None
    assert not peer.requests
    assert seen.nothing_left == (version is ssl.TLSVersion.TLSv1_2)
    assert owner.asked == (version is ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_owner_that_refuses_leaves_no_request_byte_on_the_wire(
    tls: bool, adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    owner.refuse = "the lease is lost"
    async with serving(read_until_gone, tls=authority.server if tls else None) as peer:
        seen = await adapter.attempt(exchange(peer), owner.hooks)
        await peer.all_ended()
    assert seen.nothing_left
    assert seen.phase is Phase.CONNECTED
    assert seen.summary == "the lease is lost"
    assert seen.bytes_written == 0
    assert peer.late_bytes == 0


async def test_owner_whose_check_breaks_counts_as_a_refusal(adapter: HttpAdapter, exchange: Exchanger) -> None:
    def broken() -> str | None:
        raise RuntimeError("no journal")

    async with serving(read_until_gone) as peer:
        seen = await adapter.attempt(exchange(peer), Hooks(before_send=broken))
        await peer.all_ended()
    assert seen.nothing_left
    assert peer.late_bytes == 0
    assert seen.error_cause == "RuntimeError"


async def test_answer_before_the_request_is_a_contradiction(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    """On a connection of its own, bytes before the request can be no answer to it."""

    async def greeting(conversation: Conversation) -> None:
        await conversation.send(OK)
        await conversation.gone()

    async with serving(greeting) as peer:
        sent = exchange(peer, body=b"x" * 20_000_000)
        seen = await adapter.attempt(sent, owner.hooks)
    assert not seen.answered
    assert not seen.request_complete
    assert seen.nothing_left == (seen.bytes_written == 0)


async def test_proxy_that_refuses_the_tunnel_is_proof_that_nothing_left(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async def refusing(conversation: Conversation) -> None:
        await conversation.read_head()
        await conversation.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

    async with serving(refusing) as proxy:
        sent = exchange("https://service.example", proxy=f"http://127.0.0.1:{proxy.port}")
        seen = await adapter.attempt(sent, owner.hooks)
    assert seen.nothing_left
    assert seen.status is None
    assert seen.summary == "the proxy refused to connect to the service"
    assert owner.asked == 0
    assert [head.split(b" ")[0] for head in proxy.heads] == [b"CONNECT"]


@pytest.mark.parametrize("fault", ["fin", "rst", "silence", "refused"])
async def test_proxy_that_fails_is_proof_that_nothing_left(
    fault: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async def failing(conversation: Conversation) -> None:
        await conversation.read_head()
        if fault == "rst":
            conversation.reset()
        elif fault == "silence":
            await conversation.gone()

    async with serving(failing) as proxy:
        port = unused_port() if fault == "refused" else proxy.port
        sent = exchange(
            "https://service.example", "PUT", proxy=f"http://127.0.0.1:{port}", connect_seconds=SHORT_SECONDS
        )
        seen = await adapter.attempt(sent, owner.hooks)
    assert seen.nothing_left
    assert owner.asked == 0
    assert len(proxy.heads) <= 1


async def test_tunnel_through_a_proxy_carries_the_request_to_the_named_service(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async with serving(answer, tls=authority.server) as peer:

        async def tunnel(conversation: Conversation) -> None:
            await conversation.read_head()
            await conversation.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            reader, writer = await asyncio.open_connection("127.0.0.1", peer.port)

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                with contextlib.suppress(OSError):
                    while data := await source.read(65536):
                        sink.write(data)
                        await sink.drain()
                await ended(sink)

            async with asyncio.TaskGroup() as both:
                both.create_task(pump(conversation.reader, writer))
                both.create_task(pump(reader, conversation.writer))

        async with serving(tunnel) as proxy:
            sent = exchange(peer, proxy=f"http://127.0.0.1:{proxy.port}")
            seen = await adapter.attempt(sent, owner.hooks)
    assert seen.answered
    assert len(peer.requests) == 1
    assert seen.tls is not None


async def test_answer_of_a_plain_proxy_is_never_proof(adapter: HttpAdapter, owner: Owner, exchange: Exchanger) -> None:
    async def bad_gateway(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")

    async with serving(bad_gateway) as proxy:
        sent = exchange("http://service.example", proxy=f"http://127.0.0.1:{proxy.port}")
        seen = await adapter.attempt(sent, owner.hooks)
    assert seen.status == 502
    assert not seen.nothing_left
    assert proxy.requests[0].startswith(b"POST http://service.example/things?x=1 HTTP/1.1\r\n")
    assert seen.bytes_written == seen.bytes_expected == len(proxy.requests[0])


async def test_environment_proxy_is_ignored(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(answer) as peer, serving(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy.origin)
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        seen = await adapter.attempt(exchange(peer), owner.hooks)
    assert seen.answered
    assert proxy.connections == 0


class Stage:
    """Stops an attempt at one named await, on our side or the service's, and says when it got there."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.reached = asyncio.Event()

    async def stop_at(self, point: str) -> None:
        if self.point == point:
            self.reached.set()
            await asyncio.Event().wait()

    async def lookup(self, _host: str, _port: int) -> list[str]:
        await self.stop_at("lookup")
        return ["127.0.0.1"]

    def before_send(self) -> str | None:
        return None

    async def on_head(self, _head: object) -> None:
        await self.stop_at("on_head")

    async def serve(self, conversation: Conversation) -> None:
        if self.point == "tls":
            await conversation.reader.read(1)
        elif self.point == "writing":
            await conversation.read_head()
        else:
            await conversation.read_request()
            if self.point in {"on_head", "body"}:
                await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
        if self.point != "on_head":
            self.reached.set()
        await conversation.gone()


@pytest.mark.parametrize("point", ["lookup", "tcp", "tls", "writing", "waiting", "on_head", "body"])
async def test_cancelled_attempt_closes_its_socket_hard_and_says_so_upwards(
    point: str, make_adapter: AdapterMaker, exchange: Exchanger
) -> None:
    stage = Stage(point)
    adapter = make_adapter(lookup=stage.lookup)
    body = b"x" * (20 * 1024 * 1024) if point == "writing" else b"{}"
    async with serving(stage.serve) as peer:
        with full_backlog() as silent_port:
            origin = f"{'https' if point == 'tls' else 'http'}://service.example"
            sent = exchange(f"{origin}:{silent_port if point == 'tcp' else peer.port}", body=body)
            hooks = Hooks(before_send=stage.before_send, on_head=stage.on_head)
            task = asyncio.create_task(adapter.attempt(sent, hooks))
            if point == "tcp":
                while not adapter._sockets._open:
                    await asyncio.sleep(0)
                stage.reached.set()
            await stage.reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not adapter._flights
        assert all(sock.fileno() < 0 for sock in adapter._sockets._open.values())
        await peer.all_ended()
    assert point != "writing" or (not peer.requests and peer.late_bytes < len(body))


async def test_closing_the_adapter_aborts_attempts_under_way(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    reached = asyncio.Event()

    async def hang(conversation: Conversation) -> None:
        await conversation.read_request()
        reached.set()
        await conversation.gone()

    async with serving(hang) as peer:
        task = asyncio.create_task(adapter.attempt(exchange(peer), owner.hooks))
        await reached.wait()
        await adapter.close()
        seen = await task
        later = await adapter.attempt(exchange(peer), owner.hooks)
    assert not seen.nothing_left
    assert seen.status is None
    assert later.nothing_left
    assert later.summary == "the adapter is closed"
    assert peer.connections == 1
