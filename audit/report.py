"""What a verification found: findings, facts, the exit code they add up to, and both ways of printing them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

FINDINGS_MAX = 100
_LAST_PRINTABLE_MS = 253_402_300_799_999


class Exit(IntEnum):
    """Exit codes of `audit verify`."""

    OK = 0
    TAMPERED = 1
    USAGE = 2
    INCOMPLETE = 3
    NOT_PROVEN = 4
    UNREADABLE = 5


_PRIORITY = (Exit.TAMPERED, Exit.INCOMPLETE, Exit.UNREADABLE, Exit.NOT_PROVEN)
_SENTENCES = {
    Exit.TAMPERED: "the log contradicts itself, its keys or its anchors; do not rely on it",
    Exit.INCOMPLETE: "what is here is consistent, but part of the log is missing",
    Exit.UNREADABLE: "part of the log could not be read",
    Exit.NOT_PROVEN: "consistent as far as it goes, but nothing outside the log vouches for it",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be. `segment` is a first seq, `offset` a place in its file in bytes."""

    code: str
    exit: Exit
    message: str
    seq: int | None = None
    segment: int | None = None
    offset: int | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None


@dataclass(slots=True)
class Restart:
    """A start of the writer after the first. `unsealed_ms`: from the last seal to the last entry before it."""

    before_seq: int
    clean: bool
    unsealed_ms: int
    torn_bytes: int = 0


@dataclass(slots=True)
class AnchorState:
    """One anchor as given: the newest checkpoint of it that the log was found to contain."""

    source: str
    checked: int = 0
    newest_size: int = 0
    covers_t_ms: int = 0


