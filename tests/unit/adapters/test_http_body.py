"""Bodies of answers: bounded memory whatever is sent, hashed as received, complete only when that is known."""

import gzip
import hashlib
import tracemalloc
import zlib

import pytest

from adapters.contract import Framing, Head, Hooks, Phase
from adapters.http.body import RAW_CAP_BYTES, BodySink
from adapters.http.client import HttpAdapter
from tests.unit.adapters.conftest import Exchanger, Owner
from tests.unit.adapters.raw_server import Behaviour, Conversation, serving

OK = b"HTTP/1.1 200 OK\r\n"
MIB = 1024 * 1024


def answering(head: bytes, body: bytes = b"", *, times: int = 1) -> Behaviour:
    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(head)
        for _ in range(times):
            await conversation.send(body)
        await conversation.gone()

    return behave


def sink_of(encoding: str, raw: bytes, *, bound: int = 1000, step: int = 1) -> BodySink:
    sink = BodySink(encoding, bound)
    for start in range(0, len(raw), step):
        sink.feed(raw[start : start + step])
    sink.end()
    return sink


TEXT = b"The quick brown fox. " * 20


@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
@pytest.mark.parametrize(
    ("encoding", "raw"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT)),
        ("gzip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)[2:-4]),
    ],
    ids=["none", "identity", "gzip", "x-gzip", "two_members", "zlib", "raw_deflate"],
)
def test_encoded_body_is_decoded_however_it_is_cut_into_pieces(encoding: str, raw: bytes, step: int) -> None:
    sink = sink_of(encoding, raw, step=step)
    assert sink.body == TEXT
    assert sink.complete
    assert not sink.cut
    assert sink.sha256 == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize("step", [1, 10_000])
@pytest.mark.parametrize(
    "raw",
    [
        b"no gzip at all",
        gzip.compress(TEXT)[:-1],
        gzip.compress(TEXT)[:5],
        b"\x1f",
        gzip.compress(TEXT) + b"junk",
        gzip.compress(TEXT) + b"\x1f",
        gzip.compress(TEXT)[:-8] + b"\x00" * 8,
        gzip.compress(b"") * 200,
    ],
    ids=[
        "junk",
        "one_short",
        "head_only",
        "one_byte",
        "trailing_junk",
        "half_a_member",
        "bad_checksum",
        "member_flood",
    ],
)
def test_damaged_gzip_is_never_complete(raw: bytes, step: int) -> None:
    assert not sink_of("gzip", raw, step=step).complete


@pytest.mark.parametrize("length", [999, 1000, 1001])
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_body_is_cut_only_when_it_is_longer_than_the_bound(encoding: str, length: int) -> None:
    plain = b"z" * length
    sink = sink_of(encoding, gzip.compress(plain) if encoding else plain, step=100)
    assert sink.body == plain[:1000]
    assert sink.cut == (length > 1000)
    assert sink.complete


def test_empty_body_with_an_encoding_is_whole() -> None:
    assert sink_of("gzip", b"").complete


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "gzip, gzip"])
def test_encoding_that_cannot_be_decoded_is_kept_raw_and_incomplete(encoding: str) -> None:
    sink = sink_of(encoding, b"raw")
    assert sink.body == b"raw"
    assert not sink.complete


