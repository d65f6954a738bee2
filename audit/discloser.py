"""Discloses one operation: reads a log once with an auditor's key and gathers that operation's records with proofs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.checkpoint import CHECKPOINT, HISTORY, Checkpoint, open_checkpoint
from audit.claims import AnchorSource, notes_in
from audit.disclosure import RECORDS_MAX, DisclosedRecord
from audit.disk import Directory, LogError
from audit.inclusion import Branch, GrowingTree
from audit.keyring import Ratchet, RecipientKey, WrongKey, open_record, open_secret
from audit.log import LogContradiction, read_open, segments
from audit.note import BadNote
from audit.record import Entry, Kind
from audit.report import Exit
from audit.show import read_document, segment_entries
from audit.tlog_proof import TlogProof
from audit.trust import TrustPolicy

_BATCH = 4096


class CannotDisclose(LogError):
    """An operation that cannot be disclosed; `exit` is the exit code that says why."""

    def __init__(self, message: str, code: Exit = Exit.NOT_PROVEN) -> None:
        super().__init__(message)
        self.exit = code


@dataclass(frozen=True, slots=True)
class Signed:
    """A checkpoint with the note that carries its signatures."""

    checkpoint: Checkpoint
    note: str


@dataclass(slots=True)
class _Found:
    """A record of the operation; `branch` is None behind the checkpoint."""

    entry: Entry
    key: bytes
    document: dict[str, Any]
    branch: Branch | None


@dataclass(slots=True)
class _Gathered:
    found: list[_Found] = field(default_factory=list)
    opened: int = 0
    refusals: list[WrongKey] = field(default_factory=list)


def newest_signed(
    directory: Directory,
    anchors: Sequence[AnchorSource] = (),
    *,
    policy: TrustPolicy | None = None,
    now_s: int = 0,
) -> Signed | None:
    """The checkpoint over most entries among the log's own and those of anchors; of two, the one read later.

    With a policy only those that a pinned key signed and enough witnesses cosigned; without one nothing is checked
    here, and the reader of the disclosure decides. What is no checkpoint is passed over. Raises OSError.
    """
    own = [AnchorSource(name, directory, name) for name in (HISTORY, CHECKPOINT)]
    newest: Signed | None = None
    for source in (*anchors, *own):
        try:
            size = source.directory.size(source.name)
        except FileNotFoundError:
            continue
        try:
            for note in notes_in(source, size):
                signed = _usable(note, policy, now_s)
                if (
                    signed
                    and signed.checkpoint.size
                    and (newest is None or signed.checkpoint.size >= newest.checkpoint.size)
                ):
                    newest = signed
        except BadNote:
            continue
    return newest


def _usable(note: bytes, policy: TrustPolicy | None, now_s: int) -> Signed | None:
    try:
        text = note.decode()
        if policy is None:
            return Signed(Checkpoint.from_text(text.rpartition("\n\n")[0] + "\n"), text)
        checkpoint = open_checkpoint(note, policy.logs)
        return Signed(checkpoint, text) if policy.met_by(policy.cosigners(text, now_s)) else None
    except (BadNote, UnicodeDecodeError):
        return None


def disclose(
    directory: Directory,
    key: RecipientKey,
    op: str,
    signed: Signed | None,
    *,
    skipped: Callable[[str], None] = lambda _: None,
) -> list[DisclosedRecord]:
    """All records of one operation, ready to be rendered. One pass; memory grows with the operation, not with the log.

    Args:
        directory: the log's folder.
        key: an auditor's or recovery key.
        op: the operation's id.
        signed: the checkpoint that the proofs lead to, see `newest_signed`.
        skipped: told what is left out and why.

    Raises:
        CannotDisclose: no such operation here, not final, not covered by a checkpoint, records missing.
        LogContradiction: the files contradict themselves or the checkpoint.
        WrongKey: a record does not open.
        OSError: the files cannot be read.
    """
    if signed is None:
        raise CannotDisclose("no usable checkpoint: nothing that others could check covers any record yet")
    gathered = _Walk(directory, key, op, signed.checkpoint).run(skipped)
    _judge_complete(gathered, op)
    return _covered(gathered.found, op, signed, skipped)


class _Walk:
    """The one pass."""

    def __init__(self, directory: Directory, key: RecipientKey, op: str, checkpoint: Checkpoint) -> None:
        self._directory = directory
        self._key = key
        self._op = op
        # An id without escapes stands in the text as it is; most records need no parsing to be passed over.
        self._needle = json.dumps(op, ensure_ascii=False).encode()
        self._checkpoint = checkpoint
        self._tree: GrowingTree | None = GrowingTree()
        self._waiting: list[bytes] = []
        self._seq = 0
        self._gathered = _Gathered()

    def run(self, skipped: Callable[[str], None]) -> _Gathered:
        firsts = segments(self._directory)
        if not firsts:
            raise CannotDisclose("the log is empty")
        for first in firsts:
            self._segment(first, last=first == firsts[-1], skipped=skipped)
        if self._tree is not None:
            raise LogContradiction(
                f"the files hold {self._seq} entries, a checkpoint of {self._checkpoint.size} exists: the log was cut"
            )
        return self._gathered

    def _segment(self, first: int, *, last: bool, skipped: Callable[[str], None]) -> None:
        opened = read_open(self._directory, first)
        if opened.origin != self._checkpoint.origin:
            raise LogContradiction(f"the log is {opened.origin}, its checkpoint that of {self._checkpoint.origin}")
        if not self._seq and first:
            # The beginning was dropped; the opening states the tree that it made.
            self._seq = first
            self._tree = GrowingTree(first, opened.range_hashes)
            self._meet()
        if first != self._seq:
            raise CannotDisclose(f"entries {self._seq} to {first - 1} are missing from the log", Exit.INCOMPLETE)
        ratchet: Ratchet | None = None
        try:
            ratchet = Ratchet.from_secret(open_secret(self._key, opened, first))
            self._gathered.opened += 1
        except WrongKey as error:
            self._gathered.refusals.append(error)
            skipped(str(error))
        for entry in segment_entries(self._directory, first, last=last, skipped=skipped):
            if entry.header.seq != self._seq:
                raise LogContradiction(f"entry {entry.header.seq} stands where {self._seq} belongs: see `audit verify`")
            record_key = b""
            if ratchet is not None and entry.header.kind == Kind.DATA:
                record_key, ratchet = ratchet.peek()
            self._pass(entry, record_key)

    def _pass(self, entry: Entry, record_key: bytes) -> None:
        document = self._wanted(entry, record_key) if record_key else None
        if document is None:
            self._waiting.append(entry.leaf)
        else:
            self._flush()
            branch = None if self._tree is None else self._tree.choose(entry.leaf)
            self._gathered.found.append(_Found(entry, record_key, document, branch))
            if len(self._gathered.found) > RECORDS_MAX:
                raise CannotDisclose(f"more than {RECORDS_MAX} records: no operation has so many")
        self._seq += 1
        if len(self._waiting) >= _BATCH or self._seq == self._checkpoint.size:
            self._flush()
        self._meet()

    def _wanted(self, entry: Entry, record_key: bytes) -> dict[str, Any] | None:
        plaintext = open_record(record_key, entry.header, entry.body)
        if self._needle not in plaintext and b"\\" not in plaintext:
            return None
        document = read_document(plaintext)
        return document if document.get("op") == self._op else None

    def _flush(self) -> None:
        if self._tree is not None:
            self._tree.extend(self._waiting)
        self._waiting = []

    def _meet(self) -> None:
        """At the checkpoint's size the branches are whole; what comes later no signature covers yet."""
        if self._tree is None or self._seq < self._checkpoint.size:
            return
        if self._tree.size != self._checkpoint.size:
            raise CannotDisclose("the newest checkpoint covers only entries that were dropped from the log")
        if self._tree.close() != self._checkpoint.root:
            raise LogContradiction(
                f"the checkpoint of {self._checkpoint.size} entries was made for others than these: see `audit verify`"
            )
        self._tree = None


