"""The part of the lifecycle in which evidence is gathered: looks, handles, fences, and giving up at the deadline.

Nothing here follows from a timer alone except `unresolved`: the recovery deadline ends the search, never the doubt.
"""

from dataclasses import replace

from gateway.core.command import STATUS
from gateway.core.draft import Draft, sentence, undone_basis
from gateway.core.events import Polled, Probed, Sighting
from gateway.core.reconcile.absence import weigh
from gateway.core.reconcile.fence import fence_may_stand, may_fence, place_speaks
from gateway.core.repeat import may_repeat, same_key_refusal
from gateway.core.steps import finished, never_ran
from gateway.core.transitions import IllegalMoveError
from gateway.core.waits import backoff_seconds, due_ms
from gateway.model.action import Action, Resend
from gateway.model.evidence import Finding, Source
from gateway.model.operation import AMBIGUOUS_STANDINGS, Executed, Failure, Operation, Standing, State
from gateway.model.problem import ensure

INCONCLUSIVE_LOOKS_BEFORE_REPEAT = 2
"""A repeat under the same key needs no look, but a look that answers is cheaper than a second request."""
WATCH_FACTOR = 10.0
"""An unresolved operation is looked at this many times more slowly than one in doubt, at most once a minute."""
WATCH_INTERVAL_MAX_SECONDS = 60.0
WATCH_SECONDS = 7 * 86_400.0
"""How long an unresolved operation is watched whose action declares no look-up, only a handle."""
RESEND_INTERVAL_SECONDS = 0.2


def look_ahead(draft: Draft, *, asked_seconds: float | None = None) -> None:
    """An operation has come into doubt: set when to look next, or say that nothing can settle it."""
    operation, action, now = draft.operation, draft.action, draft.now
    if action.is_read:
        _read_again(draft, asked_seconds)
        return
    if operation.recovery_ms is not None and now.wall_ms >= operation.recovery_ms:
        give_up(draft, "deadline")
        return
    if _can_look(draft):
        due = due_ms(now, 0.0, asked_seconds=asked_seconds, deadline_ms=operation.recovery_ms)
        draft.change(next_ms=due)
        return
    if may_repeat(action, operation, now).allowed:
        _to_ready(draft, "repeat_allowed", asked_seconds)
        return
    give_up(draft, "no_way_to_know")


def _can_look(draft: Draft) -> bool:
    return _can_follow(draft) or draft.action.reconcile is not None


def _can_follow(draft: Draft) -> bool:
    return draft.operation.handle is not None and draft.action.accepted is not None


def wake(draft: Draft, before: Operation) -> None:
    """A handle has come to an operation in doubt or watched: look at once."""
    if before.state in {State.IN_DOUBT, State.UNRESOLVED} and before.handle is None and _can_follow(draft):
        draft.change(next_ms=draft.now.wall_ms)


def _read_again(draft: Draft, asked_seconds: float | None) -> None:
    if may_repeat(draft.action, draft.operation, draft.now).allowed:
        _to_ready(draft, "repeat_allowed", asked_seconds)
    else:
        give_up(draft, "read_over")


def _to_ready(draft: Draft, event: str, asked_seconds: float | None) -> None:
    draft.move(event, State.READY, next_ms=resend_due(draft, asked_seconds))


def resend_due(draft: Draft, asked_seconds: float | None) -> int:
    """When the next attempt may be begun, wall clock: a short backoff, or what the service asked for, capped."""
    # An attempt that brought a job on is none that failed.
    failed = len(draft.operation.sends) - finished(draft.operation)
    delay = backoff_seconds(RESEND_INTERVAL_SECONDS, max(failed - 1, 0), draft.now)
    return due_ms(draft.now, delay, asked_seconds=asked_seconds, deadline_ms=draft.operation.recovery_ms)


def cleared(draft: Draft, reason: str, *, status: int | None = None, asked_seconds: float | None = None) -> None:
    """Proof cleared the last doubt: send again if that is allowed, else it is over and nothing was executed."""
    operation = draft.operation
    ensure(not operation.ambiguous, "nothing is cleared while an attempt is ambiguous")
    in_doubt = operation.state is State.IN_DOUBT
    if in_doubt and may_repeat(draft.action, operation, draft.now).allowed:
        _to_ready(draft, "repeat_allowed", asked_seconds)
        return
    refused = any(item.standing is Standing.REFUSED for item in operation.sends)
    failure = Failure("rejected" if refused else "not_executed", sentence(reason), status)
    draft.fail("cleared" if in_doubt else "late", undone_basis(operation), Executed.NO, failure)


