"""In doubt, every way out is evidence: looks, handles, a permitted repeat, and giving up without claiming anything."""

from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import Observation
from gateway.core.agenda import Act, next_item
from gateway.core.draft import sentence
from gateway.core.events import DeadlinePassed, Polled, Probed, Restarted, Sighting
from gateway.core.reconcile.look import read_probe
from gateway.core.transitions import IllegalMoveError
from gateway.model.action import Reconcile, ReplayAfter5xx
from gateway.model.evidence import Finding
from gateway.model.operation import Executed, Standing, State
from tests.unit.catalog.commands import compiled
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    LOOK_UP,
    OP_ID,
    SAME_KEY,
    STATE,
    T0,
    TIMEOUT,
    Story,
    action,
    answer,
    operation,
    read,
)
from tests.unit.core.jobs import told
from tests.unit.core.stories import HANDLE, accepted, followed, looked_up, lost_lease, plain, same_key, unresolved

OK, FAILED, BUSY, ABSENT = Finding.EXECUTED_OK, Finding.EXECUTED_FAILED, Finding.IN_PROGRESS, Finding.ABSENT
PERHAPS = Finding.INCONCLUSIVE


def poll(story: Story, finding: Finding, after: float = 0.0, **details: Any) -> Story:
    story.wait(after)
    return story.tell(Polled(Sighting(finding, f"handle: {finding.value}", **details), story.now.wall_ms))


@pytest.mark.parametrize(
    ("finding", "executed", "ending"),
    [
        (OK, None, ("succeeded", "yes", "probe")),
        (FAILED, None, ("failed", "yes", "probe")),
        (FAILED, Executed.NO, ("failed", "no", "probe")),
        (FAILED, Executed.UNKNOWN, ("failed", "unknown", "probe")),
        (BUSY, None, ("in_doubt", "no", None)),
        (ABSENT, None, ("in_doubt", "no", None)),
        (PERHAPS, None, ("in_doubt", "no", None)),
    ],
)
def test_what_a_look_leads_to(finding: Finding, executed: Executed | None, ending: tuple[str, str, str | None]) -> None:
    assert looked_up().in_doubt().look(finding, executed=executed).ending == ending


@pytest.mark.parametrize(
    ("executed", "detail"),
    [
        (Executed.NO, "The service says that it failed before anything was done."),
        (Executed.YES, "The service carried it out and says that it failed."),
        (Executed.UNKNOWN, "The service says that it failed, and not how far it came."),
    ],
)
def test_a_failure_is_told_as_far_as_the_service_told_it(executed: Executed, detail: str) -> None:
    failure = looked_up().in_doubt().look(FAILED, executed=executed).operation.failure

    assert failure is not None
    assert failure.detail == detail


STOPPED = "the command was told to stop because it was cancelled, and ended with exit status 143"
BUSY_LOCK = "the host says that it never ran and never will: another command holds its lock"


@pytest.mark.parametrize(
    ("seen", "ending", "detail"),
    [
        (replace(told("exited", 143, operation=OP_ID), summary=STOPPED), "yes", STOPPED),
        (replace(told("fenced", operation=OP_ID, reason="lock_busy"), summary=BUSY_LOCK), "no", BUSY_LOCK),
    ],
)
def test_a_failure_on_a_host_says_why_by_the_runners_own_record(seen: Observation, ending: str, detail: str) -> None:
    story = Story(compiled()).in_doubt()
    look = story.action.reconcile
    assert look is not None
    sighting = read_probe(look, story.operation, seen, {"operation_id": OP_ID})
    story.tell(Probed(sighting, story.now.wall_ms, story.now.boot_ms))

    failure = story.operation.failure
    assert failure is not None
    assert (story.ending[:2], failure.code) == (("failed", ending), "failed_there")
    assert failure.detail.startswith("The host ")
    assert failure.detail.endswith(sentence(detail))


def test_a_command_that_answered_itself_says_how_it_ended() -> None:
    failure = Story(compiled()).send(replace(told("exited", 143), summary=STOPPED)).operation.failure

    assert failure is not None
    assert (failure.code, failure.detail, failure.status) == ("failed_there", sentence(STOPPED), 143)


def test_success_by_state_is_marked() -> None:
    story = Story(action(reconcile=STATE), operation(baseline="absent")).in_doubt().look(OK)

    assert story.ending == ("succeeded", "yes", "state")


# --- several attempts -----------------------------------------------------------------------------------------------


def _twice(**changes: Any) -> Story:
    """Two attempts under the same key, both lost."""
    story = Story(action(reconcile=LOOK_UP, **SAME_KEY)).in_doubt().look(ABSENT).wait(1).send(TIMEOUT)
    story.action = replace(story.action, **changes)
    return story


@pytest.mark.parametrize("executed", [None, Executed.NO])
def test_a_failure_speaks_for_two_attempts_that_the_service_sees_as_one(executed: Executed | None) -> None:
    assert _twice().look(FAILED, executed=executed).state is State.FAILED


