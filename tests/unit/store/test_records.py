import orjson
import pytest

from gateway.model.problem import BrokenInvariantError
from gateway.store.port import Record
from gateway.store.records import ADDED, BODY_BYTES_MAX, RecordTooLarge, complete, draft
from tests.unit.store.kit import new_id


def test_writer_adds_event_and_place_in_front_of_the_body() -> None:
    name = new_id()
    made = complete(draft(Record("ended", {"outcome": "success"}, name)), 3, b"\xab" * 32)
    assert list(orjson.loads(made).items()) == [
        ("ev", "ended"),
        ("op", name),
        ("op_n", 3),
        ("op_prev", "ab" * 32),
        ("outcome", "success"),
    ]


def test_first_record_of_an_operation_has_no_predecessor() -> None:
    made = orjson.loads(complete(draft(Record("admitted", {}, new_id())), 0, None))
    assert (made["op_n"], made["op_prev"]) == (0, None)


@pytest.mark.parametrize("name", sorted(ADDED))
def test_body_with_a_name_of_the_writers_is_a_broken_invariant(name: str) -> None:
    with pytest.raises(BrokenInvariantError):
        draft(Record("event", {name: 1}))


def test_body_is_bounded_by_what_an_entry_of_the_log_holds() -> None:
    from audit.record import MAX_PLAINTEXT_BYTES

    name, event = new_id(), "ev"
    overhead = len(b'{"t":""}') + len(event)
    largest = draft(Record(event, {"t": "x" * (BODY_BYTES_MAX - overhead)}, name))
    assert len(complete(largest, 2**31, b"\xff" * 32)) <= MAX_PLAINTEXT_BYTES
    with pytest.raises(RecordTooLarge):
        draft(Record(event, {"t": "x" * (BODY_BYTES_MAX - overhead + 1)}, name))
