"""Logs larger than the piece in which the verifier reads, and damage at the borders of such pieces."""

from __future__ import annotations

import tracemalloc

import pytest

from audit.log import CHUNK_BYTES, segment_name
from audit.record import parse
from audit.report import Exit
from audit.seal import SegmentLimits
from audit.walk import Walk
from tests.unit.audit.logs import Journal

_RECORD = b'{"text":"' + b"x" * 4000 + b'"}'


@pytest.fixture(scope="module")
def large() -> Journal:
    """One segment of about fifteen pieces, sealed now and then, with a checkpoint in the middle."""
    journal = Journal(limits=SegmentLimits())
    for count in range(960):
        journal.frames += journal.sealer.record(_RECORD, journal.tick())
        if count % 40 == 39:
            journal.seal()
            journal.export()
            if count == 479:
                journal.publish()
    journal.close()
    journal.export()
    journal.publish()
    return journal


def test_log_of_many_pieces_verifies(large: Journal) -> None:
    assert len(large.directory.files()[segment_name(0)]) > 14 * CHUNK_BYTES
    report = large.verify()
    assert report.exit is Exit.OK, report.to_lines()
    assert report.data_records == 960
    assert report.checkpoints == 3


def test_damage_next_to_every_border_is_found_alone(large: Journal) -> None:
    name = segment_name(0)
    content = large.directory.files()[name]
    offsets = parse(content).offsets
    for border in range(CHUNK_BYTES, len(content), CHUNK_BYTES):
        index = max(number for number, offset in enumerate(offsets) if offset <= border)
        for number in (index - 1, index, index + 1):
            place = offsets[number] + 120
            large.directory.put(name, content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            report = large.verify()
            assert [(finding.code, finding.seq) for finding in report.findings] == [("damaged", number)]
    large.directory.put(name, content)


def test_memory_does_not_grow_with_the_log(large: Journal) -> None:
    large.verify()
    tracemalloc.start()
    try:
        large.verify()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A piece, its copy beside the rest of the last one, and what was parsed from it.
    assert peak < 6 * CHUNK_BYTES


def test_walk_is_what_verify_runs() -> None:
    assert Walk.run.__doc__ is not None
