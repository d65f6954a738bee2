"""The step function: (operation, event) to (operation, facts). Pure; restart, lost lease and a good day share it.

Each handler takes the arrow that the table in `core.transitions` holds for it. An event that does not fit raises
`IllegalMoveError` and leaves the operation as it was. Whether something may be sent again is asked of `core.repeat`;
what an answer means, of `core.judge`.
"""

from collections.abc import Callable
from typing import Any

from gateway.core import attempts, cancels, doubt, fences
from gateway.core.draft import Draft, Step
from gateway.core.events import (
    Attested,
    BaselineTaken,
    Begin,
    CancelBegun,
    Cancelled,
    CancelObserved,
    DeadlinePassed,
    Event,
    FenceBegun,
    FenceObserved,
    Followed,
    HeadSeen,
    LeaseLost,
    Observed,
    Polled,
    Probed,
    Restarted,
    Restored,
)
from gateway.core.reconcile.absence import stamp_closed
from gateway.core.reconcile.fence import fence_under_way
from gateway.core.repeat import is_behind
from gateway.core.transitions import IllegalMoveError
from gateway.core.waits import backoff_seconds, due_ms
from gateway.model.action import Action
from gateway.model.evidence import Finding, Source
from gateway.model.operation import (
    Attestation,
    Executed,
    Failure,
    Now,
    Operation,
    Outcome,
    Standing,
    State,
)

_CLEAR_BASELINES = frozenset({Finding.ABSENT, Finding.EXECUTED_OK, Finding.EXECUTED_FAILED})


def step(action: Action, operation: Operation, event: Event, now: Now) -> Step:
    """Apply one event. Raises IllegalMoveError, with the operation unchanged, if the event does not fit its state."""
    draft = Draft(action, operation, now)
    if is_behind(operation, now):
        # Once it has caught up, nothing shows any more that time is missing, and a restart takes boot time away.
        draft.change(clock_stepped=True)
    _HANDLERS[type(event)](draft, event)
    return draft.finish()


def _restarted(draft: Draft, event: Restarted) -> None:
    """A new owner: looks by the old one do not count, settle times start at our start, the rest goes on."""
    operation = draft.operation
    if operation.final:
        raise IllegalMoveError(operation.state, "restart", "it is over")
    stamped = stamp_closed(operation.attempts, draft.now) if event.sole_owner else operation.attempts
    draft.change(attempts=stamped, looks=(), lease=None)
    if operation.state is State.SENDING:
        draft.saw(Source.RESTART, Finding.INCONCLUSIVE, "the gateway stopped while the attempt was under way")
        _interrupted(draft, "restart")
        return
    if fence_under_way(operation):
        # It died with its process and may hold the place: a look comes before the next one.
        draft.saw(Source.RESTART, Finding.INCONCLUSIVE, "the gateway stopped while a fence was under way")
    draft.set_attempts(lambda item: item.standing is Standing.OPEN, standing=Standing.DOUBT)
    draft.move("restart", operation.state, next_ms=_kept_due(operation, draft.now))


def _kept_due(operation: Operation, now: Now) -> int | None:
    """Looks are made at once; a send keeps the wait that the service may have asked for, also in a crash loop."""
    return operation.next_ms if operation.state in {State.UNRESOLVED, State.READY} else now.wall_ms


def _restored(draft: Draft, _event: Restored) -> None:
    """An attempt that this image does not know of; times that nobody knows any more are taken at their worst."""
    operation, now = draft.operation, draft.now
    if operation.state is not State.READY or operation.ambiguous or draft.action.is_read:
        raise IllegalMoveError(operation.state, "restored", "only a write that seems to be unsent is taken for sent")
    draft.change(
        attempts=(*operation.attempts, attempts.forgotten(operation, now)),
        fence=operation.fence + 1,
        begun_ms=operation.created_ms if operation.begun_ms is None else operation.begun_ms,
        recovery_ms=operation.recovery_ms or now.wall_ms + int(draft.action.deadlines.recovery_seconds * 1000),
        lease=None,
        looks=(),
        # What is known of a job is as old as the image; only a look tells where it stands.
        steps=(),
    )
    draft.saw(Source.RESTART, Finding.INCONCLUSIVE, "the store was restored; it may have been sent since the backup")
    draft.move("restored", State.IN_DOUBT)
    doubt.look_ahead(draft)


