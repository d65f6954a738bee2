"""What is sent, in which order things are made durable, and what an attempt's own observation leads to."""

from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import Observation
from gateway.core.events import HeadSeen, Observed
from gateway.core.transitions import IllegalMoveError
from gateway.model.action import Deadlines, Resend
from gateway.model.evidence import Finding
from gateway.model.operation import Attempt, Kind, Lease, Standing, State
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    BOOT0,
    LOOK_UP,
    SAME_KEY,
    SETTLE,
    T0,
    TIMEOUT,
    UNSENT,
    Story,
    action,
    answer,
    operation,
    read,
    statuses,
)
from tests.unit.core.stories import HANDLE, followed, lost_lease, plain, reading, same_key

LIMITED = answer(429, b"", ("Retry-After", "60"))
BUSY = statuses(429)
ON_ABSENCE: dict[str, Any] = {"reconcile": SETTLE, "resend": Resend.ON_ABSENCE}


def test_a_begin_takes_a_lease_a_fence_and_the_absolute_deadline() -> None:
    story = plain().tell(BEGIN)
    live = story.operation

    assert live.attempts == (Attempt(1, Kind.SEND, 1, T0, BOOT0, "boot-1"),)
    assert live.lease == Lease("owner-1", T0 + 20_000)
    assert (live.fence, live.recovery_ms, live.begun_ms, live.next_ms) == (1, T0 + 300_000, T0, None)
    assert [(fact.event, fact.fields) for fact in story.steps[0].facts] == [
        ("attempt", {"attempt": 1, "fence": 1, "rule": None, "request": "0" * 64})
    ]


def test_people_hear_of_a_stranger_in_the_services_place_and_it_is_not_asked_again() -> None:
    story = plain().send(replace(UNSENT, untrusted=True))

    assert story.alerts == ["untrusted"]
    assert story.state is State.FAILED


def test_each_attempt_names_the_rule_that_allowed_it_and_raises_the_fence() -> None:
    story = same_key().in_doubt().look(Finding.ABSENT).tell(BEGIN, after=1)

    assert story.steps[-1].facts[0].fields == {"attempt": 2, "fence": 2, "rule": "c", "request": "0" * 64}
    assert [item.fence for item in story.operation.attempts] == [1, 2]
    assert story.operation.recovery_ms == T0 + 300_000


def test_too_late_to_start_is_never_begun() -> None:
    assert plain().tell(BEGIN, after=3600).ending == ("cancelled", "no", "unsent")


def test_looks_made_before_an_attempt_say_nothing_about_it() -> None:
    story = Story(action(**ON_ABSENCE)).in_doubt().look(Finding.ABSENT, after=31).look(Finding.ABSENT, after=1)

    assert story.tell(BEGIN).operation.looks == ()


@pytest.mark.parametrize(
    ("changes", "shown", "ending"),
    [
        ({}, answer(201), ("succeeded", "yes", "answer")),
        ({}, answer(403), ("failed", "no", "answer")),
        ({"failed": statuses(590)}, answer(590), ("failed", "yes", "answer")),
        ({}, UNSENT, ("ready", "no", None)),
        ({}, replace(UNSENT, untrusted=True), ("failed", "no", "answer")),
        ({"attempts_max": 1}, UNSENT, ("failed", "no", "unsent")),
        ({"refused_before_work": BUSY}, LIMITED, ("failed", "no", "answer")),
        ({"refused_before_work": BUSY, **ON_ABSENCE}, LIMITED, ("ready", "no", None)),
        ({}, answer(421), ("failed", "no", "answer")),
        ({**SAME_KEY}, answer(421), ("ready", "no", None)),
        ({}, TIMEOUT, ("unresolved", "no", None)),
        ({**SAME_KEY}, TIMEOUT, ("ready", "no", None)),
        ({"reconcile": LOOK_UP}, TIMEOUT, ("in_doubt", "no", None)),
        ({"reconcile": LOOK_UP, **SAME_KEY}, TIMEOUT, ("in_doubt", "no", None)),
        ({"reconcile": LOOK_UP}, answer(500), ("in_doubt", "no", None)),
        ({"reconcile": LOOK_UP}, answer(409), ("in_doubt", "no", None)),
        ({"accepted": ACCEPTED}, answer(202, b"", ("Location", HANDLE)), ("accepted", "no", None)),
        ({"accepted": ACCEPTED, "reconcile": LOOK_UP}, answer(202), ("in_doubt", "no", None)),
    ],
)
def test_a_first_attempt(changes: dict[str, Any], shown: Observation, ending: tuple[str, str, str | None]) -> None:
    story = Story(action(**changes)).send(shown)

    assert story.ending == ending
    assert story.operation.ambiguous is (ending[0] in {"unresolved", "in_doubt", "accepted"} or shown is TIMEOUT)


