"""The bench itself, with tiny numbers: it runs to its end, measures every row and asserts nothing about speed."""

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.rows import Row, Syncs, syncs_of


@pytest.mark.timeout(600)
def test_bench_measures_every_row_whatever_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.json"

    assert main(["--quick", "--json", str(results)]) == 0

    measured = json.loads(results.read_text())
    assert {row["number"] for row in measured["rows"]} == {"1", "2", "4", "5", "8", "9", "10", "a", "s", ""}
    assert set(measured["rounds"]) >= {"gateway", "proxy, force_close", "proxy, pooled"}
    assert "throughput / proxy, 64 connections" in capsys.readouterr().out


def test_row_is_judged_by_its_median_and_not_judged_without_values() -> None:
    assert Row("1", "at least", (0.1, 0.5, 0.6), 0.4).met is True
    assert Row("1", "at most", (0.1, 0.5, 0.6), 0.4, most=True).met is False
    assert Row("1", "not measured", (), 0.4).met is None
    assert Row("1", "nothing promised", (1.0,)).met is None


def test_syncs_that_move_the_journal_into_the_database_are_no_commits(tmp_path: Path) -> None:
    report = tmp_path / "strace"
    journal, database, segment = "9</d/gateway.db-wal>", "8</d/gateway.db>", "12</d/audit/000001.seg>"
    # Three commits; the third moves the journal, which then begins anew under the fourth.
    synced = [journal, journal, journal, journal, database, segment, journal, journal]
    lines = [f"7 fdatasync({file}) = 0" for file in synced]
    report.write_text("\n".join([*lines, "7 <... fdatasync resumed>) = 0"]))

    assert syncs_of(report) == Syncs(commits=4, others=4)
