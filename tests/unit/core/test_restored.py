"""A restored image that seems to be unsent: it is taken for sent, with every forgotten time at its worst."""

import pytest

from gateway.core.events import Restored
from gateway.core.repeat import may_repeat
from gateway.core.transitions import IllegalMoveError
from gateway.model.action import Effect
from gateway.model.evidence import Finding
from gateway.model.operation import Executed, Standing, State
from tests.unit.core.builders import BEGIN, SAME_KEY, UNSENT, Story, action
from tests.unit.core.stories import looked_up


def test_it_may_have_been_carried_out_and_is_looked_for() -> None:
    story = looked_up().tell(Restored())

    assert story.state is State.IN_DOUBT
    assert story.operation.ambiguous
    assert [item.standing for item in story.operation.attempts] == [Standing.DOUBT]
    assert (story.operation.next_ms or 0) - story.now.wall_ms <= 1
    assert story.look(Finding.EXECUTED_OK).state is State.SUCCEEDED


def test_after_an_attempt_that_proved_nothing_left_there_may_have_been_another() -> None:
    story = looked_up().send(UNSENT)
    assert story.state is State.READY

    story.tell(Restored())

    assert [item.standing for item in story.operation.attempts] == [Standing.UNSENT, Standing.DOUBT]
    assert story.look(Finding.EXECUTED_FAILED).operation.executed is Executed.YES


def test_the_service_s_memory_of_the_key_is_counted_from_admission() -> None:
    story = Story(action(**SAME_KEY)).wait(23 * 3600 + 1)

    story.tell(Restored())

    assert story.operation.begun_ms == story.operation.created_ms
    assert not may_repeat(story.action, story.operation, story.now).allowed


def test_nobody_to_ask_means_unresolved() -> None:
    assert Story(action()).tell(Restored()).state is State.UNRESOLVED


@pytest.mark.parametrize("kind", ["begun", "in doubt", "read"])
def test_only_a_write_that_seems_to_be_unsent_is_taken_for_sent(kind: str) -> None:
    story = Story(action(effect=Effect.READ)) if kind == "read" else looked_up()
    if kind == "begun":
        story.tell(BEGIN)
    if kind == "in doubt":
        story.in_doubt()

    with pytest.raises(IllegalMoveError):
        story.tell(Restored())
