"""Inclusion and consistency proofs: the vectors of other implementations, every small tree, and nothing else passes."""

from __future__ import annotations

import pytest

from audit.chain import CompactRange, leaf_hash, node_hash
from audit.proofs import BadProof, HashTree, check_consistency, check_inclusion
from tests.unit.audit.oracle import root_of

# The entries and roots that the test suites of Certificate Transparency logs share.
ENTRIES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOT_8 = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
INCLUSION_0_OF_8 = [
    "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
    "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
]
CONSISTENCY_6_TO_8 = [
    "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
]


def tree_of(leaves: list[bytes]) -> HashTree:
    tree = HashTree(lambda start, end: leaves[start:end])
    tree.extend(leaves)
    return tree


def numbered(count: int) -> list[bytes]:
    return [leaf_hash(str(number).encode()) for number in range(count)]


def test_vectors_of_certificate_transparency() -> None:
    leaves = [leaf_hash(bytes.fromhex(entry)) for entry in ENTRIES]
    tree = tree_of(leaves)
    assert tree.root(8).hex() == ROOT_8
    assert [item.hex() for item in tree.inclusion(0, 8)] == INCLUSION_0_OF_8
    assert [item.hex() for item in tree.consistency(6, 8)] == CONSISTENCY_6_TO_8
    check_inclusion(leaves[0], 0, 8, [bytes.fromhex(item) for item in INCLUSION_0_OF_8], bytes.fromhex(ROOT_8))


def test_every_proof_of_every_small_tree() -> None:
    leaves = numbered(24)
    tree = tree_of(leaves)
    for size in range(1, 25):
        root = root_of(leaves[:size])
        assert tree.root(size) == root
        for index in range(size):
            check_inclusion(leaves[index], index, size, tree.inclusion(index, size), root)
        for old in range(size + 1):
            check_consistency(old, root_of(leaves[:old]), size, root, tree.consistency(old, size))


@pytest.mark.parametrize(("old", "size"), [(1, 1000), (255, 257), (256, 512), (512, 1024), (300, 1100), (1023, 1100)])
def test_trees_beyond_the_blocks_that_are_kept(old: int, size: int) -> None:
    leaves = numbered(1100)
    tree = tree_of(leaves)
    root, old_root = root_of(leaves[:size]), root_of(leaves[:old])
    assert (tree.root(size), tree.root(old)) == (root, old_root)
    check_consistency(old, old_root, size, root, tree.consistency(old, size))
    for index in (0, old - 1, size - 1):
        check_inclusion(leaves[index], index, size, tree.inclusion(index, size), root)


def test_27_a_proof_holds_for_its_own_size_and_place_only() -> None:
    leaves = numbered(12)
    tree = tree_of(leaves)
    for size in range(2, 13):
        proof, root = tree.inclusion(1, size), tree.root(size)
        for other in (size - 1, size + 1):
            if 2 <= other <= 12 and len(tree.inclusion(1, other)) != len(proof):
                with pytest.raises(BadProof):
                    check_inclusion(leaves[1], 1, other, proof, root)
        with pytest.raises(BadProof):
            check_inclusion(leaves[1], 1, size, [*proof, bytes(32)], root)
        with pytest.raises(BadProof):
            check_inclusion(leaves[1], 1, size, proof[:-1], root)
        with pytest.raises(BadProof):
            check_inclusion(leaves[0], 1, size, proof, root)
        with pytest.raises(BadProof):
            check_inclusion(leaves[1], size, size, proof, root)
    # The roots of other sizes are other roots, whatever the shape of the proof.
    with pytest.raises(BadProof):
        check_inclusion(leaves[1], 1, 12, tree.inclusion(1, 12), tree.root(11))


def test_27_an_empty_old_tree_needs_no_proof_and_takes_none() -> None:
    tree = tree_of(numbered(5))
    check_consistency(0, b"", 5, tree.root(5), [])
    check_consistency(5, tree.root(5), 5, tree.root(5), [])
    for arguments in (
        (0, b"", 5, tree.root(5), [bytes(32)]),
        (5, tree.root(5), 5, tree.root(4), []),
        (3, tree.root(3), 5, tree.root(5), []),
        (4, tree.root(4), 5, tree.root(5), []),
        (6, tree.root(5), 5, tree.root(5), []),
        (3, tree.root(3), 5, tree.root(5), [*tree.consistency(3, 5), bytes(32)]),
        (3, tree.root(4), 5, tree.root(5), tree.consistency(3, 5)),
        (3, tree.root(3), 5, tree.root(5), [bytes(31)] * 3),
        (3, tree.root(3), 5, tree.root(5), [bytes(32)] * 64),
    ):
        with pytest.raises(BadProof):
            check_consistency(*arguments)


def test_26_a_node_is_no_leaf_and_a_leaf_is_not_doubled() -> None:
    first, second, third = numbered(3)
    tree = tree_of([first, second, third])
    inner = node_hash(first, second)
    # The pair as an entry of a tree of two: its root is the real one, but entry 0 hashes with the leaf's mark.
    check_inclusion(inner, 0, 2, [third], tree.root(3))
    assert leaf_hash(first + second) != inner
    doubled = CompactRange()
    doubled.extend([first, second, third, third])
    assert doubled.root() != tree.root(3)


def test_what_is_not_in_the_tree_cannot_be_proven() -> None:
    tree = tree_of(numbered(3))
    for call in (
        lambda: tree.inclusion(3, 3),
        lambda: tree.inclusion(0, 4),
        lambda: tree.consistency(4, 3),
        lambda: tree.root(4),
    ):
        with pytest.raises(ValueError, match="tree"):
            call()


@pytest.mark.parametrize("first", [1, 2, 5, 7, 255, 256, 257, 300, 511, 512, 600])
def test_a_tree_without_its_beginning_makes_the_same_proofs_behind_it(first: int) -> None:
    leaves = numbered(1100)
    whole = tree_of(leaves)

    def left(start: int, end: int) -> list[bytes]:
        assert start >= first
        return leaves[start:end]

    dropped = CompactRange()
    dropped.extend(leaves[:first])
    tree = HashTree(left, dropped)
    tree.extend(leaves[first : first + 100])
    tree.extend(leaves[first + 100 :])
    for old, size in [(first, 1100), (first + 1, 1099), (600, 900), (700, 1024), (1000, 1001), (768, 1100)]:
        if old >= first:
            assert tree.consistency(old, size) == whole.consistency(old, size)
    for index, size in [(first, first + 1), (first, 1100), (1099, 1100), (first + 3, 700)]:
        assert tree.inclusion(index, size) == whole.inclusion(index, size)
    assert tree.root(1100) == whole.root(1100)
    assert tree.consistency(0, 1100) == []
    with pytest.raises(LookupError):
        tree.inclusion(first - 1, 1100)
    if first > 1:
        with pytest.raises(LookupError):
            tree.consistency(first - 1, 1100)
