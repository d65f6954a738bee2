"""A whole segment, read and held against the tree that its opening states: what one process hands to the verifier."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from audit.bodies import Seal, SegmentOpen, read_body
from audit.chain import BLOCK_LEAVES, BLOCK_LEVEL, HASH_BYTES, CompactRange
from audit.contents import Contents
from audit.disk import Directory
from audit.fields import Malformed
from audit.holdings import Reference
from audit.keyring import RecipientKey
from audit.log import chunks
from audit.piece import Piece, piece_of
from audit.record import Entry, Kind


class Hashes(Sequence[bytes]):
    """Hashes side by side in one run of bytes: a list of as many objects is slow to hand from process to process."""

    __slots__ = ("_data", "_start", "_stop")

    def __init__(self, data: bytes | bytearray, start: int = 0, stop: int | None = None) -> None:
        self._data = data
        self._start = start
        self._stop = len(data) // HASH_BYTES if stop is None else stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[bytes]:
        data = self._data
        return (
            bytes(data[at : at + HASH_BYTES])
            for at in range(self._start * HASH_BYTES, self._stop * HASH_BYTES, HASH_BYTES)
        )

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Hashes: ...
    def __getitem__(self, index: int | slice) -> bytes | Hashes:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return Hashes(self._data, self._start + start, self._start + max(start, stop))
        at = (self._start + range(len(self))[index]) * HASH_BYTES
        return bytes(self._data[at : at + HASH_BYTES])


@dataclass(slots=True)
class Whole:
    """A segment in which nothing is wrong, as far as it can be told from its file.

    Its seals fit the tree that its opening states. Whether that is the tree of the log, whether it follows from what
    comes before, who signed, and what checkpoints and receipts say: that is for whoever goes through the log.
    """

    first: int
    first_prev: bytes
    stated: tuple[bytes, ...]
    """The compact range before the segment, as its opening states it."""
    after: tuple[bytes, ...] = ()
    """The compact range behind it."""
    data: int = 0
    """How many entries are records."""
    coarse: bool = False
    went_back: bool = False
    clear: list[tuple[int, Entry]] = field(default_factory=list)
    """The clear entries with their index, at offsets in the file."""
    times: array[int] = field(default_factory=lambda: array("Q"))
    contents: int | None = None
    """How many records opened with the auditor's key; None: not tried."""
    closed: bool = False
    """The segment was never sealed to that key."""
    named: list[Reference] = field(default_factory=list)
    """The blobs that its records name, if they were opened."""
    leaf_bytes: bytearray = field(default_factory=bytearray)
    block_bytes: bytearray = field(default_factory=bytearray)
    """Roots of the subtrees of `BLOCK_LEAVES` leaves that end in this segment."""
    cursor: CompactRange | None = None

    def __len__(self) -> int:
        return len(self.times)

    @property
    def end(self) -> int:
        """The seq behind the last entry."""
        return self.first + len(self.times)

    @property
    def leaves(self) -> Hashes:
        return Hashes(self.leaf_bytes)

    def tree_at(self, size: int) -> CompactRange:
        """The tree of so many entries, `first` to `end`; sizes must not be asked for backwards.

        Most of the way is made in steps of whole subtrees, so that a checkpoint in every minute costs little.
        """
        tree = self.cursor or CompactRange(self.first, self.stated)
        self.cursor = tree
        leaves, first = self.leaves, self.first
        border = min(size, -(-tree.size // BLOCK_LEAVES) * BLOCK_LEAVES)
        tree.extend(leaves[tree.size - first : border - first])
        blocks = (size - tree.size) // BLOCK_LEAVES
        if blocks > 0:
            start = tree.size // BLOCK_LEAVES - first // BLOCK_LEAVES
            tree.extend(Hashes(self.block_bytes)[start : start + blocks], level=BLOCK_LEVEL)
        tree.extend(leaves[tree.size - first : size - first])
        return tree.copy()


class _Reader:
    """Puts a segment together piece by piece; `take` is False once something needs a closer look."""

    def __init__(self, first: int, contents: Contents | None) -> None:
        self._first = first
        self._contents = contents
        self._tree = CompactRange()
        self._blocks: list[bytes] = []
        self._last_leaf = b""
        self._is_closed = False
        self.whole: Whole | None = None

    @property
    def end(self) -> int:
        return self._first if self.whole is None else self.whole.end

    def take(self, piece: Piece) -> bool:
        whole = self.whole
        if whole is None:
            whole = self._opened(piece)
            if whole is None:
                return False
            self.whole = whole
        elif piece.first_prev != self._last_leaf:
            return False
        if not self._fits(whole, piece):
            return False
        times, before = piece.times, whole.times
        whole.went_back = whole.went_back or (len(before) > 0 and times[0] < before[-1]) or list(times) != sorted(times)
        count = len(before)
        before.extend(times)
        whole.clear += [(count + index, entry) for index, entry in piece.clear]
        whole.leaf_bytes += b"".join(piece.leaves)
        whole.data += piece.data
        whole.coarse = whole.coarse or piece.coarse
        self._last_leaf = piece.leaves[-1]
        return True

    def done(self, named: list[Reference]) -> Whole | None:
        whole = self.whole
        if whole is None:
            return None
        whole.after = self._tree.hashes
        whole.block_bytes += b"".join(self._blocks)
        if self._contents is not None:
            whole.contents, whole.closed = self._contents.checked, bool(self._contents.closed_segments)
            whole.named = named
        return whole

    def _opened(self, piece: Piece) -> Whole | None:
        if not piece.clear or piece.clear[0][0] != 0:
            return None
        try:
            opened = read_body(piece.clear[0][1].header.kind, piece.clear[0][1].body)
            if not isinstance(opened, SegmentOpen):
                return None
            self._tree = CompactRange(self._first, opened.range_hashes)
        except (Malformed, ValueError):
            return None
        if self._contents is not None and self._contents.enter(opened, self._first) is not None:
            return None
        return Whole(self._first, piece.first_prev, opened.range_hashes)

    def _fits(self, whole: Whole, piece: Piece) -> bool:
        """Whether seals fit the tree, records open, and none stands behind the close; grows the tree."""
        start, leaves = 0, piece.leaves
        for index, entry in [*piece.clear, (len(leaves), None)]:
            if start < index and (self._is_closed or not self._opens(piece, start, index)):
                return False
            if entry is None or entry.header.kind == Kind.SEAL:
                self._tree.extend(leaves[self._tree.size - whole.end : index], blocks=self._blocks)
            if entry is not None and not self._is_sound(entry):
                return False
            start = index + 1
        return True

    def _opens(self, piece: Piece, start: int, end: int) -> bool:
        return self._contents is None or not self._contents.check(piece.records(start, end))

    def _is_sound(self, entry: Entry) -> bool:
        kind = entry.header.kind
        self._is_closed = self._is_closed or kind == Kind.SEGMENT_CLOSE
        if kind != Kind.SEAL:
            return True
        try:
            seal = Seal.from_bytes(entry.body)
        except Malformed:
            return False
        return seal.size == self._tree.size and seal.root == self._tree.root()


def whole_segment(
    directory: Directory,
    first: int,
    size: int,
    key: RecipientKey | None,
) -> Whole | None:
    """A segment as one, its records opened if there is a key; None if anything about it needs a closer look.

    May run in a process of its own. Raises OSError.
    """
    named: list[Reference] = []
    reader = _Reader(first, None if key is None else Contents(key, named.append))
    end = 0
    for chunk in chunks(directory, first, limit=size):
        end = chunk.end
        piece = piece_of(chunk, reader.end)
        if chunk.parsed.fault is not None or piece is None or not reader.take(piece):
            return None
    return reader.done(named) if end == size else None