@pytest.mark.parametrize(
    ("shown", "ending", "ambiguous"),
    [
        (answer(201), ("succeeded", "yes", "answer"), False),
        (answer(403), ("in_doubt", "no", None), True),
        (answer(404), ("in_doubt", "no", None), True),
        (answer(409), ("in_doubt", "no", None), True),
        (answer(422), ("in_doubt", "no", None), True),
        (UNSENT, ("ready", "no", None), True),
        (TIMEOUT, ("in_doubt", "no", None), True),
    ],
)
def test_after_a_lost_answer_only_success_settles(
    shown: Observation, ending: tuple[str, str, str | None], ambiguous: bool
) -> None:
    story = same_key().in_doubt().look(Finding.ABSENT).wait(1).send(shown)

    assert story.ending == ending
    assert story.operation.ambiguous is ambiguous


def test_ambiguity_outlives_every_later_attempt_that_proves_nothing() -> None:
    story = same_key().in_doubt().look(Finding.ABSENT).wait(1).send(UNSENT).wait(1).send(UNSENT)

    assert story.operation.ambiguous
    assert story.state is State.IN_DOUBT
    assert [item.standing for item in story.operation.attempts] == [Standing.DOUBT, Standing.UNSENT, Standing.UNSENT]


def test_a_read_is_tried_within_its_budget_and_then_says_that_nothing_is_known() -> None:
    story = reading().send(TIMEOUT).wait(1).send(answer(500)).wait(1).send(TIMEOUT)

    assert story.path == ["sending", "ready", "sending", "ready", "sending", "failed"]
    assert story.ending == ("failed", "unknown", None)
    assert story.operation.failure is not None
    assert story.operation.failure.code == "no_answer"
    assert "says nothing about whether the thing exists" in story.operation.failure.detail


@pytest.mark.parametrize(
    ("last", "told", "status"), [(answer(302), "status 302", 302), (TIMEOUT, "answer: the request deadline", None)]
)
def test_a_read_that_is_over_says_what_it_got_last(last: Observation, told: str, status: int | None) -> None:
    story = reading().send(TIMEOUT).wait(1).send(answer(500)).wait(1).send(last)

    assert story.operation.failure is not None
    assert told in story.operation.failure.detail
    assert story.operation.failure.status == status


def test_a_read_that_finds_nothing_is_refused_on_any_attempt() -> None:
    assert reading().send(answer(404)).ending == ("failed", "no", "answer")
    assert reading().send(TIMEOUT).wait(1).send(answer(404)).ending == ("failed", "unknown", "answer")


def test_a_read_out_of_attempts_with_nothing_left_says_the_same() -> None:
    assert Story(read(attempts_max=2)).send(TIMEOUT).wait(1).send(UNSENT).ending == ("failed", "unknown", None)


