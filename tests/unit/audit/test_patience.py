"""A sink that says nothing: it is failed after its deadline, nothing is lost, and it may come back."""

from __future__ import annotations

import threading

import pytest

from audit.checkpoint import CHECKPOINT, Publisher
from audit.disk import LogLocked
from audit.export import Exporter, ExportFailed
from audit.patience import DEADLINE_SECONDS, Patience, PatientExporter, PatientPublisher, SilentSink
from audit.report import Exit
from tests.unit.audit.logs import Journal, entries_of


def test_a_disk_that_does_not_answer_is_failed_and_nothing_is_lost_when_it_comes_back() -> None:
    journal = Journal()
    journal.records(4)
    rows = journal.rows()
    silent, answered = threading.Event(), threading.Event()

    def hang(operation: str, _name: str, _length: int) -> None:
        if operation == "sync" and not answered.is_set():
            silent.wait(30)
            answered.set()

    journal.directory.hook = hang
    exporter = PatientExporter(Exporter(journal.directory), 0.05)
    with pytest.raises(SilentSink, match=r"did not answer within 0\.05 s"):
        exporter.export(rows)
    with pytest.raises(ExportFailed, match="still does not answer"):
        exporter.export(rows)
    exporter.close()
    with pytest.raises(LogLocked):
        Exporter(journal.directory)
    assert exporter.durable_size == 0
    silent.set()
    assert answered.wait(30)
    while exporter._patience.hangs:
        exporter._patience._hanging.wait(30)  # type: ignore[union-attr]  # it hangs, so it is there
    assert exporter.export(rows) == len(rows)
    exporter.close()
    assert len(entries_of(journal.directory)) == exporter.durable_size == len(rows)
    assert journal.verify(anchored=False).exit is Exit.NOT_PROVEN
    Exporter(journal.directory).close()


def test_answers_and_errors_come_through_unchanged() -> None:
    patience = Patience("an anchor")
    assert patience.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        patience.call(lambda: 1 // 0)
    assert not patience.hangs
    assert DEADLINE_SECONDS == 2.0


def test_an_error_after_the_deadline_is_not_taken_for_the_answer_to_the_next_question() -> None:
    patience, late = Patience("an anchor", 0.01), threading.Event()

    def fail() -> None:
        late.wait(30)
        raise OSError("too late")

    with pytest.raises(SilentSink):
        patience.call(fail)
    late.set()
    while patience.hangs:
        patience._hanging.wait(30)  # type: ignore[union-attr]  # it hangs, so it is there
    assert patience.call(lambda: "fresh") == "fresh"


def test_an_anchor_that_does_not_answer_fails_each_publication_until_it_comes_back() -> None:
    journal, silent = Journal(), threading.Event()
    journal.records(2)
    Exporter(journal.directory).export(journal.rows())

    def hang(operation: str, _name: str, _length: int) -> None:
        if operation == "sync":
            silent.wait(30)

    journal.anchor.hook = hang
    publisher = PatientPublisher(Publisher(journal.directory, journal.signer, [journal.anchor]), 0.05)
    with pytest.raises(SilentSink, match="an anchor of the audit log, or its own folder, did not answer"):
        publisher.publish()
    with pytest.raises(SilentSink, match="still does not answer"):
        publisher.add_signatures("")
    silent.set()
    publisher._patience._hanging.wait(30)  # type: ignore[union-attr]  # it hangs, so it is there
    assert publisher.publish() is None
    assert journal.anchor.read(CHECKPOINT, 0, 9999) == journal.directory.read(CHECKPOINT, 0, 9999)
