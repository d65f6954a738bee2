from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.chain import EMPTY_ROOT, CompactRange, leaf_hash, node_hash

# The eight inputs and roots that implementations of RFC 6962 share as their reference vectors.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def naive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\x01" + naive_root(leaves[:split]) + naive_root(leaves[split:])).digest()


@pytest.mark.parametrize("size", range(1, 9))
def test_reference_roots_of_rfc_6962(size: int) -> None:
    tree = CompactRange()
    for text in INPUTS[:size]:
        tree.append(leaf_hash(bytes.fromhex(text)))
    assert tree.root().hex() == ROOTS[size - 1]


def test_empty_tree_has_the_hash_of_nothing() -> None:
    assert (
        CompactRange().root()
        == EMPTY_ROOT
        == bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    )


@given(st.lists(st.binary(max_size=3), max_size=80), st.integers(0, 80))
def test_range_equals_the_naive_tree_however_it_is_grown(texts: list[bytes], cut: int) -> None:
    leaves = [leaf_hash(text) for text in texts]
    at_once, one_by_one = CompactRange(), CompactRange()
    at_once.extend(leaves[:cut])
    at_once.extend(leaves[cut:])
    for leaf in leaves:
        one_by_one.append(leaf)
    assert at_once.root() == one_by_one.root() == naive_root(leaves)
    assert at_once.hashes == one_by_one.hashes
    assert CompactRange(at_once.size, at_once.hashes).root() == naive_root(leaves)


def test_doubling_the_odd_leaf_changes_the_root() -> None:
    three, four = CompactRange(), CompactRange()
    leaves = [leaf_hash(bytes([number])) for number in range(3)]
    three.extend(leaves)
    four.extend([*leaves, leaves[2]])
    assert three.root() != four.root()


def test_a_node_cannot_pass_for_an_entry() -> None:
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != node_hash(left, right)


def test_hashes_that_do_not_fit_the_size_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot cover"):
        CompactRange(3, [bytes(32)])
    with pytest.raises(ValueError, match="cannot cover"):
        CompactRange(1, [bytes(31)])


def test_copy_is_independent() -> None:
    tree = CompactRange()
    tree.append(leaf_hash(b"a"))
    twin = tree.copy()
    twin.append(leaf_hash(b"b"))
    assert tree.size == 1
    assert tree.root() == leaf_hash(b"a")
