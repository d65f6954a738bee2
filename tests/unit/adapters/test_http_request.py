"""The bytes of a request: exactly what was asked for, the credential joined last, and nothing that could split it."""

import logging
from dataclasses import replace

import pytest

from adapters.contract import Observation, Phase, Secret
from adapters.http.client import HttpAdapter
from adapters.http.request import prepare
from tests.unit.adapters.conftest import AdapterMaker, Exchanger, Owner
from tests.unit.adapters.raw_server import Conversation, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CANARY = "canary-5f1d0b9c2e7a4438"


async def answer(conversation: Conversation) -> None:
    await conversation.read_request()
    await conversation.send(OK)


async def test_request_bytes_are_ours_to_the_last_one(adapter: HttpAdapter, owner: Owner, exchange: Exchanger) -> None:
    async with serving(answer) as peer:
        await adapter.attempt(exchange(peer, path="/a%2Fb/../c?q=%41&r"), owner.hooks)
    assert peer.requests == [
        b"POST /a%2Fb/../c?q=%41&r HTTP/1.1\r\n"
        + f"Host: 127.0.0.1:{peer.port}\r\n".encode()
        + b"Connection: close\r\n"
        b"Content-Type: application/json\r\n"
        b"Accept-Encoding: identity\r\n"
        b"Accept: */*\r\n"
        b"User-Agent: action-gateway\r\n"
        b"Content-Length: 8\r\n"
        b"\r\n"
        b'{"n": 1}'
    ]


