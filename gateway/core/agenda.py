"""What an unsettled operation needs next: the pure half of the driver, shared by a good day and a restart."""

from dataclasses import dataclass
from enum import StrEnum

from gateway.core.reconcile.fence import fence_under_way, may_fence
from gateway.model.action import Action
from gateway.model.evidence import Finding, Source
from gateway.model.operation import Now, Operation, State


class Act(StrEnum):
    """The next thing to do."""

    NOTHING = "nothing"
    """Final, held, or an attempt is under way."""
    WAIT = "wait"
    BASELINE = "baseline"
    BEGIN = "begin"
    FOLLOW = "follow"
    POLL = "poll"
    PROBE = "probe"
    FENCE = "fence"
    DEADLINE = "deadline"
    LEASE_LOST = "lease_lost"


@dataclass(frozen=True, slots=True)
class Item:
    """An act and, for a wait, until when (wall-clock milliseconds; None: until something happens)."""

    act: Act
    at_ms: int | None = None


def next_item(action: Action, operation: Operation, now: Now) -> Item:
    """Say what to do now. Deadlines come before everything that is due."""
    match operation.state:
        case State.READY:
            return _ready(action, operation, now)
        case State.SENDING:
            return _sending(operation, now)
        case State.ACCEPTED:
            return _searching(operation, now, Act.POLL)
        case State.IN_DOUBT:
            return _in_doubt(action, operation, now)
        case State.UNRESOLVED:
            return _unresolved(action, operation, now)
        case _:
            return Item(Act.NOTHING)


def _ready(action: Action, operation: Operation, now: Now) -> Item:
    if not operation.sends:
        if now.wall_ms >= operation.start_by_ms:
            return Item(Act.DEADLINE)
        reconcile = action.reconcile
        if reconcile is not None and reconcile.identify.state and operation.baseline is None:
            return _when_due(operation, now, Act.BASELINE)
        return _when_due(operation, now, Act.BEGIN)
    if _over(operation, now):
        return Item(Act.DEADLINE)
    return _when_due(operation, now, Act.BEGIN)


def _sending(operation: Operation, now: Now) -> Item:
    lease = operation.lease
    if lease is None or now.wall_ms >= lease.until_ms:
        return Item(Act.LEASE_LOST)
    return Item(Act.WAIT, lease.until_ms)


def _in_doubt(action: Action, operation: Operation, now: Now) -> Item:
    if operation.handle is not None and action.accepted is not None:
        return Item(Act.FOLLOW)
    if fence_under_way(operation) and operation.lease is not None and now.wall_ms < operation.lease.until_ms:
        return Item(Act.WAIT, operation.lease.until_ms)
    if action.reconcile is None:
        return Item(Act.DEADLINE) if _over(operation, now) else Item(Act.WAIT, operation.recovery_ms)
    if _wants_fence(action, operation):
        return _searching(operation, now, Act.FENCE)
    return _searching(operation, now, Act.PROBE)


def _unresolved(action: Action, operation: Operation, now: Now) -> Item:
    if operation.next_ms is None:
        return Item(Act.NOTHING)
    follow = operation.handle is not None and action.accepted is not None
    return _when_due(operation, now, Act.POLL if follow else Act.PROBE)


def _wants_fence(action: Action, operation: Operation) -> bool:
    """The newest look found nothing and a fence is declared: occupy the place before anything late can arrive."""
    if not operation.evidence or not may_fence(action, operation):
        return False
    newest = operation.evidence[-1]
    return newest.source is Source.PROBE and newest.finding is Finding.ABSENT


def _searching(operation: Operation, now: Now, act: Act) -> Item:
    # One last look is made at the deadline itself, so that evidence which is there is not missed by a moment.
    if _over(operation, now) and (operation.next_ms is None or operation.next_ms > now.wall_ms):
        return Item(Act.DEADLINE)
    return _when_due(operation, now, act)


def _over(operation: Operation, now: Now) -> bool:
    return operation.recovery_ms is not None and now.wall_ms >= operation.recovery_ms


def _when_due(operation: Operation, now: Now, act: Act) -> Item:
    if operation.next_ms is not None and operation.next_ms > now.wall_ms:
        return Item(Act.WAIT, operation.next_ms)
    return Item(act)
