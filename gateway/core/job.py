"""From the answers about single steps to one observation of the whole job, in the form that a single command has.

So every rule that reads a command's answer reads a job's: `Exited` stands in its head only if the job is over, `Phase`
says where it stands otherwise, and its body tells of each step.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

from adapters.contract import PHASE_ORDER, Framing, Observation
from gateway.core.matching import answer_of
from gateway.model.problem import ensure
from gateway.model.step import StepSeen, StepState, first_unfinished

_PHASES = {
    StepState.FAILED: "exited",
    StepState.RUNNING: "running",
    StepState.LOST: "lost",
    StepState.NOT_BEGUN: "absent",
    StepState.NEVER_RAN: "fenced",
}
_TELL_AFTER_SEND = frozenset({StepState.FAILED, StepState.RUNNING})
"""What the answer to a delivery proves. Everything else is looked at once more."""
_SHOWN = ("timed_out", "reason", "stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question about one step, and what it showed."""

    seen: StepSeen
    observation: Observation
    sent: bool
    """It was told to run, rather than asked for."""


def observe_job(
    operation_id: str, steps: tuple[StepSeen, ...], asked: list[Asked], *, sending: bool, stopped: str | None = None
) -> Observation:
    """What the questions of one pass show together. `sending`: the pass tells steps to run.

    `steps` are all of them as they stand after it; `stopped` says why a pass ended between two steps.
    """
    ensure(asked, "a job is observed by asking about a step")
    last = asked[-1]
    over = first_unfinished(steps) is None
    state = last.seen.state
    told = over or state in (_TELL_AFTER_SEND if sending else _PHASES)
    # A look that got no answer repeats what was known before: that is no news.
    told = told and last.observation.answered and stopped is None
    phase = "exited" if over else _PHASES.get(state, "")
    ended = told and phase == "exited"
    head = (("Content-Type", "application/json"), ("Phase", phase))
    nothing_left = sending and not any(item.sent and not item.observation.nothing_left for item in asked)
    return replace(
        last.observation,
        phase=max((item.observation.phase for item in asked), key=PHASE_ORDER.index),
        nothing_left=nothing_left,
        started_ms=asked[0].observation.started_ms,
        summary=_summary(steps, last, over=over, stopped=stopped),
        request_complete=told,
        status=(last.seen.exit if ended else 0) if told else None,
        headers=((*head, ("Exited", str(last.seen.exit))) if ended else head) if told else (),
        framing=Framing.LENGTH,
        body=json.dumps(_content(operation_id, steps, asked, phase=phase, over=over), ensure_ascii=False).encode(),
        body_complete=True,
        body_cut=False,
        contradictions=tuple(dict.fromkeys(told for item in asked for told in item.observation.contradictions)),
        untrusted=nothing_left and last.observation.untrusted,
    )


def _summary(steps: tuple[StepSeen, ...], last: Asked, *, over: bool, stopped: str | None) -> str:
    if over:
        return f"all {len(steps)} steps ended as they should" if len(steps) > 1 else "its step ended as it should"
    place = next(index for index, item in enumerate(steps, 1) if item.name == last.seen.name)
    return f"step {last.seen.name} ({place} of {len(steps)}): {stopped or last.observation.summary}"


def _content(
    operation_id: str, steps: tuple[StepSeen, ...], asked: list[Asked], *, phase: str, over: bool
) -> dict[str, Any]:
    said: dict[str, dict[str, Any]] = {}
    for item in asked:
        body = answer_of(item.observation).body
        said[item.seen.name] = body if isinstance(body, dict) else {}
    return {
        "operation": operation_id,
        "phase": phase,
        "finished": over,
        "exit": asked[-1].seen.exit if phase == "exited" else None,
        "reason": said[asked[-1].seen.name].get("reason"),
        "steps": [
            {"name": step.name, "state": step.state.value, "exit": step.exit, "marker": step.marker}
            | {name: said.get(step.name, {}).get(name) for name in _SHOWN}
            for step in steps
        ],
    }
