"""Checks a disclosure as a stranger does: with the file and a trust policy, without the log and without its keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, BinaryIO

from audit.chain import ZERO_HASH, leaf_hash
from audit.checkpoint import Checkpoint, open_checkpoint
from audit.disclosure import CutShort, DisclosedRecord, DisclosureReader, OtherFormat
from audit.keyring import WrongKey, open_record
from audit.note import BadNote, UnknownSigner
from audit.proofs import BadProof, check_inclusion
from audit.record import ENTRY_HEADER, FLAG_DAY, HEADER_BYTES, VERSION, Header, Kind
from audit.report import Exit, Finding, moment, printable, word, worst
from audit.show import BadDocument, read_document
from audit.tlog_proof import BadForm
from audit.trust import TrustPolicy

_SENTENCES = {
    Exit.TAMPERED: "the disclosure contradicts itself or its checkpoint; do not rely on it",
    Exit.INCOMPLETE: "what is here fits together, but records of the operation are missing",
    Exit.UNREADABLE: "this is not a disclosure that can be read",
    Exit.NOT_PROVEN: "it fits together, but nobody whom the policy trusts vouches for it",
}


@dataclass(frozen=True, slots=True)
class CheckedRecord:
    """A record that opened with its key and stands where its proof says. `t_ms` is Unix time in milliseconds."""

    seq: int
    t_ms: int
    leaf: bytes
    document: dict[str, Any]


@dataclass(slots=True)
class DisclosureReport:
    """What a check found. `final_n`: number of the record that ended the operation; None: there is none."""

    op: str = ""
    origin: str = ""
    size: int = 0
    records: list[CheckedRecord] = field(default_factory=list)
    announced: int = 0
    final_n: int | None = None
    witnesses: list[str] = field(default_factory=list)
    witnesses_asked: bool = False
    findings: list[Finding] = field(default_factory=list)

    def add(self, code: str, exit_code: Exit, message: str, seq: int | None = None) -> None:
        self.findings.append(Finding(code, exit_code, message, seq))

    @property
    def exit(self) -> Exit:
        return worst(finding.exit for finding in self.findings)

    @property
    def later(self) -> int:
        """How many records follow the operation's end; whether these are all of them, nothing shows."""
        return 0 if self.final_n is None else len(self.records) - self.final_n - 1

    def sentence(self) -> str:
        """The verdict in words."""
        if self.exit is not Exit.OK:
            return _SENTENCES[self.exit]
        by = f"{len(self.witnesses)} witnesses" if self.witnesses_asked else "the pinned key of the log; no witness"
        return f"these are all records of {self.op} up to its end, in the log that was signed for by {by}"

    def to_json(self) -> dict[str, Any]:
        """The report as plain data; the names are stable. Contents only where nothing contradicts them."""
        verdict = {"exit": int(self.exit), "word": word(self.exit), "sentence": self.sentence()}
        findings = [
            {"code": finding.code, "exit": int(finding.exit), "message": finding.message, "seq": finding.seq}
            for finding in self.findings
        ]
        return {
            "report": "agl1-disclosure-check-1",
            "verdict": verdict,
            "op": self.op,
            "origin": self.origin,
            "size": self.size,
            "announced": self.announced,
            "checked": len(self.records),
            "later": self.later,
            "witnesses": self.witnesses,
            "records": [
                {"seq": record.seq, "t_ms": record.t_ms, "leaf": record.leaf.hex(), "record": record.document}
                for record in self._shown()
            ],
            "findings": findings,
        }

    def to_lines(self) -> list[str]:
        """The report for people."""
        lines = [
            f"operation  {self.op or '?'}",
            f"log        {self.origin or '?'}   {self.size} entries signed for",
            f"records    {len(self.records)} of {self.announced}"
            + (f", {self.later} of them after its end; there may be more of those" if self.later else ""),
            f"witnesses  {', '.join(self.witnesses) or 'none'}" + ("" if self.witnesses_asked else " (none asked for)"),
        ]
        lines += [
            f"{record.seq:>10}  {moment(record.t_ms)}  {record.document.get('ev', '-')}" for record in self._shown()
        ]
        for finding in self.findings:
            lines.append(f"finding    {finding.message}" + ("" if finding.seq is None else f"   [seq {finding.seq}]"))
        return [printable(line) for line in (*lines, f"{word(self.exit):<10} {self.sentence()}")]

    def _shown(self) -> list[CheckedRecord]:
        return self.records if self.exit in {Exit.OK, Exit.NOT_PROVEN} else []


