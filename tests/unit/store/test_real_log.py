"""Store and audit log together: what the writer seals is a log that the offline verifier accepts."""

from audit.export import Exporter, Row
from audit.head import Head
from audit.report import Exit
from gateway.store.inloop import InLoopStore, Medium
from tests.unit.audit.logs import Journal
from tests.unit.store.kit import START_MS, admission, cipher, ended, operation


async def move_to_files(store: InLoopStore, journal: Journal) -> None:
    exporter = Exporter(journal.directory)
    frames = await store.tail(1000)
    exporter.export([Row(frame.segment, frame.seq, frame.frame) for frame in frames])
    exporter.close()
    await store.prune(frames[-1].seq)


async def test_log_of_a_store_verifies_over_restarts_and_rotation() -> None:
    journal, medium = Journal(), Medium()
    for run in range(3):
        store = InLoopStore(medium, cipher(), wall_ms=journal.tick)
        stored = await store.head()
        assert (stored is None) == (run == 0)
        if stored is not None:
            # What the last process left is all there is to go on from.
            assert Head.from_bytes(stored) == journal.sealer.head
            journal.frames = []
            journal.boot()
        await store.attach(journal.sealer, journal.frames)
        for _ in range(10):
            of = operation(created_ms=START_MS + run)
            await store.admit(admission(of, seal_now=True))
            assert (await store.change(ended(of))).receipt is not None
        if run == 1:
            # Dies without closing its segment; the tail waits in the store.
            store.crash()
            continue
        await store.close_log()
        await move_to_files(store, journal)
        await store.close()
    report = journal.verify(anchored=False)
    # No anchor vouches for it; that is all that is missing.
    assert report.exit == Exit.NOT_PROVEN, report
    assert (report.data_records, len(report.restarts)) == (60, 2)
