"""Output of any length and content: counted, hashed, its ends kept."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract_ssh import Stage
from adapters.ssh.capture import Capturing
from tests.unit.adapters.ssh_stand import Stand

CHUNKS = st.lists(st.binary(max_size=40), max_size=12)
BOUND = st.integers(0, 60)


@given(chunks=CHUNKS, head=BOUND, tail=BOUND)
def test_head_gap_and_tail_are_the_stream_however_it_was_sliced(chunks: list[bytes], head: int, tail: int) -> None:
    whole = b"".join(chunks)
    capturing = Capturing(head, tail)
    for chunk in chunks:
        capturing.feed(chunk)
    seen = capturing.taken()

    assert seen.count == len(whole)
    assert seen.head == whole[:head]
    assert seen.tail == (whole[head:][-tail:] if tail else b"")
    assert seen.gap == max(0, len(whole) - head - tail)
    assert seen.sha256 == (hashlib.sha256(whole).hexdigest() if whole else None)


@given(chunks=CHUNKS)
def test_what_is_kept_is_bounded_by_the_limits_and_one_chunk(chunks: list[bytes]) -> None:
    capturing = Capturing(5, 7)
    for chunk in chunks:
        capturing.feed(chunk)

        assert len(capturing._head) <= 5
        assert sum(map(len, capturing._tail)) < 7 + 40


async def test_output_that_is_no_text_harms_nothing(stand: Stand) -> None:
    stand.service.plan.add("ssh_not_text")
    seen = await stand.attempt()

    assert seen.answered
    assert seen.stdout.head == b"done\n\xff\xfe\x80 no text\n"
    assert (await stand.attempt()).reused


async def test_twenty_megabytes_are_drained_and_only_their_ends_kept(stand: Stand) -> None:
    stand.service.plan.add("ssh_flood", params={"bytes": 20_000_000, "output": "first\n"})
    seen = await stand.attempt(head_bytes_max=100, tail_bytes_max=200)

    assert seen.answered
    assert (seen.stdout.count, len(seen.stdout.head), len(seen.stdout.tail)) == (20_000_006, 100, 200)
    assert seen.stdout.head.startswith(b"first\n\x00\x01")
    assert seen.stdout.gap == 20_000_006 - 300


async def test_errors_are_kept_apart_from_output(stand: Stand) -> None:
    stand.service.plan.add("ssh_answer", params={"output": "out", "errors": "err", "status": 3})
    seen = await stand.attempt()

    assert (seen.stdout.head, seen.stderr.head, seen.exit_status) == (b"out", b"err", 3)


async def test_partial_output_of_a_lost_command_is_kept_and_said_to_be_partial(stand: Stand) -> None:
    stand.service.plan.add("ssh_accept_run_close", params={"output": "half"})
    seen = await stand.attempt()

    assert seen.stage is Stage.ACCEPTED
    assert seen.stdout.head == b"half"
    assert not seen.output_complete


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
async def test_the_whole_of_stdin_arrives_and_ends(stand: Stand, size: int) -> None:
    stand.service.real = True
    seen = await stand.attempt(command="wc -c", stdin=b"x" * size)

    assert (seen.exit_status, int(seen.stdout.head)) == (0, size)
    assert seen.input_complete


async def test_a_command_that_ends_before_it_was_given_all_is_seen(stand: Stand) -> None:
    stand.service.plan.add("ssh_forced_command")
    seen = await stand.attempt(stdin=b"payload")
    assert seen.input_complete

    assert "payload" not in repr(stand.exchange(stdin=b"payload"))
