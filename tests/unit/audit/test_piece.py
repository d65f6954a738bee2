"""A run of entries taken in at once: only where each is in order, and its places are places in the file."""

from dataclasses import replace

import pytest

from audit.log import Chunk, chunks
from audit.piece import piece_of
from audit.record import FrameHead, Kind
from tests.unit.audit.logs import Journal


def a_chunk() -> Chunk:
    journal = Journal()
    journal.records(6)
    journal.seal()
    journal.export()
    (chunk,) = chunks(journal.directory, 0)
    return chunk


def changed(chunk: Chunk, index: int, **fields: object) -> Chunk:
    names = ("length", "mark", "version", "kind", "flags", "seq", "t_ms", "prev")
    heads: list[FrameHead] = list(chunk.parsed.heads)
    heads[index] = tuple(fields.get(name, old) for name, old in zip(names, heads[index], strict=True))  # type: ignore[assignment]  # the same shape
    return replace(chunk, parsed=chunk.parsed._replace(heads=heads))


def test_entries_in_order_are_one_piece_with_their_places_in_the_file() -> None:
    chunk = a_chunk()
    piece = piece_of(chunk, 0)
    assert piece is not None
    assert piece.leaves == chunk.parsed.leaves
    assert piece.first_prev == bytes(32)
    assert piece.data == 6
    assert [entry.header.kind for _, entry in piece.clear] == [Kind.SEGMENT_OPEN, Kind.SEAL, Kind.SEAL]
    moved = piece_of(replace(chunk, base=1000), 0)
    assert moved is not None
    for index, entry in moved.clear:
        assert moved.offset(index) == entry.offset == 1000 + chunk.parsed.offsets[index]
    assert [entry.header.seq for entry in piece.records(2, 5)] == [2, 3, 4]


@pytest.mark.parametrize("fields", [{"seq": 9}, {"prev": bytes(32)}, {"version": 2}, {"kind": 99}, {"flags": 2}])
def test_anything_odd_about_one_entry_asks_for_a_closer_look(fields: dict[str, object]) -> None:
    chunk = a_chunk()
    assert piece_of(changed(chunk, 3, **fields), 0) is None
    assert piece_of(chunk, 0) is not None


def test_a_piece_begins_where_it_is_expected_and_has_an_entry() -> None:
    chunk = a_chunk()
    assert piece_of(chunk, 1) is None
    assert piece_of(replace(chunk, parsed=chunk.parsed._replace(offsets=[], heads=[], leaves=[])), 0) is None
