"""The RFC 6962 tree over the log: leaf and node hashes, and the compact range that grows into a root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

HASH_BYTES = 32
ZERO_HASH = bytes(HASH_BYTES)
EMPTY_ROOT = sha256(b"").digest()
LEAF_MARK = b"\x00"
NODE_MARK = b"\x01"
BLOCK_LEVEL = 8
BLOCK_LEAVES = 1 << BLOCK_LEVEL
"""Subtrees of this size are what the verifier's processes hand each other in order to get to any size quickly."""


def leaf_hash(entry: bytes) -> bytes:
    """Hash of one entry as a leaf: the mark keeps a node from ever being presented as an entry."""
    return sha256(LEAF_MARK + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node over two subtrees of 32 bytes each."""
    return sha256(NODE_MARK + left + right).digest()


_MARKED = sha256(NODE_MARK)


def _joined(nodes: list[bytes]) -> list[bytes]:
    """The nodes over each two of an even number. A copy of a digest that is begun costs less than a new one."""
    above: list[bytes] = []
    begun, keep = _MARKED.copy, above.append
    pairs = iter(nodes)
    for left, right in zip(pairs, pairs, strict=True):
        node = begun()
        node.update(left)
        node.update(right)
        keep(node.digest())
    return above


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

    def extend(self, leaves: Iterable[bytes], *, level: int = 0, blocks: list[bytes] | None = None) -> None:
        """Add many leaf hashes, level by level: the same as adding them one by one, at a fraction of the cost.

        With a `level`, roots of subtrees of 2**level leaves each are added instead; raise ValueError if the size is no
        multiple of that. `blocks` is given the root of every subtree of `BLOCK_LEAVES` leaves that becomes whole.
        """
        if self.size & ((1 << level) - 1):
            raise ValueError(f"no subtree of {1 << level} leaves begins at {self.size}")
        carried = list(leaves)
        self.size += len(carried) << level
        peaks = self._peaks
        while carried:
            if level == BLOCK_LEVEL and blocks is not None:
                blocks += carried
            while level >= len(peaks):
                peaks.append(None)
            waiting = peaks[level]
            if waiting is not None:
                carried.insert(0, waiting)
            # An odd one out waits at its level; it is never paired with itself, or two logs would share a root.
            peaks[level] = carried.pop() if len(carried) & 1 else None
            carried = _joined(carried)
            level += 1

    def root(self) -> bytes:
        """The tree's root as RFC 6962 section 2.1 defines it."""
        root: bytes | None = None
        for peak in self._peaks:
            if peak is not None:
                root = peak if root is None else node_hash(peak, root)
        return EMPTY_ROOT if root is None else root
