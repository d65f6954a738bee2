"""The part of the lifecycle in which something is sent: begin, and what the attempt's own observation leads to."""

from gateway.core.doubt import give_up, look_ahead, resend_due, wake
from gateway.core.draft import Draft, observed_fields, sentence, undone_basis
from gateway.core.events import Begin, HeadSeen, Observed
from gateway.core.judge import Judgement, Reading, judge
from gateway.core.late import fail_there, late
from gateway.core.repeat import Permission, may_repeat
from gateway.core.steps import begun, shown_steps
from gateway.core.transitions import IllegalMoveError
from gateway.core.waits import backoff_seconds, due_ms
from gateway.model.evidence import Finding, Source
from gateway.model.operation import (
    Attempt,
    Executed,
    Failure,
    Handle,
    Kind,
    Lease,
    Now,
    Operation,
    Standing,
    State,
)
from gateway.model.problem import ensure

_FINDINGS = {
    Reading.UNSENT: Finding.ABSENT,
    Reading.REFUSED_BEFORE_WORK: Finding.ABSENT,
    Reading.SUCCESS: Finding.EXECUTED_OK,
    Reading.REJECTED: Finding.ABSENT,
    Reading.FAILED: Finding.EXECUTED_FAILED,
    Reading.ACCEPTED: Finding.IN_PROGRESS,
    Reading.DOUBT: Finding.INCONCLUSIVE,
}


def begin(draft: Draft, event: Begin) -> None:
    """Begin the next attempt, or say why it may not be: the commit of this step comes before DNS."""
    operation, now = draft.operation, draft.now
    if operation.state is not State.READY:
        raise IllegalMoveError(operation.state, "begin", "only a ready operation is sent")
    rule = None
    if operation.sends:
        permission = may_repeat(draft.action, operation, now)
        if not permission.allowed:
            _no_repeat(draft, permission)
            return
        rule = permission.rule
    elif now.wall_ms >= operation.start_by_ms:
        draft.cancel("start_by", Failure("too_late", "It could not be started before its start deadline."))
        return
    elif needs_baseline(draft):
        raise IllegalMoveError(operation.state, "begin", "success by state needs a look before the first send")
    _send(draft, event, rule)


def needs_baseline(draft: Draft) -> bool:
    """Success by state proves nothing without a look taken before the first send."""
    reconcile = draft.action.reconcile
    return reconcile is not None and reconcile.identify.state and draft.operation.baseline is None


def _send(draft: Draft, event: Begin, rule: str | None) -> None:
    operation, now = draft.operation, draft.now
    number = len(operation.attempts) + 1
    attempt = Attempt.make(
        number=number,
        kind=Kind.SEND,
        fence=operation.fence + 1,
        started_ms=now.wall_ms,
        started_boot_ms=now.boot_ms,
        boot_id=now.boot_id,
    )
    if operation.begun_ms is None:
        recovery_ms = now.wall_ms + int(draft.action.deadlines.recovery_seconds * 1000)
        draft.change(
            begun_ms=now.wall_ms, begun_boot_ms=now.boot_ms, begun_boot_id=now.boot_id, recovery_ms=recovery_ms
        )
    draft.move(
        "begin",
        State.SENDING,
        attempts=(*operation.attempts, attempt),
        fence=attempt.fence,
        lease=Lease(now.owner, now.wall_ms + int(event.lease_seconds * 1000)),
        next_ms=None,
        looks=(),
    )
    if draft.action.steps:
        draft.change(steps=begun(draft.action, operation))
    draft.fact("attempt", attempt=number, fence=attempt.fence, rule=rule, request=operation.request_sha256)


def forgotten(operation: Operation, now: Now) -> Attempt:
    """The attempt that a restored image does not know of: ended, its socket closed at the latest by our start."""
    return Attempt(
        number=len(operation.attempts) + 1,
        kind=Kind.SEND,
        fence=operation.fence + 1,
        started_ms=operation.created_ms,
        started_boot_ms=now.boot_ms,
        boot_id=now.boot_id,
        standing=Standing.DOUBT,
        ended_ms=now.wall_ms,
        closed_boot_ms=now.boot_ms,
        closed_boot_id=now.boot_id,
        observation="not known to the restored store; it may have been carried out",
    )


def _no_repeat(draft: Draft, permission: Permission) -> None:
    """A ready operation that may not be sent again: back to doubt, or over."""
    operation = draft.operation
    if draft.action.is_read:
        give_up(draft, "read_over")
    elif operation.ambiguous:
        draft.move("repeat_refused", State.IN_DOUBT)
        look_ahead(draft)
    else:
        failure = Failure("not_executed", f"It was not sent again: {permission.reason}.")
        draft.fail("repeat_refused", undone_basis(operation), Executed.NO, failure)


def observed(draft: Draft, event: Observed) -> None:
    """What an attempt showed. Evidence is kept whatever the state; only an attempt under way moves it by the table."""
    attempt = draft.unseen(event.attempt, Kind.SEND)
    seen = event.observation
    judgement = judge(draft.action, draft.operation, event.attempt, seen, event.variables)
    in_time = draft.operation.state is State.SENDING and attempt.standing is Standing.OPEN
    if draft.action.steps and _contradicts_steps(draft, event, in_time=in_time):
        judgement = Judgement(Reading.DOUBT, "a step that was seen on the host is not there any more")
    draft.set_attempt(event.attempt, status=judgement.status, **observed_fields(attempt, seen, draft.now))
    finding = Finding.IN_PROGRESS if judgement.in_progress else _FINDINGS[judgement.reading]
    draft.gather(Source.ATTEMPT, finding, judgement.reason, attempt=event.attempt)
    draft.fact(
        "observation",
        attempt=event.attempt,
        phase=seen.phase.value,
        nothing_left=seen.nothing_left,
        bytes_written=seen.bytes_written,
        bytes_expected=seen.bytes_expected,
        status=seen.status,
        body_sha256=seen.body_sha256,
        peer=seen.peer,
        tls=seen.tls,
        error=seen.error_class,
        summary=seen.summary,
        reading=judgement.reading.value,
        finding=finding.value,
        detail=judgement.reason,
    )
    if in_time:
        draft.change(lease=None)
        _in_time(draft, event, judgement)
    else:
        late(draft, attempt, judgement)


