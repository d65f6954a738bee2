"""Occupying the operation's place: won, lost, unknown, unsent, again; and where it proves nothing."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.agenda import Act, next_item
from gateway.core.events import (
    DeadlinePassed,
    FenceObserved,
    Followed,
    HeadSeen,
    Observed,
    Restarted,
)
from gateway.core.reconcile.fence import FENCES_MAX
from gateway.core.transitions import IllegalMoveError
from gateway.model.evidence import Finding
from gateway.model.operation import Kind, Standing, State
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    FENCE,
    FENCED,
    SAME_KEY,
    TIMEOUT,
    UNSENT,
    Story,
    action,
    answer,
)
from tests.unit.core.stories import HANDLE, fence_declared, fence_under_way, looked_up, lost_lease

ABSENT = Finding.ABSENT
WON, TAKEN, LOST_ANSWER = answer(201), answer(409), TIMEOUT


def act(story: Story) -> Act:
    """What comes next, a moment later."""
    return next_item(story.action, story.operation, story.wait(0.001).now).act


def test_a_fence_that_won_proves_that_it_never_ran() -> None:
    story = fence_under_way().tell(FenceObserved(2, WON, won=True))

    assert story.path == ["sending", "in_doubt", "in_doubt", "in_doubt", "failed"]
    assert story.ending == ("failed", "no", "fence")
    assert [item.standing for item in story.operation.attempts] == [Standing.FENCED, Standing.SETTLED]


def test_the_fence_is_tried_as_soon_as_a_look_finds_nothing() -> None:
    story = fence_declared().in_doubt()
    assert act(story) is Act.PROBE

    story.look(ABSENT)
    assert act(story) is Act.FENCE

    story.tell(FENCE)
    assert story.operation.attempts[-1].kind is Kind.FENCE
    assert story.operation.attempts[-1].fence == story.operation.fence == 2
    assert act(story) is Act.WAIT


def test_a_place_that_was_taken_sends_us_to_the_look_at_once() -> None:
    story = fence_under_way().tell(FenceObserved(2, TAKEN, won=False))
    assert (story.state, act(story)) == (State.IN_DOUBT, Act.PROBE)

    assert story.look(Finding.EXECUTED_OK).ending == ("succeeded", "yes", "probe")


def test_the_occupant_may_be_our_own_earlier_fence() -> None:
    story = fence_under_way().tell(FenceObserved(2, LOST_ANSWER, None))
    story.look(ABSENT, after=2).tell(FENCE, FenceObserved(3, TAKEN, won=False))
    assert story.state is State.IN_DOUBT

    assert story.look(Finding.FENCED).ending == ("failed", "no", "fence")


@pytest.mark.parametrize("shown", [LOST_ANSWER, UNSENT])
def test_a_fence_whose_answer_proves_nothing_is_followed_by_a_look(shown: Any) -> None:
    story = fence_under_way().tell(FenceObserved(2, shown, None))
    assert (story.state, act(story.wait(2))) == (State.IN_DOUBT, Act.PROBE)

    assert act(story.look(ABSENT)) is Act.FENCE


def test_a_fence_said_to_have_won_that_never_left_has_not_won() -> None:
    story = fence_under_way().tell(FenceObserved(2, UNSENT, won=True))

    assert story.state is State.IN_DOUBT
    assert story.operation.attempts[-1].standing is Standing.UNSENT


def test_fences_are_not_tried_for_ever_and_the_agenda_knows() -> None:
    story = fence_declared().in_doubt()
    for number in range(2, FENCES_MAX + 2):
        story.look(ABSENT, after=3).tell(FENCE, FenceObserved(number, LOST_ANSWER, None))
    story.look(ABSENT, after=3)

    assert act(story) is Act.WAIT
    assert act(story.wait(60)) is Act.PROBE
    with pytest.raises(IllegalMoveError):
        story.tell(FENCE)
    assert story.look(ABSENT, after=300).state is State.UNRESOLVED


def test_two_fences_are_never_under_way_at_once() -> None:
    story = fence_under_way()
    with pytest.raises(IllegalMoveError, match="under way"):
        story.tell(FENCE)

    story.look(ABSENT, after=25).tell(FENCE)

    assert [item.standing for item in story.operation.attempts] == [Standing.DOUBT, Standing.DOUBT, Standing.OPEN]


def test_a_fence_whose_process_died_is_in_doubt_and_is_looked_for() -> None:
    story = fence_under_way().tell(Restarted())

    assert story.operation.attempts[-1].standing is Standing.DOUBT
    assert act(story) is Act.PROBE


def test_a_late_winner_settles_an_unresolved_operation() -> None:
    story = fence_under_way().tell(DeadlinePassed(), after=400)
    assert story.state is State.UNRESOLVED

    assert story.tell(FenceObserved(2, WON, won=True)).ending == ("failed", "no", "fence")


@pytest.mark.parametrize("late", [False, True])
def test_an_empty_place_proves_nothing_once_the_service_knew_the_operation(late: bool) -> None:
    story = fence_under_way().look(Finding.IN_PROGRESS)
    if late:
        story.tell(DeadlinePassed(), after=400)
    story.tell(FenceObserved(2, WON, won=True))

    assert story.state is (State.UNRESOLVED if late else State.IN_DOUBT)
    assert story.operation.contradicted
    assert "contradiction" in story.alerts


def test_a_tombstone_that_we_never_laid_proves_nothing() -> None:
    story = fence_declared().in_doubt().look(Finding.FENCED)

    assert story.state is State.IN_DOUBT
    assert story.alerts == ["contradiction"]
    assert looked_up().in_doubt().look(Finding.FENCED).state is State.IN_DOUBT


def test_a_fence_that_wins_after_success_was_proven_raises_an_alarm() -> None:
    story = fence_under_way().look(Finding.EXECUTED_OK).tell(FenceObserved(2, WON, won=True))

    assert story.ending == ("succeeded", "yes", "probe")
    assert story.operation.contradicted


def test_a_fence_that_loses_after_the_end_is_only_kept() -> None:
    story = fence_under_way().look(Finding.EXECUTED_OK).tell(FenceObserved(2, TAKEN, won=False))

    assert not story.operation.contradicted


def test_nothing_is_sent_under_the_key_once_a_fence_may_stand() -> None:
    story = Story(action(reconcile=FENCED, **SAME_KEY)).in_doubt().look(ABSENT).tell(FENCE)
    story.tell(FenceObserved(2, LOST_ANSWER, None))

    for _ in range(4):
        story.look(Finding.INCONCLUSIVE, after=10)

    assert len(story.operation.sends) == 1


@pytest.mark.parametrize(
    ("fence", "ending"),
    [
        (FenceObserved(2, UNSENT, None), ("ready", "no", None)),
        (FenceObserved(2, TAKEN, won=False), ("failed", "no", "unsent")),
    ],
)
def test_when_the_last_send_turns_out_unsent_the_fence_decides_what_is_left(
    fence: FenceObserved, ending: tuple[str, str, str | None]
) -> None:
    story = lost_lease(fence_declared()).look(ABSENT).tell(FENCE).observe(UNSENT, attempt=1)
    assert (story.state, story.operation.ambiguous) == (State.IN_DOUBT, True)

    assert story.tell(fence).ending == ending


def test_an_unresolved_operation_ends_when_its_fence_turns_out_unsent_as_well() -> None:
    story = lost_lease(fence_declared()).look(ABSENT).tell(FENCE).tell(DeadlinePassed(), after=400)

    story.observe(UNSENT, attempt=1).tell(FenceObserved(2, UNSENT, None))

    assert story.ending == ("failed", "no", "unsent")


def test_a_fence_reports_while_the_operation_is_followed_by_its_handle() -> None:
    story = lost_lease(Story(action(reconcile=FENCED, accepted=ACCEPTED))).look(ABSENT).tell(FENCE)
    story.tell(HeadSeen(1, HANDLE, None), Followed(), FenceObserved(2, WON, won=True))

    assert story.state is State.ACCEPTED
    assert story.operation.contradicted


@pytest.mark.parametrize(
    "event", [FenceObserved(1, WON, won=True), Observed(2, UNSENT, {}), FenceObserved(9, WON, won=True)]
)
def test_reports_of_fences_and_sends_are_not_mixed_up(event: FenceObserved | Observed) -> None:
    story = fence_under_way()
    before = story.operation

    with pytest.raises(IllegalMoveError):
        story.tell(event)

    assert story.operation == before


def test_a_fence_reports_once() -> None:
    story = fence_under_way().tell(FenceObserved(2, LOST_ANSWER, None))

    with pytest.raises(IllegalMoveError):
        story.tell(FenceObserved(2, WON, won=True))


def test_a_fence_is_a_write_and_is_on_record_before_it_leaves() -> None:
    step = fence_under_way().steps[-1]

    assert [(fact.event, fact.fields) for fact in step.facts] == [("fence", {"attempt": 2, "fence": 2})]
    assert step.operation.lease is not None
    assert replace(step.operation, lease=None) != step.operation
    assert fence_declared().tell(BEGIN).operation.fence == 1
