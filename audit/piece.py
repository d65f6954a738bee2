"""A run of entries that are in order: what the verifier takes in at once instead of entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from audit.bodies import SegmentOpen, read_body
from audit.contents import Contents
from audit.disk import Directory
from audit.fields import Malformed
from audit.holdings import Reference
from audit.keyring import RecipientKey
from audit.log import Chunk, chunks
from audit.record import FLAG_DAY, VERSION, Entry, Kind

_KINDS = frozenset(int(kind) for kind in Kind)

Records = Callable[[int, int], Iterable[Entry]]


@dataclass(slots=True)
class Piece:
    """Entries of one segment with gapless seqs, right links among them, and nothing of a newer format.

    `clear` holds the clear entries with their index, at offsets in the file; `first_prev` is the link that still has to
    be compared with what comes before. `contents` counts records that opened with the auditor's key; None: not tried.
    """

    leaves: list[bytes]
    times: list[int]
    offsets: list[int]
    clear: list[tuple[int, Entry]]
    first_prev: bytes
    coarse: bool
    contents: int | None = None
    closed: bool = False
    """The segment was never sealed to the auditor's key."""
    named: list[Reference] = field(default_factory=list)
    """The blobs that its records name, if they were opened."""
    records: Records | None = field(default=None, repr=False)
    """Gives the records between two indexes; None once they have been checked or are not at hand."""

    @property
    def data(self) -> int:
        return len(self.leaves) - len(self.clear)


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
    base = chunk.base
    clear = [(index, _moved(chunk, index)) for index, kind in enumerate(kinds) if kind != Kind.DATA]
    offsets = [base + offset for offset in parsed.offsets] if base else parsed.offsets
    piece = Piece(leaves, list(times), offsets, clear, prevs[0], FLAG_DAY in flags)
    piece.records = lambda start, end: (parsed.entry(chunk.buffer, index) for index in range(start, end))
    return piece


def _moved(chunk: Chunk, index: int) -> Entry:
    entry = chunk.parsed.entry(chunk.buffer, index)
    return Entry(entry.header, entry.body, entry.leaf, chunk.base + entry.offset, chunk.base + entry.end)


def whole_segment(directory: Directory, first: int, size: int, key: RecipientKey | None) -> Piece | None:
    """A segment as one piece, its records opened if there is a key; None if anything about it needs a closer look.

    Runs in a process of its own. Says nothing about roots, seals and checkpoints: those need what comes before.
    """
    named: list[Reference] = []
    contents = None if key is None else Contents(key, named.append)
    whole: Piece | None = None
    end = 0
    for chunk in chunks(directory, first, limit=size):
        end = chunk.end
        piece = piece_of(chunk, first if whole is None else first + len(whole.leaves))
        if chunk.parsed.fault is not None or piece is None:
            return None
        if whole is None:
            if not _opens_well(piece, first, contents):
                return None
        elif piece.first_prev != whole.leaves[-1]:
            return None
        if contents is not None and not _contents_fit(piece, contents):
            return None
        whole = piece if whole is None else _joined(whole, piece)
    if whole is None or end != size or not _closes_well(whole):
        return None
    whole.records = None
    if contents is not None:
        whole.contents, whole.closed, whole.named = contents.checked, bool(contents.closed_segments), named
    return whole


def _opens_well(piece: Piece, first: int, contents: Contents | None) -> bool:
    if not piece.clear or piece.clear[0][0] != 0 or piece.clear[0][1].header.kind != Kind.SEGMENT_OPEN:
        return False
    try:
        opened = read_body(Kind.SEGMENT_OPEN, piece.clear[0][1].body)
    except Malformed:
        return False
    if contents is not None and isinstance(opened, SegmentOpen):
        return contents.enter(opened, first) is None
    return True


def _contents_fit(piece: Piece, contents: Contents) -> bool:
    start = 0
    for index, _ in [*piece.clear, (len(piece.leaves), None)]:
        if piece.records is not None and contents.check(piece.records(start, index)):
            return False
        start = index + 1
    return True


def _closes_well(piece: Piece) -> bool:
    """Whether no record stands behind the close."""
    clear: Sequence[tuple[int, Entry]] = piece.clear
    closed = next((index for index, entry in clear if entry.header.kind == Kind.SEGMENT_CLOSE), len(piece.leaves))
    return sum(index >= closed for index, _ in clear) == len(piece.leaves) - closed


def _joined(whole: Piece, piece: Piece) -> Piece:
    before = len(whole.leaves)
    whole.leaves += piece.leaves
    whole.times += piece.times
    whole.offsets += piece.offsets
    whole.clear += [(before + index, entry) for index, entry in piece.clear]
    whole.coarse = whole.coarse or piece.coarse
    return whole