def _contradicts_steps(draft: Draft, event: Observed, *, in_time: bool) -> bool:
    operation = draft.operation
    shown = () if operation.final else shown_steps(draft.action, event.observation)
    # A cancel asks for the steps while the attempt is at work on them, so the attempt's own news may be the older.
    overtaken = any(item.kind is Kind.CANCEL and item.number > event.attempt for item in operation.attempts)
    if not shown or not draft.keep_steps(shown, late=overtaken or not in_time):
        return False
    draft.contradict()
    return True


def _in_time(draft: Draft, event: Observed, judgement: Judgement) -> None:
    number = event.attempt
    match judgement.reading:
        case Reading.UNSENT | Reading.REFUSED_BEFORE_WORK:
            _drop_handle(draft, number)
            _not_done(draft, number, judgement)
        case Reading.SUCCESS:
            draft.succeed("answer", "answer")
        case Reading.REJECTED:
            _rejected(draft, number, judgement)
            if event.observation.untrusted:
                draft.alert("untrusted")
        case Reading.FAILED:
            fail_there(draft, "failed", judgement)
        case Reading.ACCEPTED:
            draft.set_attempt(number, standing=Standing.DOUBT)
            draft.change(handle=_handle(draft.operation, judgement, number))
            draft.move("accepted", State.ACCEPTED, next_ms=_poll_due(draft))
        case Reading.DOUBT:
            draft.set_attempt(number, standing=Standing.DOUBT)
            _to_doubt(draft, judgement)


def _drop_handle(draft: Draft, number: int) -> None:
    """The whole answer overrules its own head: what was refused has no place to be followed at."""
    handle = draft.operation.handle
    if handle is not None and handle.attempt == number:
        draft.change(handle=None)


def _rejected(draft: Draft, number: int, judgement: Judgement) -> None:
    _drop_handle(draft, number)
    draft.set_attempt(number, standing=Standing.REFUSED)
    executed = Executed.NO
    if draft.operation.ambiguous:
        # Only a read is judged to be refused while another attempt of it is open.
        ensure(draft.action.is_read, "a write is refused only if no other attempt is ambiguous")
        draft.settle_attempts(Standing.SETTLED)
        executed = Executed.UNKNOWN
    draft.fail("refused", "answer", executed, Failure("rejected", sentence(judgement.reason), judgement.status))


def _handle(operation: Operation, judgement: Judgement, number: int) -> Handle | None:
    return Handle(judgement.handle, number) if judgement.handle is not None else operation.handle


def _poll_due(draft: Draft) -> int:
    interval = draft.action.accepted.interval_seconds if draft.action.accepted else 1.0
    delay = backoff_seconds(interval, 0, draft.now)
    return due_ms(draft.now, delay, asked_seconds=None, deadline_ms=draft.operation.recovery_ms)


def _not_done(draft: Draft, number: int, judgement: Judgement) -> None:
    """Nothing left, or a refusal before any work: this attempt is settled; may there be another?"""
    before_work = judgement.reading is Reading.REFUSED_BEFORE_WORK
    draft.set_attempt(number, standing=Standing.UNSENT, status=judgement.status if before_work else None)
    permission = may_repeat(draft.action, draft.operation, draft.now)
    event = judgement.reading.value if before_work else "nothing_left"
    if permission.allowed:
        draft.move(event, State.READY, next_ms=resend_due(draft, judgement.wait_seconds))
    elif draft.operation.ambiguous and not draft.action.is_read:
        _to_doubt(draft, judgement)
    elif draft.operation.ambiguous:
        give_up(draft, "read_over")
    else:
        failure = Failure(
            "refused" if before_work else "not_sent",
            sentence(f"{judgement.reason}; {permission.reason}"),
            judgement.status,
        )
        draft.fail(event, undone_basis(draft.operation), Executed.NO, failure)


def _to_doubt(draft: Draft, judgement: Judgement) -> None:
    draft.move("doubt", State.IN_DOUBT)
    look_ahead(draft, asked_seconds=judgement.wait_seconds)


def head_seen(draft: Draft, event: HeadSeen) -> None:
    """A handle or an id in the head of the answer is kept before the body is read: the body may never come.

    Kept as well when the lease was lost meanwhile: what an answer names is evidence, whoever owns the operation.
    """
    draft.unseen(event.attempt, Kind.SEND)
    operation = draft.operation
    draft.fact("head", attempt=event.attempt, handle=event.handle is not None, outward_id=event.outward_id)
    if event.handle is not None:
        draft.saw(Source.ATTEMPT, Finding.IN_PROGRESS, "the head of the answer named a handle", attempt=event.attempt)
        if operation.handle is None or operation.state is State.SENDING:
            draft.change(handle=Handle(event.handle, event.attempt))
    draft.move("head", operation.state, outward_id=event.outward_id or operation.outward_id)
    wake(draft, operation)