def give_up(draft: Draft, event: str) -> None:
    """The search is over: unresolved while anything is ambiguous, else failed; a read says that nothing is known."""
    operation = draft.operation
    if draft.action.is_read:
        _read_over(draft)
    elif operation.ambiguous:
        reconcile = draft.action.reconcile
        watch_seconds = WATCH_SECONDS if reconcile is None else reconcile.watch_seconds
        watch_ms = draft.now.wall_ms + int(watch_seconds * 1000) if _can_look(draft) else None
        draft.alert("unresolved")
        draft.move(event, State.UNRESOLVED, watch_until_ms=watch_ms, lease=None)
        draft.fact("unresolved", reason=event)
        draft.change(next_ms=watch_due(draft))
    else:
        failure = Failure("not_executed", "It was not executed before its deadline.")
        draft.fail(event, undone_basis(operation), Executed.NO, failure)


def _read_over(draft: Draft) -> None:
    last = draft.operation.sends[-1] if draft.operation.sends else None
    status = None if last is None else last.status
    if status is not None:
        why = f", the last one had status {status}"
    else:
        why = f": {last.observation}" if last is not None and last.observation else " in its time"
    detail = f"The read got no usable answer{why}. This says nothing about whether the thing exists."
    draft.settle_attempts(Standing.SETTLED)
    draft.fail("read_over", None, Executed.UNKNOWN, Failure("no_answer", detail, status))


def watch_due(draft: Draft) -> int | None:
    """When to look again at an unresolved operation, wall clock; None once its watch has ended."""
    operation, now = draft.operation, draft.now
    if not _can_look(draft) or operation.watch_until_ms is None or now.wall_ms >= operation.watch_until_ms:
        return None
    interval = look_interval(draft)
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
    if sighting.steps and draft.keep_steps(sighting.steps):
        sighting = replace(sighting, finding=Finding.INCONCLUSIVE, contradiction=True)
    match sighting.finding:
        case Finding.EXECUTED_OK:
            reconcile = draft.action.reconcile
            draft.succeed("found", "state" if reconcile is not None and reconcile.identify.state else "probe")
        case Finding.EXECUTED_FAILED if _speaks_for_all(draft):
            _failed_there(draft, "found", sighting)
        case Finding.FENCED:
            _fence_found(draft, sighting)
        case Finding.ABSENT:
            _absent(draft, event)
        case _:
            _nothing_new(draft, sighting)


def _speaks_for_all(draft: Draft) -> bool:
    """Whether "it failed" covers every attempt: only one may have run, or the service sees them as one operation.

    So does a host of a step: every attempt means the same place there.

    The second holds only while the service remembers our value: a late copy that it no longer knows would run anew.
    """
    open_sends = [item for item in draft.operation.sends if item.standing in AMBIGUOUS_STANDINGS]
    if len(open_sends) <= 1 or draft.action.steps:
        return True
    same_key = draft.action.resend is Resend.SAME_KEY
    return same_key and same_key_refusal(draft.action, draft.operation, draft.now) is None


def _failed_there(draft: Draft, event: str, sighting: Sighting) -> None:
    draft.settle_attempts(Standing.SETTLED)
    executed = sighting.executed or Executed.YES
    basis = "handle" if event == "polled" else "probe"
    who = draft.action.service.noun
    detail = {
        Executed.NO: f"The {who} says that it failed before anything was done.",
        Executed.YES: f"The {who} carried it out and says that it failed.",
        Executed.UNKNOWN: f"The {who} says that it failed, and not how far it came.",
    }[executed]
    why = ""
    if _by_the_runner(draft.action):
        # The record says more than that it failed: why it ended, or why it never began.
        why = sentence(sighting.detail.removesuffix(f": {sighting.finding.value}"))
    draft.fail(event, basis, executed, Failure("failed_there", f"{detail} {why}".rstrip()), why=why)


def _by_the_runner(action: Action) -> bool:
    """Whether a look asks the runner's own record, and no status command."""
    look = action.reconcile
    return action.service.host is not None and look is not None and look.request.method == STATUS


def _fence_found(draft: Draft, sighting: Sighting) -> None:
    if not fence_may_stand(draft.operation) or not place_speaks(draft.action, draft.operation):
        # A tombstone that we never laid, or one where something of ours was seen before, proves nothing.
        _nothing_new(draft, replace(sighting, contradiction=True))
        return
    fenced(draft, "our fence holds its place")


