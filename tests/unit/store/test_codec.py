from dataclasses import fields
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.ids import format_id
from gateway.model.evidence import Evidence, Look
from gateway.model.operation import (
    Attempt,
    Attestation,
    Executed,
    Failure,
    Handle,
    Lease,
    Operation,
    Outcome,
    Standing,
    State,
)
from gateway.model.step import StepSeen
from gateway.store import sqlite, statements
from gateway.store.codec import OPERATION_COLUMNS, decode, encode, encode_life, outcome_of, raw_id, short_hash
from gateway.store.inloop import Medium
from tests.unit.store.kit import operation

# Text that JSON can carry; lone surrogates are refused at the door.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(min_value=-(2**53), max_value=2**53)
ids = st.binary(min_size=16, max_size=16).map(format_id)
for kind, strategy in ((str, texts), (int, numbers)):
    st.register_type_strategy(kind, strategy)

operations = st.builds(
    Operation,
    id=ids,
    attempts=st.lists(st.builds(Attempt), max_size=3).map(tuple),
    evidence=st.lists(st.builds(Evidence), max_size=3).map(tuple),
    looks=st.lists(st.builds(Look), max_size=3).map(tuple),
    steps=st.lists(st.builds(StepSeen), max_size=3).map(tuple),
    lease=st.none() | st.builds(Lease),
    handle=st.none() | st.builds(Handle),
    failure=st.none() | st.builds(Failure),
    attestation=st.none() | st.builds(Attestation),
    # Every field, also those with a default.
    **{
        item.name: st.from_type(item.type) if isinstance(item.type, type) else st.none() | texts
        for item in fields(Operation)
        if item.name
        in {"key", "conflict_key", "run", "parent", "rule", "state", "executed", "probes", "version", "fence"}
    },
    final_ms=st.none() | numbers,
    next_ms=st.none() | numbers,
    delivered=st.booleans(),
    superseded=st.booleans(),
    contradicted=st.booleans(),
    output_valid=st.none() | st.booleans(),
)


def through_sqlite(of: Operation) -> Operation:
    medium = Medium()
    link = sqlite.link_to(medium.connect())
    link.begin()
    link.write(statements.INSERT_OPERATION, [(*encode(of), 0, None, None, None)])
    (row,) = link.fetch(statements.GET, {"id": raw_id(of.id)})
    link.close()
    return decode(row)


@given(operations)
def test_every_operation_comes_back_from_its_row_as_it_was(of: Operation) -> None:
    back = through_sqlite(of)
    assert back == of
    for item in fields(Operation):
        assert type(getattr(back, item.name)) is type(getattr(of, item.name)), item.name


def test_the_smallest_operation_comes_back() -> None:
    of = operation()
    assert through_sqlite(of) == of


def test_fields_at_their_default_take_no_space() -> None:
    assert set(orjson.loads(encode_life(operation()))) == {
        "owner",
        "fingerprint",
        "start_by_ms",
        "target_service",
        "target_url",
        "request_sha256",
    }


def test_every_field_is_a_column_or_in_life() -> None:
    columns = {column.name for column in OPERATION_COLUMNS} - {"life", "op_n", "op_prev", "last_seq", "origin"}
    life = {item.name for item in fields(Operation)} - columns
    assert columns <= {item.name for item in fields(Operation)}
    values: dict[str, Any] = dict.fromkeys(life, "x")
    assert set(orjson.loads(encode_life(operation(**values)))) == life


@pytest.mark.parametrize(
    ("state", "standing", "shown"),
    [
        (State.HELD, None, None),
        (State.READY, None, None),
        (State.READY, Standing.UNSENT, None),
        (State.READY, Standing.DOUBT, Outcome.UNKNOWN),
        (State.SENDING, Standing.OPEN, Outcome.UNKNOWN),
        (State.ACCEPTED, Standing.DOUBT, Outcome.UNKNOWN),
        (State.IN_DOUBT, Standing.DOUBT, Outcome.UNKNOWN),
        (State.UNRESOLVED, Standing.DOUBT, Outcome.UNKNOWN),
        (State.SUCCEEDED, Standing.SETTLED, Outcome.SUCCESS),
        (State.FAILED, Standing.REFUSED, Outcome.ERROR),
        (State.CANCELLED, None, Outcome.ERROR),
    ],
)
def test_outcome_column_says_what_may_be_claimed(
    state: State, standing: Standing | None, shown: Outcome | None
) -> None:
    from gateway.model.operation import Kind

    attempts = () if standing is None else (Attempt(1, Kind.SEND, 1, 0, 0, "boot", standing),)
    of = operation(state=state, attempts=attempts, executed=Executed.UNKNOWN)
    assert outcome_of(of) == (None if shown is None else shown.value)


def test_short_hashes_tell_parts_apart() -> None:
    assert len(short_hash("key")) == 16
    assert short_hash("ab", "c") != short_hash("a", "bc")
