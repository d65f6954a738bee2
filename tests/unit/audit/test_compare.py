from __future__ import annotations

from audit.chain import CompactRange
from audit.claims import Claims
from audit.compare import Comparison
from audit.receipts import Expected, Receipt
from audit.report import Exit, Report
from tests.unit.audit.logs import ORIGIN, Journal, entries_of


def comparison_of(journal: Journal, receipts: list[Receipt]) -> tuple[Comparison, Report]:
    report = Report()
    keys = [journal.signer.key]
    claims = Claims(journal.directory, journal.anchors(), keys, report=report.add, settle=lambda: None)
    report.anchors = claims.states
    return Comparison(report, claims, Expected(receipts, ORIGIN)), report


def published_journal() -> Journal:
    journal = Journal()
    journal.records(5)
    journal.export()
    journal.publish()
    return journal


def test_claims_and_receipts_that_fit_are_counted_and_attest_their_size() -> None:
    journal = published_journal()
    leaves = [entry.leaf for entry in entries_of(journal.directory)]
    comparison, report = comparison_of(journal, [Receipt(ORIGIN, 3, leaves[3])])
    tree = CompactRange()
    tree.extend(leaves)
    comparison.pass_leaves(0, leaves)
    assert comparison.next_size == len(leaves)
    comparison.meet(len(leaves), tree, 77)
    comparison.end(len(leaves), 0, excused=False)
    assert (report.exit, report.receipts_checked, report.checkpoints) == (Exit.OK, 1, 2)
    assert (comparison.attested_size, report.anchors[0].covers_t_ms) == (len(leaves), 77)


def test_another_tree_attests_nothing_and_is_told_once() -> None:
    journal = published_journal()
    size = journal.sealer.head.size
    comparison, report = comparison_of(journal, [])
    tree = CompactRange()
    tree.extend([bytes([number]) * 32 for number in range(size)])
    comparison.meet(size, tree, 0)
    assert (report.exit, report.findings_total, comparison.attested_size) == (Exit.TAMPERED, 1, 0)


def test_claims_ahead_of_the_end_are_a_rollback_unless_the_end_could_not_be_read() -> None:
    journal = published_journal()
    for excused, expected in ((False, Exit.TAMPERED), (True, Exit.INCOMPLETE)):
        comparison, report = comparison_of(journal, [Receipt(ORIGIN, 6, bytes(32))])
        comparison.end(2, 0, excused=excused)
        assert report.exit is expected
