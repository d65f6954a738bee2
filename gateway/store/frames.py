"""Sealed frames on their way through the store: those of one batch share a row, and are told apart again on reading."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gateway.store.port import SealedFrame

CHUNK_BYTES_MAX: Final = 1024 * 1024
"""A row is begun anew beyond this, so that whoever reads a few frames does not read a huge row for them."""
_LENGTH_BYTES: Final = 4


class Chunk(NamedTuple):
    """Frames of one segment whose numbers follow one another."""

    seq: int
    """Of its first frame."""
    last_seq: int
    segment: int
    frames: bytes
    """Each after its length, in four bytes, most significant first."""


def pack(frames: Iterable[SealedFrame]) -> list[Chunk]:
    """Frames in order, in as few chunks as may be."""
    chunks: list[Chunk] = []
    parts: list[bytes] = []
    size = seq = last_seq = segment = 0
    for frame in frames:
        data = frame.data
        if parts and (frame.segment != segment or frame.seq != last_seq + 1 or size + len(data) > CHUNK_BYTES_MAX):
            chunks.append(Chunk(seq, last_seq, segment, b"".join(parts)))
            parts, size = [], 0
        if not parts:
            seq, segment = frame.seq, frame.segment
        parts += (len(data).to_bytes(_LENGTH_BYTES, "big"), data)
        size += len(data)
        last_seq = frame.seq
    if parts:
        chunks.append(Chunk(seq, last_seq, segment, b"".join(parts)))
    return chunks


def unpack(seq: int, frames: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each frame of a chunk that begins with `seq`."""
    at = 0
    while at < len(frames):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(frames[at:begin], "big")
        yield seq, frames[begin:at]
        seq += 1


def behind(chunk: Chunk, through_seq: int) -> Chunk:
    """What is left of a chunk when its frames up to that one, but not all of them, are forgotten."""
    at = 0
    for _ in range(chunk.seq, through_seq + 1):
        at += _LENGTH_BYTES + int.from_bytes(chunk.frames[at : at + _LENGTH_BYTES], "big")
    return Chunk(through_seq + 1, chunk.last_seq, chunk.segment, chunk.frames[at:])
