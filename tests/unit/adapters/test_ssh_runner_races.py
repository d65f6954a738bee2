"""Two deliveries of one attempt at once, and a delivery against a fence or a cancel: one wins, both tell the same."""

import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.ssh.runner_call import Verb
from tests.unit.adapters.remote_host import SHELLS, Host

ROUNDS = 20
ROUNDS_CI = 200
ROUNDS_SOAK = 1_000
LEG = 20
"""Rounds between two measurements of how long a run takes just now: the second caller comes at any moment of it."""
SECONDS_MAX = 3_000
IN_MEMORY = Path("/dev/shm")


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """Its store lies in memory where there is such a place: these tests wait for no disk."""
    folder = Path(tempfile.mkdtemp(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tmp_path))
    made = Host(tmp_path, request.param, folder / "store")
    made.init()
    yield made
    shutil.rmtree(folder)


class Race:
    """Rounds of a run and another call a little later, each on an operation of its own."""

    def __init__(self, host: Host, second: str, share: float, script: str = "") -> None:
        """`share`: within which part of a run's time, or how many times of it, the second call comes."""
        self.host = host
        self.second = second
        self.share = share
        self.command = host.marking(script)
        self.done = 0
        self.told: dict[str, list[str]] = {"first": [], "second": []}

    def go(self, rounds: int) -> list[tuple[int, str, str]]:
        """Of each round: executions, and the phase that each of the two told."""
        for number in range(0, rounds, LEG):
            self._leg(f"op_measure{number}", min(LEG, rounds - number))
        ran = self.host.ledger.read_text().split()
        phases = zip(self.told["first"], self.told["second"], strict=True)
        found = [(ran.count(f"op_{number}"), *told) for number, told in enumerate(phases)]
        assert len(found) == rounds
        return found

    def _leg(self, measuring: str, rounds: int) -> None:
        began = time.perf_counter()
        self.host.ask(Verb.RUN, measuring)
        most = (time.perf_counter() - began) * self.share
        (self.host.folder / "command").write_bytes(self.command.text)
        runner = next(Path(self.host.store, "bin").iterdir())
        common = (
            f"store={self.host.store} store_id={self.host.store_id} attempt=1 issued=5 keep=1 "
            f"op=op_$i digest={self.command.digest}"
        )
        pauses = " ".join(f"{random.uniform(0, most):.4f}" for _ in range(rounds))
        script = f"""
        i={self.done}
        for pause in {pauses}; do
            sh {runner} run {common} nonce=first$i 3<command 4</dev/null >>first &
            sleep $pause
            sh {runner} {self.second} {common} nonce=second$i 3<command 4</dev/null >>second &
            wait
            i=$((i + 1))
        done
        """
        for name in self.told:
            (self.host.folder / name).write_bytes(b"")
        subprocess.run(
            [self.host.tools / "sh", "-c", script],
            env=self.host.environment,
            cwd=self.host.folder,
            check=True,
            timeout=SECONDS_MAX,
        )
        self.done += rounds
        for name, phases in self.told.items():
            phases.extend(re.findall(r'"phase":"(\w+)"', (self.host.folder / name).read_text()))


def _two_claimants(host: Host, rounds: int) -> None:
    assert set(Race(host, "run", 0.3).go(rounds)) == {(1, "exited", "exited")}


def _run_and_fence(host: Host, rounds: int) -> set[int]:
    seen = set(Race(host, "fence", 1.2).go(rounds))

    assert seen <= {(0, "fenced", "fenced"), (1, "exited", "exited"), (1, "exited", "running")}
    return {executions for executions, *_ in seen}


def _run_and_cancel(host: Host, rounds: int) -> set[tuple[str, str]]:
    seen = Race(host, "cancel", 1.2, f'sleep 20; echo "$GATEWAY_OPERATION" >>{host.folder}/finished').go(rounds)

    assert not (host.folder / "finished").exists(), "a cancel was lost"
    assert {executions for executions, *_ in seen} <= {0, 1}
    told = {(first, second) for _, first, second in seen}
    assert told <= {("fenced", "fenced"), ("exited", "running"), ("exited", "exited")}
    return told


def test_of_two_claimants_exactly_one_runs_and_both_tell_the_same(host: Host) -> None:
    _two_claimants(host, ROUNDS)


def test_of_run_and_fence_exactly_one_wins(host: Host) -> None:
    _run_and_fence(host, ROUNDS)


def test_a_cancel_at_any_moment_prevents_the_command_or_ends_it(host: Host) -> None:
    _run_and_cancel(host, ROUNDS)


@pytest.mark.races
def test_in_two_hundred_rounds_a_cancel_at_any_moment_prevents_the_command_or_ends_it(host: Host) -> None:
    assert len(_run_and_cancel(host, ROUNDS_CI)) > 1, "it came at the same moment each time"


@pytest.mark.races
def test_in_two_hundred_rounds_of_two_claimants_exactly_one_runs(host: Host) -> None:
    _two_claimants(host, ROUNDS_CI)


@pytest.mark.races
def test_in_two_hundred_rounds_of_run_and_fence_exactly_one_wins_and_either_may(host: Host) -> None:
    assert _run_and_fence(host, ROUNDS_CI) == {0, 1}, "the two never met"


@pytest.mark.soak
def test_many_times_of_two_claimants_exactly_one_runs(host: Host) -> None:
    _two_claimants(host, ROUNDS_SOAK)


@pytest.mark.soak
def test_many_times_of_run_and_fence_exactly_one_wins(host: Host) -> None:
    assert _run_and_fence(host, ROUNDS_SOAK) == {0, 1}, "the two never met"
