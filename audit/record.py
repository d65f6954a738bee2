"""The bytes of frames and entries, and the one parser that recovery, export, verifier and reader share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from audit.chain import ZERO_HASH

VERSION = 1
FLAG_DAY = 0x0001
"""The entry's time is rounded down to a UTC day; all other flag bits belong to later formats."""

ENTRY_HEADER = Struct(">BBHQQ12s32s32s")
FRAME_HEADER = Struct(">IBBBHQQ44x32s")
HEADER_BYTES = ENTRY_HEADER.size
NONCE_BYTES = 12
ZERO_NONCE = bytes(NONCE_BYTES)
TAG_BYTES = 16
TRAILER_BYTES = 8
PREFIX_BYTES = 5
"""Length field and the zero byte that doubles as RFC 6962's leaf mark."""

MAX_ENTRY_BYTES = 65_535
MIN_LENGTH = 1 + HEADER_BYTES + TRAILER_BYTES
MAX_LENGTH = 1 + MAX_ENTRY_BYTES + TRAILER_BYTES
MAX_FRAME_BYTES = 4 + MAX_LENGTH
MAX_SEGMENT_BYTES = 1 << 27
"""A segment file is never larger, twice what makes a writer close one. What is larger is refused before it is read."""
PADDING_STEP = 64
MAX_PLAINTEXT_BYTES = (MAX_ENTRY_BYTES - HEADER_BYTES - TAG_BYTES) // PADDING_STEP * PADDING_STEP - 1


class Kind(IntEnum):
    """What an entry is; the numbers are part of the format."""

    DATA = 1
    SEGMENT_OPEN = 2
    SEAL = 3
    SEGMENT_CLOSE = 4
    RECOVERY = 5
    ERASURE = 6
    KEY_CHANGE = 7
    ANCHOR_RESULT = 8
    HEARTBEAT = 9


class EntryTooLarge(ValueError):
    """A plaintext that does not fit one entry; larger data belongs outside the log, with its digest in it."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the record has {size} bytes; an entry holds at most {MAX_PLAINTEXT_BYTES}")
        self.size = size


class Header(NamedTuple):
    """The first 96 bytes of an entry; `t_ms` is Unix time in milliseconds, hashes are 32 bytes."""

    version: int
    kind: int
    flags: int
    seq: int
    t_ms: int
    nonce: bytes = ZERO_NONCE
    commit: bytes = ZERO_HASH
    prev: bytes = ZERO_HASH

    def to_bytes(self) -> bytes:
        return ENTRY_HEADER.pack(*self)


@dataclass(frozen=True, slots=True)
class Frame:
    """One finished entry with its frame: `data` is what goes to disk, `segment` the first seq of its segment file."""

    seq: int
    kind: int
    leaf: bytes
    segment: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as read: its header, its body, its leaf hash, and where its frame lay in the bytes parsed."""

    header: Header
    body: bytes
    leaf: bytes
    offset: int
    end: int


class Fault(Enum):
    """Why parsing stopped before the end of the bytes."""

    SHORT = "the bytes end inside a frame"
    ZEROS = "a length of zero: nothing but zeros may follow"
    LENGTH = "a length that no frame can have"
    MARK = "the byte after the length is not zero"
    TRAILER = "the entry does not match its trailer"


FrameHead = tuple[int, int, int, int, int, int, int, bytes]


class Parsed(NamedTuple):
    """What `parse` found: parallel lists, one item per whole frame, then where and why it stopped.

    `heads` are tuples of (length, mark, version, kind, flags, seq, t_ms, prev); nonce and commitment are left alone.
    The lists are bare because the verifier runs over millions of entries; `entries` gives the same as objects.
    """

    offsets: list[int]
    heads: list[FrameHead]
    leaves: list[bytes]
    end: int
    fault: Fault | None

    def entries(self, buffer: bytes | bytearray | memoryview) -> Iterator[Entry]:
        """The frames as entries, cut from the buffer that was parsed."""
        return (self.entry(buffer, index) for index in range(len(self.offsets)))

    def entry(self, buffer: bytes | bytearray | memoryview, index: int) -> Entry:
        """One of the frames as an entry."""
        offset = self.offsets[index]
        end = offset + 4 + self.heads[index][0]
        header = Header(*ENTRY_HEADER.unpack_from(buffer, offset + PREFIX_BYTES))
        body = bytes(buffer[offset + PREFIX_BYTES + HEADER_BYTES : end - TRAILER_BYTES])
        return Entry(header, body, self.leaves[index], offset, end)


