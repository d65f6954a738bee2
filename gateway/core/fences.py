"""The part of the lifecycle in which the operation's place is occupied, so that no late copy can take effect."""

from gateway.core.doubt import cleared, fenced, look_interval, mind_deadline, watch_due
from gateway.core.draft import Draft, observed_fields
from gateway.core.events import FenceBegun, FenceObserved
from gateway.core.reconcile.fence import fence_under_way, may_fence, place_speaks
from gateway.core.transitions import IllegalMoveError
from gateway.core.waits import backoff_seconds, due_ms
from gateway.model.evidence import Finding, Source
from gateway.model.operation import Attempt, Kind, Lease, Standing, State


def fence_begun(draft: Draft, event: FenceBegun) -> None:
    """A fence is a write: its begin is durable before its first byte, and its own answer can be lost."""
    operation, now = draft.operation, draft.now
    if not may_fence(draft.action, operation):
        raise IllegalMoveError(operation.state, "fence", "no fence is declared, left, or able to prove anything")
    if fence_under_way(operation):
        if operation.lease is not None and now.wall_ms < operation.lease.until_ms:
            raise IllegalMoveError(operation.state, "fence", "one is under way")
        draft.set_attempts(lambda item: item.standing is Standing.OPEN, standing=Standing.DOUBT)
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
        attempts=(*draft.operation.attempts, attempt),
        fence=attempt.fence,
        lease=Lease(now.owner, now.wall_ms + int(event.lease_seconds * 1000)),
        next_ms=None,
    )
    draft.fact("fence", attempt=number, fence=attempt.fence)


def fence_observed(draft: Draft, event: FenceObserved) -> None:
    """Won: it never ran. Taken: a look must tell by whom. Anything else: the fence itself is in doubt."""
    seen, number = event.observation, event.attempt
    before = draft.unseen(number, Kind.FENCE)
    won = None if seen.nothing_left else event.won
    draft.set_attempt(number, status=seen.status, **observed_fields(before, seen, draft.now))
    draft.keep_found_steps(seen)
    detail = {True: "the fence took the place", False: "the place was already taken", None: seen.summary}[won]
    draft.saw(Source.FENCE, Finding.FENCED if won else Finding.INCONCLUSIVE, detail, attempt=number)
    if draft.operation.final:
        if won and draft.operation.state is State.SUCCEEDED:
            # The place was empty where we had seen the effect.
            draft.contradict()
        draft.move("late", draft.operation.state)
        return
    draft.set_attempt(number, standing=standing_after(won=won, nothing_left=seen.nothing_left))
    if before.standing is Standing.OPEN and draft.operation.state is State.IN_DOUBT:
        draft.change(lease=None)
    if won:
        _won(draft)
    else:
        _go_on(draft, won=won, reason=seen.summary)


def standing_after(*, won: bool | None, nothing_left: bool) -> Standing:
    """What is known of a fence or a cancel once it was observed."""
    if nothing_left:
        return Standing.UNSENT
    return Standing.DOUBT if won is None else Standing.SETTLED


def _won(draft: Draft) -> None:
    operation = draft.operation
    if operation.state in {State.IN_DOUBT, State.UNRESOLVED} and place_speaks(draft.action, operation):
        fenced(draft, "the gateway took its place")
        return
    # The service knew the operation, and yet its place was empty: it may have run and been cleared away.
    draft.contradict()
    _go_on(draft, won=True, reason="the fence took the place")


def _go_on(draft: Draft, *, won: bool | None, reason: str) -> None:
    operation, now = draft.operation, draft.now
    if operation.state not in {State.IN_DOUBT, State.UNRESOLVED}:
        draft.move("late", operation.state)
    elif not operation.ambiguous:
        cleared(draft, reason)
    elif operation.state is State.UNRESOLVED:
        draft.move("looked", State.UNRESOLVED, next_ms=watch_due(draft))
    else:
        delay = 0.0 if won is False else backoff_seconds(look_interval(draft), operation.probes, now)
        due = due_ms(now, delay, asked_seconds=None, deadline_ms=operation.recovery_ms)
        draft.move("fence_seen", State.IN_DOUBT, probes=operation.probes + 1, next_ms=due)
        mind_deadline(draft)