def _lease_lost(draft: Draft, _event: LeaseLost) -> None:
    if draft.operation.state is not State.SENDING:
        raise IllegalMoveError(draft.operation.state, "lease_lost", "no attempt is under way")
    draft.saw(Source.RESTART, Finding.INCONCLUSIVE, "the lease ran out before anything was reported")
    _interrupted(draft, "lease_lost")


def _interrupted(draft: Draft, event: str) -> None:
    draft.set_attempts(
        lambda item: item.standing is Standing.OPEN,
        standing=Standing.DOUBT,
        ended_ms=draft.now.wall_ms,
        observation="interrupted; it may have been carried out",
    )
    draft.move(event, State.IN_DOUBT, lease=None)
    doubt.look_ahead(draft)


def _followed(draft: Draft, _event: Followed) -> None:
    if draft.operation.handle is None or draft.action.accepted is None:
        raise IllegalMoveError(draft.operation.state, "follow", "no handle is stored")
    draft.move("follow", State.ACCEPTED, next_ms=draft.now.wall_ms)


def _baseline(draft: Draft, event: BaselineTaken) -> None:
    if draft.operation.attempts:
        raise IllegalMoveError(draft.operation.state, "baseline", "it was already begun")
    finding, now = event.sighting.finding, draft.now
    draft.saw(Source.BASELINE, finding, event.sighting.detail, at_ms=event.begun_ms)
    if finding in _CLEAR_BASELINES:
        draft.move("baseline", State.READY, baseline=finding.value, next_ms=now.wall_ms)
        return
    # Without a clear look before the first send, no look after it could prove anything: look again until `start_by`.
    tries = draft.operation.probes
    delay = backoff_seconds(doubt.look_interval(draft), tries, now)
    due = due_ms(now, delay, asked_seconds=event.sighting.wait_seconds, deadline_ms=draft.operation.start_by_ms)
    draft.move("baseline", State.READY, probes=tries + 1, next_ms=due)


def _deadline(draft: Draft, _event: DeadlinePassed) -> None:
    operation, now = draft.operation, draft.now
    if operation.state in (State.READY, State.HELD) and not operation.sends:
        if now.wall_ms < operation.start_by_ms:
            raise IllegalMoveError(operation.state, "deadline", "it may still start")
        draft.cancel("start_by", Failure("too_late", "It could not be started before its start deadline."))
        return
    if operation.recovery_ms is None or now.wall_ms < operation.recovery_ms:
        raise IllegalMoveError(operation.state, "deadline", "the recovery deadline has not passed")
    doubt.give_up(draft, "deadline")


def _cancelled(draft: Draft, event: Cancelled) -> None:
    operation = draft.operation
    if operation.ambiguous:
        raise IllegalMoveError(operation.state, "cancel", "an attempt may have been carried out")
    draft.fact("cancel", actor=event.actor)
    draft.cancel("cancel", Failure("cancelled", "Cancelled before anything left."))


def _attested(draft: Draft, event: Attested) -> None:
    draft.change(attestation=Attestation(event.person, event.reason, event.digest, draft.now.wall_ms))
    draft.saw(Source.ATTESTATION, Finding.INCONCLUSIVE, f"a person settled it as {event.outcome.value}")
    draft.fact("attestation", person=event.person, outcome=event.outcome.value, digest=event.digest)
    draft.settle_attempts(Standing.SETTLED)
    if event.outcome is Outcome.SUCCESS and event.executed is not Executed.YES:
        raise IllegalMoveError(draft.operation.state, "attest", "a success was executed")
    if event.outcome is Outcome.SUCCESS:
        draft.succeed("attest", "attestation")
        return
    if event.outcome is not Outcome.ERROR:
        raise IllegalMoveError(draft.operation.state, "attest", "a person settles as success or error")
    failure = Failure("attested", "A person settled it as failed, without proof.")
    draft.fail("attest", "attestation", event.executed, failure)


_HANDLERS: dict[type[Any], Callable[[Draft, Any], None]] = {
    Begin: attempts.begin,
    Observed: attempts.observed,
    HeadSeen: attempts.head_seen,
    FenceBegun: fences.fence_begun,
    FenceObserved: fences.fence_observed,
    CancelBegun: cancels.cancel_begun,
    CancelObserved: cancels.cancel_observed,
    Probed: doubt.probed,
    Polled: doubt.polled,
    Restarted: _restarted,
    Restored: _restored,
    LeaseLost: _lease_lost,
    Followed: _followed,
    BaselineTaken: _baseline,
    DeadlinePassed: _deadline,
    Cancelled: _cancelled,
    Attested: _attested,
}
