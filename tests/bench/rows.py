"""The rows of the table: what each measures, of which rounds, and what it should be."""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.processes import ROOT, Server, Strangers, cpu_us, environment, pss_kb, rss_kb
from tests.bench.stage import Candidate, Folder

SYNC_BYTES = 600
"""About an audit record: what the simplest durable log would append per event."""
EVENTS_PER_OPERATION = 2
"""The durable commits that somebody waits for: begin and outcome."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything. `counts` are requests per round, by connections."""

    rounds: int = 5
    counts: dict[int, int] = field(default_factory=lambda: {64: 3000, 8: 1500, 1: 500})
    held: int = 500
    stored: int = 100_000
    syncs: int = 300
    records: int = 400_000
    """In the log that is verified beside `openssl`."""
    commands: int = 40
    """Of each kind, on a host under each shell."""


QUICK = Plan(rounds=1, counts={64: 192, 8: 64, 1: 20}, held=20, stored=500, syncs=40, records=1000, commands=2)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure with its spread over the rounds. `target` with `most`: at most that, else at least."""

    number: str
    measure: str
    values: tuple[float, ...]
    target: float | None = None
    most: bool = False
    unit: str = ""
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """None where nothing was promised, or nothing could be measured."""
        if self.target is None or not self.values:
            return None
        return self.median <= self.target if self.most else self.median >= self.target


@dataclass(frozen=True, slots=True)
class Round:
    """One candidate under load once."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    strangers: float


def one_round(candidate: Candidate, connections: int, count: int, *, read: bool = False) -> Round:
    """Load, and what it cost the candidate's processes per request."""
    strangers, before = Strangers(), cpu_us(candidate.server.pid)
    seen = candidate.load(connections, count, read=read)
    spent = cpu_us(candidate.server.pid) - before
    return Round(
        seen["count"] / seen["seconds"], seen["p50_ms"], seen["p99_ms"], spent / seen["count"], strangers.cores()
    )


def rounds_of(
    candidates: Sequence[Candidate], connections: int, plan: Plan, *, read: bool = False
) -> dict[str, list[Round]]:
    """Rounds of every candidate in turn, each time in the other order, so that none has the better minutes."""
    found: dict[str, list[Round]] = {candidate.name: [] for candidate in candidates}
    for number in range(plan.rounds):
        for candidate in candidates if number % 2 else reversed(candidates):
            found[candidate.name].append(one_round(candidate, connections, plan.counts[connections], read=read))
    return found


def ratios(over: Sequence[Round], under: Sequence[Round], value: Callable[[Round], float]) -> tuple[float, ...]:
    """Round by round: what was measured side by side is compared."""
    return tuple(value(one) / value(other) for one, other in zip(over, under, strict=True) if value(other))


def sync_unit_ms(folder: Path, count: int) -> float:
    """Median time to append 600 bytes to a file on that disk and make them durable, in milliseconds."""
    took = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(count):
            began = time.perf_counter()
            os.write(file.fileno(), b"x" * SYNC_BYTES)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


@dataclass(frozen=True, slots=True)
class Syncs:
    """Calls of fsync and fdatasync: those that make a transaction durable, and all others."""

    commits: int
    others: int

    def since(self, before: "Syncs") -> "Syncs":
        return Syncs(self.commits - before.commits, self.others - before.others)


def watcher(report: Path) -> list[str]:
    """The command that writes every sync of what it runs to a report; empty where strace is missing or may not watch.

    Watching from the start lets the kernel pass over every other call: attached later, strace would stop at each of
    them, and the store would be measured at a fraction of its speed, with smaller batches.
    """
    strace = shutil.which("strace")
    if strace is None:
        return []
    only = ["--seccomp-bpf", "-e", "signal=none", "-e", "trace=fsync,fdatasync"]
    command = [strace, "-D", "-f", "-qq", "-y", *only, "-o", str(report)]
    tried = subprocess.run([*command, sys.executable, "-c", _ONE_SYNC], capture_output=True, check=False)
    return command if tried.returncode == 0 and syncs_of(report).others else []


_ONE_SYNC = "import os, tempfile; file = tempfile.TemporaryFile(); os.fsync(file.fileno())"


def syncs_of(report: Path) -> Syncs:
    """What the report tells so far. The second line of a call that another thread's interrupts is no call.

    Moving the journal into the database, once every so many pages, syncs the journal, the database, and then the head
    of the journal that begins anew. These are no commits: two hundred and one, moved thirty times, took 259 syncs of
    the journal and 30 of the database (SQLite 3.40).
    """
    lines = report.read_text(errors="replace").splitlines() if report.exists() else []
    calls = [line for line in lines if "sync(" in line]
    moved = sum(".db>" in line for line in calls)
    commits = sum(".db-wal>" in line for line in calls) - 2 * moved
    return Syncs(commits, len(calls) - commits)


def memory_per_operation_kb(candidate: Candidate, silent: Server, count: int) -> float:
    """What each operation under way adds to the gateway's memory, its caller's connection included."""
    before = pss_kb(candidate.server.pid)
    with candidate.holding(count, silent):
        return (pss_kb(candidate.server.pid) - before) / count


def verify_ratio(folder: Folder) -> tuple[float, str]:
    """`audit verify` of a folder's log against `openssl dgst` of the same files, by processor time of one process.

    What the program takes to start is left out: it says nothing about a log of any size.
    """
    log = folder.data / "audit"
    files = sorted(str(path) for path in log.rglob("*") if path.is_file())
    size = sum(Path(name).stat().st_size for name in files)
    verify = [sys.executable, "-m", "gateway", "audit", "verify"]
    order = [str(log), "--trust", str(folder.path / "trust.policy"), "--anchor", str(folder.path / "anchors")]
    checked = _cpu_seconds([*verify, *order]) - _cpu_seconds([*verify, "--help"])
    openssl = shutil.which("openssl")
    if openssl is None:
        return 0.0, "openssl is missing: apt-get install openssl"
    hashed = _cpu_seconds([openssl, "dgst", "-sha256", *files])
    note = f"{size / 1e6:.1f} MB; {size / 1e6 / checked:.0f} MB/s against {size / 1e6 / max(hashed, 1e-4):.0f} MB/s"
    return hashed / checked, note


def _cpu_seconds(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def memory_kb(candidate: Candidate) -> tuple[int, int]:
    """Shared out now, and resident at most."""
    return pss_kb(candidate.server.pid), rss_kb(candidate.server.pid)
