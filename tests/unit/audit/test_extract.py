"""A whole log as JSON: every entry, nothing marked as verified that is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import pytest

from audit.extract import ANCHORED, SEALED, UNVERIFIED, Extracted, extract
from audit.keyring import RecipientKey, Role
from audit.log import LogContradiction, segment_name, segments
from audit.report import Exit
from tests.unit.audit.logs import Journal, entropy, refile, sealed_journal
from tests.unit.audit.test_tamper import bodies_swapped, flip_ciphertext, reorder


def everything(journal: Journal, *, key: RecipientKey | None = None, verified: bool = True) -> list[Extracted]:
    return list(extract(journal.directory, key, journal.verify() if verified else None))


def test_every_entry_is_given_with_how_far_it_is_verified() -> None:
    journal = sealed_journal()
    report = journal.verify()
    found = everything(journal, key=journal.auditor)
    assert [entry.seq for entry in found] == list(range(journal.sealer.head.size))
    assert {entry.kind for entry in found} >= {"data", "segment_open", "segment_close", "seal"}
    assert [entry.verified for entry in found] == (
        [ANCHORED] * report.anchored_size
        + [SEALED] * (report.sealed_size - report.anchored_size)
        + [UNVERIFIED] * (report.end_seq - report.sealed_size)
    )
    for entry in found:
        told = json.loads(json.dumps(entry.to_json()))
        assert set(told) == {"seq", "kind", "t_ms", "leaf", "verified", "record" if entry.kind == "data" else "entry"}


def test_without_a_key_or_with_a_strange_one_records_stay_closed() -> None:
    journal = sealed_journal()
    stranger = RecipientKey.generate(Role.AUDITOR, "stranger", entropy("stranger"))
    for key in (None, stranger):
        found = everything(journal, key=key)
        assert len(found) == journal.sealer.head.size
        assert all("record" not in entry.to_json() for entry in found)
        assert all("entry" in entry.to_json() for entry in found if entry.kind != "data")


def test_without_a_verification_or_after_a_bad_one_nothing_is_verified() -> None:
    journal = sealed_journal()
    assert {entry.verified for entry in everything(journal, verified=False)} == {UNVERIFIED}
    unanchored = journal.verify(anchored=False)
    assert unanchored.exit is Exit.NOT_PROVEN
    assert {entry.verified for entry in extract(journal.directory, None, unanchored)} == {UNVERIFIED}


def test_record_that_does_not_open_is_told_and_never_verified() -> None:
    journal = sealed_journal()
    report = journal.verify()
    reorder(bodies_swapped, repaired=True)(journal)
    found = list(extract(journal.directory, journal.auditor, None))
    bad = [entry for entry in found if entry.problem]
    # The two that were swapped, and all behind them: their headers were made anew to link to these.
    assert len(bad) == 25
    assert all(entry.to_json()["verified"] == UNVERIFIED and "record" not in entry.to_json() for entry in bad)
    with pytest.raises(LogContradiction, match="changed after they were verified"):
        list(extract(journal.directory, journal.auditor, report))


def test_files_that_shrink_or_break_after_the_verification_are_noticed() -> None:
    journal = sealed_journal()
    report = journal.verify()
    last = journal.sealer.head.segment
    refile(journal.directory, lambda data: data[:-5], last)
    words: list[str] = []
    with pytest.raises(LogContradiction, match="changed after they were verified"):
        list(extract(journal.directory, None, report, skipped=words.append))
    assert "no entry" in words[0]
    journal = sealed_journal()
    flip_ciphertext(journal)
    with pytest.raises(LogContradiction):
        list(extract(journal.directory, None, journal.verify()))


def test_dropped_beginning_is_no_change() -> None:
    journal = sealed_journal()
    for first in segments(journal.directory)[:2]:
        journal.directory.remove(segment_name(first))
    report = journal.verify()
    found = list(extract(journal.directory, None, report))
    assert found[0].seq == report.first_seq > 0


def test_entries_come_one_at_a_time() -> None:
    journal = sealed_journal()
    stream: Iterator[Extracted] = extract(journal.directory, journal.auditor, journal.verify())
    assert len(list(islice(stream, 3))) == 3