async def test_gzip_bomb_stays_within_the_bound_in_memory(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    squeezer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(squeezer.compress(bytes(MIB)) for _ in range(512)) + squeezer.flush()
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with serving(answering(head, bomb)) as peer:
        tracemalloc.start()
        seen = await adapter.attempt(exchange(peer, body_max_bytes=MIB), owner.hooks)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seen.body == bytes(MIB)
    assert seen.body_cut
    assert seen.body_complete
    assert seen.body_sha256 == hashlib.sha256(bomb).hexdigest()
    assert peak < 8 * MIB


async def test_endless_plain_body_is_read_to_the_cap_and_no_further(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    head = OK + b"Content-Length: %d\r\n\r\n" % (64 * MIB)
    async with serving(answering(head, bytes(256 * 1024), times=256)) as peer:
        tracemalloc.start()
        seen = await adapter.attempt(exchange(peer, body_max_bytes=1000), owner.hooks)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seen.body == bytes(1000)
    assert seen.body_cut
    assert not seen.body_complete
    assert seen.phase is Phase.RESPONSE_STARTED
    assert not seen.answered
    assert peak < 8 * MIB
    assert peer.resets + len(peer.failures) == 1


async def test_long_body_within_the_cap_is_complete_although_cut(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    size = RAW_CAP_BYTES - 1
    head = OK + b"Content-Length: %d\r\n\r\n" % size
    async with serving(answering(head, b"q" * size)) as peer:
        seen = await adapter.attempt(exchange(peer, body_max_bytes=1000), owner.hooks)
    assert seen.answered
    assert seen.body_cut
    assert seen.body_sha256 == hashlib.sha256(b"q" * size).hexdigest()


async def test_flood_of_headers_keeps_what_fits(adapter: HttpAdapter, owner: Owner, exchange: Exchanger) -> None:
    flood = b"".join(b"X-H%d: %b\r\n" % (number, b"v" * 400) for number in range(110))
    async with serving(answering(OK + flood + b"Content-Length: 0\r\n\r\n")) as peer:
        seen = await adapter.attempt(exchange(peer), owner.hooks)
    assert seen.answered
    assert 0 < len(seen.headers) <= 100
    assert sum(len(name) + len(value) for name, value in seen.headers) <= 32 * 1024


async def test_header_bytes_beyond_ascii_arrive_as_text_that_can_be_stored(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answering(OK + b"X-Odd: \xff\xc3\xa4\r\nContent-Length: 0\r\n\r\n")) as peer:
        seen = await adapter.attempt(exchange(peer), owner.hooks)
    value = seen.header("x-odd")
    assert value is not None
    assert value.encode("utf-8")
    assert value.encode("latin-1") == b"\xff\xc3\xa4"


@pytest.mark.parametrize(
    ("method", "answer", "framing"),
    [
        ("HEAD", OK + b"Content-Length: 500\r\n\r\n", Framing.EMPTY),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", Framing.EMPTY),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", Framing.EMPTY),
        ("GET", OK + b"Content-Length: 0\r\n\r\n", Framing.LENGTH),
        ("GET", OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Framing.CHUNKED),
        ("HEAD", OK + b"Content-Encoding: gzip\r\n\r\n", Framing.EMPTY),
    ],
)
async def test_answer_without_body_is_whole_at_once(  # noqa: PLR0917 (a table's columns)
    method: str, answer: bytes, framing: Framing, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answering(answer)) as peer:
        seen = await adapter.attempt(exchange(peer, method, body=b""), owner.hooks)
    assert seen.answered
    assert seen.framing is framing
    assert seen.body == b""


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_odd_framing_never_counts_as_an_answer(
    head: bytes, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(head)

    async with serving(behave) as peer:
        seen = await adapter.attempt(exchange(peer), owner.hooks)
    assert not seen.answered
    assert not seen.nothing_left


async def test_head_is_handed_over_before_the_body_is_read(adapter: HttpAdapter, exchange: Exchanger) -> None:
    heads: list[Head] = []

    async def behave(conversation: Conversation) -> None:
        await conversation.read_request()
        await conversation.send(b"HTTP/1.1 202 Accepted\r\nLocation: /jobs/7\r\nContent-Length: 2\r\n\r\n")
        await conversation.peer.given_up.wait()
        await conversation.send(b"ok")

    async with serving(behave) as peer:

        async def on_head(head: Head) -> None:
            heads.append(head)
            peer.given_up.set()

        seen = await adapter.attempt(exchange(peer), Hooks(before_send=lambda: None, on_head=on_head))
    assert [head.status for head in heads] == [202]
    assert ("Location", "/jobs/7") in heads[0].headers
    assert seen.answered


async def test_owner_that_fails_on_the_head_ends_the_attempt_without_a_verdict(
    adapter: HttpAdapter, exchange: Exchanger
) -> None:
    async def on_head(_head: Head) -> None:
        raise RuntimeError("the journal is closed")

    async with serving(answering(OK + b"Content-Length: 2\r\n\r\nok")) as peer:
        seen = await adapter.attempt(exchange(peer), Hooks(before_send=lambda: None, on_head=on_head))
    assert seen.status == 200
    assert not seen.answered
    assert seen.error_class == "RuntimeError"
    assert "journal" not in repr(seen)
