"""What a caller is told to do: one or two sentences for a model, and the same as one word.

Nothing that a caller submitted or a service answered is repeated here: these sentences are read as the gateway's own.
"""

from enum import Enum, StrEnum, auto
from math import ceil

from gateway.core.steps import finished, steps_of
from gateway.model.action import Action, Marker
from gateway.model.operation import Executed, Kind, Operation, Standing, State
from gateway.model.step import StepState, first_unfinished

_DO_NOT = "Do not send it again, in this or another form"
_TELL = "tell a person who can look at the service itself"


class Next(StrEnum):
    """The caller's next step. Public: values are never renamed."""

    DONE = "done"
    WAIT = "wait"
    DO_NOT_REPEAT = "do_not_repeat"
    ASK_PERSON = "ask_person"
    FIX_AND_RESUBMIT = "fix_and_resubmit"


def next_step(operation: Operation) -> str:
    """The caller's next step as one word of `Next`."""
    match operation.state:
        case State.SUCCEEDED | State.FAILED | State.CANCELLED:
            return _step_at_end(operation).value
        case State.UNRESOLVED:
            return (Next.DO_NOT_REPEAT if operation.superseded else Next.ASK_PERSON).value
        case State.IN_DOUBT:
            return Next.DO_NOT_REPEAT.value
        case State.READY if operation.ambiguous and not _is_read(operation):
            return Next.DO_NOT_REPEAT.value
        case _:
            return Next.WAIT.value


def _step_at_end(operation: Operation) -> Next:
    if operation.contradicted:
        return Next.ASK_PERSON
    if operation.state is State.SUCCEEDED:
        return Next.DONE
    if operation.executed is Executed.NO or _is_read(operation):
        return Next.FIX_AND_RESUBMIT
    return Next.DO_NOT_REPEAT if operation.executed is Executed.YES else Next.ASK_PERSON


def guidance(operation: Operation, action: Action, *, now_ms: int) -> str:
    """What happened, what not to do, what to do next. `now_ms` is wall-clock milliseconds since the Unix epoch."""
    if operation.state is State.UNRESOLVED and action.steps and not operation.superseded:
        # It names a step, in the catalog's words.
        return _unresolved_job(operation, action)
    # Whoever looks after a command looks at a host.
    return _guidance(operation, action, now_ms).replace("service", action.service.noun)


def nothing_cancelled(operation: Operation) -> str:
    """What a cancel did to an operation that had ended before it came."""
    if operation.state is State.CANCELLED:
        return "It had already been cancelled."
    return "It had already ended: nothing was cancelled."


def _guidance(operation: Operation, action: Action, now_ms: int) -> str:
    match operation.state:
        case State.HELD:
            return (
                "It waits for a person's decision; nothing has been sent. Do not submit it again, and ask for this"
                " operation later."
            )
        case State.READY:
            return _ready(operation, action, now_ms)
        case State.SENDING:
            return _sending(operation, now_ms)
        case State.ACCEPTED:
            return (
                "The service took it and is working on it; its outcome is not known yet."
                f" {_contradiction(operation)}{_wait(operation, now_ms)}"
            )
        case State.IN_DOUBT:
            return _in_doubt(operation, action, now_ms)
        case State.UNRESOLVED:
            return _unresolved(operation, action)
        case State.SUCCEEDED:
            return _succeeded(operation, action)
        case State.FAILED:
            return _failed(operation, action)
        case State.CANCELLED:
            return _cancelled(operation)


def _is_read(operation: Operation) -> bool:
    return operation.effect == "read"


def _wait(operation: Operation, now_ms: int) -> str:
    return f"Do not submit it again; ask for this operation again{_in_seconds(operation, now_ms)}."


def _in_seconds(operation: Operation, now_ms: int) -> str:
    if operation.next_ms is None or operation.next_ms <= now_ms:
        return " in a moment"
    seconds = ceil((operation.next_ms - now_ms) / 1000)
    return f" in about {seconds} second{'' if seconds == 1 else 's'}"


def _ready(operation: Operation, action: Action, now_ms: int) -> str:
    if action.is_read and operation.sends:
        return f"There is no usable answer yet, and the gateway asks again by itself. {_wait(operation, now_ms)}"
    if operation.ambiguous and action.steps:
        return _progress(operation, action, now_ms)
    if operation.ambiguous:
        return (
            "An earlier attempt may have been carried out; the gateway repeats it under the same key, which the service"
            f" takes for one operation. {_DO_NOT}; ask for this operation again{_in_seconds(operation, now_ms)}."
        )
    if operation.sends:
        return f"Nothing has been executed so far, and the gateway tries again by itself. {_wait(operation, now_ms)}"
    return f"It is waiting for its turn; nothing has been sent. {_wait(operation, now_ms)}"


class _Told(Enum):
    """How far the word has come that a command is no longer wanted."""

    NOT_ASKED = auto()
    NOT_REACHED = auto()
    """Somebody asked, and nothing of it ever left: the host does not know."""
    SENT = auto()
    """It may have heard. That it took notice is not certain."""
    HEARD = auto()


