"""Bytes that are no entry: a torn end, zeros written ahead, or damage, and the likeliest explanation."""

from __future__ import annotations

from hashlib import sha256

from audit.disk import Directory
from audit.record import (
    MAX_FRAME_BYTES,
    TRAILER_BYTES,
    Fault,
    find_frame,
)
from audit.report import Exit

_WINDOW_BYTES = 4 << 20
_BITS_TRIED_MAX_BYTES = 4096


def only_zeros(directory: Directory, name: str, offset: int, size: int) -> bool:
    """Whether nothing but at least four zero bytes follows: space written ahead of need."""
    if size - offset < 4:
        return False
    while offset < size:
        piece = directory.read(name, offset, min(_WINDOW_BYTES, size - offset))
        if not piece or piece.count(0) != len(piece):
            return False
        offset += len(piece)
    return True


def find_frame_from(directory: Directory, name: str, offset: int, size: int) -> int | None:
    """Offset of the next whole, valid frame in the file, searched in windows so that memory stays bounded."""
    while offset < size:
        window = directory.read(name, offset, min(_WINDOW_BYTES + MAX_FRAME_BYTES, size - offset))
        at = find_frame(window, 0)
        if at is not None:
            return offset + at
        if len(window) <= _WINDOW_BYTES:
            return None
        offset += _WINDOW_BYTES
    return None


def resume_after(directory: Directory, name: str, fault: Fault, where: tuple[int, int]) -> int | None:
    """Offset of the next good frame: where the damaged one says it ends, or wherever one is found.

    `where`: the damaged frame's offset, and the file's size.
    """
    offset, size = where
    if fault is Fault.TRAILER:
        length = int.from_bytes(directory.read(name, offset, 4), "big")
        end = offset + 4 + length
        if find_frame(directory.read(name, end, min(MAX_FRAME_BYTES, size - end)), 0) == 0:
            return end
    return find_frame_from(directory, name, offset + 1, size)


def classify_tail(
    directory: Directory, name: str, where: tuple[Fault, int, int], *, last: bool
) -> tuple[str, str, Exit, str | None]:
    """Code, sentence, exit and hint for bad bytes at the end of a segment, after which no entry follows.

    A crash leaves part of an entry, then nothing, zeros or stale bytes. An entry that is all there and differs, or
    bytes that do not even begin like one, were changed.
    """
    fault, offset, size = where
    if not last:
        message = "bad bytes at the end of a segment that is not the last: recovery would have set them aside"
        return "garbage", message, Exit.TAMPERED, None
    count = size - offset
    torn = (f"the last {count} bytes are a torn entry", Exit.INCOMPLETE, "the next start of the writer sets them aside")
    if fault is Fault.SHORT:
        return "torn", *torn
    if fault is Fault.TRAILER:
        frame = directory.read(name, offset, MAX_FRAME_BYTES)
        end = 4 + int.from_bytes(frame[:4], "big")
        if count > end or not any(frame[end - TRAILER_BYTES : end]):
            return "torn", *torn
        hint = explain_damage(frame)[2]
        return "damaged", "the last entry is damaged: it does not match its trailer", Exit.TAMPERED, hint
    if fault is Fault.ZEROS:
        return "garbage", "bytes other than zero follow the zeros at the end", Exit.TAMPERED, None
    return "garbage", f"{count} bytes follow the last entry that are no entry", Exit.TAMPERED, None


def explain_damage(frame: bytes, *, thorough: bool = True) -> tuple[bytes, bytes, str]:
    """Trailer computed, trailer found, and what the difference looks like, for a frame that does not match."""
    end = 4 + int.from_bytes(frame[:4], "big")
    hashed, trailer = bytearray(frame[4 : end - TRAILER_BYTES]), frame[end - TRAILER_BYTES : end]
    leaf = sha256(hashed).digest()[:TRAILER_BYTES]
    if (int.from_bytes(leaf, "big") ^ int.from_bytes(trailer, "big")).bit_count() < 8 * TRAILER_BYTES // 4:
        return leaf, trailer, "only the trailer differs; the entry itself may be whole"
    if not thorough or len(hashed) > _BITS_TRIED_MAX_BYTES:
        return leaf, trailer, "the entry differs from what its trailer was made for"
    for index in range(len(hashed)):
        for bit in range(8):
            hashed[index] ^= 1 << bit
            if sha256(hashed).digest()[:TRAILER_BYTES] == trailer:
                return leaf, trailer, f"one bit differs, at byte {index + 4}: disk damage is more likely than an edit"
            hashed[index] ^= 1 << bit
    return leaf, trailer, "more than one bit differs: an edit, or a block that was lost"
