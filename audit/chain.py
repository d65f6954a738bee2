"""The RFC 6962 tree over the log: leaf and node hashes, and the compact range that grows into a root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

HASH_BYTES = 32
ZERO_HASH = bytes(HASH_BYTES)
EMPTY_ROOT = sha256(b"").digest()
LEAF_MARK = b"\x00"
NODE_MARK = b"\x01"


def leaf_hash(entry: bytes) -> bytes:
    """Hash of one entry as a leaf: the mark keeps a node from ever being presented as an entry."""
    return sha256(LEAF_MARK + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node over two subtrees of 32 bytes each."""
    return sha256(NODE_MARK + left + right).digest()


class CompactRange:
    """The roots of the perfect subtrees that cover leaves 0 to size-1: enough to append and to know the root.

    A tree of n leaves holds one hash per set bit of n, so at most 64.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        """Take a size and its hashes, largest subtree first; raise ValueError if they cannot belong together."""
        if size < 0 or size.bit_count() != len(hashes) or any(len(peak) != HASH_BYTES for peak in hashes):
            raise ValueError(f"{len(hashes)} hashes cannot cover a tree of {size} leaves")
        self.size = size
        smallest_first = iter(reversed(hashes))
        # Index = level of the subtree (2**level leaves); None where the size has a zero bit.
        self._peaks: list[bytes | None] = [
            next(smallest_first) if size >> level & 1 else None for level in range(size.bit_length())
        ]

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The subtree roots, largest first."""
        return tuple(peak for peak in reversed(self._peaks) if peak is not None)

    def copy(self) -> CompactRange:
        """An independent range, so that a step which fails half way leaves the original as it was."""
        twin = CompactRange()
        twin.size = self.size
        twin._peaks = self._peaks.copy()
        return twin

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        self.size += 1
        carried, peaks = leaf, self._peaks
        for level, waiting in enumerate(peaks):
            if waiting is None:
                peaks[level] = carried
                return
            carried = sha256(b"\x01" + waiting + carried).digest()
            peaks[level] = None
        peaks.append(carried)

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add many leaf hashes, level by level: the same as adding them one by one, at a fraction of the cost."""
        carried = list(leaves)
        self.size += len(carried)
        peaks, level = self._peaks, 0
        while carried:
            if level == len(peaks):
                peaks.append(None)
            waiting = peaks[level]
            if waiting is not None:
                carried.insert(0, waiting)
            # An odd one out waits at its level; it is never paired with itself, or two logs would share a root.
            peaks[level] = carried.pop() if len(carried) & 1 else None
            pairs = iter(carried)
            carried = [sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
            level += 1

    def root(self) -> bytes:
        """The tree's root as RFC 6962 section 2.1 defines it."""
        root: bytes | None = None
        for peak in self._peaks:
            if peak is not None:
                root = peak if root is None else node_hash(peak, root)
        return EMPTY_ROOT if root is None else root
