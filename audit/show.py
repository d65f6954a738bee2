"""Reading a log with an auditor's key: decrypts entries in order and gives them out as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from audit.bodies import SegmentOpen, read_body
from audit.disk import Directory
from audit.fields import Malformed
from audit.keyring import Ratchet, RecipientKey, WrongKey, open_record, open_secret
from audit.log import LogContradiction, chunks, read_open, segments
from audit.record import Entry, Fault, Kind


@dataclass(frozen=True, slots=True)
class Shown:
    """One entry in the open. `content` is the record's document, or the fields of a clear entry."""

    seq: int
    kind: Kind
    t_ms: int
    leaf: bytes
    content: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        head = {"seq": self.seq, "kind": self.kind.name.lower(), "t_ms": self.t_ms, "leaf": self.leaf.hex()}
        return head | {"record" if self.kind is Kind.DATA else "entry": self.content}


class BadDocument(ValueError):
    """A record whose plaintext is not strict JSON."""


def read_document(plaintext: bytes) -> dict[str, Any]:
    """Parse a record strictly: one JSON object, no name twice, no NaN, no lone surrogate; raise BadDocument."""
    try:
        document = json.loads(plaintext.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
        # An escaped lone surrogate survives parsing but cannot be written as UTF-8.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"not strict JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadDocument("a record must be a JSON object")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return document


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def show(
    directory: Directory,
    key: RecipientKey,
    *,
    op: str | None = None,
    clear: bool = False,
    skipped: Callable[[str], None] = lambda _: None,
) -> Iterator[Shown]:
    """The records of a log in order, decrypted.

    Checks that each record belongs to its key and its header; whether the log as a whole is untouched is what
    `verify` answers.

    Args:
        directory: the log's folder.
        key: an auditor's or recovery key.
        op: give only records of this operation.
        clear: give clear entries too.
        skipped: told why a segment or the end of the log is left out.

    Raises:
        WrongKey: no segment is sealed to this key, or a record does not decrypt.
        BadDocument: a record is not strict JSON.
        LogContradiction: a segment is damaged.
    """
    refusals: list[WrongKey] = []
    firsts = segments(directory)
    for first in firsts:
        try:
            ratchet = Ratchet.from_secret(open_secret(key, read_open(directory, first), first))
        except WrongKey as error:
            refusals.append(error)
            skipped(str(error))
            continue
        for entry in segment_entries(directory, first, last=first == firsts[-1], skipped=skipped):
            if entry.header.kind == Kind.DATA:
                record_key, ratchet = ratchet.peek()
                shown = _shown(entry, read_document_of(entry, record_key))
                if op is None or shown.content.get("op") == op:
                    yield shown
            elif clear and op is None:
                yield _shown(entry, clear_content(entry))
    if refusals and len(refusals) == len(firsts):
        raise refusals[0]


def read_document_of(entry: Entry, record_key: bytes) -> dict[str, Any]:
    """Decrypt and parse one data entry."""
    try:
        return read_document(open_record(record_key, entry.header, entry.body))
    except BadDocument as error:
        raise BadDocument(f"record {entry.header.seq}: {error}") from error


def segment_entries(directory: Directory, first: int, *, last: bool, skipped: Callable[[str], None]) -> Iterator[Entry]:
    """The whole frames of a segment; what behind them is no entry is told in the last one, an error before it."""
    for chunk in chunks(directory, first):
        yield from chunk.entries()
        fault = chunk.parsed.fault
        if fault is None or fault is Fault.ZEROS:
            continue
        if not last:
            raise LogContradiction(f"segment {first:016x} is damaged at byte {chunk.end}: {fault.value}")
        skipped(f"the log ends in bytes that are no entry, at byte {chunk.end} of segment {first:016x}: {fault.value}")


def _shown(entry: Entry, content: dict[str, Any]) -> Shown:
    header = entry.header
    return Shown(header.seq, Kind(header.kind), header.t_ms, entry.leaf, content)


def clear_content(entry: Entry) -> dict[str, Any]:
    """The fields of a clear entry as plain data; why it cannot be read if it cannot."""
    try:
        body = read_body(entry.header.kind, entry.body)
    except (Malformed, ValueError) as error:
        return {"unreadable": str(error)}
    content: dict[str, Any] = _plain(asdict(body))
    if isinstance(body, SegmentOpen):
        content["shares"] = [{"label": share.label, "key_id": share.key_id.hex()} for share in body.shares]
    return content


def _plain(value: Any) -> Any:  # noqa: ANN401 - walks whatever JSON can hold
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
