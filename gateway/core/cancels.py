"""The part of the lifecycle in which a host is told that a command is no longer wanted; the verdict stays its record's.

A cancel fences what has not begun and signals what has. That a signal was sent proves nothing: the command may ignore
it, or end by itself first. So the outcome comes from the same looks as without a cancel.
"""

from typing import Final

from gateway.core.doubt import fenced
from gateway.core.draft import Draft, observed_fields
from gateway.core.events import CancelBegun, CancelObserved
from gateway.core.fences import standing_after
from gateway.core.reconcile.fence import place_speaks
from gateway.core.transitions import IllegalMoveError
from gateway.model.action import Action, Marker
from gateway.model.evidence import Finding, Source
from gateway.model.operation import AMBIGUOUS_STANDINGS, Attempt, Kind, Operation, Standing, State

CANCELS_MAX: Final = 20
"""Of one operation: each is kept with it."""
_STATES: Final = frozenset({State.SENDING, State.IN_DOUBT, State.UNRESOLVED})


def may_cancel(action: Action, operation: Operation) -> bool:
    """Whether the place where it may run takes a cancel: only a runner on a host does."""
    return (
        action.marker is Marker.RUNNER
        and operation.state in _STATES
        and any(item.standing in AMBIGUOUS_STANDINGS for item in operation.sends)
    )


def cancel_begun(draft: Draft, event: CancelBegun) -> None:
    """Its begin is durable before its first byte. From here on there is no further attempt."""
    operation, now = draft.operation, draft.now
    if not may_cancel(draft.action, operation):
        raise IllegalMoveError(operation.state, "cancel", "an attempt may have been carried out")
    cancels = [item for item in operation.attempts if item.kind is Kind.CANCEL]
    if any(item.standing is Standing.OPEN for item in cancels):
        raise IllegalMoveError(operation.state, "cancel", "one is under way")
    if len(cancels) >= CANCELS_MAX:
        raise IllegalMoveError(operation.state, "cancel", f"the host was told {CANCELS_MAX} times")
    attempt = Attempt(
        number=len(operation.attempts) + 1,
        kind=Kind.CANCEL,
        fence=operation.fence + 1,
        started_ms=now.wall_ms,
        started_boot_ms=now.boot_ms,
        boot_id=now.boot_id,
    )
    draft.move("cancel_begun", operation.state, attempts=(*operation.attempts, attempt), fence=attempt.fence)
    draft.fact("cancel", attempt=attempt.number, fence=attempt.fence, actor=event.actor, signal=event.signal)


def cancel_observed(draft: Draft, event: CancelObserved) -> None:
    """Fenced: it never ran. Anything else: its record must tell, and is looked at now."""
    seen, number = event.observation, event.attempt
    before = draft.unseen(number, Kind.CANCEL)
    won = None if seen.nothing_left else event.fenced
    draft.set_attempt(number, status=seen.status, **observed_fields(before, seen, draft.now))
    draft.keep_found_steps(seen)
    detail = "it had not begun, and never will" if won else seen.summary
    draft.saw(Source.CANCEL, Finding.FENCED if won else Finding.INCONCLUSIVE, detail, attempt=number)
    operation = draft.operation
    if operation.final:
        if won and operation.state is State.SUCCEEDED:
            draft.contradict()
        draft.move("late", operation.state)
        return
    draft.set_attempt(number, standing=standing_after(won=won, nothing_left=seen.nothing_left))
    if operation.state is State.SENDING:
        # The attempt itself is still to report.
        draft.move("cancel_seen", State.SENDING)
        return
    if won and place_speaks(draft.action, operation):
        fenced(draft, "it was cancelled before it began")
        return
    if won:
        draft.contradict()
    draft.move("cancel_seen", operation.state, next_ms=draft.now.wall_ms)
