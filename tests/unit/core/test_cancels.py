"""A command that is no longer wanted: fenced or signalled, recorded, and never taken for ended by the wish alone."""

from typing import Any

import pytest

from gateway.core.cancels import CANCELS_MAX, may_cancel
from gateway.core.events import CancelBegun, CancelObserved, FenceBegun, LeaseLost, Observed, Restarted
from gateway.core.judge import claim
from gateway.core.repeat import may_repeat
from gateway.core.transitions import IllegalMoveError
from gateway.model.action import Marker
from gateway.model.evidence import Finding, Source
from gateway.model.operation import Kind, Outcome, Standing, State
from tests.unit.core.builders import BEGIN, FENCED, OP_ID, TIMEOUT, UNSENT, Story, action, answer, statuses
from tests.unit.core.stories import CANCEL, looked_up, on_host, unresolved_on_host

SIGNALLED = answer(0, summary="the host noted the wish")


def running() -> Story:
    """The session was lost; the host says that the command is at work."""
    return on_host().in_doubt().look(Finding.IN_PROGRESS)


def test_a_command_that_had_not_begun_never_ran_and_never_will() -> None:
    story = on_host().in_doubt().tell(CANCEL, CancelObserved(2, answer(0), fenced=True))

    assert story.ending == ("failed", "no", "fence")
    assert [item.standing for item in story.operation.attempts] == [Standing.FENCED, Standing.SETTLED]
    assert story.operation.evidence[-1].source is Source.CANCEL


def test_a_signal_is_no_verdict_and_the_host_is_asked_at_once() -> None:
    story = running().tell(CANCEL, CancelObserved(2, SIGNALLED, fenced=False), after=1)

    assert story.state is State.IN_DOUBT
    assert story.operation.next_ms == story.now.wall_ms
    assert claim(story.operation).outcome is Outcome.UNKNOWN
    assert story.operation.evidence[-1].detail == "the host noted the wish"


@pytest.mark.parametrize(
    ("finding", "ending"),
    [(Finding.EXECUTED_OK, ("succeeded", "yes", "probe")), (Finding.EXECUTED_FAILED, ("failed", "yes", "probe"))],
)
def test_a_cancelled_command_ends_as_its_record_says(finding: Finding, ending: tuple[str, str, str]) -> None:
    story = running().tell(CANCEL, CancelObserved(2, SIGNALLED, fenced=False)).look(finding)

    assert story.ending == ending
    assert not story.operation.contradicted


def test_the_answer_of_the_attempt_counts_while_its_cancel_is_under_way() -> None:
    """The command dies of the signal, and its exit status comes before the cancel's own answer."""
    story = Story(action(reconcile=FENCED, marker=Marker.RUNNER, failed=statuses(143)))
    story.tell(BEGIN, CANCEL).observe(answer(143), attempt=1)
    assert story.ending == ("failed", "yes", "answer")

    story.tell(CancelObserved(2, SIGNALLED, fenced=False))
    assert story.ending == ("failed", "yes", "answer")
    assert not story.operation.contradicted


def test_a_cancel_that_won_while_the_attempt_was_dialling_ends_when_the_attempt_has_reported() -> None:
    story = on_host().tell(BEGIN, CANCEL, CancelObserved(2, answer(0), fenced=True))
    assert story.state is State.SENDING

    story.observe(UNSENT, attempt=1)
    assert story.ending == ("failed", "no", "unsent")


@pytest.mark.parametrize("seen", [None, UNSENT, TIMEOUT])
def test_whatever_became_of_the_cancel_there_is_no_further_attempt(seen: Any) -> None:
    """An attempt that provably left nothing would otherwise be made again, against what the caller wants."""
    story = on_host().tell(BEGIN, CANCEL)
    if seen is not None:
        story.tell(CancelObserved(2, seen, None))
    story.observe(UNSENT, attempt=1)

    assert story.ending == ("failed", "no", "unsent")
    permission = may_repeat(story.action, story.operation, story.now)
    assert (permission.allowed, permission.reason) == (False, "it was cancelled")


