"""Proofs grown in one pass are those of RFC 6962, for every entry of every tree."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest

from audit.chain import EMPTY_ROOT, CompactRange
from audit.inclusion import Branch, GrowingTree
from audit.proofs import HashTree, check_inclusion

LEAVES = [sha256(bytes([number])).digest() for number in range(70)]


def reference(size: int) -> HashTree:
    tree = HashTree(lambda start, end: LEAVES[start:end])
    tree.extend(LEAVES[:size])
    return tree


@pytest.mark.parametrize("size", range(1, 70))
def test_every_branch_of_a_tree_is_the_inclusion_proof(size: int) -> None:
    expected = reference(size)
    tree = GrowingTree()
    branches = [tree.choose(leaf) for leaf in LEAVES[:size]]
    assert tree.close() == expected.root(size)
    for branch in branches:
        assert branch.hashes == expected.inclusion(branch.seq, size)
        check_inclusion(LEAVES[branch.seq], branch.seq, size, branch.hashes, expected.root(size))


def test_chosen_entries_among_runs_of_others_get_the_same_proofs() -> None:
    chance = random.Random("branches")
    for _ in range(400):
        size = chance.randrange(1, 70)
        start = chance.randrange(size)
        before = CompactRange()
        before.extend(LEAVES[:start])
        tree, at = GrowingTree(start, before.hashes), start
        branches: list[Branch] = []
        while at < size:
            if chance.random() < 0.3:
                branches.append(tree.choose(LEAVES[at]))
                at += 1
            else:
                end = min(size, at + chance.randrange(1, 20))
                tree.extend(LEAVES[at:end])
                at = end
        assert tree.size == size
        expected = reference(size)
        assert tree.close() == expected.root(size)
        for branch in branches:
            assert branch.hashes == expected.inclusion(branch.seq, size)


def test_empty_tree_has_the_empty_root_and_a_wrong_range_is_refused() -> None:
    assert GrowingTree().close() == EMPTY_ROOT
    with pytest.raises(ValueError, match="cannot cover"):
        GrowingTree(3, [LEAVES[0]])