@dataclass(slots=True)
class Report:
    """Everything a verification says. Sizes in entries, bytes in bytes, times in Unix milliseconds."""

    origin: str = ""
    segments: int = 0
    bytes: int = 0
    first_seq: int = 0
    end_seq: int = 0
    entries: int = 0
    data_records: int = 0
    first_t_ms: int = 0
    last_t_ms: int = 0
    coarse_time: bool = False
    root: str = ""
    seals: int = 0
    sealed_size: int = 0
    first_epoch: int = 0
    last_epoch: int = 0
    key_pinned: bool = False
    checkpoints: int = 0
    pruned_size: int = 0
    receipts_checked: int = 0
    contents_checked: int | None = None
    blobs: int = 0
    blob_bytes: int = 0
    blobs_named: int | None = None
    anchors: list[AnchorState] = field(default_factory=list)
    witnesses_asked: bool = False
    unanchored_accepted: bool = False
    tail_entries: int = 0
    unsealed_entries: int = 0
    unsealed_since_ms: int | None = None
    tail_age_ms: int = 0
    restarts: list[Restart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    findings_total: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding; past the hundredth only the worst exit code and the count are kept."""
        self.findings_total += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)
        elif _rank(finding.exit) < min(_rank(kept.exit) for kept in self.findings):
            self.findings[-1] = finding

    @property
    def exit(self) -> Exit:
        """The worst of the findings: contradiction, then gap, then unreadable, then unproven."""
        return worst(finding.exit for finding in self.findings)

    @property
    def anchored_size(self) -> int:
        return max((anchor.newest_size for anchor in self.anchors), default=0)

    def sentence(self) -> str:
        """The verdict in words."""
        if self.exit is not Exit.OK:
            return _SENTENCES[self.exit]
        if not self.anchored_size:
            return "consistent and sealed with the pinned key; NOT compared with any anchor, as you allowed"
        return f"everything up to seq {self.anchored_size - 1} is exactly what the anchors saw"

    def to_json(self) -> dict[str, Any]:
        """The report as plain data; the names are stable."""
        data = asdict(self)
        for finding in data["findings"]:
            finding["exit"] = int(finding["exit"])
        verdict = {"exit": int(self.exit), "word": word(self.exit), "sentence": self.sentence()}
        return {"report": "agl1-verify-1", "verdict": verdict, "anchored_size": self.anchored_size} | data

    def to_lines(self) -> list[str]:
        """The report for people, one fact a line."""
        faults = {finding.code for finding in self.findings if finding.exit is Exit.TAMPERED}
        chain = "broken" if faults & CHAIN_CODES else "ok" if self.entries else "nothing to check"
        root = "differs" if faults & ROOT_CODES else f"{self.root} at size {self.end_seq}"
        lines = [
            f"log        {self.origin or '?'}   format agl1   segments {self.segments}   {_bytes(self.bytes)}",
            f"records    {self.entries} entries, {self.data_records} of them records{self._span()}",
            f"chain      {chain}",
            f"root       {root}",
            f"seals      {self._seal_line(faults)}",
            f"anchors    {self._anchor_line()}",
            f"tail       {self._tail_line()}",
            f"restarts   {self._restart_line()}",
            *(f"note       {note}" for note in self.notes),
            *self._extra_lines(),
            f"not shown  {self._unseen()}; records never written; who held the keys",
        ]
        for finding in self.findings:
            lines += _finding_lines(finding)
        if self.findings_total > len(self.findings):
            lines.append(f"           and {self.findings_total - len(self.findings)} more findings")
        return [printable(line) for line in (*lines, f"{word(self.exit):<10} {self.sentence()}")]

    def _extra_lines(self) -> list[str]:
        lines = [f"receipts   {self.receipts_checked} agree with their entries"] if self.receipts_checked else []
        if self.contents_checked is not None:
            lines.append(f"contents   {self.contents_checked} records opened with the key they were committed to")
        if self.blobs or self.blobs_named:
            named = "no auditor key used" if self.blobs_named is None else f"named {self.blobs_named} times by records"
            lines.append(f"blobs      {self.blobs} files, {_bytes(self.blob_bytes)}, hashed; {named}")
        return lines

    def _unseen(self) -> str:
        if self.contents_checked is None:
            return "record contents (no auditor key used)"
        return "whether what the records say is true"

    def _span(self) -> str:
        if not self.entries:
            return ""
        return f"   seq {self.first_seq} - {self.end_seq - 1}   {moment(self.first_t_ms)} - {moment(self.last_t_ms)}"

    def _seal_line(self, faults: set[str]) -> str:
        state = "broken" if faults & SEAL_CODES else "ok" if self.key_pinned else "not checked against a pinned key"
        return (
            f"{state}; {self.seals} seals, epochs {self.first_epoch} - {self.last_epoch}, up to size {self.sealed_size}"
        )

    def _anchor_line(self) -> str:
        good = [anchor for anchor in self.anchors if anchor.newest_size]
        if not good:
            return "none" if not self.anchors else f"none of {len(self.anchors)} could be used"
        newest = max(good, key=lambda anchor: anchor.newest_size)
        return f"{len(good)} of {len(self.anchors)}; newest at size {newest.newest_size}, {moment(newest.covers_t_ms)}"

    def _tail_line(self) -> str:
        if not self.entries:
            return "none: no entry was read"
        if not self.tail_entries:
            return "none: everything is covered by a signature"
        return f"{self.tail_entries} entries, {self.tail_age_ms / 1000:.1f} s old, not covered by any signature"

    def _restart_line(self) -> str:
        unclean = [restart for restart in self.restarts if not restart.clean]
        parts = [
            f"before seq {restart.before_seq}, up to {restart.unsealed_ms / 1000:.1f} s unsealed"
            + (f", {restart.torn_bytes} torn bytes in quarantine" if restart.torn_bytes else "")
            for restart in unclean[-3:]
        ]
        return f"{len(self.restarts)}" + (f" ({len(unclean)} unclean: {'; '.join(parts)})" if unclean else "")


CHAIN_CODES = frozenset(
    {"damaged", "link", "sequence", "garbage", "repeated_segment", "misplaced", "malformed", "receipt", "commit", "tag"}
)
ROOT_CODES = frozenset({"seal_root", "checkpoint_root", "anchor_root", "range"})
SEAL_CODES = frozenset({"seal_root", "seal_signature", "seal_size", "epoch", "uncertified"})


def _rank(code: Exit) -> int:
    return _PRIORITY.index(code)


def worst(codes: Iterable[Exit]) -> Exit:
    """What several findings add up to: contradiction, then gap, then unreadable, then unproven; OK if there is none."""
    return min((code for code in codes if code is not Exit.OK), key=_rank, default=Exit.OK)


def word(code: Exit) -> str:
    return code.name.replace("_", " ")


def printable(line: str) -> str:
    """Text from a log must not steer the terminal it is shown on."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


def moment(t_ms: int) -> str:
    """A time for people, UTC to the second."""
    if not 0 <= t_ms <= _LAST_PRINTABLE_MS:
        return f"{t_ms} ms"
    return datetime.fromtimestamp(t_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bytes(count: int) -> str:
    size, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{count} B" if unit == "B" else f"{size:.2f} {unit}"


def _finding_lines(finding: Finding) -> list[str]:
    where = [
        f"{name} {value}"
        for name, value in (
            ("seq", finding.seq),
            ("segment", None if finding.segment is None else f"{finding.segment:016x}"),
            ("byte", finding.offset),
        )
        if value is not None
    ]
    lines = [f"finding    {finding.message}" + (f"   [{', '.join(where)}]" if where else "")]
    if finding.expected is not None or finding.found is not None:
        lines.append(f"           expected {finding.expected or '-'}, found {finding.found or '-'}")
    if finding.hint:
        lines.append(f"           {finding.hint}")
    return lines
