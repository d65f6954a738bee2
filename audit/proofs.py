"""Proofs over the tree: that an entry is in it, and that a smaller tree is its beginning (RFC 6962, RFC 9162)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from audit.chain import HASH_BYTES, CompactRange, node_hash

PROOF_HASHES_MAX = 63
_BLOCK = 256


class BadProof(ValueError):
    """A proof that does not show what it should."""


def check_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Raise BadProof unless `leaf` is entry `index` of the tree with this size and root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        raise BadProof(f"there is no entry {index} in a tree of {size}")
    node, last, found = index, size - 1, leaf
    for sibling in _hashes(proof):
        if last == 0:
            raise BadProof("an inclusion proof that is too long")
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    if last or found != root:
        raise BadProof(f"the proof does not lead from entry {index} to the root of {size} entries")


def check_consistency(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> None:
    """Raise BadProof unless the old tree is the beginning of the new one (RFC 9162, 2.1.4.2)."""
    if not 0 <= old_size <= size:
        raise BadProof(f"a tree of {old_size} is no beginning of one of {size}")
    if old_size in {0, size}:
        if proof or (old_size == size and old_root != root):
            raise BadProof("nothing to prove, yet hashes are given or the roots differ")
        return
    hashes = _hashes(proof)
    if not old_size & (old_size - 1):
        hashes = [old_root, *hashes]
    if not hashes:
        raise BadProof("a consistency proof without hashes")
    node, last = old_size - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old_found = found = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            raise BadProof("a consistency proof that is too long")
        if node & 1 or node == last:
            old_found, found = node_hash(sibling, old_found), node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    if last or old_found != old_root or found != root:
        raise BadProof(f"the tree of {old_size} entries is not the beginning of that of {size}")


def _hashes(proof: Sequence[bytes]) -> list[bytes]:
    if len(proof) > PROOF_HASHES_MAX or any(len(item) != HASH_BYTES for item in proof):
        raise BadProof("a proof has at most 63 hashes of 32 bytes")
    return list(proof)


class HashTree:
    """Makes proofs over a growing tree; keeps one hash for 256 leaves and asks for the leaves it needs again.

    A tree whose beginning was dropped starts from the compact range that is left of it; proofs then begin behind that.
    """

    def __init__(self, leaves: Callable[[int, int], Sequence[bytes]], dropped: CompactRange | None = None) -> None:
        """`leaves(start, end)` gives the leaf hashes of the entries from `start` up to `end`, appended before."""
        self._leaves = leaves
        self._blocks: list[bytes] = []
        self._open = CompactRange()
        self._peaks = _peaks(dropped or CompactRange())
        self.first = self.size = 0 if dropped is None else dropped.size
        # Blocks begin at a multiple of their size; leaves between are asked for when they are needed.
        self._base = -(-self.first // _BLOCK) * _BLOCK

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes at the end."""
        for leaf in leaves[max(0, self._base - self.size) :]:
            self._open.append(leaf)
            if self._open.size == _BLOCK:
                self._blocks.append(self._open.root())
                self._open = CompactRange()
        self.size += len(leaves)

    def root(self, size: int) -> bytes:
        """Root over the first `size` leaves."""
        return self._root(0, self._within(size))

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """The inclusion proof of a leaf in the tree of the first `size`."""
        if not 0 <= index < self._within(size):
            raise ValueError(f"there is no leaf {index} in a tree of {size}")
        if index < self.first:
            raise LookupError(f"entry {index} was dropped")
        proof, start, end = [], 0, size
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                proof.append(self._root(middle, end))
                end = middle
            else:
                proof.append(self._root(start, middle))
                start = middle
        return proof[::-1]

    def consistency(self, old_size: int, size: int) -> list[bytes]:
        """The proof that the tree of the first `old_size` leaves is the beginning of that of the first `size`."""
        if not 0 <= old_size <= self._within(size):
            raise ValueError(f"a tree of {old_size} is no beginning of one of {size}")
        if old_size in {0, size}:
            return []
        if old_size < self.first:
            raise LookupError(f"the entries before {self.first} were dropped: no proof can begin at {old_size}")
        proof, start, end, whole = [], 0, size, True
        while old_size != end:
            middle = start + _split(end - start)
            if old_size <= middle:
                proof.append(self._root(middle, end))
                end = middle
            else:
                proof.append(self._root(start, middle))
                start, whole = middle, False
        return (proof if whole else [*proof, self._root(start, end)])[::-1]

    def _within(self, size: int) -> int:
        if not 0 <= size <= self.size:
            raise ValueError(f"the tree has {self.size} leaves, not {size}")
        return size

    def _root(self, start: int, end: int) -> bytes:
        """Root over a range that a split of the tree made: it begins at a multiple of its size, rounded up."""
        if (peak := self._peaks.get((start, end))) is not None:
            return peak
        if start < self._base < end or start < min(self.first, end):
            if end - start == 1:
                raise LookupError(f"entry {start} was dropped")
            middle = start + _split(end - start)
            return node_hash(self._root(start, middle), self._root(middle, end))
        tree = CompactRange()
        blocks = (end - start) // _BLOCK if start % _BLOCK == 0 else 0
        first = (start - self._base) // _BLOCK
        tree.extend(self._blocks[first : first + blocks])
        rest_start = start + blocks * _BLOCK
        rest = CompactRange()
        rest.extend(self._leaves(rest_start, end) if rest_start < end else ())
        if not blocks:
            return rest.root()
        # The peaks of the blocks are those of the leaves, eight levels up; the rest hangs behind them.
        hashes = [*tree.hashes, *([rest.root()] if rest.size else [])]
        root = hashes.pop()
        while hashes:
            root = node_hash(hashes.pop(), root)
        return root


def _peaks(tree: CompactRange) -> dict[tuple[int, int], bytes]:
    """The perfect subtrees of a compact range, by the leaves that they cover."""
    found, start = {}, 0
    for peak in tree.hashes:
        length = _split(tree.size - start + 1)
        found[start, start + length] = peak
        start += length
    return found


def _split(count: int) -> int:
    """The largest power of two smaller than a count above one."""
    return 1 << (count - 1).bit_length() - 1
