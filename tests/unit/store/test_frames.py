from dataclasses import replace

import pytest

from gateway.store import frames
from gateway.store.frames import Chunk, behind, pack, unpack
from tests.unit.store.kit import PlainFrame

FRAMES = [PlainFrame(seq, b"", 0, b"frame %d" % seq * seq, "data", 0) for seq in range(5, 12)]


def told(chunks: list[Chunk]) -> list[tuple[int, int, bytes]]:
    return [(chunk.segment, seq, data) for chunk in chunks for seq, data in unpack(chunk.seq, chunk.frames)]


def test_frames_of_a_batch_share_a_row_and_come_back_apart() -> None:
    (chunk,) = pack(FRAMES)
    assert (chunk.seq, chunk.last_seq) == (5, 11)
    assert told([chunk]) == [(0, frame.seq, frame.data) for frame in FRAMES]
    assert pack([]) == []


def test_each_segment_has_rows_of_its_own() -> None:
    rotated = [frame if frame.seq < 8 else replace(frame, segment=8) for frame in FRAMES]
    assert [(chunk.segment, chunk.seq, chunk.last_seq) for chunk in pack(rotated)] == [(0, 5, 7), (8, 8, 11)]
    assert told(pack(rotated)) == [(frame.segment, frame.seq, frame.data) for frame in rotated]


def test_row_is_begun_anew_before_it_grows_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "CHUNK_BYTES_MAX", 150)
    chunks = pack(FRAMES)
    assert [(chunk.seq, chunk.last_seq) for chunk in chunks] == [(5, 7), (8, 9), (10, 10), (11, 11)]
    assert told(chunks) == [(0, frame.seq, frame.data) for frame in FRAMES]


@pytest.mark.parametrize("through", [5, 8, 10])
def test_what_is_behind_a_cut_is_a_row_like_any_other(through: int) -> None:
    (chunk,) = pack(FRAMES)
    assert [behind(chunk, through)] == pack([frame for frame in FRAMES if frame.seq > through])
