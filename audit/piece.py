"""A run of entries that are in order: what the verifier takes in at once instead of entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from audit.log import Chunk
from audit.record import FLAG_DAY, VERSION, Entry, Kind

_KINDS = frozenset(int(kind) for kind in Kind)
# A plain number: comparing with a member of an enum costs more than anything else here.
_DATA = int(Kind.DATA)


@dataclass(slots=True)
class Piece:
    """Entries of one segment with gapless seqs, right links among them, and nothing of a newer format.

    `clear` holds the clear entries with their index, at offsets in the file; `first_prev` is the link that still has to
    be compared with what comes before.
    """

    leaves: list[bytes]
    times: tuple[int, ...]
    chunk: Chunk
    clear: list[tuple[int, Entry]]
    first_prev: bytes
    coarse: bool

    @property
    def data(self) -> int:
        """How many entries are records."""
        return len(self.leaves) - len(self.clear)

    def offset(self, index: int) -> int:
        """Where in the file an entry's frame begins."""
        return self.chunk.base + self.chunk.parsed.offsets[index]

    def records(self, start: int, end: int) -> Iterator[Entry]:
        """The entries between two indexes, at offsets in the chunk."""
        chunk = self.chunk
        return (chunk.parsed.entry(chunk.buffer, index) for index in range(start, end))


def piece_of(chunk: Chunk, seq: int) -> Piece | None:
    """The frames of a chunk as a piece that begins at `seq`; None if anything about them needs a closer look."""
    parsed = chunk.parsed
    if not parsed.heads:
        return None
    _, _, versions, kinds, flags, seqs, times, prevs = zip(*parsed.heads, strict=True)
    leaves, count = parsed.leaves, len(parsed.leaves)
    in_order = (
        seqs == tuple(range(seq, seq + count))
        and prevs[1:] == tuple(leaves[:-1])
        and _KINDS.issuperset(kinds)
        and versions.count(VERSION) == count
        and flags.count(0) + flags.count(FLAG_DAY) == count
    )
    if not in_order:
        return None
    clear = [(index, _moved(chunk, index)) for index, kind in enumerate(kinds) if kind != _DATA]
    return Piece(leaves, times, chunk, clear, prevs[0], FLAG_DAY in flags)


def _moved(chunk: Chunk, index: int) -> Entry:
    entry = chunk.parsed.entry(chunk.buffer, index)
    return Entry(entry.header, entry.body, entry.leaf, chunk.base + entry.offset, chunk.base + entry.end)