def _told(operation: Operation) -> _Told:
    standings = {item.standing for item in operation.attempts if item.kind is Kind.CANCEL}
    if Standing.SETTLED in standings:
        return _Told.HEARD
    if standings - {Standing.UNSENT}:
        return _Told.SENT
    return _Told.NOT_REACHED if standings else _Told.NOT_ASKED


def _sending(operation: Operation, now_ms: int) -> str:
    told = _told(operation)
    if told is _Told.NOT_REACHED:
        return (
            "It is being carried out now: its host could not be reached to be told to stop, so it goes on. Do not"
            f" submit it again; cancel it again, and ask for this operation again{_in_seconds(operation, now_ms)}."
        )
    doing = "is being carried out now and" if told is _Told.NOT_ASKED else "was told to stop;"
    return f"It {doing} its outcome is not known yet. {_wait(operation, now_ms)}"


def _contradiction(operation: Operation) -> str:
    return "What was seen contradicts itself, and people have been told. " if operation.contradicted else ""


def _progress(operation: Operation, action: Action, now_ms: int) -> str:
    """How far a job has come, and what the gateway does about it. The numbers are all that is told of it."""
    done = finished(operation)
    return (
        f"{done} of its {len(action.steps)} steps {'has' if done == 1 else 'have'} finished so far, and the gateway"
        f" goes on by itself at the first one that has not begun. {_contradiction(operation)}{_DO_NOT}; the host is"
        f" being asked, so ask for this operation again{_in_seconds(operation, now_ms)}."
    )


def _in_doubt(operation: Operation, action: Action, now_ms: int) -> str:
    told = _told(operation)
    if action.steps and told is _Told.NOT_ASKED:
        return _progress(operation, action, now_ms)
    then = "the gateway is asking the service, so" if told is _Told.NOT_ASKED else "the gateway is asking the host, so"
    if told is _Told.NOT_REACHED:
        then = "cancel it again, and"
    why = _stopping(operation, action, told) if action.steps else _WHY[told]
    return (
        f"It may or may not have been carried out: {why}. {_contradiction(operation)}{_DO_NOT};"
        f" {then} ask for this operation again{_in_seconds(operation, now_ms)}."
    )


_WHY = {
    _Told.NOT_ASKED: "no usable answer came back",
    _Told.NOT_REACHED: "its host could not be reached to be told to stop, so what is there of it goes on",
    _Told.SENT: "it was told to stop, and its host's record says what came of it",
    _Told.HEARD: "it was told to stop, and its host's record says what came of it",
}


def _stopping(operation: Operation, action: Action, told: _Told) -> str:
    """What a cancel means for a job: whatever became of the word to the host, the gateway begins no further step."""
    if told is _Told.NOT_REACHED:
        why = "its host could not be reached to be told to stop, so what is running goes on"
    else:
        # While nobody knows whether the word arrived, a copy of the first step may still come to the host.
        then = "no step that has not begun will begin" if told is _Told.HEARD else "the gateway begins no further step"
        why = f"it was told to stop, so {then}, and what is running ends as its record says"
    done = finished(operation)
    return f"{why}; {done} of its {len(action.steps)} steps {'has' if done == 1 else 'have'} finished so far"


def _unresolved(operation: Operation, action: Action) -> str:
    if operation.superseded:
        return (
            "It may have been carried out, and a person has put another operation in its place."
            f" {_DO_NOT}; go on with the other operation."
        )
    if operation.next_ms is not None:
        searched = "the gateway could not find out in time; it keeps looking at longer intervals"
    elif action.reconcile is not None or operation.handle is not None:
        searched = "the gateway could not find out and has stopped looking"
    else:
        searched = "this service offers no way to look it up"
    if action.marker is Marker.RUNNER:
        return (
            f"It may have been carried out, and {searched}. {_contradiction(operation)}{_DO_NOT}: {_TELL};"
            " `gateway operations cancel` closes the host to it if it never began, and `gateway operations attest`"
            " settles it by their word."
        )
    return (
        f"It may have been carried out, and {searched}. {_contradiction(operation)}{_DO_NOT}: {_TELL}, for only a"
        " person can settle it or put another operation in its place."
    )


def _unresolved_job(operation: Operation, action: Action) -> str:
    steps = steps_of(action, operation)
    index = first_unfinished(steps)
    if index is None:
        where = "Every step has finished, and that is not settled yet"
    else:
        where = f"Step {steps[index].name} ({index + 1} of {len(steps)}) {_WHERE[steps[index].state]}"
    return (
        f"{where}. {_contradiction(operation)}{_DO_NOT}: a person looks at the host and settles it with gateway"
        f" operations attest {operation.id} --outcome success|error --executed yes|no|unknown --reason TEXT."
    )


_WHERE = {
    StepState.LOST: "was begun, and the host has no record of its end",
    StepState.RUNNING: "was still running when it was last seen",
    StepState.NOT_BEGUN: "had not begun when the host was last asked",
    StepState.NEVER_RAN: "never ran and never will",
    StepState.FAILED: "has failed",
    StepState.SENT: "may have begun",
}


