"""Operations and lists for people: one glance says what happened and what to do next."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.core.shown import shown
from gateway.surfaces.cli.context import Exit

OUTCOME_STYLES = {"success": "green", "error": "red", "unknown": "yellow", None: "cyan"}
RESULT_LINES_MAX = 30
USUAL_WIDTH = 80
"""Characters in a line of a terminal that nobody has made larger or smaller."""


def counted(number: int, word: str) -> str:
    """A number of things: "1 file", "2 files"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _safe(text: str) -> str:
    """Text from outside: no markup, and nothing that moves the cursor or turns the reading direction."""
    return escape(shown(text))


def exit_code(document: Mapping[str, Any]) -> Exit:
    """The exit code for an operation document."""
    if document["state"] == "held":
        return Exit.HELD
    match document["outcome"]:
        case "success":
            return Exit.SUCCESS
        case "error":
            return Exit.ERROR
        case _:
            return Exit.UNKNOWN


def print_operation(out: Console, document: Mapping[str, Any]) -> None:
    """One operation whole: claim, guidance, attempts, evidence, result."""
    outcome = document["outcome"]
    word = outcome or "not sent"
    style = OUTCOME_STYLES[outcome]
    again = "  (joined to it)" if document["joined"] else "  (answered from the store)" if document["replayed"] else ""
    out.print(f"[bold {style}]{word}[/]  {_safe(document['action'])}  [dim]{document['operation_id']}[/]{again}")
    out.print(f"  state {document['state']} · executed {document['executed']}" + _basis(document))
    out.print(f"  {_safe(document['guidance'])}")
    _print_steps(out, document["steps"])
    _print_attempts(out, document["attempts"])
    _print_evidence(out, document["evidence"])
    if document["attestation"] is not None:
        word = document["attestation"]
        out.print(f"  [dim]{word['at']}[/] attested by {_safe(word['person'])}: {_safe(word['reason'])}")
    if document["error"] is not None:
        out.print(f"  [red]error[/] {_safe(document['error']['code'])}: {_safe(document['error']['detail'])}")
    if document["result"] is not None:
        _print_result(out, document)
    receipt = document["receipt"]
    if receipt is not None:
        out.print(f"  [dim]audit {_safe(receipt['origin'])} entry {receipt['seq']} leaf {receipt['leaf'][:16]}…[/]")


def _basis(document: Mapping[str, Any]) -> str:
    parts = f" · by {document['basis']}" if document["basis"] else ""
    if document["output_valid"] is False:
        parts += " · [yellow]the result does not fit its declared schema[/]"
    if document["contradicted"]:
        parts += " · [bold red]later evidence contradicts this[/]"
    return parts


def _print_steps(out: Console, steps: Sequence[Mapping[str, Any]]) -> None:
    for number, step in enumerate(steps, 1):
        ended = f", exit status {step['exit']}" if step["exit"] is not None else ""
        out.print(f"  step {number} {_safe(step['name'])}: {step['state'].replace('_', ' ')}{ended}")


def _print_attempts(out: Console, attempts: Sequence[Mapping[str, Any]]) -> None:
    for attempt in attempts:
        seen = _safe(attempt["observation"] or "under way")
        status = f" {attempt['status']}" if attempt["status"] is not None else ""
        out.print(f"  [dim]{attempt['kind']} {attempt['number']}[/]{status}: {seen} [dim]({attempt['standing']})[/]")


def _print_evidence(out: Console, evidence: Sequence[Mapping[str, Any]]) -> None:
    for item in evidence:
        times = f" x{item['count']}" if item["count"] > 1 else ""
        out.print(f"  [dim]{item['at']}[/] {item['source']}: {item['finding']}{times} [dim]{_safe(item['detail'])}[/]")


def _print_result(out: Console, document: Mapping[str, Any]) -> None:
    text = orjson.dumps(document["result"], option=orjson.OPT_INDENT_2).decode()
    lines = text.splitlines()
    noun = "host" if document["target"]["url"].startswith("ssh://") else "service"
    out.print(f"  [dim]result, as the {noun} sent it:[/]")
    for line in lines[:RESULT_LINES_MAX]:
        out.print(f"    {_safe(line)}")
    if len(lines) > RESULT_LINES_MAX:
        out.print(f"    [dim]… {len(lines) - RESULT_LINES_MAX} more lines; use --json[/]")


def print_operations(out: Console, documents: Sequence[Mapping[str, Any]]) -> None:
    """A table of operations."""
    if not documents:
        out.print("No operations.")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("operation", "action", "state", "outcome", "executed", "run", "caller"):
        # An id in two halves cannot be copied. On the narrowest of screens nothing would be left for its state.
        whole = heading == "operation" and out.width >= USUAL_WIDTH
        table.add_column(heading, overflow="fold", no_wrap=whole)
    for document in documents:
        style = OUTCOME_STYLES[document["outcome"]]
        table.add_row(
            document["operation_id"],
            _safe(document["action"]),
            document["state"],
            f"[{style}]{document['outcome'] or 'not sent'}[/]",
            document["executed"],
            _safe(document["run"] or ""),
            _safe(document["caller"]),
        )
    out.print(table)


def print_table(out: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """A plain table, or a sentence when there is nothing."""
    if not rows:
        out.print(empty)
        return
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(_safe(cell) for cell in row))
    out.print(table)
