"""The order in which a job's steps are asked for: told to run only where nothing of them is on record."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from adapters.contract import HostVerb, Observation
from gateway.core.steps import shown_steps
from gateway.engine.stepping import SHARE_TO_BEGIN, Stepping
from gateway.model.step import StepSeen, StepState
from tests.unit.core.builders import TIMEOUT, UNSENT, operation
from tests.unit.core.jobs import NAMES, job, live_of, told

S = StepState
WELL = told("exited", 0)
Script = Mapping[tuple[str, str], Observation | list[Observation]]


class Clock:
    """Moves by so much with each question."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 0.0

    def boot_ms(self) -> int:
        return int(self.now * 1000)

    def wall_ms(self) -> int:
        return self.boot_ms()


async def pass_over(
    verb: HostVerb, script: Script, *steps: StepSeen, question_seconds: float = 0.0
) -> tuple[list[str], Observation]:
    """What was asked, in order, and what it showed; a script's answer is by verb and step, exit status 0 if none is."""
    asked: list[str] = []
    clock = Clock(question_seconds)
    left = {place: list(said) if isinstance(said, list) else [said] for place, said in script.items()}

    async def ask(verb: HostVerb, index: int, known: StepSeen, seconds: float) -> Observation:
        asked.append(f"{verb.value} {known.name} {known.marker}")
        assert seconds > 0
        clock.now += clock.seconds
        said = left.get((verb.value, NAMES[index]), [WELL])
        return said.pop(0) if len(said) > 1 else said[0]

    live = live_of(job(), operation(steps=steps))
    return asked, await Stepping(live, ask, clock).go(verb)


async def test_a_first_attempt_runs_every_step_in_order() -> None:
    asked, seen = await pass_over(HostVerb.RUN, {})

    assert asked == ["RUN backup 1", "RUN migrate 1", "RUN restart 1"]
    assert (seen.answered, seen.status) == (True, 0)


@pytest.mark.parametrize(
    "said", [told("exited", 3), told("running"), told("fenced", reason="fence"), TIMEOUT, UNSENT, told("unverifiable")]
)
async def test_nothing_follows_a_step_that_has_not_succeeded(said: Observation) -> None:
    asked, _ = await pass_over(HostVerb.RUN, {("RUN", "migrate"): said})

    assert asked == ["RUN backup 1", "RUN migrate 1"]


async def test_a_finished_step_is_asked_for_and_never_told_to_run_again() -> None:
    done = (StepSeen("backup", S.SUCCEEDED, 0), StepSeen("migrate", S.SENT, marker=2), StepSeen("restart"))
    asked, _ = await pass_over(HostVerb.RUN, {}, *done)

    assert asked == ["STATUS backup 1", "RUN migrate 2", "RUN restart 1"]


@pytest.mark.parametrize("said", [TIMEOUT, UNSENT, told("absent"), told("running"), told("exited", 1), WELL])
async def test_nothing_is_told_to_run_while_a_finished_step_is_not_found_as_it_was(said: Observation) -> None:
    done = (StepSeen("backup", S.SUCCEEDED, 3), StepSeen("migrate", S.SENT), StepSeen("restart"))
    asked, seen = await pass_over(HostVerb.RUN, {("STATUS", "backup"): said}, *done)

    assert asked == ["STATUS backup 1"]
    assert seen.nothing_left


async def test_a_step_is_begun_only_with_enough_of_the_attempts_time_left() -> None:
    seconds = job().deadlines.request_seconds * SHARE_TO_BEGIN
    asked, seen = await pass_over(HostVerb.RUN, {}, question_seconds=seconds + 0.1)

    # The first of an attempt always is: else a job of slow steps would never come on.
    assert asked == ["RUN backup 1"]
    assert not seen.answered
    assert "the next one goes on" in seen.summary


async def test_a_look_asks_up_to_the_first_step_that_has_not_succeeded() -> None:
    asked, seen = await pass_over(HostVerb.STATUS, {("STATUS", "migrate"): told("absent")})

    assert asked == ["STATUS backup 1", "STATUS migrate 1"]
    assert (seen.answered, seen.header("Phase")) == (True, "absent")
    asked, seen = await pass_over(HostVerb.STATUS, {})
    assert asked == [f"STATUS {name} 1" for name in NAMES]
    assert seen.header("Exited") == "0"


async def test_each_question_of_a_look_has_the_time_of_an_attempt() -> None:
    asked, seen = await pass_over(HostVerb.STATUS, {}, question_seconds=job().deadlines.request_seconds)

    assert asked == [f"STATUS {name} 1" for name in NAMES]
    assert seen.answered


async def test_a_look_goes_past_places_that_gave_up_by_themselves() -> None:
    gave_up, absent = told("fenced", reason="lock_busy"), told("absent")
    asked, seen = await pass_over(HostVerb.STATUS, {("STATUS", "backup"): [gave_up, gave_up, absent]})
    assert asked == ["STATUS backup 1", "STATUS backup 2", "STATUS backup 3"]
    assert seen.header("Phase") == "absent"

    asked, seen = await pass_over(HostVerb.STATUS, {("STATUS", "backup"): gave_up})
    assert asked[-1] == "STATUS backup 3"
    assert seen.header("Phase") == "fenced"


@pytest.mark.parametrize(("migrate", "place"), [(told("absent"), "migrate 1"), (told("running"), "migrate 1")])
async def test_a_fence_is_for_the_first_step_that_has_not_succeeded(migrate: Observation, place: str) -> None:
    fenced = told("fenced", reason="fence")
    script = {("STATUS", "migrate"): migrate, ("FENCE", "migrate"): fenced}
    asked, seen = await pass_over(HostVerb.FENCE, script, StepSeen("backup"), StepSeen("migrate"), StepSeen("restart"))

    assert asked == ["STATUS backup 1", "STATUS migrate 1", f"FENCE {place}"]
    assert (seen.header("Phase"), shown_steps(job(), seen)[1].state) == ("fenced", S.NEVER_RAN)


async def test_a_look_that_gets_no_answer_is_none() -> None:
    known = (StepSeen("backup", S.SUCCEEDED, 0), StepSeen("migrate", S.NOT_BEGUN), StepSeen("restart"))
    _, seen = await pass_over(HostVerb.STATUS, {("STATUS", "migrate"): TIMEOUT}, *known)
    assert not seen.answered
    everything = tuple(replace(item, state=S.SUCCEEDED, exit=0) for item in known)
    _, seen = await pass_over(HostVerb.STATUS, {("STATUS", "restart"): TIMEOUT}, *everything)
    assert not seen.answered