@pytest.mark.parametrize(
    "changes",
    [
        {"replay_after_5xx": ReplayAfter5xx.REEXECUTES},
        {"bind": replace(SAME_KEY["bind"], window_min_seconds=70.0)},
    ],
)
def test_a_failure_of_one_of_two_attempts_says_nothing_about_the_other(changes: dict[str, Any]) -> None:
    story = _twice(**changes).look(FAILED, executed=Executed.NO)

    assert (story.state, story.operation.ambiguous) == (State.IN_DOUBT, True)


# --- repeating instead of looking -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("findings", "path"),
    [
        ([ABSENT], ["ready"]),
        ([PERHAPS], ["in_doubt"]),
        ([PERHAPS, PERHAPS], ["in_doubt", "ready"]),
        ([BUSY, BUSY, BUSY], ["in_doubt", "in_doubt", "in_doubt"]),
        ([OK], ["succeeded"]),
    ],
)
def test_under_the_same_key_a_look_that_says_nothing_is_followed_by_a_repeat(
    findings: list[Finding], path: list[str]
) -> None:
    story = same_key().in_doubt()
    for finding in findings:
        story.look(finding, after=1)

    assert story.path[2:] == path


def test_a_contradiction_stops_every_repeat_and_is_told_once() -> None:
    story = same_key().in_doubt().look(PERHAPS, contradiction=True).look(PERHAPS, contradiction=True, after=1)

    for _ in range(3):
        story.look(ABSENT, after=10)

    assert (story.state, len(story.operation.sends)) == (State.IN_DOUBT, 1)
    assert story.alerts == ["contradiction"]


def test_a_contradiction_that_is_settled_leaves_no_mark_on_the_outcome() -> None:
    story = looked_up().in_doubt().look(PERHAPS, contradiction=True).look(OK)

    assert story.ending == ("succeeded", "yes", "probe")
    assert not story.operation.contradicted


def test_no_look_is_ever_followed_by_a_repeat_that_nothing_permits() -> None:
    story = looked_up().in_doubt()
    for finding in (ABSENT, PERHAPS, PERHAPS, BUSY, ABSENT) * 3:
        story.look(finding, after=5)

    assert set(story.path[1:]) == {"in_doubt"}


# --- handles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finding", "details", "ending"),
    [
        (OK, {}, ("succeeded", "yes", "handle")),
        (FAILED, {}, ("failed", "yes", "handle")),
        (FAILED, {"executed": Executed.NO}, ("failed", "no", "handle")),
        (BUSY, {}, ("accepted", "no", None)),
        (PERHAPS, {}, ("accepted", "no", None)),
        (Finding.FENCED, {}, ("accepted", "no", None)),
        (ABSENT, {}, ("in_doubt", "no", None)),
    ],
)
def test_what_a_poll_leads_to(finding: Finding, details: dict[str, Any], ending: tuple[str, str, str | None]) -> None:
    assert poll(accepted(), finding, **details).ending == ending


def test_a_handle_that_is_gone_is_no_failure_and_no_absence() -> None:
    story = poll(accepted(), ABSENT)

    assert story.operation.handle is None
    assert next_item(story.action, story.operation, story.wait(0.001).now).act is Act.PROBE


def test_a_handle_that_is_gone_without_any_look_up_leaves_it_unresolved() -> None:
    story = Story(action(accepted=ACCEPTED)).send(answer(202, b"", ("Location", HANDLE)))

    assert poll(story, ABSENT).state is State.UNRESOLVED


def test_polls_back_off_and_mind_the_deadline() -> None:
    story = accepted()
    waits = []
    for _ in range(4):
        poll(story, BUSY)
        waits.append((story.operation.next_ms or 0) - story.now.wall_ms)

    assert waits == [750, 1500, 3000, 6000]
    assert poll(story, BUSY, after=400).state is State.UNRESOLVED


def test_a_poll_waits_as_asked_but_no_longer_than_half_of_the_time_left() -> None:
    assert poll(accepted(), BUSY, wait_seconds=1e6).operation.next_ms == T0 + 150_000


def test_an_unresolved_operation_is_watched_by_its_handle_even_without_a_look_up() -> None:
    story = Story(action(accepted=ACCEPTED)).send(answer(202, b"", ("Location", HANDLE)))
    poll(story, BUSY, after=400)
    assert (story.state, next_item(story.action, story.operation, story.wait(60).now).act) == (
        State.UNRESOLVED,
        Act.POLL,
    )

    assert poll(story, OK).ending == ("succeeded", "yes", "handle")


# --- looking again --------------------------------------------------------------------------------------------------


def test_looks_back_off_until_a_minute() -> None:
    story = looked_up().in_doubt()
    waits = []
    for _ in range(7):
        story.look(PERHAPS)
        waits.append((story.operation.next_ms or 0) - story.now.wall_ms)

    assert waits == [750, 1500, 3000, 6000, 12_000, 24_000, 45_000]


def test_equal_looks_in_a_row_are_counted() -> None:
    story = looked_up().in_doubt().look(PERHAPS).look(PERHAPS, after=5)

    assert [(item.source.value, item.count) for item in story.operation.evidence] == [("attempt", 1), ("probe", 2)]
    assert story.operation.evidence[-1].last_at_ms == T0 + 5_000
    assert story.operation.probes_total == 2


