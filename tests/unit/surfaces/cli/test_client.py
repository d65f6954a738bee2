"""The client of the command line against servers that answer oddly: what left, what was lost, what is no gateway."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from fixtures.wire.unresponsive import UnresponsiveListener
from gateway.surfaces.cli import client
from gateway.surfaces.cli.client import AnswerLost, Client, Unreachable
from tests.streams import ended


@asynccontextmanager
async def answering(answer: bytes, heard: list[bytes] | None = None) -> AsyncIterator[Client]:
    """A server that reads a head and says these bytes, whatever it was asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(head)
        writer.write(answer)
        await ended(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "gwk_x")
    finally:
        server.close()


def response(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        response("200 OK", b""),
        response("200 OK", b"<html>"),
        response("200 OK", b"[]"),
        response("200 OK", b"\xff"),
        response("302 Found", b"{}"),
        response("404 Not Found", b'{"error": "x"}'),
        response("502 Bad Gateway", b"<html>"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    ],
)
async def test_what_no_gateway_would_say_is_a_lost_answer(answer: bytes) -> None:
    async with answering(answer) as asked:
        with pytest.raises(AnswerLost):
            await asked.call("POST", "/v1/operations", body={})


async def test_documents_problems_and_empty_answers_are_told_apart() -> None:
    problem = b'{"code": "x", "detail": "y", "guidance": "z"}'
    for answer, status, refused in [
        (response("202 Accepted", b'{"a": 1}'), 202, False),
        (response("204 No Content", b""), 204, False),
        (response("503 Unavailable", problem), 503, True),
        (response("503 Unavailable", b'{"status": "not ready", "reason": "r"}'), 503, True),
    ]:
        async with answering(answer) as asked:
            got = await asked.call("GET", "/")
        assert (got.status, got.is_problem) == (status, refused)


async def test_what_an_answer_lacks_was_not_said_by_a_gateway() -> None:
    async with answering(response("200 OK", b'{"ok": true}')) as asked:
        got = await asked.call("GET", "/")

    with pytest.raises(AnswerLost, match="not the answer of a gateway"):
        _ = got.document["operations"]


async def test_redirects_are_not_followed_and_the_path_stays_as_it_is() -> None:
    heard: list[bytes] = []
    async with answering(b"HTTP/1.1 307 Go\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", heard) as asked:
        with pytest.raises(AnswerLost):
            await asked.call("POST", "/v1/x/../%2e%2E/y%2Fz", body={})

    assert [head.split(b"\r\n")[0] for head in heard] == [b"POST /v1/x/../%2e%2E/y%2Fz HTTP/1.1"]


async def test_where_nobody_listens_nothing_left() -> None:
    with pytest.raises(Unreachable):
        await Client("http://127.0.0.1:9", "").call("POST", "/")


async def test_a_connection_that_is_never_taken_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.2)
    with UnresponsiveListener() as listener, pytest.raises(Unreachable):
        await Client(f"http://{listener.address}", "").call("POST", "/")


def other_address(made: Client) -> Callable[[str], Client]:
    return made.at


async def test_the_same_key_at_another_address() -> None:
    heard: list[bytes] = []
    async with answering(response("200 OK", b"{}"), heard) as asked:
        await other_address(Client("http://127.0.0.1:9", "gwk_y"))(asked._address).call("GET", "/")

    assert b"Authorization: Bearer gwk_y" in heard[0]
