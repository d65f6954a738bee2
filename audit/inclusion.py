"""Inclusion proofs of chosen entries, grown while the log is read once: nothing is kept for the entries between."""

from __future__ import annotations

from collections.abc import Sequence

from audit.chain import EMPTY_ROOT, CompactRange, node_hash


class Branch:
    """The way from one entry to the root, as far as the tree has grown: the siblings met, from the leaf upwards."""

    __slots__ = ("hashes", "seq")

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.hashes: list[bytes] = []


class GrowingTree:
    """A compact range that also notes, for each chosen entry, every sibling on its way up.

    Memory: 64 hashes for the tree and at most 63 for each chosen entry, however many entries pass by.
    """

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        """Start behind the first `size` entries with their compact range; raise ValueError if they do not fit."""
        before = iter(CompactRange(size, hashes).hashes[::-1])
        self.size = size
        # Index = level of the subtree; None where the size has a zero bit.
        self._peaks: list[bytes | None] = [
            next(before) if size >> level & 1 else None for level in range(size.bit_length())
        ]
        self._branches: dict[int, list[Branch]] = {}

    def choose(self, leaf: bytes) -> Branch:
        """Add the leaf of an entry whose proof is wanted; the branch is whole once `close` was called."""
        branch = Branch(self.size)
        self._grow([leaf], [branch])
        return branch

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaves of entries that need no proof."""
        self._grow(list(leaves), [])

    def close(self) -> bytes:
        """Finish every branch for the tree as it stands and return its root. Nothing may be added afterwards."""
        root: bytes | None = None
        below: list[Branch] = []
        for level, peak in enumerate(self._peaks):
            if peak is None:
                continue
            here = self._branches.pop(level, [])
            if root is None:
                root = peak
            else:
                _note(here, root)
                _note(below, peak)
                root = node_hash(peak, root)
            below += here
        self._peaks = []
        return EMPTY_ROOT if root is None else root

    def _grow(self, carried: list[bytes], riders: list[Branch]) -> None:
        """Add leaves level by level; `riders` are the branches whose subtree is the first of `carried`."""
        self.size += len(carried)
        level = 0
        while carried:
            if level == len(self._peaks):
                self._peaks.append(None)
            waiting = self._peaks[level]
            if waiting is not None:
                here = self._branches.pop(level, [])
                _note(here, carried[0])
                _note(riders, waiting)
                riders = here + riders
                carried.insert(0, waiting)
            elif len(carried) > 1:
                _note(riders, carried[1])
            # An odd one out waits at its level; it is never paired with itself, or two logs would share a root.
            self._peaks[level] = carried.pop() if len(carried) & 1 else None
            if riders and not carried:
                self._branches[level] = riders
            pairs = iter(carried)
            carried = [node_hash(left, right) for left, right in zip(pairs, pairs, strict=True)]
            level += 1


def _note(branches: Sequence[Branch], sibling: bytes) -> None:
    for branch in branches:
        branch.hashes.append(sibling)
