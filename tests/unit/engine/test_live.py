"""What an attempt needs beside its operation."""

from gateway.core.template import Rendered
from gateway.engine.live import Live
from tests.unit.core.builders import OP_ID, action, operation

REQUEST = Rendered("POST", "https://a", (), b"")


def test_variables_are_the_arguments_and_the_names_of_the_operation() -> None:
    live = Live(operation(run="r-1", correlation_id="c-1"), action("POST"), {"name": "a"}, REQUEST)

    assert live.id == OP_ID
    assert (live.variables()["operation_id"], live.variables()["name"]) == (OP_ID, "a")
    assert (live.variables()["run"], live.variables()["correlation_id"]) == ("r-1", "c-1")


def test_variables_are_made_once_and_those_of_the_submission_are_taken() -> None:
    made = Live(operation(), action("POST"), {"name": "a"}, REQUEST)
    given = {"name": "b"}

    assert made.variables() is made.variables()
    assert Live(operation(), action("POST"), {"name": "a"}, REQUEST, filled=given).variables() is given


def test_two_lives_share_no_lock() -> None:
    one, two = [Live(operation(), action("POST"), {}, REQUEST) for _ in range(2)]

    assert one.lock is not two.lock
    assert one != two