def test_the_wait_that_a_service_asks_for_delays_the_next_attempt_up_to_half_of_the_time_left() -> None:
    rules = action(refused_before_work=BUSY, **ON_ABSENCE)

    assert Story(rules).send(LIMITED).operation.next_ms == T0 + 60_000
    assert Story(rules).send(answer(429, b"", ("Retry-After", "9999"))).operation.next_ms == T0 + 150_000


def test_the_wait_that_a_service_asks_for_delays_the_look_up_to_half_of_the_time_left() -> None:
    rules = action(reconcile=LOOK_UP)

    assert Story(rules).send(answer(503, b"", ("Retry-After", "20"))).operation.next_ms == T0 + 20_000
    assert Story(rules).send(answer(503, b"", ("Retry-After", "9999"))).operation.next_ms == T0 + 150_000


def test_a_deadline_shorter_than_the_attempt_ends_in_unresolved_and_not_in_an_error() -> None:
    rules = action(reconcile=LOOK_UP, deadlines=Deadlines(recovery_seconds=5))

    assert Story(rules).tell(BEGIN).wait(10).observe(TIMEOUT).state is State.UNRESOLVED


def test_a_handle_in_the_head_survives_a_body_that_never_comes() -> None:
    story = followed().tell(BEGIN, HeadSeen(1, HANDLE, "thing-7")).observe(TIMEOUT)

    assert (story.state, story.operation.outward_id) == (State.IN_DOUBT, "thing-7")
    assert story.operation.handle is not None
    assert story.operation.handle.url == HANDLE


def test_a_refusal_before_work_forgets_the_handle_of_its_head() -> None:
    story = Story(action(accepted=ACCEPTED, refused_before_work=BUSY, **ON_ABSENCE))

    story.tell(BEGIN, HeadSeen(1, HANDLE, None)).observe(LIMITED)

    assert (story.state, story.operation.handle) == (State.READY, None)


def test_a_head_that_comes_late_leads_to_the_handle_but_never_replaces_one() -> None:
    story = lost_lease(followed()).tell(HeadSeen(1, HANDLE, None))
    assert story.operation.next_ms == story.now.wall_ms

    again = story.tell(HeadSeen(1, f"{HANDLE}2", None)).operation.handle

    assert again is not None
    assert again.url == HANDLE


@pytest.mark.parametrize("event", [HeadSeen(2, HANDLE, None), HeadSeen(1, HANDLE, None)])
def test_a_head_of_no_attempt_or_after_its_report_is_refused(event: HeadSeen) -> None:
    story = followed().send(TIMEOUT)

    with pytest.raises(IllegalMoveError):
        story.tell(event)


@pytest.mark.parametrize("first", [UNSENT, TIMEOUT, answer(202, b"", ("Location", HANDLE))])
def test_an_attempt_reports_once(first: Observation) -> None:
    story = followed().send(first)
    before = story.operation

    with pytest.raises(IllegalMoveError):
        story.tell(Observed(1, answer(403), {}))

    assert story.operation == before


def test_what_was_seen_is_on_record_without_any_of_the_body() -> None:
    shown = replace(answer(500, b'{"secret": "s3"}'), body_sha256="ab" * 32, peer="203.0.113.7:443")
    facts = Story(action(reconcile=LOOK_UP)).send(shown).steps[-1].facts

    assert [fact.event for fact in facts] == ["observation"]
    assert facts[0].fields["body_sha256"] == "ab" * 32
    assert facts[0].fields["reading"] == "doubt"
    assert facts[0].fields["finding"] == "inconclusive"
    assert "s3" not in repr(facts)


@pytest.mark.parametrize(
    ("shown", "detail"),
    [
        (replace(UNSENT, summary="TLS to EXAMPLE failed"), "TLS to EXAMPLE failed; all 1 attempts are used."),
        (answer(403), "The service refused it with 403."),
    ],
)
def test_reasons_keep_their_capitals(shown: Observation, detail: str) -> None:
    failure = Story(action(attempts_max=1), operation()).send(shown).operation.failure

    assert failure is not None
    assert failure.detail == detail
