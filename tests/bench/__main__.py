"""Measures the gateway beside the shortest proxy, in one run on one machine: ratios, not speeds.

Nothing here fails for being slow. A figure under its target is marked in the table, and a person decides.
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench import audit_rows, rows, ssh_rows, stage, table
from tests.bench.processes import serving
from tests.bench.rows import Plan, Round, Row

TARGETS = {64: 0.40, 8: 0.22, 1: 0.22}
GATEWAY, CLOSING, POOLED = "gateway", "proxy, force_close", "proxy, pooled"

NO_STRACE = "strace is missing or may not watch: apt-get install strace, run as root"

Rounds = dict[str, dict[int, list[Round]]]


def throughput(rounds: Rounds) -> list[Row]:
    """Rows 1 and 2, with the pooled proxy beside them."""
    found = []
    for connections, target in TARGETS.items():
        ours, theirs = rounds[GATEWAY][connections], rounds[CLOSING][connections]
        pooled = rows.ratios(ours, rounds[POOLED][connections], lambda one: one.per_second)
        found.append(
            Row(
                "1",
                f"throughput / proxy, {connections} connections",
                rows.ratios(ours, theirs, lambda one: one.per_second),
                target,
                note=f"{sorted(pooled)[len(pooled) // 2]:.2f} of the pooled proxy",
            )
        )
    values = rows.ratios(rounds[GATEWAY][64], rounds[CLOSING][64], lambda one: one.cpu_us)
    found.append(Row("2", "CPU per operation / proxy's, 64 connections", values, 2.8, most=True))
    return found


def latency(rounds: Rounds, units_ms: Sequence[float]) -> Row:
    """Row 4."""
    unit = sum(units_ms) / len(units_ms)
    pairs = zip(rounds[GATEWAY][1], rounds[CLOSING][1], strict=True)
    values = tuple((ours.p50_ms - theirs.p50_ms) / unit for ours, theirs in pairs)
    note = f"a unit is {unit * 1000:.0f} us: append 600 B and fdatasync"
    return Row("4", "added p50 in syncs of this disk, 1 connection", values, 8, most=True, note=note)


def syncs(folder: stage.Folder, plan: Plan) -> list[Row]:
    """Row 5. An operation waits for its commits; exports, seals and the store's own housekeeping go on beside them."""
    report = folder.path / "syncs.txt"
    per_operation = Row("5", "commits per operation, 1 connection", (), 2, most=True, note=NO_STRACE)
    per_commit = Row("5", "begins and outcomes per commit, 64 connections", (), 10, note=NO_STRACE)
    under = rows.watcher(report)
    if not under:
        return [per_operation, per_commit]
    with stage.gateway(folder, under=under) as watched:
        watched.load(64, plan.counts[64] // 4)
        counted = {}
        for connections, count in ((1, plan.syncs), (64, plan.syncs * 8)):
            before = rows.syncs_of(report)
            watched.load(connections, count)
            counted[connections] = count, rows.syncs_of(report).since(before)
    count, alone = counted[1]
    note = f"and {alone.others / count:.2f} syncs beside them"
    per_operation = replace(per_operation, values=(alone.commits / count,), note=note)
    count, busy = counted[64]
    events = (count * rows.EVENTS_PER_OPERATION / busy.commits,) if busy.commits else ()
    return [per_operation, replace(per_commit, values=events, note="")]


def stored(folder: stage.Folder, fresh: stage.Candidate, plan: Plan, rounds: Rounds) -> Row:
    """Whether an operation takes longer beside many that are stored. The original folder is not in use."""
    many = stage.grow(folder, folder.path.with_name("many"), plan.stored)
    with stage.gateway(many, "gateway, many stored") as full:
        full.load(64, plan.counts[64] // 4)
        beside = rows.rounds_of([fresh, full], 64, plan)
    rounds["gateway, many stored"] = {64: beside[full.name]}
    values = rows.ratios(beside[full.name], beside[fresh.name], lambda one: one.cpu_us)
    faster = rows.ratios(beside[full.name], beside[fresh.name], lambda one: one.per_second)
    note = f"throughput {sorted(faster)[len(faster) // 2]:.2f} of an empty store's"
    return Row("", f"CPU with {plan.stored} stored / empty, 64 connections", values, 1.10, most=True, note=note)


def measure(plan: Plan, folder: Path) -> tuple[list[Row], Rounds]:
    """Everything, in a folder that is thrown away afterwards."""
    errors = folder / "errors.txt"
    with ExitStack() as stack:
        service = stack.enter_context(serving(["-m", "tests.bench.upstream"], errors))
        silent = stack.enter_context(serving(["-m", "tests.bench.upstream", "--hold"], errors))
        ports = service.said["port"], silent.said["port"]
        proxies = stack.enter_context(stage.proxies(ports[0], errors))
        home = stage.make_folder(folder / "one", *ports)
        with stage.gateway(home) as ours:
            found, rounds = _beside_proxies([ours, *proxies], home, plan)
        print("syncs")
        found += syncs(stage.make_folder(folder / "three", *ports), plan)
        print("the log")
        ratio, note = rows.verify_ratio(home)
        found.append(Row("10", "audit verify / openssl dgst, rate of one process", (ratio,), 0.20, note=note))
        found += audit_rows.measure(folder / "log", plan.records, plan.syncs)
        print("commands on a host")
        found += ssh_rows.measure(folder / "hosts", plan.commands)
        other = stage.make_folder(folder / "two", *ports)
        with stage.gateway(other) as fresh:
            fresh.load(64, plan.counts[64] // 4)
            print(f"{plan.stored} stored operations")
            found.append(stored(home, fresh, plan, rounds))
            print(f"{plan.held} operations under way")
            held = rows.memory_per_operation_kb(fresh, silent, plan.held)
            found.append(Row("9", f"memory per operation under way, of {plan.held}", (held,), 64, most=True, unit="KB"))
    return found, rounds


def _beside_proxies(candidates: list[stage.Candidate], home: stage.Folder, plan: Plan) -> tuple[list[Row], Rounds]:
    ours, closing, _ = candidates
    rounds: Rounds = {candidate.name: {} for candidate in candidates}
    for candidate in candidates:
        candidate.load(64, plan.counts[64] // 4)
    units = [rows.sync_unit_ms(home.data, plan.syncs)]
    for connections in TARGETS:
        print(f"{connections} connections")
        for name, seen in rows.rounds_of(candidates, connections, plan).items():
            rounds[name][connections] = seen
    units.append(rows.sync_unit_ms(home.data, plan.syncs))
    found = [*throughput(rounds), latency(rounds, units)]
    print("memory, reads")
    shared, resident = rows.memory_kb(ours)
    note = f"{resident / 1024:.0f} MB resident at most"
    found.append(Row("9", "memory of the server", (shared / 1024,), 200, most=True, unit="MB", note=note))
    reads = rows.rounds_of([ours, closing], 64, plan, read=True)
    values = rows.ratios(reads[ours.name], reads[closing.name], lambda one: one.per_second)
    found.append(Row("8", "reads / proxy, 64 connections", values, 0.5))
    rounds["gateway, reads"] = {64: reads[ours.name]}
    return found, rounds


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, show, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny numbers: shows that it runs, not how fast")
    parser.add_argument("--rounds", type=int, help="rounds of each candidate")
    parser.add_argument("--json", type=Path, default=Path("bench-results.json"), metavar="FILE")
    given = parser.parse_args(arguments)
    plan = rows.QUICK if given.quick else Plan(**({"rounds": given.rounds} if given.rounds else {}))
    before = machine()
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        found, rounds = measure(plan, Path(folder))
    about = before | {"load afterwards": machine()["load"]}
    table.show(found, rounds, about)
    table.write(given.json, found, rounds, about)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
