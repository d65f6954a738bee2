"""No single byte of a log can change without the verifier noticing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.log import segment_name, segments
from audit.report import Exit
from audit.seal import SegmentLimits
from tests.unit.audit.logs import Journal, sealed_journal

PARTS = 4


def small_journal() -> Journal:
    """Every kind of place: two segments, a record, seals, a clean end, a checkpoint of the whole."""
    journal = Journal(limits=SegmentLimits(entries_max=4))
    journal.records(4)
    journal.close()
    journal.export()
    journal.publish()
    return journal


@pytest.mark.parametrize("part", range(PARTS))
def test_every_byte_of_a_small_log_matters(part: int) -> None:
    journal = small_journal()
    assert journal.verify().exit == Exit.OK
    count = 0
    for name, data in sorted(journal.directory.files().items()):
        for offset in range(part, len(data), PARTS):
            # A different mask at each offset, so that low bits, high bits and whole bytes all have their turn.
            mask = (1 << offset % 8) if offset % 3 else 0xFF
            changed = data[:offset] + bytes([data[offset] ^ mask]) + data[offset + 1 :]
            journal.directory.put(name, changed)
            assert journal.verify().exit != Exit.OK, (name, offset)
            count += 1
        journal.directory.put(name, data)
    assert count > 600
    assert journal.verify().exit == Exit.OK


@given(st.data())
def test_any_changed_byte_of_the_sealed_part_is_tampering(data: st.DataObject) -> None:
    journal = sealed_journal(tail=0)
    first = data.draw(st.sampled_from(segments(journal.directory)))
    content = journal.directory.files()[segment_name(first)]
    offset = data.draw(st.integers(0, len(content) - 1))
    mask = data.draw(st.integers(1, 255))
    journal.directory.put(
        segment_name(first), content[:offset] + bytes([content[offset] ^ mask]) + content[offset + 1 :]
    )
    assert journal.verify().exit in {Exit.TAMPERED, Exit.INCOMPLETE}


@given(st.data())
def test_any_bytes_cut_out_or_put_in_are_noticed(data: st.DataObject) -> None:
    journal = small_journal()
    first = data.draw(st.sampled_from(segments(journal.directory)))
    content = journal.directory.files()[segment_name(first)]
    start = data.draw(st.integers(0, len(content) - 1))
    end = data.draw(st.integers(start, len(content)))
    # Zeros alone at the end are space written ahead, so what is put in is never only that.
    put_in = data.draw(
        st.binary(min_size=0 if end > start else 1, max_size=40).filter(lambda junk: not junk or any(junk))
    )
    changed = content[:start] + put_in + content[end:]
    if changed == content:
        return
    journal.directory.put(segment_name(first), changed)
    assert journal.verify().exit != Exit.OK
