"""A segment read whole: the tree at every size inside it, and what must make the verifier look for itself."""

from collections.abc import Sequence

import pytest

from audit.chain import BLOCK_LEAVES, BLOCK_LEVEL, HASH_BYTES, CompactRange, leaf_hash
from audit.log import segment_name, segments
from audit.record import FRAME_HEADER, Kind
from audit.seal import SegmentLimits
from audit.whole import Hashes, Whole, whole_segment
from tests.unit.audit.logs import Journal, entries_of, put_frames, rechain

LEAVES = [leaf_hash(number.to_bytes(4, "big")) for number in range(5 * BLOCK_LEAVES)]


def tree_of(leaves: Sequence[bytes]) -> CompactRange:
    tree = CompactRange()
    tree.extend(leaves)
    return tree


def whole_of(first: int, end: int) -> Whole:
    """Entries `first` to `end` as another process hands them over, put together by the slow way."""
    tree, blocks = tree_of(LEAVES[:first]), list[bytes]()
    whole = Whole(first, bytes(HASH_BYTES), tree.hashes)
    tree.extend(LEAVES[first:end], blocks=blocks)
    whole.leaf_bytes += b"".join(LEAVES[first:end])
    whole.block_bytes += b"".join(blocks)
    whole.times.extend(range(end - first))
    whole.after = tree.hashes
    return whole


@pytest.mark.parametrize("first", [0, 1, 255, 256, 257, 300, 511, 512])
def test_the_tree_is_right_at_every_size_whichever_were_asked_before(first: int) -> None:
    end = 4 * BLOCK_LEAVES + 3
    for step in (1, 7, 250, 256, 600):
        whole = whole_of(first, end)
        for size in [*range(first, end, step), end]:
            assert whole.tree_at(size).hashes == tree_of(LEAVES[:size]).hashes, (step, size)
        assert whole.tree_at(end).hashes == whole.after


def test_a_tree_that_was_handed_out_is_not_moved_on() -> None:
    whole = whole_of(3, 600)
    early = whole.tree_at(100)
    whole.tree_at(550)
    assert early.hashes == tree_of(LEAVES[:100]).hashes


def test_a_subtree_fits_only_where_one_of_its_size_begins() -> None:
    tree = tree_of(LEAVES[:5])
    with pytest.raises(ValueError, match="no subtree of 256 leaves begins at 5"):
        tree.extend([bytes(HASH_BYTES)], level=BLOCK_LEVEL)


def test_every_subtree_is_given_out_once_however_the_leaves_come() -> None:
    at_once = list[bytes]()
    tree_of([]).extend(LEAVES, blocks=at_once)
    one_by_one = list[bytes]()
    tree = CompactRange()
    for start in range(0, len(LEAVES), 100):
        tree.extend(LEAVES[start : start + 100], blocks=one_by_one)
    assert at_once == one_by_one
    assert len(at_once) == len(LEAVES) // BLOCK_LEAVES
    twin = CompactRange()
    twin.extend(at_once, level=BLOCK_LEVEL)
    assert twin.hashes == tree.hashes


def test_hashes_side_by_side_are_a_sequence() -> None:
    hashes = Hashes(b"".join(LEAVES[:10]))
    assert list(hashes) == LEAVES[:10]
    assert (hashes[0], hashes[-1], len(hashes)) == (LEAVES[0], LEAVES[9], 10)
    part = hashes[2:5]
    assert (list(part), part[0], part[-1], len(part)) == (LEAVES[2:5], LEAVES[2], LEAVES[4], 3)
    assert list(part[1:]) == LEAVES[3:5]
    assert list(hashes[5:2]) == []
    with pytest.raises(IndexError):
        part[3]


def long_journal() -> Journal:
    """Segments of several subtrees, with seals in them; the clock steps back by a moment now and then."""
    journal = Journal(limits=SegmentLimits(entries_max=700))
    for _ in range(4):
        journal.records(300)
        journal.seal()
        journal.now_ms -= 150
    journal.export()
    return journal


def read(journal: Journal, first: int) -> Whole | None:
    return whole_segment(journal.directory, first, journal.directory.size(segment_name(first)), None)


def test_a_whole_segment_says_what_its_file_holds() -> None:
    journal = long_journal()
    tree = CompactRange()
    for first in segments(journal.directory):
        whole = read(journal, first)
        assert whole is not None
        assert (whole.first, whole.stated) == (tree.size, tree.hashes)
        tree.extend(whole.leaves)
        assert (whole.end, whole.after) == (tree.size, tree.hashes)
        assert len(whole) == whole.data + len(whole.clear)
        data = journal.directory.files()[segment_name(first)]
        for index, entry in whole.clear:
            assert FRAME_HEADER.unpack_from(data, entry.offset)[5] == first + index
    assert tree.size > 4 * BLOCK_LEAVES


@pytest.mark.parametrize("piece_bytes", [1 << 18, 1 << 17, 70_000])
def test_a_clock_that_went_back_is_told_wherever_the_pieces_end(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.log.CHUNK_BYTES", piece_bytes)
    journal = long_journal()
    wholes = [read(journal, first) for first in segments(journal.directory)]
    assert [whole.went_back for whole in wholes if whole is not None] == [True, True]
    steady = Journal(limits=SegmentLimits(entries_max=700))
    steady.records(600)
    steady.export()
    whole = read(steady, 0)
    assert whole is not None
    assert not whole.went_back


def test_a_seal_over_another_root_is_left_to_the_verifier() -> None:
    journal = long_journal()
    entries = entries_of(journal.directory)
    first = segments(journal.directory)[1]
    for lie_at in [entry.header.seq for entry in entries if entry.header.kind == Kind.SEAL]:
        put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key, lie_at=lie_at))
        assert (read(journal, 0) is None, read(journal, first) is None) == (lie_at < first, lie_at >= first)
