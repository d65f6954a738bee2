"""Segment files: their names, reading them in pieces, following them entry by entry, and the head they end in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from audit.bodies import Seal, SegmentOpen, read_body
from audit.chain import ZERO_HASH, CompactRange
from audit.disk import Directory, LogError
from audit.fields import Malformed
from audit.head import Head, Position
from audit.record import (
    MAX_FRAME_BYTES,
    MAX_SEGMENT_BYTES,
    Entry,
    Fault,
    Frame,
    Kind,
    Parsed,
    parse,
)

SEGMENTS = "segments"
OWNER = "owner"
"""A file in the log's folder that says, by being there, that a store holds what the files may lack."""
CHUNK_BYTES = 1 << 18
_NAME = re.compile(r"[0-9a-f]{16}\.agl")


class LogContradiction(LogError):
    """The files contradict themselves or what was stored elsewhere; nothing may be appended to them."""


def segment_name(first_seq: int) -> str:
    """Path of a segment file below the log's folder."""
    return f"{SEGMENTS}/{first_seq:016x}.agl"


def segments(directory: Directory) -> list[int]:
    """First seqs of the segment files, in order; other names in the folder are not segments."""
    return [int(name[:16], 16) for name in directory.names(SEGMENTS) if _NAME.fullmatch(name)]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a segment file: `base` is its offset in the file, `parsed` the whole frames in it."""

    buffer: bytes
    base: int
    parsed: Parsed

    @property
    def end(self) -> int:
        """Offset in the file behind the last whole frame."""
        return self.base + self.parsed.end

    def entries(self) -> Iterator[Entry]:
        return self.parsed.entries(self.buffer)


def chunks(directory: Directory, segment: int, *, start: int = 0, limit: int | None = None) -> Iterator[Chunk]:
    """A segment file in pieces of 256 KiB, each cut behind a whole frame.

    Reads from `start` to `limit` (default: the file's present size). The last piece carries the fault at which reading
    stopped, or none if the file ends behind a whole frame; there is always at least one piece. Raises LogContradiction
    for more bytes than a segment can have: a sparse file would keep a reader busy for as long as its author liked.
    """
    name = segment_name(segment)
    limit = directory.size(name) if limit is None else limit
    if limit > MAX_SEGMENT_BYTES:
        raise LogContradiction(f"segment {segment:016x} has {limit} bytes; none is larger than {MAX_SEGMENT_BYTES}")
    base, carried = start, b""
    while True:
        wanted = min(CHUNK_BYTES, limit - base - len(carried))
        fresh = directory.read(name, base + len(carried), wanted) if wanted > 0 else b""
        buffer = carried + fresh
        parsed = parse(buffer)
        at_end = len(fresh) < CHUNK_BYTES or base + len(buffer) >= limit
        if at_end or parsed.fault not in {None, Fault.SHORT}:
            yield Chunk(buffer, base, parsed)
            return
        yield Chunk(buffer, base, Parsed(*parsed[:4], None))
        base, carried = base + parsed.end, buffer[parsed.end :]


def read_open(directory: Directory, segment: int) -> SegmentOpen:
    """The opening entry of a segment; raise LogContradiction if the file does not begin with one of its own."""
    parsed = parse(buffer := directory.read(segment_name(segment), 0, MAX_FRAME_BYTES))
    for entry in parsed.entries(buffer):
        if entry.header.kind == Kind.SEGMENT_OPEN and entry.header.seq == segment:
            try:
                opened = read_body(Kind.SEGMENT_OPEN, entry.body)
            except Malformed as error:
                raise LogContradiction(f"segment {segment:016x}: damaged opening entry: {error}") from error
            if isinstance(opened, SegmentOpen):
                return opened
        break
    raise LogContradiction(f"segment {segment:016x} does not begin with its opening entry")


def origin_of(directory: Directory) -> str:
    """The log's origin, as the first opening that can be read names it; nothing if there is none."""
    try:
        firsts = segments(directory)
    except OSError:
        return ""
    for first in firsts:
        try:
            return read_open(directory, first).origin
        except (LogContradiction, OSError):
            continue
    return ""


class Follower:
    """Follows segment files from the start of one segment, checking every link; can go on later where it stopped."""

    def __init__(self, directory: Directory, segment: int) -> None:
        """Begin at the segment's first entry, with the tree that its opening entry states."""
        opened = read_open(directory, segment)
        self._directory = directory
        self._segment = segment
        self._offset = 0
        self._links = segment == 0
        try:
            tree = CompactRange(segment, opened.range_hashes)
        except ValueError as error:
            raise LogContradiction(f"segment {segment:016x}: {error}") from error
        self.origin = opened.origin
        self.position = Position(Head(opened.origin, segment, ZERO_HASH, tree.hashes, segment))
        self.position.segment_number = opened.number
        self._take_key(opened)

    @property
    def tree(self) -> CompactRange:
        return self.position.tree

    def advance(self, size: int | None = None) -> Fault | None:
        """Go on to the end of the whole frames, or until `size` entries are passed; return why reading stopped.

        Raises:
            LogContradiction: an entry does not follow from the one before it.
        """
        while True:
            fault = self._advance_in_segment(size)
            if self._segment_done(size, fault):
                return fault
            self._segment, self._offset = self.position.size, 0
            opened = read_open(self._directory, self._segment)
            if opened.range_hashes != self.tree.hashes:
                raise LogContradiction(
                    f"segment {self._segment:016x} states another tree than the entries before it make"
                )
            self.position.segment = self._segment
            self.position.segment_number = opened.number
            self._take_key(opened)
            self.position.segment_entries = self.position.segment_bytes = 0

    def _take_key(self, opened: SegmentOpen) -> None:
        self.position.epoch, self.position.epoch_key = opened.epoch, opened.epoch_key

    def _segment_done(self, size: int | None, fault: Fault | None) -> bool:
        if size is not None and self.position.size >= size:
            return True
        later = [first for first in segments(self._directory) if first > self._segment]
        if not later:
            return True
        if later[0] != self.position.size or fault not in {None, Fault.ZEROS}:
            raise LogContradiction(
                f"segment {self._segment:016x} ends at {self.position.size}, the next is {later[0]:016x}"
            )
        # A file made just before a crash may still be empty; then the log ends here.
        return self._directory.size(segment_name(later[0])) == 0

    def _advance_in_segment(self, size: int | None) -> Fault | None:
        for chunk in chunks(self._directory, self._segment, start=self._offset):
            for entry in chunk.entries():
                if size is not None and self.position.size >= size:
                    return None
                self._pass(entry)
                self._offset = chunk.base + entry.end
            if chunk.parsed.fault is not None:
                return chunk.parsed.fault
        return None

    def _pass(self, entry: Entry) -> None:
        header, at = entry.header, self.position
        if header.seq != at.size or (self._links and header.prev != at.leaf):
            raise LogContradiction(
                f"segment {self._segment:016x}: entry {at.size} does not follow from the one before it"
            )
        self._links = True
        if header.kind == Kind.SEAL:
            self._check_seal(entry)
        frame = Frame(header.seq, header.kind, entry.leaf, self._segment, b"")
        at.advance(frame, header.t_ms)
        at.segment_bytes += entry.end - entry.offset

    def _check_seal(self, entry: Entry) -> None:
        try:
            seal = Seal.from_bytes(entry.body)
        except Malformed as error:
            raise LogContradiction(f"the seal at {entry.header.seq} is damaged: {error}") from error
        if (seal.size, seal.root) != (self.position.size, self.tree.root()):
            raise LogContradiction(f"the seal at {seal.size} was made for other entries than those before it")
        if seal.next_key != ZERO_HASH:
            self.position.epoch, self.position.epoch_key = seal.epoch + 1, seal.next_key


def files_head(directory: Directory, origin: str) -> Head:
    """The head that the files end in, read from the last segment that holds an entry; an empty head if none does.

    Torn bytes behind the last whole frame are not looked at: see `audit.recover`.
    """
    for segment in reversed(segments(directory)):
        if parse(directory.read(segment_name(segment), 0, MAX_FRAME_BYTES)).leaves:
            follower = Follower(directory, segment)
            follower.advance()
            if follower.origin != origin:
                raise LogContradiction(f"the files belong to {follower.origin}, not to {origin}")
            return follower.position.head()
    return Head.empty(origin)
