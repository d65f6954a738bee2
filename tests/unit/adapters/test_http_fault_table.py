"""Each fault, on a real socket, in plain text and under TLS, for four methods: what the observation may claim.

`N` proof that nothing was sent, `?` may have been executed, `E` executed, `E-` executed with its result lost.
"""

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from adapters.contract import Framing, Observation, Phase
from adapters.http.client import HttpAdapter
from adapters.http.flight import Flight
from tests.unit.adapters.conftest import Exchanger, Owner
from tests.unit.adapters.raw_server import Authority, Behaviour, Conversation, Peer, run_out, serving

METHODS = ("POST", "PUT", "DELETE", "PATCH")
BIG = b"x" * (12 * 1024 * 1024)


def reading(seen: Observation) -> str:
    if seen.nothing_left:
        return "N"
    if seen.answered:
        return "E"
    success = seen.status is not None and 200 <= seen.status < 300
    return "E-" if success and seen.request_complete and not seen.contradictions else "?"


def after_request(answer: bytes, *, then: str = "fin") -> Behaviour:
    """Read and commit the whole request, send these bytes, end as told."""

    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        if answer:
            await conversation.send(answer)
        if then == "rst":
            conversation.reset()
        elif then == "hang":
            await conversation.gone()

    return behave


async def fin_unread(conversation: Conversation) -> None:
    """Close without reading a byte."""


async def rst_unread(conversation: Conversation) -> None:
    conversation.reset()


async def rst_in_body(conversation: Conversation) -> None:
    await conversation.read_head()
    await conversation.reader.readexactly(1000)
    conversation.reset()


async def stall_in_body(conversation: Conversation) -> None:
    await conversation.read_head()
    conversation.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a read transport in fact
    await conversation.peer.given_up.wait()
    conversation.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a read transport in fact
    await conversation.gone()


async def early_success(conversation: Conversation) -> None:
    await conversation.read_head()
    await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    await conversation.gone()


async def interim_flood(conversation: Conversation) -> None:
    await conversation.read_request()
    while not conversation.writer.is_closing():
        await conversation.send(b"HTTP/1.1 102 Processing\r\nX-Filler: " + b"f" * 1000 + b"\r\n\r\n")


def committed(peer: Peer, flight: Flight) -> object:
    return peer.requests


def begun(peer: Peer, flight: Flight) -> object:
    return peer.heads


def answering(peer: Peer, flight: Flight) -> object:
    return flight.head


@dataclass(frozen=True)
class Row:
    name: str
    behaviour: Behaviour
    reading: str
    commits: int | None = 1
    body: bytes = b'{"n": 1}'
    stalls: Callable[[Peer, Flight], object] | None = None
    """Where the fault is silence: whether all has come that will ever come."""
    phase: Phase | None = None

    def __str__(self) -> str:
        return self.name


OK = b"HTTP/1.1 200 OK\r\n"
JUNK_GZIP = OK + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!"
CUT_GZIP_BODY = gzip.compress(b"y" * 1000)[:-4]
CUT_GZIP = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(CUT_GZIP_BODY) + CUT_GZIP_BODY
GOOD_GZIP_BODY = gzip.compress(b"y" * 1000)
GOOD_GZIP = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(GOOD_GZIP_BODY) + GOOD_GZIP_BODY