def fenced(draft: Draft, why: str) -> None:
    """It never ran and never will: the place where it would have shown is ours."""
    draft.settle_attempts(Standing.FENCED)
    if draft.action.steps:
        draft.change(steps=never_ran(draft.action, draft.operation))
    failure = Failure("not_executed", f"It was not executed and never will be: {why}.")
    draft.fail("fenced", "fence", Executed.NO, failure)


def _absent(draft: Draft, event: Probed) -> None:
    operation, action, now = draft.operation, draft.action, draft.now
    reconcile = action.reconcile
    if reconcile is None:
        raise IllegalMoveError(operation.state, "probe", "the action declares no look-up")
    if action.steps and operation.state is State.IN_DOUBT and may_repeat(action, operation, now).allowed:
        # Before a fence: the job goes on where it stands still.
        _to_ready(draft, "repeat_allowed", event.sighting.wait_seconds)
        return
    if may_fence(action, operation):
        draft.move("looked", State.IN_DOUBT, probes=operation.probes + 1, next_ms=now.wall_ms)
        mind_deadline(draft)
        return
    verdict = weigh(reconcile, operation, event.begun_boot_ms, now)
    draft.change(looks=verdict.looks)
    if verdict.conclusive:
        draft.fact("absence", reason=verdict.reason)
        draft.settle_attempts(Standing.ABSENT)
        _conclusively_absent(draft)
        return
    _nothing_new(draft, event.sighting, wait_seconds=verdict.wait_seconds)


def look_interval(draft: Draft) -> float:
    """Seconds between two looks at the service's record."""
    return draft.action.reconcile.interval_seconds if draft.action.reconcile is not None else 1.0


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
        draft.contradict()
    if sighting.contradiction or sighting.finding is Finding.IN_PROGRESS:
        draft.change(looks=())
    if operation.state is State.UNRESOLVED:
        draft.move("looked", State.UNRESOLVED, next_ms=watch_due(draft))
        return
    tries = operation.probes + 1
    if _repeat_instead(draft, sighting, tries):
        _to_ready(draft, "repeat_allowed", sighting.wait_seconds)
        return
    interval = look_interval(draft)
    delay = wait_seconds if wait_seconds is not None else backoff_seconds(interval, operation.probes, now)
    due = due_ms(now, delay, asked_seconds=sighting.wait_seconds, deadline_ms=operation.recovery_ms)
    draft.move("looked", State.IN_DOUBT, probes=tries, next_ms=due)
    mind_deadline(draft)


def _repeat_instead(draft: Draft, sighting: Sighting, tries: int) -> bool:
    enough = sighting.finding is Finding.ABSENT or (
        sighting.finding is Finding.INCONCLUSIVE and tries >= INCONCLUSIVE_LOOKS_BEFORE_REPEAT
    )
    return enough and may_repeat(draft.action, draft.operation, draft.now).allowed


def mind_deadline(draft: Draft) -> None:
    """After a look that settled nothing: was it the last one?"""
    recovery_ms = draft.operation.recovery_ms
    if recovery_ms is not None and draft.now.wall_ms >= recovery_ms:
        give_up(draft, "deadline")


def _after_the_end(draft: Draft, sighting: Sighting) -> None:
    operation = draft.operation
    if operation.state is State.SUCCEEDED:
        contradicts = sighting.finding in (Finding.FENCED, Finding.EXECUTED_FAILED)
    else:
        seen_at_work = sighting.finding in (Finding.EXECUTED_FAILED, Finding.IN_PROGRESS)
        contradicts = sighting.finding is Finding.EXECUTED_OK or (seen_at_work and operation.executed is Executed.NO)
        # "Failed before anything was done" is no news of an operation that was not executed.
        contradicts = contradicts and sighting.executed is not Executed.NO
    if contradicts or sighting.contradiction:
        draft.contradict()
    draft.move("late", operation.state)


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
            if sighting.finding is Finding.ABSENT:
                # The handle is gone for good; what is left to watch is the service's own record.
                draft.change(handle=None)
            draft.move("polled", State.UNRESOLVED, next_ms=watch_due(draft))
        case _:
            _poll_later(draft, sighting)


def _poll_later(draft: Draft, sighting: Sighting) -> None:
    operation, now = draft.operation, draft.now
    interval = draft.action.accepted.interval_seconds if draft.action.accepted is not None else 1.0
    delay = backoff_seconds(interval, operation.probes, now)
    due = due_ms(now, delay, asked_seconds=sighting.wait_seconds, deadline_ms=operation.recovery_ms)
    draft.move("polled", State.ACCEPTED, probes=operation.probes + 1, next_ms=due)
    mind_deadline(draft)