async def test_every_attempt_of_one_exchange_sends_the_same_bytes(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        sent = exchange(peer, secret=Secret("bearer", "Authorization", f"Bearer {CANARY}"))
        for _ in range(3):
            await adapter.attempt(sent, owner.hooks)
    assert len(set(peer.requests)) == 1
    assert len(peer.requests) == 3


async def test_exchange_may_choose_its_own_encoding_and_agent(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    headers = (("accept-encoding", "gzip"), ("user-agent", "mine"), ("accept", "application/json"))
    async with serving(answer) as peer:
        await adapter.attempt(exchange(peer, "GET", body=b"", headers=headers), owner.hooks)
    lowered = peer.requests[0].lower()
    assert lowered.count(b"accept-encoding:") == lowered.count(b"user-agent:") == lowered.count(b"accept:") == 1
    assert b"identity" not in lowered
    assert b"content-type" not in lowered


async def test_cookies_are_neither_kept_nor_sent(
    make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger, caplog: pytest.LogCaptureFixture
) -> None:
    async def with_cookie(conversation: Conversation) -> None:
        await conversation.read_request()
        cookies = b"Set-Cookie: a=b; Path=/\r\n" + b"Set-Cookie: \x80bad=\x81;;=\r\n" * 50
        await conversation.send(b"HTTP/1.1 200 OK\r\n" + cookies + b"Content-Length: 2\r\n\r\nok")

    async def lookup(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]  # a name, since jars hold no cookies of bare addresses

    adapter = make_adapter(lookup=lookup)
    async with serving(with_cookie) as peer:
        sent = exchange(f"http://service.example:{peer.port}")
        first = await adapter.attempt(sent, owner.hooks)
        await adapter.attempt(sent, owner.hooks)
    assert first.answered
    assert b"cookie" not in peer.requests[1].lower()
    assert not [entry for entry in caplog.records if entry.levelno >= logging.WARNING]


SECRETS = (
    (Secret("bearer", "Authorization", f"Bearer {CANARY}"), f"\r\nAuthorization: Bearer {CANARY}\r\n"),
    (Secret("basic", "Authorization", f"Basic {CANARY}"), f"\r\nAuthorization: Basic {CANARY}\r\n"),
    (Secret("header", "X-Api-Key", CANARY), f"\r\nX-Api-Key: {CANARY}\r\n"),
    (Secret("query", "api_key", f"{CANARY}&x=1 "), f"/things?x=1&api_key={CANARY}%26x%3D1%20 HTTP/1.1\r\n"),
)


@pytest.mark.parametrize(("secret", "expected"), SECRETS, ids=[secret.kind for secret, _ in SECRETS])
async def test_credential_is_joined_and_appears_only_on_the_wire(  # noqa: PLR0917 (fixtures)
    secret: Secret,
    expected: str,
    adapter: HttpAdapter,
    owner: Owner,
    exchange: Exchanger,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(answer) as peer:
        sent = exchange(peer, secret=secret)
        seen = await adapter.attempt(sent, owner.hooks)
    assert expected.encode() in peer.requests[0]
    assert seen.answered
    assert seen.bytes_expected == len(peer.requests[0])
    assert CANARY not in repr(seen) + repr(sent) + repr(prepare(sent, keep_alive=False)) + caplog.text


@pytest.mark.parametrize("secret", [secret for secret, _ in SECRETS], ids=[secret.kind for secret, _ in SECRETS])
@pytest.mark.parametrize("fault", ["refused", "fin", "garbage", "hang"])
async def test_credential_stays_out_of_every_failure(  # noqa: PLR0917 (fixtures)
    fault: str,
    secret: Secret,
    adapter: HttpAdapter,
    owner: Owner,
    exchange: Exchanger,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The library's own exceptions carry the URL, so a credential in the query would ride along in their text."""
    caplog.set_level(logging.DEBUG)

    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        if fault == "garbage":
            await conversation.send(b"garbage\r\n\r\n")
        elif fault == "hang":
            await conversation.gone()

    async with serving(behave) as peer:
        sent = exchange(peer, secret=secret, seconds=0.2)
        if fault == "refused":
            gone = replace(sent.target, origin="http://127.0.0.1:1")
            sent = replace(sent, target=gone, url="http://127.0.0.1:1/x")
        seen = await adapter.attempt(sent, owner.hooks)
    assert seen.status is None
    assert CANARY not in repr(seen) + caplog.text


ELSEWHERE = (
    "http://other.example/things",
    "https://127.0.0.1:{port}/things",
    "http://127.0.0.1:{port}1/things",
    "http://127.0.0.1:{port}@other.example/things",
    "http://127.0.0.1:{port}.other.example/things",
    "http://user@127.0.0.1:{port}/things",
    "//127.0.0.1:{port}/things",
    "/things",
    "http:///things",
    "ftp://127.0.0.1:{port}/things",
    "",
)


@pytest.mark.parametrize("url", ELSEWHERE)
async def test_nothing_goes_to_another_origin_least_of_all_the_credential(
    url: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        secret = Secret("bearer", "Authorization", f"Bearer {CANARY}")
        sent = exchange(peer, url=url.format(port=peer.port), secret=secret)
        seen = await adapter.attempt(sent, owner.hooks)
    assert_refused(seen)
    assert peer.connections == 0


def assert_refused(seen: Observation) -> None:
    assert seen.nothing_left
    assert seen.phase is Phase.PREPARED
    assert seen.closed_boot_ms is not None
    assert seen.summary[0].islower()


@pytest.mark.parametrize(
    "url", ["HTTP://127.0.0.1:{port}/things", "http://127.0.0.1:{port}", "http://127.0.0.1:{port}?q"]
)
async def test_other_spelling_of_the_same_origin_is_the_same_origin(
    url: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        seen = await adapter.attempt(exchange(peer, url=url.format(port=peer.port)), owner.hooks)
    assert seen.answered


SPLITTERS = ("a\r\nX-Injected: 1", "a\nb", "a\rb", "a\x00b", "a\x0bb", "a\x7fb", "ä", "a\u2028b", "\ud800")


@pytest.mark.parametrize("text", SPLITTERS)
@pytest.mark.parametrize("place", ["method", "url", "header_name", "header_value", "secret", "secret_name"])
async def test_character_that_could_split_a_request_is_refused_everywhere(
    place: str, text: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        sent = {
            "method": lambda: exchange(peer, text),
            "url": lambda: exchange(peer, path=f"/{text}"),
            "header_name": lambda: exchange(peer, headers=((text, "v"),)),
            "header_value": lambda: exchange(peer, headers=(("X-Name", text),)),
            "secret": lambda: exchange(peer, secret=Secret("header", "X-Key", text)),
            "secret_name": lambda: exchange(peer, secret=Secret("header", text, "v")),
        }[place]()
        seen = await adapter.attempt(sent, owner.hooks)
    assert_refused(seen)
    assert text not in seen.summary
    assert peer.connections == 0
    assert owner.asked == 0


@pytest.mark.parametrize("method", ["", "post", "PO ST", "CONNECT", "TRACE", "GET /x HTTP/1.1", "G" * 40])
async def test_method_that_is_none_is_refused(
    method: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        assert_refused(await adapter.attempt(exchange(peer, method), owner.hooks))
    assert peer.connections == 0


@pytest.mark.parametrize("path", ["/a b", "/a#b", "/a\\b", '/a"b', "/a<b", "/a`b", "/a{b}", "/a^b", "/a\tb"])
async def test_character_that_may_not_stand_raw_in_a_url_is_refused(
    path: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        assert_refused(await adapter.attempt(exchange(peer, path=path), owner.hooks))
    assert peer.connections == 0


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "CONNECTION", "Expect", "TE", "Upgrade", "Proxy-Authorization"],
)
async def test_header_that_decides_framing_or_routing_is_not_the_exchanges_to_set(
    name: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        assert_refused(await adapter.attempt(exchange(peer, headers=((name, "1"),)), owner.hooks))
        secret = Secret("header", name, "1")
        assert_refused(await adapter.attempt(exchange(peer, secret=secret), owner.hooks))
    assert peer.connections == 0


async def test_credential_never_joins_a_header_that_is_already_there(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    headers = (("authorization", "Bearer of-the-caller"),)
    secret = Secret("bearer", "Authorization", f"Bearer {CANARY}")
    async with serving(answer) as peer:
        assert_refused(await adapter.attempt(exchange(peer, headers=headers, secret=secret), owner.hooks))
    assert peer.connections == 0


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "not a url", "http://"])
async def test_proxy_that_is_none_is_refused(
    proxy: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    assert_refused(await adapter.attempt(exchange("http://service.example", proxy=proxy), owner.hooks))


async def test_ca_file_that_cannot_be_read_is_refused(adapter: HttpAdapter, owner: Owner, exchange: Exchanger) -> None:
    sent = exchange("https://service.example", ca_file="/nowhere/ca.pem")
    assert_refused(await adapter.attempt(sent, owner.hooks))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("HTTP://127.0.0.1:{port}/things?a", b"/things?a"),
        ("HTTP://127.0.0.1:{port}", b"/"),
        ("http://127.0.0.1:{port}", b"/"),
        ("http://127.0.0.1:{port}?q=/x", b"/?q=/x"),
        ("http://127.0.0.1:{port}//a?http://other.example/", b"//a?http://other.example/"),
    ],
)
async def test_path_on_the_wire_is_the_urls_own(
    url: str, path: bytes, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        await adapter.attempt(exchange(peer, url=url.format(port=peer.port)), owner.hooks)
    assert peer.requests[0].startswith(b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    ("method", "length"), [("GET", None), ("HEAD", None), ("DELETE", b"0"), ("POST", b"0"), ("PUT", b"0")]
)
async def test_request_without_a_body_states_its_length_where_one_could_be(
    method: str, length: bytes | None, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        seen = await adapter.attempt(exchange(peer, method, body=b""), owner.hooks)
    stated = [line for line in peer.requests[0].split(b"\r\n") if line.startswith(b"Content-Length")]
    assert stated == ([] if length is None else [b"Content-Length: " + length])
    assert seen.bytes_written == seen.bytes_expected == len(peer.requests[0])


async def test_path_and_query_reach_no_exception_of_the_library(exchange: Exchanger) -> None:
    sent = exchange("http://service.example", secret=Secret("query", "api_key", CANARY))
    assert str(prepare(sent, keep_alive=False).url) == "http://service.example"