ROWS = (
    Row("fin_without_reading", fin_unread, "?", commits=0),
    Row("rst_without_reading", rst_unread, "?", commits=0),
    Row("commit_then_fin", after_request(b""), "?", phase=Phase.REQUEST_WRITTEN),
    Row("commit_then_rst", after_request(b"", then="rst"), "?", phase=Phase.REQUEST_WRITTEN),
    Row("commit_then_hang", after_request(b"", then="hang"), "?", phase=Phase.REQUEST_WRITTEN, stalls=committed),
    Row("rst_in_body", rst_in_body, "?", commits=0, body=BIG, phase=Phase.REQUEST_STARTED),
    Row("stall_in_body", stall_in_body, "?", commits=0, body=BIG, phase=Phase.REQUEST_STARTED, stalls=begun),
    Row("status_line_cut", after_request(b"HTTP/1.1 20"), "?", phase=Phase.REQUEST_WRITTEN),
    Row("headers_cut", after_request(OK + b"Content-Le"), "?"),
    Row("garbage_line", after_request(b"\x00\x01garbage\r\n\r\n"), "?", phase=Phase.REQUEST_WRITTEN),
    Row("oversize_header", after_request(OK + b"X-Big: " + b"b" * 20_000 + b"\r\n\r\n"), "?"),
    Row("bad_first_chunk", after_request(OK + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n"), "?"),
    Row("two_lengths", after_request(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"), "?"),
    Row(
        "length_and_chunked",
        after_request(OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "?",
    ),
    Row("interim_flood", interim_flood, "?", phase=Phase.REQUEST_WRITTEN),
    Row("framed_by_length", after_request(OK + b"Content-Length: 2\r\n\r\nok"), "E", phase=Phase.RESPONSE_COMPLETE),
    Row("framed_by_chunks", after_request(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), "E"),
    Row("no_content", after_request(b"HTTP/1.1 204 No Content\r\n\r\n", then="hang"), "E"),
    Row("after_interim", after_request(b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n"), "E"),
    Row("good_gzip", after_request(GOOD_GZIP), "E"),
    Row("body_short_fin", after_request(OK + b"Content-Length: 9\r\n\r\nok"), "E-", phase=Phase.RESPONSE_STARTED),
    Row("body_short_rst", after_request(OK + b"Content-Length: 9\r\n\r\nok", then="rst"), "E-?"),
    Row("body_stalls", after_request(OK + b"Content-Length: 9\r\n\r\nok", then="hang"), "E-", stalls=answering),
    Row("chunks_cut", after_request(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), "E-"),
    Row("gzip_junk", after_request(JUNK_GZIP), "E-"),
    Row("gzip_cut", after_request(CUT_GZIP), "E-"),
    Row("unasked_encoding", after_request(OK + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nok"), "E-"),
    Row("no_framing", after_request(OK + b"\r\nok"), "E-", phase=Phase.RESPONSE_STARTED),
    Row("early_success", early_success, "?", commits=0, body=BIG),
    Row(
        "switches_protocol", after_request(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "?"
    ),
)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_fault_is_reported_as_what_it_proves_and_nothing_is_resent(  # noqa: PLR0917 (a table's columns)
    row: Row,
    method: str,
    tls: bool,
    adapter: HttpAdapter,
    owner: Owner,
    exchange: Exchanger,
    authority: Authority,
) -> None:
    async with serving(row.behaviour, tls=authority.server if tls else None) as peer:
        attempt = adapter.attempt(exchange(peer, method, body=row.body, seconds=60.0), owner.hooks)
        if row.stalls is None:
            seen = await attempt
        else:
            async with asyncio.TaskGroup() as group:
                seeing = group.create_task(attempt)
                await run_out(adapter, partial(row.stalls, peer))
            seen = seeing.result()
        peer.given_up.set()
        await peer.all_ended()
    assert peer.connections == 1
    if row.commits is not None:
        assert len(peer.requests) == row.commits
    assert owner.asked == 1
    assert seen.error_class != "SentTwice"  # the library did not even try to send again
    if seen.bytes_written == 0:
        assert reading(seen) == "N"
        assert not peer.requests
    else:
        assert reading(seen) in {row.reading, row.reading.rstrip("?")} or (
            row.reading == "E-?" and reading(seen) == "?"
        )
    if row.phase is not None and seen.bytes_written:
        assert seen.phase is row.phase
    assert seen.closed_boot_ms is not None
    assert seen.request_complete or row.commits == 0
    assert (seen.tls is not None) == tls
    assert seen.peer == f"127.0.0.1:{peer.port}"


async def test_success_before_the_request_was_written_is_named_a_contradiction(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(early_success) as peer:
        seen = await adapter.attempt(exchange(peer, body=BIG), owner.hooks)
    assert seen.status == 200
    assert not seen.request_complete
    assert seen.contradictions == ("the answer came before the request was fully written",)
    assert seen.summary == seen.contradictions[0]


async def test_refusal_before_the_request_was_written_is_no_contradiction(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    """A service may turn a message down by its head; 408 even depends on knowing that ours was not whole."""

    async def early_refusal(conversation: Conversation) -> None:
        await conversation.read_head()
        await conversation.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await conversation.gone()

    async with serving(early_refusal) as peer:
        seen = await adapter.attempt(exchange(peer, body=BIG), owner.hooks)
        await peer.all_ended()
    assert seen.status == 413
    assert seen.body_complete
    assert not seen.request_complete
    assert not seen.contradictions
    assert peer.resets == 1


async def test_flood_of_interim_answers_ends_at_a_bound_and_not_at_the_deadline(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(interim_flood) as peer:
        seen = await adapter.attempt(exchange(peer, seconds=60), owner.hooks)
    assert seen.error_class == "Broken"
    assert seen.error_cause == "ConnectionAbortedError"


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_chunk_that_turns_bad_after_the_head_ends_before_the_deadline(
    tls: bool, adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        await conversation.peer.given_up.wait()
        await conversation.send(b"ZZ\r\n")
        await conversation.gone()

    async with serving(behave, tls=authority.server if tls else None) as peer:

        async def head_seen(_head: object) -> None:
            peer.given_up.set()

        hooks = type(owner.hooks)(before_send=owner.before_send, on_head=head_seen)
        seen = await adapter.attempt(exchange(peer, seconds=30), hooks)
    assert reading(seen) == "E-"
    assert seen.body == b"ok"
    assert seen.ended_ms - seen.started_ms < 1000  # the clock of these tests counts readings, not time
    assert seen.error_class is not None


@pytest.mark.parametrize("method", METHODS)
async def test_counted_bytes_are_exactly_the_bytes_the_service_received(
    method: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(after_request(OK + b"Content-Length: 2\r\n\r\nok")) as peer:
        seen = await adapter.attempt(exchange(peer, method), owner.hooks)
    assert seen.bytes_written == seen.bytes_expected == len(peer.requests[0])
    assert seen.framing is Framing.LENGTH
    assert seen.summary == "answered"


async def test_under_tls_bytes_are_counted_from_the_end_of_the_handshake(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger, authority: Authority
) -> None:
    async with serving(after_request(OK + b"Content-Length: 2\r\n\r\nok"), tls=authority.server) as peer:
        seen = await adapter.attempt(exchange(peer), owner.hooks)
    assert seen.bytes_expected == len(peer.requests[0])
    assert seen.bytes_written is not None
    assert len(peer.requests[0]) < seen.bytes_written < len(peer.requests[0]) + 100
