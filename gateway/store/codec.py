"""Operations to rows and back, without loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final

import orjson

from gateway.core.ids import format_id, parse_id
from gateway.model.evidence import Evidence, Finding, Look, Source
from gateway.model.operation import (
    FINAL,
    Attempt,
    Attestation,
    Executed,
    Failure,
    Handle,
    Kind,
    Lease,
    Operation,
    Outcome,
    Standing,
    State,
)
from gateway.model.step import StepSeen, StepState
from gateway.store.tables import operations

_AS_COLUMNS: Final = (
    "caller",
    "action",
    "effect",
    "definition",
    "run",
    "created_ms",
    "state",
    "version",
    "fence",
    "final_ms",
    "next_ms",
    "executed",
    "delivered",
    "superseded",
)
"""Fields of an operation that are columns of the same name; all others but the id lie in `life`."""

_LIFE: Final = tuple(item for item in fields(Operation) if item.name != "id" and item.name not in _AS_COLUMNS)
_LIFE_NAMES: Final = tuple(item.name for item in _LIFE)
_LIFE_DEFAULTS: Final = tuple(item.default for item in _LIFE)
"""The marker MISSING where there is no default; it equals no value, so that such a field is always written."""
_life_values: Final = attrgetter(*_LIFE_NAMES)

NAME_COLUMNS: Final = (
    "id",
    "caller",
    "action",
    "effect",
    "definition",
    "run",
    "key_hash",
    "fingerprint_hash",
    "conflict_hash",
    "created_ms",
)
"""What never changes once the operation is stored."""

IMAGE_COLUMNS: Final = (
    "state",
    "version",
    "fence",
    "final_ms",
    "next_ms",
    "executed",
    "outcome",
    "delivered",
    "superseded",
    "life",
)

ENCODED_COLUMNS: Final = NAME_COLUMNS + IMAGE_COLUMNS
"""Names of what `encode` makes; with `CHAIN_COLUMNS` they are the whole row."""

CHAIN_COLUMNS: Final = ("op_n", "op_prev", "last_seq", "origin")
"""Where the operation's audit records stand; written by the writer alone, no part of the operation."""

OPERATION_COLUMNS: Final = tuple(operations.c[name] for name in ("id", "life", *_AS_COLUMNS, *CHAIN_COLUMNS))
"""What to select for `decode` and `chain_of`, in this order."""

_CHAIN_AT: Final = 2 + len(_AS_COLUMNS)

Row = Sequence[Any]

_REMEMBERED: Final = 8192
"""Ids and names that are likely to be met again soon: those of the batches under way."""


# As plain text: naming or hashing a member of an enum runs Python code each time.
_OUTCOMES: Final = {str(state): Outcome.ERROR.value for state in FINAL} | {State.SUCCEEDED.value: Outcome.SUCCESS.value}
_UNSENT: Final = frozenset({State.HELD.value, State.READY.value})
_UNKNOWN: Final = Outcome.UNKNOWN.value

raw_id: Final = lru_cache(maxsize=_REMEMBERED)(parse_id)
"""`parse_id`, remembered: a write asks for the same few ids again and again."""


@lru_cache(maxsize=_REMEMBERED)
def short_hash(*parts: str) -> bytes:
    """Sixteen bytes that stand for a name in an index: too many to meet by chance or by search."""
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16]


def outcome_of(operation: Operation) -> str | None:
    """The outcome shown for it, as a column to list by. None: nothing was sent, nothing to claim."""
    state = str(operation.state)
    if state in _UNSENT and not operation.ambiguous:
        return None
    return _OUTCOMES.get(state, _UNKNOWN)


def encode_life(operation: Operation) -> bytes:
    """JSON of the fields that are no columns; those at their default are left out."""
    pairs = zip(_LIFE_NAMES, _life_values(operation), _LIFE_DEFAULTS, strict=True)
    return orjson.dumps({name: value for name, value, default in pairs if value != default})


def encode_image(operation: Operation) -> tuple[Any, ...]:
    """The values of `IMAGE_COLUMNS`."""
    return (
        # Enums go as their text: a driver may not know what to do with a subclass of str.
        str(operation.state),
        operation.version,
        operation.fence,
        operation.final_ms,
        operation.next_ms,
        str(operation.executed),
        outcome_of(operation),
        operation.delivered,
        operation.superseded,
        encode_life(operation),
    )


def encode(operation: Operation) -> tuple[Any, ...]:
    """The values of `ENCODED_COLUMNS`."""
    return (
        raw_id(operation.id),
        operation.caller,
        operation.action,
        operation.effect,
        operation.definition,
        operation.run,
        None if operation.key is None else short_hash(operation.key),
        short_hash(operation.fingerprint),
        None if operation.conflict_key is None else short_hash(operation.conflict_key),
        operation.created_ms,
        *encode_image(operation),
    )


def chain_of(row: Row) -> tuple[int, bytes | None, int | None, int | None]:
    """Number of records, newest leaf, its seq, and the number of its log."""
    op_n, op_prev, last_seq, origin = row[_CHAIN_AT : _CHAIN_AT + 4]
    return op_n, None if op_prev is None else bytes(op_prev), last_seq, origin


def decode(row: Row) -> Operation:
    """The operation of a row selected as `OPERATION_COLUMNS`."""
    life: dict[str, Any] = orjson.loads(row[1])
    for name, build in _NESTED.items():
        value = life.get(name)
        if value is not None:
            life[name] = build(value)
    columns = dict(zip(_AS_COLUMNS, row[2:_CHAIN_AT], strict=True))
    columns["state"] = State(columns["state"])
    columns["executed"] = Executed(columns["executed"])
    # SQLite has no booleans.
    columns["delivered"] = bool(columns["delivered"])
    columns["superseded"] = bool(columns["superseded"])
    return Operation(id=format_id(bytes(row[0])), **columns, **life)


def _attempt(data: dict[str, Any]) -> Attempt:
    data["kind"] = Kind(data["kind"])
    data["standing"] = Standing(data["standing"])
    return Attempt(**data)


def _evidence(data: dict[str, Any]) -> Evidence:
    data["source"] = Source(data["source"])
    data["finding"] = Finding(data["finding"])
    return Evidence(**data)


def _each(build: Callable[[dict[str, Any]], Any]) -> Callable[[list[dict[str, Any]]], tuple[Any, ...]]:
    return lambda items: tuple(build(item) for item in items)


_NESTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "lease": lambda data: Lease(**data),
    "attempts": _each(_attempt),
    "evidence": _each(_evidence),
    "looks": _each(lambda data: Look(**data)),
    "handle": lambda data: Handle(**data),
    "steps": _each(lambda data: StepSeen(**data | {"state": StepState(data["state"])})),
    "failure": lambda data: Failure(**data),
    "attestation": lambda data: Attestation(**data),
}
