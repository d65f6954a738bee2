"""The only permission to send again.

Nothing else in the gateway may decide that: no method, no exception class, no timer. Each rule below carries its letter
in gateway/README.md, "When may it be sent again?". A refusal always says why.
"""

from dataclasses import dataclass

from gateway.core.reconcile.fence import fence_may_stand
from gateway.core.steps import finished, standstill
from gateway.model.action import Action, BindPlace, Fence, ReplayAfter5xx, Resend
from gateway.model.operation import Attempt, Kind, Now, Operation, Standing

UNDONE_STANDINGS = frozenset({Standing.UNSENT, Standing.ABSENT})
"""Of these attempts it is proven that nothing ran and that the service gave no final word."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether another attempt may be begun, by which rule, and why not otherwise."""

    allowed: bool
    rule: str | None
    reason: str


def may_repeat(action: Action, operation: Operation, now: Now) -> Permission:
    """Answer "may attempt n+1 be begun?" for an operation that has been begun at least once.

    Whoever asks must still hold the operation: the fencing token is checked by the store's compare-and-set.
    """
    sends = operation.sends
    # What has brought a job on is no failed attempt: each step may be tried as often as a single command.
    if len(sends) >= action.attempts_max + finished(operation):
        return Permission(allowed=False, rule=None, reason=f"all {action.attempts_max} attempts are used")
    if operation.recovery_ms is not None and now.wall_ms >= operation.recovery_ms:
        return Permission(allowed=False, rule=None, reason="the recovery deadline has passed")
    if operation.contradicted and not action.is_read:
        # The service's record of our value is not what was asked for; another request could only make it worse.
        return Permission(allowed=False, rule=None, reason="the evidence contradicts itself")
    if any(item.kind is Kind.CANCEL for item in operation.attempts):
        # Also where the host never heard of it: whoever cancels wants no further attempt.
        return Permission(allowed=False, rule=None, reason="it was cancelled")
    if fence_may_stand(operation):
        # Our fence occupies the id, so that the answer to another attempt could speak of the fence.
        return Permission(allowed=False, rule=None, reason="a fence may have used up the operation's id")
    if operation.ambiguous:
        return _while_ambiguous(action, operation, now)
    return _while_clear(action, sends)


def _while_clear(action: Action, sends: tuple[Attempt, ...]) -> Permission:
    if any(item.standing not in UNDONE_STANDINGS for item in sends):
        # Not only the last one counts: late news of an earlier attempt may be a definite answer.
        return Permission(allowed=False, rule=None, reason="an attempt was answered")
    last = sends[-1] if sends else None
    if last is None or (last.standing is Standing.UNSENT and last.status is None):
        return Permission(allowed=True, rule="a", reason="no request byte of the last attempt left")
    if action.is_read:
        return Permission(allowed=True, rule="b", reason="a read changes nothing")
    if last.standing is Standing.UNSENT:
        # An answer declared to come before any work: the service saw the request, so the owner must allow a repeat.
        if action.resend is Resend.NEVER:
            return Permission(allowed=False, rule=None, reason="the action declares `resend: never`")
        return Permission(allowed=True, rule="a", reason="the service refused before any work")
    return _on_absence(action)


def _on_absence(action: Action) -> Permission:
    if action.resend is not Resend.ON_ABSENCE:
        return Permission(allowed=False, rule=None, reason="the action does not declare `resend: on_absence`")
    if action.reconcile is not None and isinstance(action.reconcile.absence, Fence):
        return Permission(allowed=False, rule=None, reason="a fence has used up the operation's id")
    return Permission(allowed=True, rule="d", reason="conclusive absence leaves the id usable")


def _while_ambiguous(action: Action, operation: Operation, now: Now) -> Permission:
    if action.is_read:
        return Permission(allowed=True, rule="b", reason="a read changes nothing")
    if action.resend is Resend.SAME_KEY:
        refusal = same_key_refusal(action, operation, now)
        if refusal is None:
            return Permission(allowed=True, rule="c", reason="the service deduplicates by our value")
        return Permission(allowed=False, rule=None, reason=refusal)
    if action.steps:
        refusal = standstill(action, operation)
        if refusal is None:
            return Permission(allowed=True, rule="e", reason="the job stands still before a step that has not begun")
        return Permission(allowed=False, rule=None, reason=refusal)
    return Permission(allowed=False, rule=None, reason="an earlier attempt may have been carried out")


def same_key_refusal(action: Action, operation: Operation, now: Now) -> str | None:
    """Why the service's memory of our value cannot be relied on now, or None if it can.

    Asked again in the hook that runs before the first request byte: time may have passed since the decision.
    """
    bind = action.bind
    if bind.place is BindPlace.NONE or bind.window_min_seconds is None:
        return "the action declares no value and window by which the service deduplicates"
    if action.replay_after_5xx is not ReplayAfter5xx.SAME_OUTCOME:
        # The answer that we never saw may have been a 5xx, after which this service might execute again.
        return "the service is not known to replay the same outcome after a 5xx"
    age = age_seconds(operation, now)
    if age is None:
        return "the clock stepped back, so the age of the first attempt is not known"
    reach = action.deadlines.connect_seconds + action.deadlines.request_seconds
    if age + reach >= bind.window_min_seconds - bind.window_margin_seconds:
        return "the service's memory of our value may end before this attempt does"
    return None


def is_behind(operation: Operation, now: Now) -> bool:
    """Whether the wall clock is behind what was stored of the operation: it was stepped back since."""
    if operation.begun_ms is None:
        return False
    return now.wall_ms < max([operation.begun_ms, *(item.ended_ms or item.started_ms for item in operation.attempts)])


def age_seconds(operation: Operation, now: Now) -> float | None:
    """Age of the first attempt: the larger of wall and boot time; None if the wall clock is behind what was stored."""
    if operation.begun_ms is None:
        return 0.0
    if operation.clock_stepped or is_behind(operation, now):
        return None
    age = now.wall_ms - operation.begun_ms
    if operation.begun_boot_id == now.boot_id and operation.begun_boot_ms is not None:
        age = max(age, now.boot_ms - operation.begun_boot_ms)
    return age / 1000
