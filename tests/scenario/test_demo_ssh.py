"""`gateway demo --ssh` from outside: a real run, what it leaves behind, and what a signal leaves of it."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.ledger import read_ledger
from gateway.surfaces.cli.demo.ssh_cases import HOST_CASES, HOSTS
from tests.scenario.demo_run import MEMBERS, Run, demo_run, left_in, stopped_demo

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return demo_run(tmp_path_factory.mktemp("demo") / "kept", "--ssh")


def ran(folder: Path) -> dict[str, list[str]]:
    """Which operations ran on which host."""
    files = {name: folder / name / "ran" for name in HOSTS}
    return {name: file.read_text().split() if file.exists() else [] for name, file in files.items()}


def test_every_lost_session_is_settled_and_said_in_the_same_object(kept: Run) -> None:
    assert kept.complaints == ""
    assert kept.code == 0
    assert list(kept.printed) == MEMBERS
    assert kept.printed["operations"] == kept.printed["success"] + kept.printed["error"] == len(HOST_CASES)
    assert kept.printed["unknown_seen"] >= sum(case.doubtful for case in HOST_CASES)
    assert (kept.printed["unsettled"], kept.printed["duplicate_effects"], kept.printed["wrong_outcomes"]) == (0, 0, 0)
    assert kept.printed["audit"] == "OK"


def test_its_numbers_are_those_of_the_hosts_and_of_the_store(kept: Run) -> None:
    lines = [line for operations in ran(kept.folder).values() for line in operations]
    with sqlite3.connect(kept.folder / "data" / "gateway.db") as store:
        operations = store.execute("select count(*) from operations").fetchone()[0]
    store.close()

    assert len(lines) == len(set(lines)) == kept.printed["effects"] > 0
    assert operations == kept.printed["operations"]


def test_what_died_before_it_ran_never_did_and_the_late_one_arrived_all_the_same(kept: Run) -> None:
    assert [len(operations) for operations in ran(kept.folder).values()] == [4, 1, 0, 0]
    struck = {
        name: {entry.fault for entry in read_ledger(kept.folder / name / "sessions").entries} - {None}
        for name in ("web-1", "web-3")
    }
    assert struck["web-3"] == {"ssh_accept_abort"}
    (first, *_) = read_ledger(kept.folder / "web-4" / "sessions").entries
    held = [entry for entry in read_ledger(kept.folder / "web-4" / "sessions").entries if entry.conn == first.conn]
    assert [entry.kind for entry in held] == ["request", "worker"]


def test_what_it_keeps_can_be_verified_by_others_and_checked_by_the_gateway(kept: Run) -> None:
    log = kept.folder / "data" / "audit"
    trusted = ("--trust", str(kept.folder / "trust.policy"), "--anchor", str(kept.folder / "anchors"))
    environment = {**os.environ, "GATEWAY_CONFIG": str(kept.folder / "gateway.yaml")}

    for command in (["audit", "verify", str(log), *trusted], ["gateway", "check"]):
        done = subprocess.run(
            [sys.executable, "-m", *command], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (done.stdout, done.stderr)


def test_nothing_of_it_goes_on_running_and_nothing_of_the_user_was_touched(kept: Run) -> None:
    assert left_in(kept.folder) == []
    assert [path.name for path in kept.folder.parent.iterdir()] == ["kept"]


def test_stopped_in_the_middle_it_leaves_no_process_no_command_and_no_file(tmp_path: Path) -> None:
    stopped_demo(tmp_path, signal.SIGTERM, "--ssh", programs=len(HOSTS) + 1)
