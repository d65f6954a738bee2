"""What really happened and what was said about it, side by side: the checker reads nothing else."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sent:
    """First bytes of a write (or of a read that is an operation) left: by whom, for which attempt, how durable."""

    at: float
    op: str
    what: str
    """`send`, `fence` or `cancel`."""
    number: int
    """Of the attempt that the stored row named as the one under way at that moment."""
    head: int
    """Entries that the committed log held at that moment."""
    request: bytes
    process: int


@dataclass(slots=True)
class Ended:
    """An attempt's observation was handed to a living process."""

    at: float
    op: str
    what: str
    number: int
    process: int
    fate: str
    closed: float | None
    unsent: bool


@dataclass(frozen=True, slots=True)
class Effect:
    """An entry of the service's ledger."""

    at: float
    op: str
    copy: int
    """Which send it came from, by place in `History.sent`."""
    repeated: bool
    """The second copy that something between us and the service made of one request."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer that a client got."""

    at: float
    op: str
    who: str
    state: str
    outcome: str | None
    executed: str
    version: int
    contradicted: bool
    basis: str | None


@dataclass(slots=True)
class History:
    """One run."""

    sent: list[Sent] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)
    """Operation to the status with which its command ended on a host."""
    said: list[Said] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)
    """Everything else worth a line in a timeline: crashes, clocks, refusals; (seconds, text)."""
    broken: list[str] = field(default_factory=list)
    """What was seen to be wrong while it happened."""
    cells: Counter[str] = field(default_factory=Counter)
    of_key: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """(caller, action, key) to the operation that was first answered under it."""
    kind_of: dict[str, str] = field(default_factory=dict)
    """Operation to the name of its kind."""
    nothing_created: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    """(seconds, action, arguments) of submissions of which the gateway said that nothing came to be."""
    log: list[dict[str, Any]] = field(default_factory=list)
    """Audit records in order, decrypted, with their seq."""
    killed: dict[int, float] = field(default_factory=dict)
    """Process number to the second of its death."""

    def reached(self, cell: str) -> None:
        self.cells[cell] += 1

    def timeline(self, op: str | None = None) -> list[str]:
        """Everything about one operation (or all), in order of time."""
        lines: list[tuple[float, str]] = list(self.told)
        for place, item in enumerate(self.sent):
            if op in {None, item.op}:
                lines.append((item.at, f"{short(item.op)} bytes of {item.what} {item.number} left (copy {place})"))
        for end in self.ended:
            if op in {None, end.op}:
                note = "nothing left" if end.unsent else f"closed {end.closed}"
                lines.append((end.at, f"{short(end.op)} {end.what} {end.number} ended: {end.fate}, {note}"))
        for effect in self.effects:
            if op in {None, effect.op}:
                again = ", made by something on the way" if effect.repeated else ""
                lines.append((effect.at, f"{short(effect.op)} EFFECT of copy {effect.copy}{again}"))
        for said in self.said:
            if op in {None, said.op}:
                text = f"{said.state} v{said.version}, outcome {said.outcome}, executed {said.executed} ({said.basis})"
                lines.append((said.at, f"{short(said.op)} {said.who} was told: {text}"))
        for record in self.log:
            if op in {None, record.get("op")} and record.get("op") is not None:
                named = {name: record[name] for name in _NAMED if name in record}
                lines.append((record["s"], f"{short(record['op'])} log {record['seq']}: {record['ev']} {named}"))
        return [f"{at:10.3f}  {text}" for at, text in sorted(lines, key=lambda line: line[0])]


_NAMED = ("attempt", "state", "reading", "source", "finding", "detail", "executed", "reason", "rule")


def short(op: str) -> str:
    return f"..{op[-6:]}"