# --- giving up ------------------------------------------------------------------------------------------------------


def test_the_deadline_ends_the_search_and_never_the_doubt() -> None:
    story = unresolved()

    assert story.ending == ("unresolved", "no", None)
    assert story.operation.ambiguous
    assert story.alerts == ["unresolved"]
    assert story.operation.watch_until_ms == story.now.wall_ms + 7 * 86_400_000


def test_without_any_way_to_know_a_person_is_asked_at_once() -> None:
    story = plain().in_doubt()

    assert (story.state, story.operation.next_ms, story.operation.watch_until_ms) == (State.UNRESOLVED, None, None)
    assert story.steps[-1].facts[-1].fields == {"reason": "no_way_to_know"}


@pytest.mark.parametrize(("interval", "slow"), [(1.0, 7_500), (30.0, 45_000)])
def test_an_unresolved_operation_is_looked_at_more_slowly(interval: float, slow: int) -> None:
    story = Story(action(reconcile=replace(LOOK_UP, interval_seconds=interval))).in_doubt().look(PERHAPS, after=400)

    assert (story.operation.next_ms or 0) - story.now.wall_ms == slow


def test_the_watch_ends() -> None:
    short: Reconcile = replace(LOOK_UP, watch_seconds=100.0)
    story = Story(action(reconcile=short)).in_doubt().look(PERHAPS, after=400).look(PERHAPS, after=101)

    assert (story.state, story.operation.next_ms) == (State.UNRESOLVED, None)
    assert story.look(OK).state is State.SUCCEEDED


@pytest.mark.parametrize("finding", [OK, FAILED])
def test_late_evidence_settles_what_was_given_up(finding: Finding) -> None:
    assert unresolved().look(finding).operation.final


def test_no_look_makes_an_unresolved_operation_ready() -> None:
    story = Story(action(reconcile=LOOK_UP, **SAME_KEY)).in_doubt().look(PERHAPS, after=400)

    for finding in (ABSENT, PERHAPS, PERHAPS, BUSY):
        story.look(finding, after=5)

    assert story.state is State.UNRESOLVED


def test_a_read_is_never_left_in_doubt() -> None:
    story = Story(read(accepted=ACCEPTED), operation(effect="read")).send(answer(202, b"", ("Location", HANDLE)))

    assert poll(story, ABSENT).state is State.READY
    assert story.tell(DeadlinePassed(), after=400).ending == ("failed", "unknown", None)


# --- after the end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "details", "finding", "contradicted"),
    [
        (OK, {}, OK, False),
        (OK, {}, ABSENT, False),
        (OK, {}, PERHAPS, False),
        (OK, {}, BUSY, False),
        (OK, {}, FAILED, True),
        (OK, {}, Finding.FENCED, True),
        (FAILED, {}, FAILED, False),
        (FAILED, {}, OK, True),
        (FAILED, {"executed": Executed.NO}, OK, True),
        (FAILED, {"executed": Executed.NO}, BUSY, True),
        (FAILED, {"executed": Executed.NO}, FAILED, True),
        (FAILED, {"executed": Executed.NO}, ABSENT, False),
    ],
)
def test_a_look_after_the_end_is_kept_and_alarms_if_it_contradicts(
    last: Finding, details: dict[str, Any], finding: Finding, contradicted: bool
) -> None:
    story = looked_up().in_doubt().look(last, **details)
    ending = story.ending

    story.look(finding)

    assert story.ending == ending
    assert story.operation.contradicted is contradicted
    assert story.operation.evidence[-1].finding is finding


def test_the_same_failure_seen_again_contradicts_nothing() -> None:
    story = looked_up().in_doubt().look(FAILED, executed=Executed.NO).look(FAILED, executed=Executed.NO)

    assert not story.operation.contradicted


def test_an_object_that_differs_contradicts_a_success() -> None:
    assert looked_up().in_doubt().look(OK).look(PERHAPS, contradiction=True).operation.contradicted


# --- what is refused ------------------------------------------------------------------------------------------------


def test_absence_needs_a_declared_look_up() -> None:
    story = lost_lease(Story(action(accepted=ACCEPTED)))
    with pytest.raises(IllegalMoveError, match="no look-up"):
        story.look(ABSENT)


def test_nothing_is_looked_for_while_nothing_is_in_doubt() -> None:
    for story in (plain(), plain().tell(BEGIN), accepted()):
        with pytest.raises(IllegalMoveError, match="nothing is in doubt"):
            story.tell(Probed(Sighting(OK, "seen"), T0, 0))
    with pytest.raises(IllegalMoveError, match="not followed"):
        poll(followed().in_doubt(), OK)


def test_a_new_owner_goes_on_where_the_old_one_stopped() -> None:
    story = accepted().tell(Restarted())

    assert (story.state, story.operation.attempts[0].standing) == (State.ACCEPTED, Standing.DOUBT)
    assert next_item(story.action, story.operation, story.now).act is Act.POLL
