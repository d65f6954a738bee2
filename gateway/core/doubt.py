"""The part of the lifecycle in which evidence is gathered: looks, handles, fences, and giving up at the deadline.

Nothing here follows from a timer alone except `unresolved`: the recovery deadline ends the search, never the doubt.
"""

from gateway.core.draft import Draft
from gateway.core.events import FenceBegun, FenceObserved, Polled, Probed, Sighting
from gateway.core.reconcile.absence import weigh
from gateway.core.repeat import may_repeat
from gateway.core.transitions import IllegalMoveError
from gateway.core.waits import backoff_seconds, due_ms
from gateway.model.action import Fence, ReplayAfter5xx, Resend
from gateway.model.evidence import Finding, Source
from gateway.model.operation import (
    AMBIGUOUS_STANDINGS,
    Attempt,
    Executed,
    Failure,
    Kind,
    Lease,
    Standing,
    State,
)

INCONCLUSIVE_LOOKS_BEFORE_REPEAT = 2
"""A repeat under the same key needs no look, but a look that answers is cheaper than a second request."""
WATCH_FACTOR = 10.0
"""An unresolved operation is looked at this many times more slowly than one in doubt, at most once a minute."""
WATCH_INTERVAL_MAX_SECONDS = 60.0
FENCES_MAX = 5


def look_ahead(draft: Draft, *, asked_seconds: float | None = None) -> None:
    """An operation has come into doubt: set when to look next, or say that nothing can settle it."""
    operation, action, now = draft.operation, draft.action, draft.now
    if action.is_read:
        _read_again(draft, asked_seconds)
        return
    if operation.recovery_ms is not None and now.wall_ms >= operation.recovery_ms:
        give_up(draft, "deadline")
        return
    if operation.handle is not None or action.reconcile is not None:
        delay = 0.0 if asked_seconds is None else asked_seconds
        due = due_ms(now, delay, asked_seconds=asked_seconds, deadline_ms=operation.recovery_ms)
        draft.change(next_ms=due)
        return
    if may_repeat(action, operation, now).allowed:
        _to_ready(draft, "repeat_allowed", asked_seconds)
        return
    give_up(draft, "no_way_to_know")


def _read_again(draft: Draft, asked_seconds: float | None) -> None:
    if may_repeat(draft.action, draft.operation, draft.now).allowed:
        _to_ready(draft, "repeat_allowed", asked_seconds)
    else:
        give_up(draft, "read_over")


def _to_ready(draft: Draft, event: str, asked_seconds: float | None) -> None:
    delay = backoff_seconds(0.2, max(len(draft.operation.sends) - 1, 0), draft.now)
    due = due_ms(draft.now, delay, asked_seconds=asked_seconds, deadline_ms=draft.operation.recovery_ms)
    draft.move(event, State.READY, next_ms=due)


def give_up(draft: Draft, event: str) -> None:
    """The search is over: unresolved while anything is ambiguous, else failed; a read says that nothing is known."""
    operation = draft.operation
    if draft.action.is_read:
        _read_over(draft)
    elif operation.ambiguous:
        reconcile = draft.action.reconcile
        watch_ms = None if reconcile is None else draft.now.wall_ms + int(reconcile.watch_seconds * 1000)
        draft.alert("unresolved")
        draft.move(event, State.UNRESOLVED, watch_until_ms=watch_ms, lease=None)
        draft.fact("unresolved", reason=event)
        draft.change(next_ms=_watch_due(draft))
    else:
        draft.fail(event, "unsent", Executed.NO, Failure("not_executed", "It was not executed before its deadline."))


def _read_over(draft: Draft) -> None:
    detail = "The read got no usable answer in its time. This says nothing about whether the thing exists."
    draft.settle_attempts(Standing.SETTLED)
    draft.fail("read_over", "unsent", Executed.UNKNOWN, Failure("no_answer", detail))


def _watch_due(draft: Draft) -> int | None:
    operation, now = draft.operation, draft.now
    watchable = draft.action.reconcile is not None or operation.handle is not None
    if not watchable or operation.watch_until_ms is None or now.wall_ms >= operation.watch_until_ms:
        return None
    interval = _interval(draft)
    slow = min(interval * WATCH_FACTOR, WATCH_INTERVAL_MAX_SECONDS)
    return now.wall_ms + int(slow * (0.5 + now.jitter / 2) * 1000)


def probed(draft: Draft, event: Probed) -> None:
    """A look at the service's own record."""
    operation, sighting = draft.operation, event.sighting
    if operation.state not in (State.IN_DOUBT, State.UNRESOLVED) and not operation.final:
        raise IllegalMoveError(operation.state, "probe", "nothing is in doubt")
    draft.saw(Source.PROBE, sighting.finding, sighting.detail, at_ms=event.begun_ms)
    draft.change(probes_total=operation.probes_total + 1)
    if operation.final:
        _after_the_end(draft, sighting)
        return
    match sighting.finding:
        case Finding.EXECUTED_OK:
            reconcile = draft.action.reconcile
            draft.succeed("found", "state" if reconcile is not None and reconcile.identify.state else "probe")
        case Finding.EXECUTED_FAILED if _speaks_for_all(draft):
            _failed_there(draft, "found", sighting)
        case Finding.FENCED:
            _fenced(draft, "our fence holds its place")
        case Finding.ABSENT:
            _absent(draft, event)
        case _:
            _nothing_new(draft, sighting)