def _judge_complete(gathered: _Gathered, op: str) -> None:
    """Whether the records found are the operation's 0, 1, 2 … up to its last."""
    closed = len(gathered.refusals)
    if not gathered.opened and gathered.refusals:
        raise CannotDisclose(f"this key opens no segment: {gathered.refusals[0]}")
    if not gathered.found:
        hidden = f"; {closed} segments are not sealed to this key" if closed else ""
        raise CannotDisclose(f"no record of operation {op} in the {gathered.opened} segments that can be read{hidden}")
    before: str | None = None
    for number, found in enumerate(gathered.found):
        told, link = found.document.get("op_n"), found.document.get("op_prev")
        if type(told) is not int or told < number or (told == number and link != before):
            raise LogContradiction(f"record {found.entry.header.seq} does not continue operation {op}")
        if told != number:
            reason = f"{closed} segments are not sealed to this key" if closed else "they are not in these files"
            code = Exit.NOT_PROVEN if closed else Exit.INCOMPLETE
            raise CannotDisclose(f"records {number} to {told - 1} of operation {op} are missing: {reason}", code)
        before = found.entry.leaf.hex()
    if all(found.document.get("op_final") is not True for found in gathered.found):
        event = gathered.found[-1].document.get("ev", "?")
        raise CannotDisclose(f"operation {op} is not final yet; its last record so far is {event!r}")


def _covered(found: Sequence[_Found], op: str, signed: Signed, skipped: Callable[[str], None]) -> list[DisclosedRecord]:
    final = next(number for number, item in enumerate(found) if item.document.get("op_final") is True)
    covered = [item for item in found if item.branch is not None]
    if len(covered) <= final:
        size = signed.checkpoint.size
        raise CannotDisclose(
            f"no checkpoint covers all of operation {op} yet: the newest usable one has {size} entries, "
            f"the operation ends with entry {found[final].entry.header.seq}"
        )
    if later := len(found) - len(covered):
        skipped(f"{later} records that followed the operation's end are left out: no checkpoint covers them yet")
    return [_disclosed(item, signed) for item in covered]


def _disclosed(item: _Found, signed: Signed) -> DisclosedRecord:
    hashes = () if item.branch is None else tuple(item.branch.hashes)
    proof = TlogProof(item.entry.header.seq, hashes, signed.note, item.key)
    return DisclosedRecord(item.entry.header.to_bytes() + item.entry.body, proof)
