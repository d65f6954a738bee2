"""Bytes that are hardly HTTP: refused as a problem, never quoted, never logged, never taken for two requests."""

import asyncio
import contextlib
import json
import re

import pytest

from fixtures.service.server import DeployService
from tests.canary import Canaries
from tests.streams import opened
from tests.unit.surfaces.door import Door, Home, open_door

SUBMISSION = b'{"action": "deploy", "args": {"name": "a"}}'


def request(door: Door, head: str, body: bytes = b"", *, method: str = "POST", path: str = "/v1/operations") -> bytes:
    lines = f"{method} {path} HTTP/1.1\r\nHost: {door.netloc}\r\nAuthorization: Bearer {door.home.caller_key}\r\n"
    return (lines + "Content-Type: application/json\r\n" + head + "\r\n").encode("latin-1") + body


def statuses(answer: bytes) -> list[int]:
    """Of every answer on a connection."""
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


def problem(answer: bytes) -> dict[str, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    found: dict[str, object] = json.loads(body)
    return found


async def test_what_is_no_http_is_a_problem_and_is_neither_quoted_nor_logged(door: Door, canaries: Canaries) -> None:
    for line in [
        "{secret}\r\n\r\n",
        "GET /healthz HTTP/9.9\r\nX: {secret}\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n{secret}\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nAuth orization: {secret}\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nAuthorization: {secret}\x00\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nAuthorization: a\r\n {secret}\r\n\r\n",
        "GET /{secret} x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nX: {secret}" + "x" * 20_000 + "\r\n\r\n",
        "GET /" + "{secret}" * 1000 + " HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02\x00{secret}",
    ]:
        secret = canaries.mint()
        answer = await door.raw(line.format(secret=secret).encode("latin-1"))
        assert statuses(answer) == [400], line
        assert problem(answer)["code"] == "malformed"
        assert secret.encode() not in answer
        assert secret not in door.log.getvalue()


async def test_two_framings_are_one_refusal_and_no_request_is_smuggled(door: Door, service: DeployService) -> None:
    smuggled = request(door, f"Content-Length: {len(SUBMISSION)}\r\n", SUBMISSION)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(SUBMISSION), SUBMISSION)
    for head in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5_0\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 99999999999999999999999999\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ]:
        answer = await door.raw(request(door, f"{head}Connection: close\r\n", chunked + smuggled))
        assert len(statuses(answer)) == 1, head
        assert statuses(answer)[0] in {400, 413, 415}, head
        assert problem(answer)["code"] in {"malformed", "too_large", "unsupported_media_type"}
    assert not service.ledger.entries


async def test_a_broken_chunk_creates_nothing(door: Door, service: DeployService) -> None:
    head = "Transfer-Encoding: chunked\r\nConnection: close\r\n"
    for chunks in [b"zz\r\nabc\r\n0\r\n\r\n", b"5;a=b\nabcde\r\n0\r\n\r\n", b"-1\r\n\r\n", b"2b\r\n" + SUBMISSION]:
        answer = await door.raw(request(door, head, chunks), half_close=True)
        assert statuses(answer) in ([400], []), chunks
    assert not service.ledger.entries


async def test_pipelined_requests_are_answered_in_order(door: Door) -> None:
    one = request(door, "", method="GET", path="/v1/actions/look")
    last = request(door, "Connection: close\r\n", method="GET", path="/v1/actions/nothing")

    answer = await door.raw(one + one + last)

    assert statuses(answer) == [200, 200, 404]


async def test_body_is_only_asked_for_when_it_would_be_taken(door: Door) -> None:
    expects = "Expect: 100-continue\r\nConnection: close\r\n"
    too_large, bad_key, good, other = await asyncio.gather(
        door.raw(request(door, f"{expects}Content-Length: 2000000\r\n")),
        door.raw(request(door, f"{expects}Content-Length: 5\r\n").replace(door.home.caller_key.encode(), b"gwk_x")),
        door.raw(request(door, f"{expects}Content-Length: {len(SUBMISSION)}\r\n", SUBMISSION)),
        door.raw(request(door, "Expect: the-unexpected\r\nConnection: close\r\n", method="GET")),
    )

    assert statuses(too_large) == [413]
    assert statuses(bad_key) == [401]
    assert statuses(good) == [100, 200]
    assert statuses(other) == [200]


async def test_other_forms_of_a_target_lead_nowhere_else(door: Door) -> None:
    for method, target, status in [
        ("GET", "http://evil.example/healthz", 200),
        ("CONNECT", "127.0.0.1:22", 404),
        ("OPTIONS", "*", 404),
        ("get", "/healthz", 405),
    ]:
        answer = await door.raw(request(door, "Connection: close\r\n", method=method, path=target))
        assert statuses(answer)[0] in {status, 400}, (method, target, answer)


async def test_a_protocol_change_is_declined(door: Door) -> None:
    head = "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"

    answer = await door.raw(request(door, head, method="GET", path="/healthz"))

    assert statuses(answer) == [200]


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: "], ids=["nothing", "half a head"])
async def test_whoever_connects_and_does_not_ask_is_shown_out(home: Home, service: DeployService, said: bytes) -> None:
    async with (
        open_door(home, service, server={"head_seconds": 1.0}) as door,
        opened(door.netloc) as (polite_reader, polite),
        opened(door.netloc) as (reader, writer),
    ):
        polite.write(request(door, "", method="GET", path="/healthz"))
        await polite_reader.readuntil(b"}")
        writer.write(said)
        assert await reader.read() == b""
        # Whoever has asked once is kept, to ask again.
        polite.write(request(door, "", method="GET", path="/healthz"))
        assert (await polite_reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")


async def test_a_connection_that_never_says_anything_costs_nothing(door: Door) -> None:
    async with contextlib.AsyncExitStack() as silent:
        for _ in range(50):
            await silent.enter_async_context(opened(door.netloc))
        assert (await door.call("GET", "/healthz")).status == 200
