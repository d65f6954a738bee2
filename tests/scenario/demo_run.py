"""Runs of `gateway demo` as a process of its own, and what tests look at afterwards."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MEMBERS = [
    "operations",
    "success",
    "error",
    "unknown_seen",
    "unsettled",
    "effects",
    "duplicate_effects",
    "wrong_outcomes",
    "audit",
]


@dataclass(frozen=True, slots=True)
class Run:
    folder: Path
    printed: Mapping[str, Any]
    code: int
    complaints: str


def gateway_program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gateway", *arguments]


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes that were started for this folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        line, environment = process.info["cmdline"] or [], process.info["environ"] or {}
        if str(folder) in " ".join(line) or environment.get("GATEWAY_CONFIG", "").startswith(str(folder)):
            found.append(process)
    return found


def left_in(folder: Path) -> list[list[str]]:
    """Command lines of those that go on; whoever is about to end, like the last nap of a runner's clock, may do so."""
    psutil.wait_procs(processes_in(folder), timeout=40)
    return [process.info["cmdline"] for process in processes_in(folder)]


def demo_run(folder: Path, *options: str) -> Run:
    """A whole demo that keeps its folder."""
    # A user's own gateway must not be touched, whatever the environment says.
    environment = {**os.environ, "GATEWAY_STORE_URL": f"sqlite:///{folder.parent}/own.db", "GATEWAY_ADDR": "nowhere"}
    done = subprocess.run(
        gateway_program("demo", *options, "--json", "--keep", str(folder)),
        env=environment,
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    return Run(folder, json.loads(done.stdout), done.returncode, done.stderr)


def stopped_demo(folder: Path, number: signal.Signals, *options: str, programs: int) -> None:
    """A demo that is stopped by a signal in the middle: it must take everything with it that it started."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        gateway_program("demo", *options), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "agents call" in line:
                break
        assert len(processes_in(folder)) >= programs
        process.send_signal(number)
        _, complaints = process.communicate(timeout=60)

    assert process.returncode not in {0, None}
    assert "Traceback" not in complaints
    assert left_in(folder) == []
    assert list(folder.iterdir()) == []
