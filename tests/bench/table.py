"""Shows the rows to people and writes them for programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.rows import Round, Row

VERDICTS = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}


def show(rows: Sequence[Row], rounds: Mapping[str, Mapping[int, Sequence[Round]]], machine: Mapping[str, Any]) -> None:
    """Two tables and a line about the machine."""
    out = Console(width=150)
    table = Table("row", "measure", "median", "min - max", "target", "", "note", title="Ratios and bounds")
    for row in rows:
        low, high = (min(row.values), max(row.values)) if row.values else (0.0, 0.0)
        sign = "≤" if row.most else "≥"
        target = "" if row.target is None else f"{sign} {row.target:g} {row.unit}"
        median = f"{row.median:.3g} {row.unit}" if row.values else "not measured"
        spread = f"{low:.3g} - {high:.3g}" if len(row.values) > 1 else ""
        table.add_row(row.number, row.measure, median, spread, target, VERDICTS[row.met], row.note)
    out.print(table)
    detail = Table("candidate", "connections", "req/s", "p50 ms", "p99 ms", "CPU us/req", "strangers", title="Rounds")
    for name, by_connections in rounds.items():
        for connections, found in by_connections.items():
            middle = _medians(found)
            detail.add_row(
                name,
                str(connections),
                f"{middle['per_second']:.0f}",
                f"{middle['p50_ms']:.2f}",
                f"{middle['p99_ms']:.2f}",
                f"{middle['cpu_us']:.0f}",
                f"{middle['strangers']:.2f} cores",
            )
    out.print(detail)
    out.print(", ".join(f"{name} {value}" for name, value in machine.items()))


def _medians(found: Sequence[Round]) -> dict[str, float]:
    every = [asdict(one) for one in found]
    return {name: sorted(one[name] for one in every)[len(every) // 2] for name in every[0]}


def write(
    path: Path,
    rows: Sequence[Row],
    rounds: Mapping[str, Mapping[int, Sequence[Round]]],
    machine: Mapping[str, Any],
) -> None:
    """Everything that was measured, as JSON."""
    document = {
        "machine": dict(machine),
        "rows": [asdict(row) | {"median": row.median if row.values else None, "met": row.met} for row in rows],
        "rounds": {
            name: {str(connections): [asdict(one) for one in found] for connections, found in by_connections.items()}
            for name, by_connections in rounds.items()
        },
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
