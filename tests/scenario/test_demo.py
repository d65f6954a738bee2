"""`gateway demo` from outside: a real run, what it leaves behind, and what it says of a service that repeats."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.ledger import read_ledger, summarise
from gateway.surfaces.cli.context import Exit
from gateway.surfaces.cli.demo.cases import CASES
from gateway.surfaces.cli.demo.command import verdict
from gateway.surfaces.cli.demo.http_story import HttpStory
from gateway.surfaces.cli.demo.show import Show
from tests.scenario.demo_run import MEMBERS, Run, demo_run, gateway_program, left_in, stopped_demo

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("demo") / "kept"
    return demo_run(folder)


def test_demo_settles_every_lost_answer_and_says_so_in_one_object(kept: Run) -> None:
    assert kept.complaints == ""
    assert kept.code == 0
    assert list(kept.printed) == MEMBERS
    assert kept.printed["operations"] == kept.printed["success"] + kept.printed["error"] == len(CASES)
    assert kept.printed["unknown_seen"] >= sum(case.doubtful for case in CASES)
    assert (kept.printed["unsettled"], kept.printed["duplicate_effects"], kept.printed["wrong_outcomes"]) == (0, 0, 0)
    assert kept.printed["audit"] == "OK"


def test_its_numbers_are_those_of_the_ledger_and_of_the_store(kept: Run) -> None:
    counted = summarise(read_ledger(kept.folder / "service.ledger").entries)
    with sqlite3.connect(kept.folder / "data" / "gateway.db") as store:
        operations = store.execute("select count(*) from operations").fetchone()[0]
    store.close()

    assert counted["effects"] == kept.printed["effects"] > 0
    assert counted["duplicate_effects"] == 0
    assert operations == kept.printed["operations"]


def test_every_planned_fault_struck(kept: Run) -> None:
    struck = summarise(read_ledger(kept.folder / "service.ledger").entries)["faults"]

    assert {case.fault for case in CASES if case.fault} <= set(struck)


def test_what_it_keeps_can_be_verified_and_read_by_others(kept: Run) -> None:
    log = kept.folder / "data" / "audit"
    trusted = ("--trust", str(kept.folder / "trust.policy"), "--anchor", str(kept.folder / "anchors"))
    audit = [sys.executable, "-m", "audit"]

    verified = subprocess.run([*audit, "verify", str(log), *trusted], capture_output=True, text=True, check=False)
    key = str(kept.folder / "auditor.key")
    shown = subprocess.run([*audit, "show", str(log), "--key", key], capture_output=True, text=True, check=False)

    assert (verified.returncode, verified.stdout.splitlines()[-1].split()[0]) == (0, "OK")
    assert shown.returncode == 0
    ids = {entry.op for entry in read_ledger(kept.folder / "service.ledger").entries if entry.effect == "done"}
    assert {identity for identity in ids if identity and identity not in shown.stdout} == set()


def test_nothing_of_it_goes_on_running_and_nothing_of_the_user_was_touched(kept: Run) -> None:
    assert left_in(kept.folder) == []
    assert [path.name for path in kept.folder.parent.iterdir()] == ["kept"]


def test_a_folder_with_something_in_it_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")

    done = subprocess.run(
        gateway_program("demo", "--keep", str(tmp_path)), capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == Exit.USAGE
    assert "nothing is overwritten" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_demo_that_is_stopped_leaves_no_process_and_no_file(number: signal.Signals, tmp_path: Path) -> None:
    stopped_demo(tmp_path, number, programs=2)


async def test_a_service_that_repeats_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # It promises that the same key is one operation, and does not keep the promise.
    totals = await HttpStory(tmp_path, os.environ, Show(None), service_options=["--no-dedup"]).play()

    assert totals.duplicate_effects == 1
    assert verdict(totals) is Exit.ERROR
    assert re.search(r"op_\w+: took effect 2 times", capsys.readouterr().err)
