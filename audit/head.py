"""The head of a log: everything a writer must know to go on, small enough to be stored with each commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from audit.bodies import PreviousEnd
from audit.chain import HASH_BYTES, ZERO_HASH, CompactRange
from audit.fields import FieldReader, Malformed, exact, text, uint
from audit.record import Frame, Kind

_HEAD_VERSION = 2


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends.

    `size` is the number of entries and thus the next seq; `leaf` the last entry's hash; `range_hashes` the compact
    range over all leaves; the `segment_*` fields describe the newest segment (`segment` is its first seq,
    `segment_bytes` the length its file has once everything is exported, `segment_t_ms` the time it was opened);
    `sealed_size` counts the entries up to and including the last seal; `epoch` and `epoch_key` say whose signature the
    next seal must carry (zeros: not known). It holds no secret.
    """

    origin: str
    size: int = 0
    leaf: bytes = ZERO_HASH
    range_hashes: tuple[bytes, ...] = ()
    segment: int = 0
    segment_number: int = 0
    segment_entries: int = 0
    segment_bytes: int = 0
    segment_t_ms: int = 0
    sealed_size: int = 0
    end: PreviousEnd = PreviousEnd.NONE
    epoch: int = 0
    epoch_key: bytes = ZERO_HASH

    @classmethod
    def empty(cls, origin: str) -> Self:
        return cls(origin)

    def root(self) -> bytes:
        """Root of the tree over all entries."""
        return CompactRange(self.size, self.range_hashes).root()

    def to_bytes(self) -> bytes:
        """For storing beside the data, in the same transaction."""
        numbers = (self.size, self.segment, self.segment_number, self.segment_entries, self.segment_bytes)
        return b"".join(
            (
                uint(_HEAD_VERSION, 1),
                text(self.origin, 2),
                *(uint(number, 8) for number in (*numbers, self.segment_t_ms, self.sealed_size)),
                uint(self.end, 1),
                exact(self.leaf, HASH_BYTES),
                uint(len(self.range_hashes), 1),
                *self.range_hashes,
                uint(self.epoch, 4),
                exact(self.epoch_key, HASH_BYTES),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` made; raise Malformed."""
        fields = FieldReader(data)
        version = fields.uint(1)
        if version not in {1, _HEAD_VERSION}:
            raise Malformed("a head written by a newer version")
        origin = fields.text(2)
        size, segment, number, entries, length, t_ms, sealed = (fields.uint(8) for _ in range(7))
        end = PreviousEnd(fields.uint(1))
        leaf = fields.take(HASH_BYTES)
        peaks = tuple(fields.take(HASH_BYTES) for _ in range(fields.uint(1)))
        # Version 1 did not name the key; every log of its time was in epoch 0.
        epoch, key = (0, ZERO_HASH) if version == 1 else (fields.uint(4), fields.take(HASH_BYTES))
        fields.end()
        CompactRange(size, peaks)
        return cls(origin, size, leaf, peaks, segment, number, entries, length, t_ms, sealed, end, epoch, key)


class Position:
    """A head in motion: what the sealer advances, entry by entry, without building a frozen head each time."""

    __slots__ = (
        "end",
        "epoch",
        "epoch_key",
        "leaf",
        "origin",
        "sealed_size",
        "segment",
        "segment_bytes",
        "segment_entries",
        "segment_number",
        "segment_t_ms",
        "size",
        "tree",
    )

    def __init__(self, head: Head) -> None:
        self.origin = head.origin
        self.size = head.size
        self.leaf = head.leaf
        self.tree = CompactRange(head.size, head.range_hashes)
        self.segment = head.segment
        self.segment_number = head.segment_number
        self.segment_entries = head.segment_entries
        self.segment_bytes = head.segment_bytes
        self.segment_t_ms = head.segment_t_ms
        self.sealed_size = head.sealed_size
        self.end = head.end
        self.epoch = head.epoch
        self.epoch_key = head.epoch_key

    def copy(self) -> Position:
        twin = object.__new__(Position)
        for name in Position.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.tree = self.tree.copy()
        return twin

    def open_segment(self) -> None:
        """The next entry opens a new segment."""
        self.segment_number = self.segment_number + 1 if self.size else 0
        self.segment = self.size
        self.segment_entries = self.segment_bytes = 0

    def advance(self, frame: Frame, t_ms: int) -> None:
        """Go past one more entry, made at `t_ms`."""
        kind = frame.kind
        self.tree.append(frame.leaf)
        self.size += 1
        self.leaf = frame.leaf
        self.segment_entries += 1
        self.segment_bytes += len(frame.data)
        if kind == Kind.SEGMENT_OPEN:
            self.segment_t_ms = t_ms
        elif kind == Kind.SEAL:
            self.sealed_size = self.size
        # A seal may follow the close and leaves the end as clean as it was.
        if kind == Kind.SEGMENT_CLOSE:
            self.end = PreviousEnd.CLEAN
        elif kind != Kind.SEAL:
            self.end = PreviousEnd.UNCLEAN

    def head(self) -> Head:
        return Head(
            origin=self.origin,
            size=self.size,
            leaf=self.leaf,
            range_hashes=self.tree.hashes,
            segment=self.segment,
            segment_number=self.segment_number,
            segment_entries=self.segment_entries,
            segment_bytes=self.segment_bytes,
            segment_t_ms=self.segment_t_ms,
            sealed_size=self.sealed_size,
            end=self.end,
            epoch=self.epoch,
            epoch_key=self.epoch_key,
        )
