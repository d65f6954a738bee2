from __future__ import annotations

import pytest

from audit.damage import classify_tail, explain_damage, find_frame_from, only_zeros
from audit.fields import FieldReader, Malformed, blob, exact, text, uint
from audit.memory import MemoryDirectory
from audit.record import Fault, Header, encode_frame
from audit.report import Exit

FRAME = encode_frame(Header(1, 1, 0, 0, 0), b"body" * 20, 0).data


def holding(content: bytes) -> MemoryDirectory:
    directory = MemoryDirectory()
    directory.put("f", content)
    return directory


def flipped(offset: int, mask: int) -> bytes:
    return FRAME[:offset] + bytes([FRAME[offset] ^ mask]) + FRAME[offset + 1 :]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (flipped(50, 8), "one bit differs, at byte 50"),
        (flipped(50, 9), "more than one bit"),
        (flipped(len(FRAME) - 1, 9), "only the trailer"),
    ],
)
def test_damage_is_explained(frame: bytes, words: str) -> None:
    assert words in explain_damage(frame)[2]


def test_explaining_large_or_many_damages_stays_cheap() -> None:
    large = bytearray(encode_frame(Header(1, 1, 0, 0, 0), bytes(60_000), 0).data)
    large[200] ^= 3
    assert "differs from what" in explain_damage(bytes(large))[2]
    assert "differs from what" in explain_damage(flipped(50, 8), thorough=False)[2]


@pytest.mark.parametrize(
    ("fault", "tail", "last", "code", "verdict"),
    [
        (Fault.SHORT, FRAME[:50], True, "torn", Exit.INCOMPLETE),
        (Fault.TRAILER, FRAME[:50] + bytes(len(FRAME) - 50), True, "torn", Exit.INCOMPLETE),
        (Fault.TRAILER, flipped(50, 1) + b"behind", True, "torn", Exit.INCOMPLETE),
        (Fault.TRAILER, flipped(50, 1), True, "damaged", Exit.TAMPERED),
        (Fault.ZEROS, bytes(9) + b"x", True, "garbage", Exit.TAMPERED),
        (Fault.LENGTH, b"\xff" * 9, True, "garbage", Exit.TAMPERED),
        (Fault.SHORT, FRAME[:50], False, "garbage", Exit.TAMPERED),
    ],
)
def test_bad_end_is_told_apart(fault: Fault, tail: bytes, last: bool, code: str, verdict: Exit) -> None:
    found = classify_tail(holding(tail), "f", (fault, 0, len(tail)), last=last)
    assert (found[0], found[2]) == (code, verdict)


def test_zeros_and_frames_are_found_across_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.damage._WINDOW_BYTES", 64)
    zeros = holding(bytes(1000))
    assert only_zeros(zeros, "f", 10, 1000)
    assert not only_zeros(zeros, "f", 997, 1000)
    assert not only_zeros(holding(bytes(900) + b"x"), "f", 0, 901)
    for lead in (0, 1, 63, 64, 65, 500):
        content = b"\xff" * lead + FRAME
        assert find_frame_from(holding(content), "f", 0, len(content)) == lead
        assert find_frame_from(holding(content), "f", 0, len(content) - 1) is None


def test_fields_are_exact() -> None:
    packed = uint(7, 2) + text("é", 1) + blob(b"xy", 2)
    fields = FieldReader(packed)
    assert (fields.uint(2), fields.text(1), fields.blob(2)) == (7, "é", b"xy")
    fields.end()
    for number, width in ((256, 1), (-1, 4)):
        with pytest.raises(Malformed):
            uint(number, width)
    with pytest.raises(Malformed):
        exact(b"x", 2)
    with pytest.raises(Malformed):
        text("x" * 256, 1)
    with pytest.raises(Malformed, match="past the end"):
        FieldReader(packed[:-1]).take(99)
    with pytest.raises(Malformed, match="UTF-8"):
        FieldReader(b"\x01\xff").text(1)
    with pytest.raises(Malformed, match="after the last field"):
        FieldReader(b"x").end()
