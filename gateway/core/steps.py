"""The steps of a job: what one answer shows of one step, what is kept of it, and whether the job may go on.

Each step has a record of its own on the host, under the operation's id and the step's name. That record is the only
thing an outcome rests on: a step is done when the host says so, and one with a record is never sent again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from adapters.contract import Observation
from gateway.core.matching import MISSING, answer_of, matches, read_body
from gateway.model.action import Action, JobStep
from gateway.model.operation import Executed, Failure, Operation
from gateway.model.step import ENDED, TOUCHED, StepSeen, StepState, all_of, first_unfinished

OUR_FENCE = "fence"
"""The reason that a host gives where our own fence stands; every other one is its own."""
_AT_WORK = frozenset({"accepted", "running", "unverifiable"})
_STATES = {"lost": StepState.LOST, "absent": StepState.NOT_BEGUN} | dict.fromkeys(_AT_WORK, StepState.RUNNING)


def names_of(action: Action) -> tuple[str, ...]:
    """The steps' names, in order."""
    return tuple(step.name for step in action.steps)


def steps_of(action: Action, operation: Operation) -> tuple[StepSeen, ...]:
    """Every step with what is known of it."""
    return all_of(names_of(action), operation.steps)


def read_step(
    step: JobStep, before: StepSeen, seen: Observation, variables: Mapping[str, Any], *, marker_max: int, sent: bool
) -> StepSeen:
    """What an answer about one step shows. `sent`: it was told to run, rather than asked for.

    An answer that proves nothing leaves what was known; after a delivery that means that it may have begun.
    """
    phase = seen.header("Phase")
    if phase == "fenced":
        return _fenced(before, _reason(seen), marker_max)
    if seen.answered and seen.header("Exited") is not None:
        done = matches(step.success, answer_of(seen), variables)
        return replace(before, state=StepState.SUCCEEDED if done else StepState.FAILED, exit=seen.status)
    if phase in _STATES and (seen.answered or phase == "lost"):
        return replace(before, state=_STATES[phase])
    if not sent:
        return before
    # It was sent only because the host had no record of it, so a delivery that launched nothing leaves that as it was.
    return replace(before, state=StepState.NOT_BEGUN if seen.nothing_left else StepState.SENT)


def _fenced(before: StepSeen, reason: str, marker_max: int) -> StepSeen:
    if reason == OUR_FENCE or before.marker >= marker_max:
        return replace(before, state=StepState.NEVER_RAN)
    # It gave up before the command began (a lock was busy, the disk full): that place is used up, the next one is free.
    return replace(before, state=StepState.NOT_BEGUN, marker=before.marker + 1)


def _reason(seen: Observation) -> str:
    body = answer_of(seen).body
    return str(body.get("reason")) if isinstance(body, dict) else seen.header("Reason") or ""


def shown_steps(action: Action, seen: Observation) -> tuple[StepSeen, ...]:
    """The steps within an observation of the whole job (see `core.job`); empty if it tells of none."""
    body = read_body(seen.body) if seen.body_complete and seen.body else MISSING
    items = body.get("steps") if isinstance(body, dict) else None
    if not isinstance(items, list) or [item["name"] for item in items] != list(names_of(action)):
        return ()
    return tuple(StepSeen(item["name"], StepState(item["state"]), item["exit"], item["marker"]) for item in items)


def found_steps(action: Action, seen: Observation) -> tuple[StepSeen, ...]:
    """The steps as a look found them; a look that got no whole answer found nothing, whatever was known before."""
    return shown_steps(action, seen) if seen.answered else ()


def merged(
    before: tuple[StepSeen, ...], shown: tuple[StepSeen, ...], *, late: bool = False
) -> tuple[tuple[StepSeen, ...], bool]:
    """What is known now, and whether it contradicts what was known. `late`: only an exit record is news by now.

    A record on the host is never removed while its operation is unsettled. One that has been seen and is not there any
    more, or says something else, means that this host has lost its memory: then nothing may rest on its silence.
    """
    if not before:
        return (tuple(item for item in shown), False)
    known = {item.name: item for item in before}
    kept: list[StepSeen] = []
    contradicts = False
    for new in shown:
        old = known.get(new.name) or StepSeen(new.name)
        if late and new.state not in ENDED:
            kept.append(old)
            continue
        changed = old.state in ENDED and (new.state, new.exit) != (old.state, old.exit)
        vanished = old.state in TOUCHED and new.state is StepState.NOT_BEGUN and new.marker <= old.marker
        contradicts = contradicts or changed or vanished
        kept.append(old if changed or vanished else new)
    return tuple(kept), contradicts


def begun(action: Action, operation: Operation) -> tuple[StepSeen, ...]:
    """The steps once another attempt is about to be sent: from here on the first unfinished one may begin."""
    return _first_becomes(steps_of(action, operation), {StepState.NOT_BEGUN}, StepState.SENT)


def never_ran(action: Action, operation: Operation) -> tuple[StepSeen, ...]:
    """The steps once the place of the first unfinished one is taken by our fence."""
    return _first_becomes(
        steps_of(action, operation), {StepState.NOT_BEGUN, StepState.SENT, StepState.RUNNING}, StepState.NEVER_RAN
    )


def _first_becomes(steps: tuple[StepSeen, ...], those: set[StepState], state: StepState) -> tuple[StepSeen, ...]:
    index = first_unfinished(steps)
    if index is None or steps[index].state not in those:
        return steps
    return (*steps[:index], replace(steps[index], state=state), *steps[index + 1 :])


def finished(operation: Operation) -> int:
    """How many steps have succeeded."""
    return sum(1 for item in operation.steps if item.state is StepState.SUCCEEDED)


def standstill(action: Action, operation: Operation) -> str | None:
    """Why the job may not go on at its first unfinished step, or None if it may.

    It may only where the host itself said that it holds no record of that step. What was sent of it before does no
    harm: both copies stand for one place on the host, which lets one of them in.
    """
    if not operation.steps:
        return "nothing is known of its steps yet"
    steps = steps_of(action, operation)
    index = first_unfinished(steps)
    if index is None:
        return "every step has run"
    if steps[index].state is not StepState.NOT_BEGUN:
        return f"step {steps[index].name} may have begun"
    return None


def story(steps: Iterable[StepSeen]) -> str:
    """What became of each step, in one sentence."""
    told = {
        StepState.SUCCEEDED: "finished",
        StepState.FAILED: "failed with exit status {}",
        StepState.RUNNING: "is running",
        StepState.LOST: "was begun and has no record of its end",
        StepState.SENT: "may have begun",
        StepState.NEVER_RAN: "never ran and never will",
        StepState.NOT_BEGUN: "has not begun",
    }
    parts = [f"{item.name} {told[item.state].format(item.exit)}" for item in steps]
    return f"Of its steps, {'; '.join(parts)}."


def in_part(
    operation: Operation, executed: Executed, basis: str | None, failure: Failure, *, why: str = ""
) -> tuple[Executed, Failure]:
    """A failure as it may be told of a job of which some steps have run: never as "not executed".

    What a person attests stays their word. `why` says in a sentence what the host gave as its reason.
    """
    touched = [item for item in operation.steps if item.state in TOUCHED]
    if not touched or basis == "attestation":
        return executed, failure
    code = failure.code
    if executed is Executed.NO:
        executed = Executed.YES if any(item.state in ENDED for item in touched) else Executed.UNKNOWN
        told = "It was executed in part, and goes no further."
        failure, code = replace(failure, detail=f"{told} {why}".rstrip()), "executed_in_part"
    return executed, replace(failure, code=code, detail=f"{failure.detail} {story(operation.steps)}")
