"""Operation ids have one spelling, and callers' keys one rule."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.ids import check_key, format_id, is_minted, mint_key, outward, parse_id
from gateway.model.action import IdFormat
from gateway.model.problem import BrokenInvariantError, Code, Problem

RAW = uuid.UUID("0190163d-8694-739b-aea5-966c26f8ad91").bytes
raws = st.binary(min_size=16, max_size=16)


@given(raws)
def test_every_id_reads_back(raw: bytes) -> None:
    text = format_id(raw)
    assert parse_id(text) == raw
    assert len(text) == 29
    assert text == text.lower()


@given(raws, raws)
def test_ids_sort_like_their_bytes(left: bytes, right: bytes) -> None:
    assert (left < right) == (format_id(left) < format_id(right))


def test_smallest_and_largest_id() -> None:
    assert format_id(bytes(16)) == "op_" + "0" * 26
    assert format_id(b"\xff" * 16) == "op_7" + "z" * 25


@pytest.mark.parametrize(
    "text",
    [
        "",
        "op_",
        "0" * 26,
        "op_" + "0" * 25,
        "op_" + "0" * 27,
        "op_8" + "0" * 25,
        "OP_" + "0" * 26,
        "op_" + "A" * 26,
        "op_" + "u" * 26,
        "op_" + "l" * 26,
        "op_" + "0" * 26 + "\n",
        "op_" + "\u0660" * 26,
    ],
)
def test_no_second_spelling_of_an_id_is_taken(text: str) -> None:
    with pytest.raises(ValueError, match="not an operation id"):
        parse_id(text)


def test_outward_forms_are_those_of_the_same_uuid() -> None:
    text = format_id(RAW)
    assert outward(text, IdFormat.OP) == text
    assert outward(text, IdFormat.UUID) == str(uuid.UUID(bytes=RAW))
    assert outward(text, IdFormat.HEX) == RAW.hex()


def test_wrong_number_of_bytes_is_a_broken_invariant() -> None:
    with pytest.raises(BrokenInvariantError):
        format_id(bytes(15))


@pytest.mark.parametrize("key", ["a", "task_9", "!~", "x" * 255])
def test_usable_keys_come_back_unchanged(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a\n", "\x00", "\x7f", "schlüssel", " a"])
def test_unusable_keys_are_a_problem_that_does_not_repeat_them(key: str) -> None:
    with pytest.raises(Problem) as caught:
        check_key(key)
    assert caught.value.code is Code.INVALID_KEY
    assert not key or key not in caught.value.detail + caught.value.guidance or key == " a"


def test_a_minted_key_is_usable_and_told_from_one_that_somebody_chose() -> None:
    minted = mint_key(RAW)

    assert check_key(minted) == minted == f"minted-{RAW.hex()}"
    assert is_minted(minted)
    assert not any(is_minted(key) for key in ("", "minted-", minted + "0", minted[:-1], minted.upper(), f" {minted}"))
    with pytest.raises(BrokenInvariantError):
        mint_key(bytes(15))
