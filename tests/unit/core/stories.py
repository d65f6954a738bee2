"""One story for each arrow of the transition table: the shortest life in which an operation takes it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.core.events import (
    Attested,
    BaselineTaken,
    CancelBegun,
    Cancelled,
    CancelObserved,
    DeadlinePassed,
    FenceObserved,
    Followed,
    HeadSeen,
    LeaseLost,
    Polled,
    Restarted,
    Restored,
    Sighting,
)
from gateway.model.action import Marker, Resend
from gateway.model.evidence import Finding
from gateway.model.operation import Executed, Outcome, State
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    FENCE,
    FENCED,
    LOOK_UP,
    SAME_KEY,
    SETTLE,
    STATE,
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

HANDLE = "https://svc.example.com/api/jobs/1"
ATTEST_ERROR = Attested("ann", "checked by hand", "a" * 64, Outcome.ERROR, Executed.NO)
ATTEST_SUCCESS = replace(ATTEST_ERROR, outcome=Outcome.SUCCESS, executed=Executed.YES)
MANY = 400.0
"""Seconds after which the recovery deadline has passed."""


def plain() -> Story:
    """A write that declares nothing."""
    return Story(action())


def looked_up() -> Story:
    return Story(action(reconcile=LOOK_UP))


def settled() -> Story:
    return Story(action(reconcile=SETTLE))


def same_key() -> Story:
    return Story(action(reconcile=LOOK_UP, **SAME_KEY))


def fence_declared() -> Story:
    return Story(action(reconcile=FENCED))


def followed() -> Story:
    return Story(action(accepted=ACCEPTED, reconcile=LOOK_UP))


def reading() -> Story:
    return Story(read(), operation(effect="read"))


def polled(finding: Finding, at: Story) -> Polled:
    return Polled(Sighting(finding, f"handle: {finding.value}"), at.now.wall_ms)


def accepted() -> Story:
    return followed().send(answer(202, b"", ("Location", HANDLE)))


def unresolved() -> Story:
    """In doubt, looked up, and the deadline passed."""
    return looked_up().in_doubt().look(Finding.INCONCLUSIVE, after=MANY)


def lost_lease(at: Story) -> Story:
    """The first attempt's lease runs out before it reports."""
    return at.tell(BEGIN).tell(LeaseLost(), after=30)


def repeating() -> Story:
    """The first attempt is lost, and a repeat under the same key is about to be sent."""
    return lost_lease(Story(action(**SAME_KEY)))


def fence_under_way() -> Story:
    return fence_declared().in_doubt().look(Finding.ABSENT).tell(FENCE)


CANCEL = CancelBegun("ann", "TERM")


def on_host() -> Story:
    """A command whose host has a runner, which can be fenced and signalled."""
    return Story(action(reconcile=FENCED, marker=Marker.RUNNER))


def unresolved_on_host() -> Story:
    return on_host().in_doubt().look(Finding.INCONCLUSIVE, after=MANY)


def _reading_accepted() -> Story:
    story = Story(read(accepted=ACCEPTED), operation(effect="read"))
    return story.send(answer(202, b"", ("Location", HANDLE)))


def _poll(story: Story, finding: Finding, after: float = 0.0) -> Story:
    story.wait(after)
    return story.tell(polled(finding, story))


def _absent_twice(story: Story) -> Story:
    return story.look(Finding.ABSENT, after=31).look(Finding.ABSENT, after=2)


def _watched_by_handle() -> Story:
    return _poll(accepted(), Finding.INCONCLUSIVE, after=MANY)


ON_ABSENCE: dict[str, Any] = {"reconcile": SETTLE, "resend": Resend.ON_ABSENCE}
BUSY = statuses(429)
BROKE: dict[str, Any] = {"failed": statuses(590)}
"""An answer that says: carried out, and failed."""

