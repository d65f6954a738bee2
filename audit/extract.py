"""Gives out a whole log as plain data, entry by entry, each marked with how far it was verified before it is given."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from audit.bodies import SegmentOpen
from audit.chain import CompactRange
from audit.disk import Directory
from audit.keyring import Ratchet, RecipientKey, WrongKey, open_record, open_secret
from audit.log import LogContradiction, read_open, segments
from audit.record import Entry, Kind
from audit.report import Exit, Report
from audit.show import BadDocument, clear_content, read_document, segment_entries

UNVERIFIED = "unverified"
SEALED = "sealed"
ANCHORED = "anchored"
_CHANGED = "the files changed after they were verified; do not rely on what was given out as verified"


@dataclass(frozen=True, slots=True)
class Extracted:
    """One entry.

    `verified`: `anchored` if the log was verified OK and a trusted anchor covers the entry, `sealed` if it was and
    only a seal of a certified key does, else `unverified`. `content` is the record's document or the fields of a clear
    entry; None: no key opens it. `problem` says why a record could not be opened although it should.
    """

    seq: int
    kind: str
    t_ms: int
    leaf: bytes
    verified: str
    content: dict[str, Any] | None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        head = {"seq": self.seq, "kind": self.kind, "t_ms": self.t_ms, "leaf": self.leaf.hex()}
        shown = head | {"verified": self.verified}
        if self.problem is not None:
            return shown | {"problem": self.problem}
        if self.content is None:
            return shown
        return shown | {"record" if self.kind == "data" else "entry": self.content}


def extract(
    directory: Directory,
    key: RecipientKey | None,
    report: Report | None,
    *,
    skipped: Callable[[str], None] = lambda _: None,
) -> Iterator[Extracted]:
    """Every entry in order, one at a time.

    Args:
        directory: the log's folder.
        key: opens records; without one, or where it opens none, only what is in clear is given.
        report: what `verify` said of this log just before; None: everything is given as unverified.
        skipped: told what is left out.

    Raises:
        LogContradiction: a segment is damaged, or the files changed after they were verified.
        OSError: they cannot be read.
    """
    firsts = segments(directory)
    same = _SameFiles(report)
    for first in firsts:
        opened = read_open(directory, first)
        same.enter(first, opened)
        ratchet = _ratchet(key, opened, first, skipped)
        for entry in segment_entries(directory, first, last=first == firsts[-1], skipped=skipped):
            same.meet(entry)
            if entry.header.kind != Kind.DATA:
                yield _given(entry, report, clear_content(entry))
                continue
            record_key = None
            if ratchet is not None:
                record_key, ratchet = ratchet.peek()
            yield _record(entry, report, record_key)
    same.end()


class _SameFiles:
    """Whether the entries given out are those that were verified: the same tree, at the size that was verified."""

    def __init__(self, report: Report | None) -> None:
        self._report = report if report is not None and report.exit is Exit.OK else None
        self._tree: CompactRange | None = None
        self._met = False

    def enter(self, first: int, opened: SegmentOpen) -> None:
        if self._tree is None:
            self._tree = CompactRange(first, opened.range_hashes)

    def meet(self, entry: Entry) -> None:
        report = self._report
        if report is None or self._tree is None or self._met:
            return
        self._tree.append(entry.leaf)
        if self._tree.size == report.end_seq:
            self._met = True
            if base64.b64encode(self._tree.root()).decode() != report.root:
                raise LogContradiction(_CHANGED)

    def end(self) -> None:
        if self._report is not None and self._report.entries and not self._met:
            raise LogContradiction(_CHANGED)


def _ratchet(
    key: RecipientKey | None, opened: SegmentOpen, first: int, skipped: Callable[[str], None]
) -> Ratchet | None:
    if key is None:
        return None
    try:
        return Ratchet.from_secret(open_secret(key, opened, first))
    except WrongKey as error:
        skipped(str(error))
        return None


def _record(entry: Entry, report: Report | None, record_key: bytes | None) -> Extracted:
    if record_key is None:
        return _given(entry, report, None)
    try:
        return _given(entry, report, read_document(open_record(record_key, entry.header, entry.body)))
    except (WrongKey, BadDocument) as error:
        # Of what does not open nothing is vouched for, whatever covers it.
        return Extracted(entry.header.seq, "data", entry.header.t_ms, entry.leaf, UNVERIFIED, None, str(error))


def _given(entry: Entry, report: Report | None, content: dict[str, Any] | None) -> Extracted:
    header = entry.header
    try:
        kind = Kind(header.kind).name.lower()
    except ValueError:
        kind = f"kind {header.kind}"
    return Extracted(header.seq, kind, header.t_ms, entry.leaf, verified_as(header.seq, report), content)


def verified_as(seq: int, report: Report | None) -> str:
    """How far a verification vouches for the entry of that seq: nothing of a log that is not OK counts as verified."""
    if report is None or report.exit is not Exit.OK:
        return UNVERIFIED
    if seq < report.anchored_size:
        return ANCHORED
    return SEALED if seq < report.sealed_size else UNVERIFIED
