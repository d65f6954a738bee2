"""Audit records on their way to the sealer: encoded at the door, completed by the writer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import orjson

from gateway.model.problem import ensure
from gateway.store.port import Record

ADDED: Final = frozenset({"ev", "op", "op_n", "op_prev", "about"})
"""Names that the writer adds; a body that has one would make the record say two things."""

BODY_BYTES_MAX: Final = 65_000
"""An entry of the log holds 65,407 bytes; the difference is for what the writer adds."""


class RecordTooLarge(ValueError):
    """The body does not fit one entry of the log: larger data belongs elsewhere, with its digest in the record."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A record whose body is JSON already. Encoding where it is submitted keeps a bad one from failing a batch."""

    event: str
    body: bytes
    operation_id: str | None


def draft(record: Record) -> Draft:
    """Encode one record. Raises RecordTooLarge, TypeError if it is not JSON, BrokenInvariantError for a taken name."""
    ensure(ADDED.isdisjoint(record.body), "a record's body leaves the writer's names alone")
    body = orjson.dumps(record.body)
    if len(body) + len(record.event) > BODY_BYTES_MAX:
        raise RecordTooLarge(f"a record of {len(body)} bytes; at most {BODY_BYTES_MAX} fit")
    return Draft(record.event, body, record.operation_id)


def drafts(records: Iterable[Record]) -> tuple[Draft, ...]:
    """Encode records in order."""
    return tuple([draft(record) for record in records])


def complete(what: Draft, op_n: int | None, op_prev: bytes | None) -> bytes:
    """The plaintext: event, place in the operation's own chain, body.

    `op_n` is None for a record of no stored operation; an id it names is then only said to be what it is about.
    """
    added: dict[str, object] = {"ev": what.event}
    if op_n is not None:
        added |= {"op": what.operation_id, "op_n": op_n, "op_prev": None if op_prev is None else op_prev.hex()}
    elif what.operation_id is not None:
        added["about"] = what.operation_id
    head = orjson.dumps(added)
    return head if what.body == b"{}" else b"%b,%b" % (head[:-1], what.body[1:])
