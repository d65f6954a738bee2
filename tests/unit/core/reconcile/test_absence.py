"""Absence now is not absence later: what makes it conclusive, and everything that does not."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.draft import EVIDENCE_MAX
from gateway.core.events import HeadSeen, LeaseLost, Observed, Polled, Restarted, Sighting
from gateway.core.reconcile.absence import known_to_service, settled_at, stamp_closed, weigh
from gateway.model.action import Resend, Settle
from gateway.model.evidence import Evidence, Finding, Source
from gateway.model.operation import Attempt, Handle, Kind, Standing, State
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    BOOT0,
    LOOK_UP,
    SETTLE,
    T0,
    TIMEOUT,
    Story,
    action,
    answer,
    now,
    operation,
    seen,
    statuses,
)
from tests.unit.core.stories import HANDLE, lost_lease

ABSENT = Finding.ABSENT


def settled(**changes: Any) -> Story:
    return Story(action(reconcile=SETTLE, **changes))


def test_absence_is_conclusive_after_the_settle_time_and_two_looks_that_agree() -> None:
    story = settled().in_doubt()

    story.look(ABSENT, after=1).look(ABSENT, after=28.9).look(ABSENT, after=0.1).look(ABSENT, after=1)

    assert story.path == ["sending", "in_doubt", "in_doubt", "in_doubt", "in_doubt", "failed"]
    assert story.ending == ("failed", "no", "absence")
    assert story.operation.attempts[0].standing is Standing.ABSENT


@pytest.mark.parametrize(("spacing", "state"), [(0.0, State.IN_DOUBT), (0.9, State.IN_DOUBT), (1.0, State.FAILED)])
def test_the_second_look_begins_at_least_an_interval_after_the_first(spacing: float, state: State) -> None:
    assert settled().in_doubt().look(ABSENT, after=31).look(ABSENT, after=spacing).state is state


def test_one_look_that_is_reported_twice_does_not_agree_with_itself() -> None:
    eager = replace(SETTLE, interval_seconds=0.0)
    story = Story(action(reconcile=eager)).in_doubt()

    assert story.look(ABSENT, after=31).look(ABSENT).state is State.IN_DOUBT


def test_the_settle_time_counts_from_the_hard_close_and_not_from_the_time_out() -> None:
    story = settled().tell(BEGIN).wait(35)
    # The time-out was at 10 s, but the socket was closed only now.
    story.tell(Observed(1, seen(ended_ms=T0 + 10_000, closed_boot_ms=story.now.boot_ms), {}))

    assert story.look(ABSENT).look(ABSENT, after=29).look(ABSENT, after=2).state is State.IN_DOUBT
    assert story.look(ABSENT, after=2).state is State.FAILED


@pytest.mark.parametrize("lost", [True, False])
def test_without_a_known_close_absence_is_never_conclusive(lost: bool) -> None:
    story = lost_lease(settled()) if lost else settled().send(seen(closed_boot_ms=None))

    for _ in range(5):
        story.look(ABSENT, after=40)

    assert story.state is State.IN_DOUBT


def test_a_restart_starts_the_settle_time_of_sockets_that_nobody_saw_closing() -> None:
    story = lost_lease(settled()).tell(Restarted(), after=10)

    assert story.look(ABSENT, after=29).look(ABSENT, after=2).state is State.IN_DOUBT
    assert story.look(ABSENT, after=2).state is State.FAILED


def test_a_restart_beside_another_machine_starts_no_settle_time() -> None:
    story = lost_lease(settled()).tell(Restarted(sole_owner=False))

    for _ in range(4):
        story.look(ABSENT, after=60)

    assert story.state is State.IN_DOUBT


def test_a_reboot_starts_the_settle_time_anew() -> None:
    story = settled().in_doubt().look(ABSENT, after=20)
    story.now = replace(story.now, boot_id="boot-2", boot_ms=1_000, owner="owner-2")
    story.tell(Restarted())

    assert story.look(ABSENT, after=20).look(ABSENT, after=5).state is State.IN_DOUBT
    assert story.look(ABSENT, after=6).look(ABSENT, after=2).state is State.FAILED


def test_a_close_seen_in_this_boot_outlives_the_process_that_saw_it() -> None:
    story = settled().in_doubt().tell(Restarted(), after=25)

    assert story.look(ABSENT, after=6).look(ABSENT, after=2).state is State.FAILED


def test_another_boots_clock_is_no_clock_of_ours() -> None:
    story = settled().in_doubt()
    story.now = replace(story.now, boot_id="boot-2")

    assert story.look(ABSENT, after=31).look(ABSENT, after=2).state is State.IN_DOUBT


def test_looks_of_two_owners_do_not_add_up() -> None:
    story = settled().in_doubt().look(ABSENT, after=31)
    story.now = replace(story.now, owner="owner-2")

    assert story.look(ABSENT, after=2).state is State.IN_DOUBT
    assert story.look(ABSENT, after=2).state is State.FAILED


def test_every_attempt_that_may_have_left_is_waited_for() -> None:
    attempts = tuple(
        Attempt(
            number, Kind.SEND, number, T0, BOOT0, "boot-1", standing, closed_boot_ms=closed, closed_boot_id="boot-1"
        )
        for number, standing, closed in [
            (1, Standing.DOUBT, BOOT0 + 5_000),
            (2, Standing.DOUBT, BOOT0 + 40_000),
            (3, Standing.UNSENT, BOOT0 + 90_000),
        ]
    )
    live = operation(attempts=attempts)

    assert settled_at(live, Settle(30.0), now()) == BOOT0 + 70_000
    assert settled_at(live, Settle(0.0001), now()) == BOOT0 + 40_001
    assert (
        settled_at(replace(live, attempts=(replace(attempts[0], closed_boot_ms=None), attempts[1])), Settle(1), now())
        is None
    )


def test_a_look_that_claims_to_have_begun_later_than_now_is_not_counted() -> None:
    story = settled().in_doubt().wait(10)

    verdict = weigh(SETTLE, story.operation, story.now.boot_ms + 60_000, story.now)

    assert (verdict.conclusive, verdict.looks) == (False, ())
    assert verdict.wait_seconds == 20.0


def test_nothing_declared_nothing_conclusive() -> None:
    story = Story(action(reconcile=LOOK_UP)).in_doubt()

    for _ in range(4):
        story.look(ABSENT, after=50)

    assert story.state is State.IN_DOUBT
    assert weigh(LOOK_UP, story.operation, story.now.boot_ms, story.now).reason.startswith("absent now; this action")


# --- what the service has once known --------------------------------------------------------------------------------


def _handle_lost(story: Story) -> Story:
    story.send(answer(202, b"", ("Location", HANDLE)))
    return story.tell(Polled(Sighting(ABSENT, "the handle is gone (404)"), story.now.wall_ms))


KNOWN = {
    "accepted, then its handle was gone": lambda: _handle_lost(settled(accepted=ACCEPTED)),
    "seen in progress": lambda: settled().in_doubt().look(Finding.IN_PROGRESS),
    "said to be still running": lambda: settled(in_flight=statuses(409)).send(answer(409)),
    "an id in the head": lambda: settled().tell(BEGIN, HeadSeen(1, None, "thing-7"), LeaseLost(), Restarted()),
    "an object that differs": lambda: settled().in_doubt().look(Finding.INCONCLUSIVE, contradiction=True),
}


@pytest.mark.parametrize("resend", [Resend.NEVER, Resend.ON_ABSENCE])
@pytest.mark.parametrize("known", KNOWN)
def test_what_the_service_once_knew_may_be_gone_because_it_is_done(known: str, resend: Resend) -> None:
    story = KNOWN[known]()
    story.action = replace(story.action, resend=resend)

    for _ in range(5):
        story.look(ABSENT, after=40)
    assert story.state is State.IN_DOUBT

    assert story.look(ABSENT, after=300).state is State.UNRESOLVED
    assert len(story.operation.sends) == 1


def test_an_old_sign_of_life_is_not_forgotten_among_many_looks() -> None:
    story = settled().in_doubt().look(Finding.IN_PROGRESS)
    for index in range(EVIDENCE_MAX + 50):
        found = (Finding.ABSENT, Finding.INCONCLUSIVE)[index % 2]
        story.operation = replace(story.operation, state=State.IN_DOUBT, recovery_ms=T0 + 10**9)
        story.look(found, after=1)

    assert len(story.operation.evidence) == EVIDENCE_MAX
    assert known_to_service(story.operation)


@pytest.mark.parametrize(
    ("source", "finding", "known"),
    [
        (Source.PROBE, Finding.IN_PROGRESS, True),
        (Source.HANDLE, Finding.EXECUTED_FAILED, True),
        (Source.ATTEMPT, Finding.EXECUTED_OK, True),
        (Source.PROBE, Finding.ABSENT, False),
        (Source.PROBE, Finding.INCONCLUSIVE, False),
        (Source.BASELINE, Finding.EXECUTED_OK, False),
    ],
)
def test_only_the_services_word_about_this_operation_counts(source: Source, finding: Finding, known: bool) -> None:
    assert known_to_service(operation(evidence=(Evidence(source, finding, T0, "seen"),))) is known


def test_a_handle_is_a_sign_of_life() -> None:
    assert known_to_service(operation(handle=Handle(HANDLE, 1)))


# --- late news ------------------------------------------------------------------------------------------------------


def _sent_again() -> Story:
    """The first process was taken for dead, absence was concluded, and the way is free for a second attempt."""
    story = settled(resend=Resend.ON_ABSENCE).tell(BEGIN, Restarted())
    return story.look(ABSENT, after=31).look(ABSENT, after=2)


def test_an_answer_from_a_process_taken_for_dead_brings_the_doubt_back() -> None:
    story = _sent_again()
    assert (story.state, story.operation.ambiguous) == (State.READY, False)

    story.observe(TIMEOUT, attempt=1)

    assert (story.state, story.operation.ambiguous) == (State.READY, True)
    assert story.tell(BEGIN).state is State.IN_DOUBT
    assert len(story.operation.sends) == 1


def test_a_success_from_a_process_taken_for_dead_is_kept_and_alarms() -> None:
    story = _sent_again().tell(BEGIN).observe(answer(201), attempt=1)

    assert story.ending == ("succeeded", "yes", "answer")
    assert story.operation.contradicted
    assert story.alerts == ["contradiction"]


def test_stamping_leaves_what_is_proven_and_what_was_seen_closed() -> None:
    def attempt(standing: Standing, closed: int | None, boot: str | None) -> Attempt:
        return Attempt(1, Kind.SEND, 1, T0, BOOT0, "boot-1", standing, closed_boot_ms=closed, closed_boot_id=boot)

    before = (
        attempt(Standing.DOUBT, None, None),
        attempt(Standing.DOUBT, 7, "boot-0"),
        attempt(Standing.DOUBT, 7, "boot-1"),
        attempt(Standing.UNSENT, None, None),
    )

    stamped = stamp_closed(before, now(1))

    assert [item.closed_boot_ms for item in stamped] == [BOOT0 + 1000, BOOT0 + 1000, 7, None]


def test_looks_grow_rarer_where_absence_can_never_become_conclusive() -> None:
    story = lost_lease(settled())
    waits = []
    for _ in range(4):
        story.look(ABSENT, after=40)
        waits.append((story.operation.next_ms or 0) - story.now.wall_ms)

    assert waits[3] > waits[2] > waits[1] > waits[0]
