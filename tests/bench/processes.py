"""Processes of a measurement: started, read and ended; what they used of the machine, and what strangers used."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
END_SECONDS = 20.0


def environment(**more: str) -> dict[str, str]:
    """This environment without anything that would steer a gateway elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


@dataclass(frozen=True, slots=True)
class Server:
    """A process that serves. `said` is the line of JSON that it printed when it was ready."""

    process: "subprocess.Popen[str]"
    errors: Path
    said: dict[str, Any]

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> dict[str, Any]:
        """The next line of JSON that it prints."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            complaint = self.errors.read_text(errors="replace")[-1000:]
            raise RuntimeError(f"{self.process.args!r} ended with {self.process.wait()}: {complaint}")
        said: dict[str, Any] = json.loads(text)
        return said


@contextmanager
def serving(arguments: Sequence[str], errors: Path, *, under: Sequence[str] = (), **variables: str) -> Iterator[Server]:
    """Start `python ARGUMENTS`, wait for its line, and end it in the end. What it complains of goes to `errors`.

    `under`: a command that runs it, in the process that it starts.
    """
    with errors.open("ab") as sink:
        process = subprocess.Popen(
            [*under, sys.executable, *arguments],
            cwd=ROOT,
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
        )
    try:
        server = Server(process, errors, {})
        yield Server(process, errors, server.line())
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _fields(pid: int) -> list[str]:
    """The numbers of /proc/PID/stat after the name, which may itself hold spaces: see proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        children = (task / "children").read_text().split() if (task / "children").exists() else []
        for child in children:
            found += tree(int(child))
    return found


def cpu_us(pid: int) -> int:
    """Processor time of the process and its descendants so far, in microseconds; those that ended count as well."""
    return sum(sum(map(int, _fields(one)[11:15])) for one in tree(pid)) * TICK_US


def pss_kb(pid: int) -> int:
    """Memory of the process and its descendants, shared pages divided among their sharers, in KB."""
    total = 0
    for one in tree(pid):
        lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def rss_kb(pid: int) -> int:
    """The most memory that the process ever had resident, in KB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


class Strangers:
    """How many cores others kept busy meanwhile: all that was busy, less what our own processes used."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_us()
        self._own = _own_us()

    def cores(self) -> float:
        """Since this was made."""
        seconds = time.monotonic() - self._began
        others = (_busy_us() - self._busy) - (_own_us() - self._own)
        return max(0.0, others / 1_000_000 / seconds) if seconds else 0.0


def _busy_us() -> int:
    user, nice, system, _idle, _wait, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) * TICK_US


def _own_us() -> int:
    return cpu_us(os.getpid())