def _alarm(operation: Operation) -> str | None:
    """What is said of an end that later evidence contradicts; it comes before everything else."""
    if not operation.contradicted:
        return None
    claim = {
        State.SUCCEEDED: "It was recorded as carried out",
        State.FAILED: "It was recorded as failed",
        State.CANCELLED: "It was recorded as cancelled",
    }[operation.state]
    return f"{claim}, and evidence seen later contradicts that. {_DO_NOT}; {_TELL} before you build on it."


def _succeeded(operation: Operation, action: Action) -> str:
    alarm = _alarm(operation)
    if alarm is not None:
        return alarm
    if operation.basis == "attestation":
        return "A person recorded it as carried out, without proof. It is settled; do not send it again."
    told = {
        "answer": "It was carried out, and the service's own answer says so.",
        "handle": "It was carried out: the service took it and finished it.",
        "state": "It was carried out: the service was in another state before and is in the wanted one now.",
    }.get(operation.basis or "") or _found(operation)
    # A read changed nothing: whether it is worth another one is its caller's business.
    if operation.output_valid is False:
        undone = "." if action.is_read else ", which does not undo it: do not send it again."
        return f"{told} The answer does not have the declared form{undone}"
    return f"{told} It is done." if action.is_read else f"{told} It is done; do not send it again."


def _found(operation: Operation) -> str:
    """Of one that a look proved. An answer that came and did not say it was not lost."""
    if any(item.status is not None for item in operation.sends):
        return "It was carried out: its answer did not say so, and the service's own record shows it."
    return "It was carried out: its answer was lost, and the service's own record shows it."


def _failed(operation: Operation, action: Action) -> str:
    alarm = _alarm(operation)
    if alarm is not None:
        return alarm
    if operation.basis == "attestation":
        return _attested(operation)
    if action.is_read:
        return _failed_read(operation)
    if operation.steps and operation.executed is not Executed.NO:
        done = finished(operation)
        return (
            f"It was carried out in part and goes no further: {done} of its {len(action.steps)} steps"
            f" {'has' if done == 1 else 'have'} finished; `steps` and its error say what became of each. Do not send"
            " the same again, for it would begin at the first step; a person decides how to finish or undo it."
        )
    if operation.executed is Executed.YES and _told(operation) in {_Told.SENT, _Told.HEARD}:
        return (
            "It was told to stop and has ended there without success, so it may have left traces. Do not send the same"
            " again; its error says how it ended, and a person can tell what is left."
        )
    if operation.executed is Executed.YES:
        return (
            "It was carried out at the service and failed there, so it may have left traces. Do not send the same"
            " again; read its error, and ask a person if it is not plain what is left."
        )
    if operation.executed is Executed.UNKNOWN:
        return (
            "The service says that it failed and not how far it came, so it may have left traces."
            f" {_DO_NOT}; {_TELL} first."
        )
    return _not_executed(operation)


def _attested(operation: Operation) -> str:
    told = {
        Executed.NO: "A person recorded it as not executed, without proof. It is settled",
        Executed.YES: "A person recorded it as executed and failed, without proof. It is settled",
        Executed.UNKNOWN: "A person recorded it as failed, and that nobody knows how far it came. It is settled",
    }[operation.executed]
    if operation.executed is Executed.NO:
        return f"{told}; submit a new operation only if it is still wanted."
    return f"{told}; do not send it again unless a person says so."


def _failed_read(operation: Operation) -> str:
    if operation.basis == "answer" and operation.executed is Executed.YES:
        return "The read was carried out and failed there; nothing was changed by it. Read its error."
    if operation.basis == "answer":
        return (
            "The service refused the read; nothing was changed by it. Read its error and correct the request before you"
            " submit a new one."
        )
    return (
        "The read got no usable answer. That says nothing about whether the thing exists or was done: do not conclude"
        " anything from it, and read again later if you need to know."
    )


def _not_executed(operation: Operation) -> str:
    code = operation.failure.code if operation.failure is not None else ""
    if operation.basis in {"fence", "absence"} and code != "rejected":
        return (
            "It was not executed, and no copy of it can take effect any more. Submit a new operation if it is still"
            " wanted."
        )
    if operation.basis in {"probe", "handle"}:
        return (
            "The service says that it failed before anything was done; nothing was executed. Correct the cause before"
            " you submit a new operation."
        )
    if code == "refused":
        return (
            "The service turned it away before any work; nothing was executed. Submit a new operation later, if it is"
            " still wanted."
        )
    if code == "rejected":
        return (
            "The service refused it; nothing was executed. Read its error and correct the cause before you submit a new"
            " operation; the same request would be refused again."
        )
    return (
        "It never left the gateway, or provably had no effect; nothing was executed. Submit a new operation once the"
        " cause is gone, if it is still wanted."
    )


def _cancelled(operation: Operation) -> str:
    alarm = _alarm(operation)
    if alarm is not None:
        return alarm
    if operation.failure is not None and operation.failure.code == "too_late":
        return (
            "It could not be started before its start deadline and was cancelled; nothing was executed. Submit a new"
            " operation if it is still wanted."
        )
    return "It was cancelled before anything was executed. Submit a new operation only if it is wanted again."