def _speaks_for_all(draft: Draft) -> bool:
    """Whether "it failed" covers every attempt: the service sees one operation, or only one may have run."""
    open_sends = [item for item in draft.operation.sends if item.standing in AMBIGUOUS_STANDINGS]
    same = draft.action.resend is Resend.SAME_KEY and draft.action.replay_after_5xx is ReplayAfter5xx.SAME_OUTCOME
    return len(open_sends) <= 1 or same


def _failed_there(draft: Draft, event: str, sighting: Sighting) -> None:
    draft.settle_attempts(Standing.SETTLED)
    executed = sighting.executed or Executed.YES
    basis = "handle" if event == "polled" else "probe"
    draft.fail(event, basis, executed, Failure("failed_there", "The service carried it out and says that it failed."))


def _fenced(draft: Draft, why: str) -> None:
    draft.settle_attempts(Standing.FENCED)
    failure = Failure("not_executed", f"It was not executed and never will be: {why}.")
    draft.fail("fenced", "fence", Executed.NO, failure)


def _absent(draft: Draft, event: Probed) -> None:
    operation, action, now = draft.operation, draft.action, draft.now
    reconcile = action.reconcile
    if reconcile is None:
        raise IllegalMoveError(operation.state, "probe", "the action declares no look-up")
    if isinstance(reconcile.absence, Fence) and operation.state is State.IN_DOUBT and fences_left(draft):
        draft.move("looked", State.IN_DOUBT, probes=operation.probes + 1, next_ms=now.wall_ms)
        _mind_deadline(draft)
        return
    verdict = weigh(reconcile, operation, event.begun_boot_ms, now)
    draft.change(looks=verdict.looks)
    if verdict.conclusive:
        draft.fact("absence", reason=verdict.reason)
        draft.settle_attempts(Standing.ABSENT)
        _conclusively_absent(draft)
        return
    _nothing_new(draft, event.sighting, wait_seconds=verdict.wait_seconds)


def _interval(draft: Draft) -> float:
    return draft.action.reconcile.interval_seconds if draft.action.reconcile is not None else 1.0


def fences_left(draft: Draft) -> bool:
    """A fence may be tried again (it is a put-if-absent under our own name), but not for ever."""
    return sum(1 for item in draft.operation.attempts if item.kind is Kind.FENCE) < FENCES_MAX


def _conclusively_absent(draft: Draft) -> None:
    permission = may_repeat(draft.action, draft.operation, draft.now)
    if permission.allowed and draft.operation.state is State.IN_DOUBT:
        draft.move("absence", State.READY, next_ms=draft.now.wall_ms)
        return
    detail = "It was not executed and no copy of the request can still arrive."
    draft.fail("absence", "absence", Executed.NO, Failure("not_executed", detail))


def _nothing_new(draft: Draft, sighting: Sighting, *, wait_seconds: float | None = None) -> None:
    """Stay, look again later; repeat under the same key where that is allowed; mind the deadline."""
    operation, now = draft.operation, draft.now
    if sighting.contradiction:
        draft.alert("contradiction")
    if sighting.finding is Finding.IN_PROGRESS:
        draft.change(looks=())
    if operation.state is State.UNRESOLVED:
        draft.move("looked", State.UNRESOLVED, next_ms=_watch_due(draft))
        return
    tries = operation.probes + 1
    if _repeat_instead(draft, sighting, tries):
        _to_ready(draft, "repeat_allowed", sighting.wait_seconds)
        return
    interval = _interval(draft)
    delay = wait_seconds if wait_seconds is not None else backoff_seconds(interval, operation.probes, now)
    due = due_ms(now, delay, asked_seconds=sighting.wait_seconds, deadline_ms=operation.recovery_ms)
    draft.move("looked", State.IN_DOUBT, probes=tries, next_ms=due)
    _mind_deadline(draft)


def _repeat_instead(draft: Draft, sighting: Sighting, tries: int) -> bool:
    if sighting.contradiction:
        return False
    enough = sighting.finding is Finding.ABSENT or (
        sighting.finding is Finding.INCONCLUSIVE and tries >= INCONCLUSIVE_LOOKS_BEFORE_REPEAT
    )
    return enough and may_repeat(draft.action, draft.operation, draft.now).allowed


def _mind_deadline(draft: Draft) -> None:
    recovery_ms = draft.operation.recovery_ms
    if recovery_ms is not None and draft.now.wall_ms >= recovery_ms:
        give_up(draft, "deadline")


