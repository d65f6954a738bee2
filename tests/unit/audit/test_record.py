from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.record import (
    MAX_ENTRY_BYTES,
    MAX_PLAINTEXT_BYTES,
    EntryTooLarge,
    Fault,
    Header,
    encode_frame,
    find_frame,
    pad,
    parse,
    unpad,
)

bodies = st.lists(st.binary(max_size=200), min_size=1, max_size=8)


def frames_of(texts: list[bytes]) -> list[bytes]:
    return [encode_frame(Header(1, 1, 0, seq, 7 * seq), text, 0).data for seq, text in enumerate(texts)]


@given(bodies)
def test_what_is_framed_is_parsed_back(texts: list[bytes]) -> None:
    buffer = b"".join(frames_of(texts))
    parsed = parse(buffer)
    assert parsed.fault is None
    assert parsed.end == len(buffer)
    assert [entry.body for entry in parsed.entries(buffer)] == texts
    assert [entry.header.seq for entry in parsed.entries(buffer)] == list(range(len(texts)))


@given(bodies, st.data())
def test_cut_anywhere_gives_the_whole_frames_before_the_cut(texts: list[bytes], data: st.DataObject) -> None:
    frames = frames_of(texts)
    buffer = b"".join(frames)
    cut = data.draw(st.integers(0, len(buffer)))
    parsed = parse(buffer[:cut])
    whole, end = 0, 0
    for frame in frames:
        if end + len(frame) > cut:
            break
        whole, end = whole + 1, end + len(frame)
    assert (len(parsed.leaves), parsed.end) == (whole, end)
    assert (parsed.fault is None) == (cut == end)


@given(st.binary(max_size=400))
def test_any_bytes_are_parsed_without_an_error(junk: bytes) -> None:
    parsed = parse(junk)
    assert parsed.end <= len(junk)
    assert (parsed.fault is None) == (parsed.end == len(junk))


@pytest.mark.parametrize(
    ("junk", "fault"),
    [
        (bytes(4), Fault.ZEROS),
        (bytes(300), Fault.ZEROS),
        (bytes(3), Fault.SHORT),
        ((104).to_bytes(4, "big") + bytes(200), Fault.LENGTH),
        ((1 << 20).to_bytes(4, "big") + bytes(200), Fault.LENGTH),
        ((110).to_bytes(4, "big") + b"\x01" + bytes(200), Fault.MARK),
        ((110).to_bytes(4, "big") + b"\x01", Fault.MARK),
        ((110).to_bytes(4, "big") + bytes(200), Fault.TRAILER),
        ((110).to_bytes(4, "big") + bytes(109), Fault.SHORT),
    ],
)
def test_bad_bytes_are_named_for_what_they_are(junk: bytes, fault: Fault) -> None:
    assert parse(junk).fault is fault


@given(st.binary(max_size=300), bodies)
def test_a_valid_frame_is_found_behind_junk(junk: bytes, texts: list[bytes]) -> None:
    found = find_frame(junk + frames_of(texts)[0], 0)
    assert found is not None
    assert found <= len(junk)


def test_no_frame_is_found_in_a_torn_one() -> None:
    frame = frames_of([b"text" * 40])[0]
    assert all(find_frame(frame[:cut], 0) is None for cut in range(len(frame)))
    assert find_frame(frame, 0) == 0
    assert find_frame(frame, 1) is None


@given(st.binary(max_size=300))
def test_padding_comes_off_again(plaintext: bytes) -> None:
    padded = pad(plaintext)
    assert len(padded) % 64 == 0
    assert len(padded) - len(plaintext) in range(1, 65)
    assert unpad(padded) == plaintext


@pytest.mark.parametrize("padded", [b"", bytes(64), b"x" * 64, b"\x80" + bytes(64), b"\x80" + bytes(62) + b"\x01"])
def test_damaged_padding_is_refused(padded: bytes) -> None:
    with pytest.raises(ValueError, match="padding"):
        unpad(padded)


def test_the_largest_plaintext_fits_and_one_byte_more_does_not() -> None:
    assert len(pad(b"x" * MAX_PLAINTEXT_BYTES)) + 16 + 96 <= MAX_ENTRY_BYTES
    with pytest.raises(EntryTooLarge, match=str(MAX_PLAINTEXT_BYTES)):
        pad(b"x" * (MAX_PLAINTEXT_BYTES + 1))


def test_overhead_is_125_bytes_before_padding() -> None:
    # 109 bytes of frame and header, and the 16 bytes of the encryption's tag.
    assert len(encode_frame(Header(1, 1, 0, 0, 0), b"", 0).data) + 16 == 125