STORIES: dict[tuple[str, str, str], Callable[[], Story]] = {
    ("ready", "begin", "sending"): lambda: plain().tell(BEGIN),
    ("held", "start_by", "cancelled"): lambda: Story(action(), operation(state=State.HELD)).tell(
        DeadlinePassed(), after=3600
    ),
    ("ready", "start_by", "cancelled"): lambda: plain().tell(DeadlinePassed(), after=3600),
    ("held", "cancel", "cancelled"): lambda: Story(action(), operation(state=State.HELD)).tell(Cancelled("agent")),
    ("ready", "cancel", "cancelled"): lambda: plain().tell(Cancelled("agent")),
    ("ready", "baseline", "ready"): lambda: Story(action(reconcile=STATE)).tell(
        BaselineTaken(Sighting(Finding.ABSENT, "not so"), T0)
    ),
    ("ready", "repeat_refused", "in_doubt"): lambda: Story(action(**SAME_KEY)).in_doubt().wait(4000).tell(BEGIN),
    ("ready", "repeat_refused", "failed"): lambda: plain().send(UNSENT).tell(BEGIN, after=MANY),
    ("sending", "answer", "succeeded"): lambda: plain().send(answer(201)),
    ("sending", "refused", "failed"): lambda: plain().send(answer(403)),
    ("sending", "failed", "failed"): lambda: Story(action(**BROKE)).send(answer(590)),
    ("sending", "accepted", "accepted"): accepted,
    ("sending", "nothing_left", "ready"): lambda: plain().send(UNSENT),
    ("sending", "nothing_left", "failed"): lambda: Story(action(attempts_max=1)).send(UNSENT),
    ("sending", "refused_before_work", "ready"): lambda: Story(action(refused_before_work=BUSY, **ON_ABSENCE)).send(
        answer(429)
    ),
    ("sending", "refused_before_work", "failed"): lambda: Story(action(refused_before_work=BUSY)).send(answer(429)),
    ("sending", "doubt", "in_doubt"): lambda: looked_up().send(TIMEOUT),
    ("ready", "restored", "in_doubt"): lambda: looked_up().tell(Restored()),
    ("sending", "restart", "in_doubt"): lambda: looked_up().tell(BEGIN, Restarted()),
    ("sending", "lease_lost", "in_doubt"): lambda: lost_lease(looked_up()),
    ("sending", "head", "sending"): lambda: followed().tell(BEGIN, HeadSeen(1, HANDLE, None)),
    ("ready", "head", "ready"): lambda: repeating().tell(HeadSeen(1, None, "thing-7")),
    ("accepted", "head", "accepted"): lambda: accepted_while_first_is_lost().tell(HeadSeen(1, HANDLE, None)),
    ("in_doubt", "head", "in_doubt"): lambda: lost_lease(followed()).tell(HeadSeen(1, HANDLE, None)),
    ("unresolved", "head", "unresolved"): lambda: lost_lease(plain()).tell(HeadSeen(1, None, "thing-7")),
    ("in_doubt", "follow", "accepted"): lambda: lost_lease(followed()).tell(HeadSeen(1, HANDLE, None), Followed()),
    ("accepted", "polled", "succeeded"): lambda: _poll(accepted(), Finding.EXECUTED_OK),
    ("accepted", "polled", "failed"): lambda: _poll(accepted(), Finding.EXECUTED_FAILED),
    ("accepted", "handle_lost", "in_doubt"): lambda: _poll(accepted(), Finding.ABSENT),
    ("accepted", "polled", "accepted"): lambda: _poll(accepted(), Finding.IN_PROGRESS),
    ("unresolved", "polled", "succeeded"): lambda: _poll(_watched_by_handle(), Finding.EXECUTED_OK),
    ("unresolved", "polled", "failed"): lambda: _poll(_watched_by_handle(), Finding.EXECUTED_FAILED),
    ("unresolved", "polled", "unresolved"): lambda: _poll(_watched_by_handle(), Finding.IN_PROGRESS),
    ("in_doubt", "found", "succeeded"): lambda: looked_up().in_doubt().look(Finding.EXECUTED_OK),
    ("in_doubt", "found", "failed"): lambda: looked_up().in_doubt().look(Finding.EXECUTED_FAILED),
    ("unresolved", "found", "succeeded"): lambda: unresolved().look(Finding.EXECUTED_OK),
    ("unresolved", "found", "failed"): lambda: unresolved().look(Finding.EXECUTED_FAILED),
    ("in_doubt", "absence", "failed"): lambda: _absent_twice(settled().in_doubt()),
    ("in_doubt", "absence", "ready"): lambda: _absent_twice(Story(action(**ON_ABSENCE)).in_doubt()),
    ("unresolved", "absence", "failed"): lambda: _absent_twice(
        settled().in_doubt().look(Finding.INCONCLUSIVE, after=MANY)
    ),
    ("in_doubt", "looked", "in_doubt"): lambda: looked_up().in_doubt().look(Finding.ABSENT),
    ("in_doubt", "repeat_allowed", "ready"): lambda: same_key().in_doubt().look(Finding.ABSENT),
    ("in_doubt", "cleared", "failed"): lambda: lost_lease(looked_up()).observe(answer(403)),
    ("in_doubt", "fence_begun", "in_doubt"): fence_under_way,
    ("in_doubt", "fence_seen", "in_doubt"): lambda: fence_under_way().tell(FenceObserved(2, TIMEOUT, None)),
    ("in_doubt", "fenced", "failed"): lambda: fence_under_way().tell(FenceObserved(2, answer(201), won=True)),
    ("unresolved", "fenced", "failed"): lambda: fence_under_way().tell(
        DeadlinePassed(), FenceObserved(2, answer(201), won=True), after=MANY
    ),
    ("sending", "cancel_begun", "sending"): lambda: on_host().tell(BEGIN, CANCEL),
    ("in_doubt", "cancel_begun", "in_doubt"): lambda: on_host().in_doubt().tell(CANCEL),
    ("unresolved", "cancel_begun", "unresolved"): lambda: unresolved_on_host().tell(CANCEL),
    ("sending", "cancel_seen", "sending"): lambda: on_host().tell(BEGIN, CANCEL, CancelObserved(2, TIMEOUT, None)),
    ("in_doubt", "cancel_seen", "in_doubt"): lambda: (
        on_host().in_doubt().tell(CANCEL, CancelObserved(2, answer(0), fenced=False))
    ),
    ("unresolved", "cancel_seen", "unresolved"): lambda: unresolved_on_host().tell(
        CANCEL, CancelObserved(2, TIMEOUT, None)
    ),
    ("in_doubt", "deadline", "unresolved"): unresolved,
    ("accepted", "deadline", "unresolved"): _watched_by_handle,
    ("ready", "deadline", "unresolved"): lambda: repeating().tell(DeadlinePassed(), after=MANY),
    ("in_doubt", "no_way_to_know", "unresolved"): lambda: plain().in_doubt(),
    ("ready", "deadline", "failed"): lambda: plain().send(UNSENT).tell(DeadlinePassed(), after=MANY),
    ("ready", "read_over", "failed"): lambda: reading().send(TIMEOUT).tell(DeadlinePassed(), after=MANY),
    ("accepted", "read_over", "failed"): lambda: _reading_accepted().tell(DeadlinePassed(), after=MANY),
    ("in_doubt", "read_over", "failed"): lambda: Story(read(attempts_max=1)).send(TIMEOUT),
    ("sending", "read_over", "failed"): lambda: Story(read(attempts_max=2)).send(TIMEOUT).send(UNSENT),
    ("ready", "restart", "ready"): lambda: plain().tell(Restarted()),
    ("accepted", "restart", "accepted"): lambda: accepted().tell(Restarted()),
    ("in_doubt", "restart", "in_doubt"): lambda: looked_up().in_doubt().tell(Restarted()),
    ("unresolved", "restart", "unresolved"): lambda: unresolved().tell(Restarted()),
    ("unresolved", "looked", "unresolved"): lambda: unresolved().look(Finding.ABSENT),
    ("unresolved", "attest", "succeeded"): lambda: unresolved().tell(ATTEST_SUCCESS),
    ("unresolved", "attest", "failed"): lambda: unresolved().tell(ATTEST_ERROR),
    ("ready", "late", "ready"): lambda: repeating().observe(TIMEOUT),
    ("sending", "late", "sending"): lambda: repeating().tell(BEGIN).observe(TIMEOUT, attempt=1),
    ("accepted", "late", "accepted"): lambda: accepted_while_first_is_lost().observe(TIMEOUT, attempt=1),
    ("in_doubt", "late", "in_doubt"): lambda: lost_lease(looked_up()).observe(TIMEOUT),
    ("unresolved", "late", "unresolved"): lambda: lost_lease(plain()).observe(TIMEOUT),
    ("ready", "late", "failed"): lambda: lost_lease(Story(action(**SAME_KEY, **BROKE))).observe(answer(590)),
    ("accepted", "late", "failed"): lambda: (
        lost_lease(Story(action(accepted=ACCEPTED, reconcile=LOOK_UP, **BROKE)))
        .tell(HeadSeen(1, HANDLE, None), Followed())
        .observe(answer(590))
    ),
    ("in_doubt", "late", "failed"): lambda: lost_lease(Story(action(reconcile=LOOK_UP, **BROKE))).observe(answer(590)),
    ("ready", "late", "succeeded"): lambda: repeating().observe(answer(201)),
    ("sending", "late", "succeeded"): lambda: repeating().tell(BEGIN).observe(answer(201), attempt=1),
    ("accepted", "late", "succeeded"): lambda: accepted_while_first_is_lost().observe(answer(201), attempt=1),
    ("in_doubt", "late", "succeeded"): lambda: lost_lease(looked_up()).observe(answer(201)),
    ("unresolved", "late", "succeeded"): lambda: lost_lease(plain()).observe(answer(201)),
    ("unresolved", "late", "failed"): lambda: lost_lease(plain()).observe(UNSENT),
    ("succeeded", "late", "succeeded"): lambda: (
        looked_up().in_doubt().look(Finding.EXECUTED_OK).look(Finding.EXECUTED_OK)
    ),
    ("failed", "late", "failed"): lambda: lost_lease(plain()).tell(ATTEST_ERROR).observe(answer(201)),
    ("cancelled", "late", "cancelled"): lambda: looked_up().tell(Cancelled("agent")).look(Finding.EXECUTED_OK),
}


def accepted_while_first_is_lost() -> Story:
    """The first attempt never reported, the second one was accepted and is followed."""
    story = lost_lease(Story(action(accepted=ACCEPTED, **SAME_KEY)))
    return story.send(answer(202, b"", ("Location", HANDLE)))