def _after_the_end(draft: Draft, sighting: Sighting) -> None:
    operation = draft.operation
    executed_then = sighting.finding in (Finding.EXECUTED_OK, Finding.EXECUTED_FAILED, Finding.IN_PROGRESS)
    contradicts = (executed_then and operation.executed is Executed.NO) or (
        sighting.finding in (Finding.FENCED, Finding.EXECUTED_FAILED) and operation.state is State.SUCCEEDED
    )
    if contradicts:
        draft.alert("contradiction")
    draft.move("late", operation.state, contradicted=operation.contradicted or contradicts)


def polled(draft: Draft, event: Polled) -> None:
    """A look at the handle of an accepted operation."""
    operation, sighting = draft.operation, event.sighting
    if operation.state not in (State.ACCEPTED, State.UNRESOLVED):
        raise IllegalMoveError(operation.state, "poll", "it is not followed by a handle")
    draft.saw(Source.HANDLE, sighting.finding, sighting.detail, at_ms=event.begun_ms)
    draft.change(probes_total=operation.probes_total + 1)
    match sighting.finding:
        case Finding.EXECUTED_OK:
            draft.succeed("polled", "handle")
        case Finding.EXECUTED_FAILED if _speaks_for_all(draft):
            _failed_there(draft, "polled", sighting)
        case Finding.ABSENT if operation.state is State.ACCEPTED:
            draft.change(handle=None)
            draft.move("handle_lost", State.IN_DOUBT)
            look_ahead(draft)
        case _ if operation.state is State.UNRESOLVED:
            draft.move("polled", State.UNRESOLVED, next_ms=_watch_due(draft))
        case _:
            _poll_later(draft, sighting)


def _poll_later(draft: Draft, sighting: Sighting) -> None:
    operation, now = draft.operation, draft.now
    interval = draft.action.accepted.interval_seconds if draft.action.accepted is not None else 1.0
    delay = backoff_seconds(interval, operation.probes, now)
    due = due_ms(now, delay, asked_seconds=sighting.wait_seconds, deadline_ms=operation.recovery_ms)
    draft.move("polled", State.ACCEPTED, probes=operation.probes + 1, next_ms=due)
    _mind_deadline(draft)


def fence_begun(draft: Draft, event: FenceBegun) -> None:
    """A fence is a write: its begin is durable before its first byte, and its own answer can be lost."""
    operation, now = draft.operation, draft.now
    reconcile = draft.action.reconcile
    if reconcile is None or not isinstance(reconcile.absence, Fence) or not fences_left(draft):
        raise IllegalMoveError(operation.state, "fence", "no fence is declared or left")
    number = len(operation.attempts) + 1
    attempt = Attempt(
        number=number,
        kind=Kind.FENCE,
        fence=operation.fence + 1,
        started_ms=now.wall_ms,
        started_boot_ms=now.boot_ms,
        boot_id=now.boot_id,
    )
    draft.move(
        "fence_begun",
        State.IN_DOUBT,
        attempts=(*operation.attempts, attempt),
        fence=attempt.fence,
        lease=Lease(now.owner, now.wall_ms + int(event.lease_seconds * 1000)),
        next_ms=None,
    )
    draft.fact("fence", attempt=number, fence=attempt.fence)


def fence_observed(draft: Draft, event: FenceObserved) -> None:
    """Won: it never ran. Taken: a look must tell by whom. Anything else: the fence itself is in doubt."""
    seen, number = event.observation, event.attempt
    draft.set_attempt(
        number,
        ended_ms=seen.ended_ms,
        closed_boot_ms=seen.closed_boot_ms,
        closed_boot_id=draft.now.boot_id if seen.closed_boot_ms is not None else None,
        phase=seen.phase.value,
        bytes_written=seen.bytes_written,
        status=seen.status,
        observation=seen.summary,
    )
    draft.change(lease=None)
    if draft.operation.final:
        draft.move("late", draft.operation.state)
        return
    if event.won is True:
        draft.saw(Source.FENCE, Finding.FENCED, "the fence took the place", attempt=number)
        _fenced(draft, "the gateway took its place")
        return
    if seen.nothing_left:
        draft.set_attempt(number, standing=Standing.UNSENT)
    elif event.won is False:
        draft.set_attempt(number, standing=Standing.SETTLED)
    else:
        draft.set_attempt(number, standing=Standing.DOUBT)
    detail = "the place was already taken" if event.won is False else seen.summary
    draft.saw(Source.FENCE, Finding.INCONCLUSIVE, detail, attempt=number)
    _after_fence(draft, won=event.won)


def _after_fence(draft: Draft, *, won: bool | None) -> None:
    operation, now = draft.operation, draft.now
    if operation.state is State.UNRESOLVED:
        draft.move("looked", State.UNRESOLVED, next_ms=_watch_due(draft))
        return
    interval = _interval(draft)
    delay = 0.0 if won is False else backoff_seconds(interval, operation.probes, now)
    due = due_ms(now, delay, asked_seconds=None, deadline_ms=operation.recovery_ms)
    draft.move("fence_seen", State.IN_DOUBT, probes=operation.probes + 1, next_ms=due)
    _mind_deadline(draft)
