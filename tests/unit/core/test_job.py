"""The answers about single steps read together as one answer of a command, so that every rule for one reads it."""

import json
from dataclasses import replace

import pytest

from adapters.contract import Observation, Phase
from gateway.core.job import Asked, observe_job
from gateway.core.steps import shown_steps
from gateway.model.step import StepSeen, StepState
from tests.unit.core.builders import OP_ID, TIMEOUT, UNSENT
from tests.unit.core.jobs import NAMES, job, told

S = StepState
DONE = StepSeen("backup", S.SUCCEEDED, 0)
WELL = Asked(DONE, told("exited", 0, stdout={"text": "saved"}), sent=True)


def after(state: StepState, seen: Observation, *, sending: bool, code: int | None = None) -> Observation:
    """The first step ended well, and this became of the second."""
    second = StepSeen("migrate", state, code)
    steps = (DONE, second, StepSeen("restart"))
    return observe_job(OP_ID, steps, [WELL, Asked(second, seen, sent=sending)], sending=sending)


@pytest.mark.parametrize(
    ("state", "code", "seen", "phase", "status"),
    [
        (S.FAILED, 3, told("exited", 3), "exited", 3),
        (S.RUNNING, None, told("running"), "running", 0),
        (S.LOST, None, told("lost"), "lost", 0),
        (S.NOT_BEGUN, None, told("absent"), "absent", 0),
        (S.NEVER_RAN, None, told("fenced", reason="fence"), "fenced", 0),
    ],
)
def test_a_look_tells_of_the_first_step_that_has_not_succeeded(
    state: StepState, code: int | None, seen: Observation, phase: str, status: int
) -> None:
    whole = after(state, seen, sending=False, code=code)

    assert (whole.answered, whole.status, whole.header("Phase")) == (True, status, phase)
    assert whole.header("Exited") == (None if code is None else str(code))
    assert not whole.nothing_left


@pytest.mark.parametrize(
    ("state", "seen", "answered"),
    [
        (S.FAILED, told("exited", 3), True),
        (S.RUNNING, told("running"), True),
        (S.NEVER_RAN, told("fenced", reason="fence"), False),
        (S.LOST, replace(TIMEOUT, headers=(("Phase", "lost"),)), False),
        (S.NOT_BEGUN, UNSENT, False),
        (S.SENT, TIMEOUT, False),
    ],
)
def test_after_a_delivery_only_an_end_or_a_running_command_is_an_answer(
    state: StepState, seen: Observation, answered: bool
) -> None:
    whole = after(state, seen, sending=True, code=3 if state is S.FAILED else None)

    assert whole.answered is answered
    assert whole.phase is max((WELL.observation.phase, seen.phase), key=list(Phase).index)
    # The first step ran: whatever became of the second, something left.
    assert not whole.nothing_left
    assert shown_steps(job(), whole)[0] == DONE


def test_nothing_left_only_where_no_delivery_of_the_pass_left() -> None:
    second = StepSeen("migrate")
    steps = (DONE, second, StepSeen("restart"))
    asked_only = replace(WELL, sent=False)

    def left(*asked: Asked, sending: bool = True) -> bool:
        return not observe_job(OP_ID, steps, list(asked), sending=sending).nothing_left

    assert not left(asked_only, Asked(second, UNSENT, sent=True))
    assert not left(Asked(DONE, UNSENT, sent=False))
    assert left(asked_only, Asked(second, TIMEOUT, sent=True))
    assert left(WELL, Asked(second, UNSENT, sent=True))
    assert left(Asked(DONE, UNSENT, sent=False), sending=False)


def test_a_job_is_over_when_all_its_steps_are_and_its_body_tells_of_each() -> None:
    steps = tuple(StepSeen(name, S.SUCCEEDED, 0) for name in NAMES)
    asked = [Asked(item, told("exited", 0, stdout={"text": item.name}), sent=True) for item in steps]
    whole = observe_job(OP_ID, steps, asked, sending=True)

    assert (whole.answered, whole.status, whole.header("Exited")) == (True, 0, "0")
    body = json.loads(whole.body)
    assert (body["operation"], body["phase"], body["finished"], body["exit"]) == (OP_ID, "exited", True, 0)
    assert [(item["name"], item["state"], item["stdout"]["text"]) for item in body["steps"]] == [
        (name, "succeeded", name) for name in NAMES
    ]
    assert shown_steps(job(), whole) == steps


def test_a_pass_that_stopped_between_two_steps_proves_nothing_of_the_next() -> None:
    steps = (DONE, StepSeen("migrate"), StepSeen("restart"))
    whole = observe_job(OP_ID, steps, [WELL], sending=True, stopped="its time is used up")

    assert not whole.answered
    assert whole.summary == "step backup (1 of 3): its time is used up"


def test_what_one_step_contradicts_contradicts_the_job() -> None:
    other = replace(told("running"), contradictions=("the host's record is of another command",))

    assert after(S.RUNNING, other, sending=False).contradictions == other.contradictions
    assert not after(S.RUNNING, other, sending=False).answered


def test_only_the_jobs_own_observation_tells_of_its_steps() -> None:
    assert shown_steps(job(), told("exited", 0)) == ()
    assert shown_steps(job(), told("exited", 0, steps=[{"name": "other"}])) == ()
    assert shown_steps(job(), TIMEOUT) == ()