def encode_frame(header: Header, body: bytes, segment: int) -> Frame:
    """Frame an entry; raise EntryTooLarge if header and body exceed the largest entry."""
    if HEADER_BYTES + len(body) > MAX_ENTRY_BYTES:
        raise EntryTooLarge(len(body))
    hashed = b"\x00" + header.to_bytes() + body
    leaf = sha256(hashed).digest()
    data = (len(hashed) + TRAILER_BYTES).to_bytes(4, "big") + hashed + leaf[:TRAILER_BYTES]
    return Frame(header.seq, header.kind, leaf, segment, data)


def parse(buffer: bytes | bytearray | memoryview, start: int = 0) -> Parsed:
    """Read whole frames from `start` until the bytes end or stop making sense; never raises on what it reads.

    Checks what a frame can say about itself: length, mark, trailer. Links between entries, versions and kinds are the
    caller's business, since recovery and verifier judge them differently.
    """
    view = bytes(buffer)
    offsets: list[int] = []
    heads: list[FrameHead] = []
    leaves: list[bytes] = []
    at, limit, fault = start, len(view), None
    unpack, digest = FRAME_HEADER.unpack_from, sha256
    last_header = limit - FRAME_HEADER.size
    while at <= last_header:
        head = unpack(view, at)
        end = at + 4 + head[0]
        if head[1] or not MIN_LENGTH <= head[0] <= MAX_LENGTH:
            fault = _length_fault(head[0])
            break
        if end > limit:
            break
        leaf = digest(view[at + 4 : end - 8]).digest()
        if leaf[:8] != view[end - 8 : end]:
            fault = Fault.TRAILER
            break
        offsets.append(at)
        heads.append(head)
        leaves.append(leaf)
        at = end
    if fault is None and at < limit:
        fault = _short_fault(view, at)
    return Parsed(offsets, heads, leaves, at, fault)


def _length_fault(length: int) -> Fault:
    if length == 0:
        return Fault.ZEROS
    return Fault.MARK if MIN_LENGTH <= length <= MAX_LENGTH else Fault.LENGTH


def _short_fault(view: bytes, at: int) -> Fault:
    """Fewer bytes are left than the frame needs; say at once if no further byte could make a frame of them."""
    if len(view) - at < 4:
        return Fault.SHORT
    length = int.from_bytes(view[at : at + 4], "big")
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        return _length_fault(length)
    return Fault.MARK if len(view) - at > 4 and view[at + 4] else Fault.SHORT


# Length below 2**17, mark, version and kind not zero. Looking ahead makes matches overlap: a frame may begin inside
# what only looks like one.
_FRAME_START = re.compile(rb"(?=\x00[\x00\x01]..\x00[\x01-\xff][\x01-\xff])", re.DOTALL)


def find_frame(buffer: bytes, start: int) -> int | None:
    """Offset of the first whole frame with a right trailer at or after `start`, or None.

    Tells a torn end (nothing valid follows) from damage in the middle (something does).
    """
    view = memoryview(buffer)
    for match in _FRAME_START.finditer(buffer, start):
        at = match.start()
        end = at + 4 + int.from_bytes(view[at : at + 4], "big")
        if end > len(view) or not MIN_LENGTH <= end - at - 4 <= MAX_LENGTH:
            continue
        if sha256(view[at + 4 : end - TRAILER_BYTES]).digest()[:TRAILER_BYTES] == view[end - TRAILER_BYTES : end]:
            return at
    return None


def pad(plaintext: bytes) -> bytes:
    """Hide the exact length: 0x80, then zeros up to the next multiple of 64 bytes (ISO/IEC 7816-4)."""
    if len(plaintext) > MAX_PLAINTEXT_BYTES:
        raise EntryTooLarge(len(plaintext))
    return plaintext + b"\x80" + bytes(-(len(plaintext) + 1) % PADDING_STEP)


def unpad(padded: bytes) -> bytes:
    """Undo `pad`; raise ValueError if the padding is not exactly as it must be."""
    plaintext, mark, _ = padded.rpartition(b"\x80")
    if not mark or pad(plaintext) != padded:
        raise ValueError("the padding of the record is damaged")
    return plaintext