def check_disclosure(file: BinaryIO, policy: TrustPolicy | None, now_s: int) -> DisclosureReport:
    """Check a disclosure, reading it once; `now_s` is Unix time in seconds, for cosignatures from the future."""
    report = DisclosureReport()
    try:
        _Check(report, policy, now_s).run(file)
    except OtherFormat as error:
        report.add("format", Exit.UNREADABLE, str(error))
    except CutShort as error:
        report.add("cut", Exit.INCOMPLETE, str(error))
    except BadForm as error:
        report.add("malformed", Exit.TAMPERED, f"the file is not as the format has it: {error}")
    except OSError as error:
        report.add("unreadable", Exit.UNREADABLE, error.strerror or str(error))
    return report


class _Check:
    """One check, record by record."""

    def __init__(self, report: DisclosureReport, policy: TrustPolicy | None, now_s: int) -> None:
        self._report = report
        self._policy = policy
        self._now_s = now_s
        self._note = ""
        self._checkpoint: Checkpoint | None = None
        self._last_leaf = ZERO_HASH
        self._count = 0

    def run(self, file: BinaryIO) -> None:
        report = self._report
        reader = DisclosureReader(file)
        report.op, report.announced = reader.op, reader.count
        for record in reader.records():
            if not self._note:
                self._note = record.proof.note
                self._judge_note(self._note)
            elif record.proof.note != self._note:
                report.add("checkpoints", Exit.TAMPERED, "the proofs lead to different checkpoints", record.proof.index)
            self._record(record)
            self._last_leaf = leaf_hash(record.entry)
            self._count += 1
        if report.final_n is None:
            report.add("no_end", Exit.INCOMPLETE, "the record that ends the operation is not here")

    def _judge_note(self, note: str) -> None:
        """Read the checkpoint, then ask whether somebody trusted signed it."""
        report, policy = self._report, self._policy
        try:
            self._checkpoint = Checkpoint.from_text(note.rpartition("\n\n")[0] + "\n")
        except BadNote as error:
            report.add("bad_checkpoint", Exit.TAMPERED, f"the checkpoint: {error}")
            return
        report.origin, report.size = self._checkpoint.origin, self._checkpoint.size
        report.witnesses_asked = policy is not None and policy.asks_witnesses
        try:
            open_checkpoint(note.encode(), () if policy is None else policy.logs)
            cosigners = set() if policy is None else policy.cosigners(note, self._now_s)
        except UnknownSigner:
            text = f"no pinned key of {report.origin} signed the checkpoint"
            report.add("no_key", Exit.NOT_PROVEN, "no trust policy was given" if policy is None else text)
            return
        except BadNote as error:
            report.add("bad_checkpoint", Exit.TAMPERED, f"the checkpoint: {error}")
            return
        report.witnesses = sorted(cosigners)
        if policy is not None and not policy.met_by(cosigners):
            text = f"not enough witnesses: the policy's quorum is {policy.quorum}, {len(cosigners)} cosigned"
            report.add("quorum", Exit.NOT_PROVEN, text)

    def _record(self, record: DisclosedRecord) -> None:
        """One record: its place in the tree, its key, its text, its place in the operation."""
        header, body = Header(*ENTRY_HEADER.unpack_from(record.entry)), record.entry[HEADER_BYTES:]
        leaf = leaf_hash(record.entry)
        self._included(leaf, record, header)
        if header.version != VERSION or header.kind not in set(Kind) or header.flags not in {0, FLAG_DAY}:
            self._find("newer_format", "an entry of a newer format", header, Exit.UNREADABLE)
            return
        if header.kind != Kind.DATA or header.seq != record.proof.index:
            self._find("misplaced", f"the entry is not record {record.proof.index}", header)
            return
        try:
            document = read_document(open_record(record.proof.extra, header, body))
        except (WrongKey, BadDocument) as error:
            self._find("content", str(error), header)
            return
        checked = CheckedRecord(header.seq, header.t_ms, leaf, document)
        self._in_order(checked, header)
        self._report.records.append(checked)

    def _included(self, leaf: bytes, record: DisclosedRecord, header: Header) -> None:
        if self._checkpoint is None:
            return
        try:
            at = self._checkpoint
            check_inclusion(leaf, record.proof.index, at.size, record.proof.hashes, at.root)
        except BadProof as error:
            self._find("inclusion", str(error), header)

    def _in_order(self, record: CheckedRecord, header: Header) -> None:
        document, number = record.document, self._count
        told = document.get("op_n")
        if document.get("op") != self._report.op:
            self._find("foreign", "a record of another operation", header)
        elif type(told) is not int or told != number:
            self._find("gap", f"record {told!r} of the operation stands where {number} belongs", header)
        elif document.get("op_prev") != (None if number == 0 else self._last_leaf.hex()):
            self._find("link", f"record {number} does not follow the one before it", header)
        if document.get("op_final") is True and self._report.final_n is None:
            self._report.final_n = number

    def _find(self, code: str, message: str, header: Header, exit_code: Exit = Exit.TAMPERED) -> None:
        self._report.add(code, exit_code, message, header.seq)