def test_a_cancel_whose_answer_is_lost_leaves_the_doubt_to_the_host() -> None:
    story = on_host().in_doubt().tell(CANCEL, CancelObserved(2, TIMEOUT, None))
    assert (story.state, story.operation.attempts[-1].standing) == (State.IN_DOUBT, Standing.DOUBT)

    story.look(Finding.FENCED)
    assert story.ending == ("failed", "no", "fence")


def test_a_restart_during_a_cancel_leaves_it_in_doubt_and_looks() -> None:
    story = on_host().in_doubt().tell(CANCEL, Restarted())

    assert (story.state, story.operation.attempts[-1].standing) == (State.IN_DOUBT, Standing.DOUBT)
    assert story.operation.next_ms == story.now.wall_ms


def test_an_unresolved_command_is_settled_by_the_cancel_that_fenced_it() -> None:
    story = unresolved_on_host().tell(CANCEL, CancelObserved(2, answer(0), fenced=True))

    assert story.ending == ("failed", "no", "fence")


def test_an_unresolved_command_is_looked_at_once_more_after_its_cancel() -> None:
    story = unresolved_on_host().tell(CANCEL, CancelObserved(2, SIGNALLED, fenced=False))

    assert (story.state, story.operation.next_ms) == (State.UNRESOLVED, story.now.wall_ms)


def test_a_fence_where_the_command_was_seen_at_work_is_a_contradiction() -> None:
    story = running().tell(CANCEL, CancelObserved(2, answer(0), fenced=True))

    assert (story.state, story.operation.contradicted, story.alerts) == (State.IN_DOUBT, True, ["contradiction"])


def test_a_fence_that_comes_to_light_after_a_success_is_a_contradiction() -> None:
    story = on_host().in_doubt().tell(CANCEL).look(Finding.EXECUTED_OK)
    story.tell(CancelObserved(2, answer(0), fenced=True))

    assert (story.state, story.operation.contradicted) == (State.SUCCEEDED, True)


def test_the_wish_is_on_record_before_anything_leaves() -> None:
    story = on_host().in_doubt().tell(CancelBegun("ann", "KILL"))

    (fact,) = story.steps[-1].facts
    assert (fact.event, fact.fields["actor"], fact.fields["signal"], fact.fields["attempt"]) == (
        "cancel", "ann", "KILL", 2,
    )  # fmt: skip
    assert story.operation.attempts[-1].kind is Kind.CANCEL
    assert story.operation.fence == story.operation.attempts[-1].fence


def test_a_cancel_is_not_begun_while_one_is_under_way_nor_for_ever() -> None:
    story = running().tell(CANCEL)
    with pytest.raises(IllegalMoveError, match="one is under way"):
        story.tell(CANCEL)

    for number in range(2, CANCELS_MAX + 1):
        story.tell(CancelObserved(number, SIGNALLED, fenced=False), CANCEL)
    story.tell(CancelObserved(CANCELS_MAX + 1, SIGNALLED, fenced=False))
    with pytest.raises(IllegalMoveError, match="20 times"):
        story.tell(CANCEL)


def test_only_a_runner_can_be_told() -> None:
    assert not may_cancel(looked_up().action, looked_up().in_doubt().operation)
    with pytest.raises(IllegalMoveError, match="may have been carried out"):
        looked_up().in_doubt().tell(CANCEL)


def test_the_lease_of_the_attempt_and_the_fence_go_their_own_way() -> None:
    story = on_host().tell(BEGIN, CANCEL)
    assert story.operation.lease is not None

    story.tell(LeaseLost(), after=30).look(Finding.ABSENT).tell(FenceBegun(20.0))
    assert [item.kind for item in story.operation.attempts] == [Kind.SEND, Kind.CANCEL, Kind.FENCE]


def test_an_answer_of_the_attempt_is_told_apart_from_that_of_its_cancel() -> None:
    story = on_host().tell(BEGIN, CANCEL)

    with pytest.raises(IllegalMoveError, match="has no send to report"):
        story.tell(Observed(2, TIMEOUT, {"operation_id": OP_ID}))
