"""What an answer means that arrives after its lease was lost or its operation moved on: appended, then judged."""

from gateway.core.doubt import cleared, wake
from gateway.core.draft import Draft, sentence
from gateway.core.judge import Judgement, Reading
from gateway.model.operation import Attempt, Executed, Failure, Handle, Operation, Standing, State

_NOT_DONE = {
    Reading.UNSENT: Standing.UNSENT,
    Reading.REFUSED_BEFORE_WORK: Standing.UNSENT,
    Reading.REJECTED: Standing.REFUSED,
}


def late(draft: Draft, before: Attempt, judgement: Judgement) -> None:
    """`before` is the attempt as it stood when the answer arrived."""
    operation = draft.operation
    if operation.final:
        if _contradicts_end(operation, before.number, judgement):
            draft.contradict()
        draft.move("late", operation.state)
    elif judgement.reading is Reading.SUCCESS:
        # Also while another attempt is under way: what is proven must not wait for an answer that may never come.
        draft.succeed("late", "answer")
        if before.standing is Standing.ABSENT:
            draft.contradict()
    elif judgement.reading is Reading.FAILED:
        # Judged so only where no other attempt may have run.
        fail_there(draft, "late", judgement)
        if before.standing is Standing.ABSENT:
            draft.contradict()
    elif _followed_here(operation, before.number) and judgement.reading in _NOT_DONE:
        # Its head named the handle that is being followed: head and body cannot both be right.
        draft.contradict()
        draft.move("late", operation.state)
    else:
        _keep(draft, before, judgement)


def fail_there(draft: Draft, event: str, judgement: Judgement) -> None:
    """The answer says that it was carried out and failed."""
    draft.settle_attempts(Standing.SETTLED)
    failure = Failure("failed_there", sentence(judgement.reason), judgement.status)
    draft.fail(event, "answer", Executed.YES, failure)


def _followed_here(operation: Operation, number: int) -> bool:
    return operation.state is State.ACCEPTED and operation.handle is not None and operation.handle.attempt == number


def _keep(draft: Draft, before: Attempt, judgement: Judgement) -> None:
    operation, number = draft.operation, before.number
    standing = _NOT_DONE.get(judgement.reading)
    if standing is not None:
        status = None if judgement.reading is Reading.UNSENT else judgement.status
        draft.set_attempt(number, standing=standing, status=status)
        if operation.handle is not None and operation.handle.attempt == number:
            draft.change(handle=None)
    elif before.standing in {Standing.OPEN, Standing.ABSENT}:
        # Absence rested on its sender being dead. The answer shows that it was not: the doubt is back.
        draft.set_attempt(number, standing=Standing.DOUBT)
    if judgement.reading is Reading.ACCEPTED and judgement.handle is not None and operation.handle is None:
        draft.change(handle=Handle(judgement.handle, number))
    draft.move("late", operation.state)
    wake(draft, operation)
    if operation.state in {State.IN_DOUBT, State.UNRESOLVED} and not draft.operation.ambiguous:
        cleared(draft, judgement.reason, status=judgement.status, asked_seconds=judgement.wait_seconds)


def _contradicts_end(operation: Operation, number: int, judgement: Judgement) -> bool:
    if operation.state is not State.SUCCEEDED:
        took_it = judgement.reading is Reading.ACCEPTED or judgement.in_progress
        undone = judgement.reading is Reading.FAILED and operation.executed is Executed.NO
        return judgement.reading is Reading.SUCCESS or took_it or undone
    if judgement.reading is Reading.FAILED:
        return True
    others = [item for item in operation.sends if item.number != number]
    # A success needs somebody to have sent it: here the only attempt turns out to have done nothing.
    return not others and judgement.reading in _NOT_DONE
