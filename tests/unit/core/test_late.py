"""Answers that arrive after their lease was lost: kept, judged by the present owner, never a way to flip an end."""

import pytest

from adapters.contract import Observation
from gateway.core.agenda import Act, next_item
from gateway.core.events import Attested, Followed, HeadSeen
from gateway.model.evidence import Finding
from gateway.model.operation import Standing, State
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    LOOK_UP,
    SAME_KEY,
    TIMEOUT,
    UNSENT,
    Story,
    action,
    answer,
    statuses,
)
from tests.unit.core.stories import (
    ATTEST_ERROR,
    ATTEST_SUCCESS,
    HANDLE,
    followed,
    lost_lease,
    plain,
    repeating,
    same_key,
)

ACCEPTED_ANSWER = answer(202, b"", ("Location", HANDLE))


@pytest.mark.parametrize(
    ("shown", "ending"),
    [
        (answer(201), ("succeeded", "yes", "answer")),
        (answer(403), ("failed", "no", "answer")),
        (answer(500), ("in_doubt", "no", None)),
        (answer(590), ("failed", "yes", "answer")),
        (TIMEOUT, ("in_doubt", "no", None)),
        # Nothing of it left, so the first attempt may be made after all.
        (UNSENT, ("ready", "no", None)),
    ],
)
def test_while_in_doubt(shown: Observation, ending: tuple[str, str, str | None]) -> None:
    story = lost_lease(Story(action(reconcile=LOOK_UP, failed=statuses(590)))).observe(shown)

    assert story.ending == ending


@pytest.mark.parametrize(
    ("shown", "ending"),
    [
        (answer(201), ("succeeded", "yes", "answer")),
        (answer(403), ("failed", "no", "answer")),
        (answer(429), ("failed", "no", "answer")),
        (UNSENT, ("failed", "no", "unsent")),
        (TIMEOUT, ("unresolved", "no", None)),
        (answer(500), ("unresolved", "no", None)),
    ],
)
def test_while_unresolved(shown: Observation, ending: tuple[str, str, str | None]) -> None:
    story = lost_lease(Story(action(refused_before_work=statuses(429))))
    assert story.state is State.UNRESOLVED

    assert story.observe(shown).ending == ending


@pytest.mark.parametrize(
    ("shown", "ambiguous", "next_state"),
    [(UNSENT, False, State.SENDING), (TIMEOUT, True, State.SENDING), (answer(403), False, State.FAILED)],
)
def test_while_a_repeat_waits(shown: Observation, ambiguous: bool, next_state: State) -> None:
    story = repeating().observe(shown)
    assert (story.state, story.operation.ambiguous) == (State.READY, ambiguous)

    assert story.tell(BEGIN, after=1).state is next_state


def test_while_a_repeat_is_under_way_a_refusal_of_the_first_is_only_a_clue() -> None:
    story = repeating().tell(BEGIN, after=1).observe(answer(403), attempt=1)

    assert story.state is State.SENDING
    assert story.operation.attempts[0].standing is Standing.DOUBT


def test_while_a_repeat_is_under_way_a_success_of_the_first_ends_it_and_the_repeats_answer_is_kept() -> None:
    story = repeating().tell(BEGIN, after=1).observe(answer(201), attempt=1)
    assert story.ending == ("succeeded", "yes", "answer")
    assert story.operation.lease is None

    story.observe(TIMEOUT, attempt=2)

    assert story.ending == ("succeeded", "yes", "answer")
    assert not story.operation.contradicted


@pytest.mark.parametrize("unresolved", [False, True])
def test_a_late_202_is_followed(unresolved: bool) -> None:
    story = lost_lease(Story(action(accepted=ACCEPTED)) if unresolved else followed()).observe(ACCEPTED_ANSWER)
    item = next_item(story.action, story.operation, story.now)

    assert (story.state, item.act) == ((State.UNRESOLVED, Act.POLL) if unresolved else (State.IN_DOUBT, Act.FOLLOW))


def test_a_late_refusal_forgets_the_handle_of_its_head() -> None:
    story = lost_lease(followed()).tell(HeadSeen(1, HANDLE, None)).observe(answer(403))

    assert story.ending == ("failed", "no", "answer")
    assert story.operation.handle is None


def test_a_refusal_of_what_is_being_followed_is_a_contradiction() -> None:
    story = lost_lease(followed()).tell(HeadSeen(1, HANDLE, None), Followed()).observe(answer(403))

    assert (story.state, story.operation.contradicted) == (State.ACCEPTED, True)
    assert story.operation.ambiguous


END: list[tuple[str, Attested, Observation, bool]] = [
    ("attested error", ATTEST_ERROR, answer(201), True),
    ("attested error", ATTEST_ERROR, ACCEPTED_ANSWER, True),
    ("attested error", ATTEST_ERROR, answer(409), True),
    ("attested error", ATTEST_ERROR, answer(403), False),
    ("attested error", ATTEST_ERROR, TIMEOUT, False),
    ("attested error", ATTEST_ERROR, UNSENT, False),
    ("attested success", ATTEST_SUCCESS, answer(201), False),
    ("attested success", ATTEST_SUCCESS, TIMEOUT, False),
    ("attested success", ATTEST_SUCCESS, UNSENT, True),
    ("attested success", ATTEST_SUCCESS, answer(403), True),
    ("attested error", ATTEST_ERROR, answer(590), True),
    ("attested success", ATTEST_SUCCESS, answer(590), True),
]


@pytest.mark.parametrize(("name", "event", "shown", "contradicted"), END)
def test_after_the_end_the_state_stays_and_a_contradiction_alarms(
    name: str, event: Attested, shown: Observation, contradicted: bool
) -> None:
    story = lost_lease(Story(action(accepted=ACCEPTED, in_flight=statuses(409), failed=statuses(590)))).tell(event)
    ending = story.ending

    story.observe(shown)

    assert story.ending == ending
    assert story.operation.contradicted is contradicted
    assert story.alerts == ["unresolved"] + ["contradiction"] * contradicted


def test_a_success_that_another_attempt_may_have_had_is_not_contradicted() -> None:
    twice = lost_lease(Story(action(reconcile=LOOK_UP, **SAME_KEY)))
    twice.look(Finding.ABSENT).wait(1).send(TIMEOUT).look(Finding.EXECUTED_OK)

    assert not twice.observe(UNSENT, attempt=1).operation.contradicted


def test_a_late_refusal_before_work_makes_way_for_a_repeat() -> None:
    story = lost_lease(same_key())
    story.action = action(reconcile=LOOK_UP, refused_before_work=statuses(429), **SAME_KEY)

    story.observe(answer(429, b"", ("Retry-After", "9")))

    assert (story.state, story.operation.ambiguous) == (State.READY, False)
    assert story.operation.next_ms == story.now.wall_ms + 9_000


def test_the_evidence_of_a_late_answer_names_its_attempt() -> None:
    evidence = lost_lease(plain()).observe(TIMEOUT).operation.evidence

    assert [(item.source.value, item.attempt) for item in evidence] == [("restart", None), ("attempt", 1)]
