"""A change to one operation in the making: arrows checked against the table, facts and alerts collected."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from adapters.contract import Observation
from gateway.core.events import Fact
from gateway.core.steps import found_steps, in_part, merged
from gateway.core.transitions import IllegalMoveError, permitted
from gateway.model.action import Action
from gateway.model.evidence import Evidence, Finding, Source
from gateway.model.operation import (
    AMBIGUOUS_STANDINGS,
    Attempt,
    Executed,
    Failure,
    Kind,
    Now,
    Operation,
    Standing,
    State,
)
from gateway.model.step import StepSeen

EVIDENCE_MAX = 200
"""Equal looks in a row are counted, so this bounds only ever-changing answers; the audit log keeps them all."""


def sentence(text: str) -> str:
    """A reason as a sentence for people. `str.capitalize` would also turn TLS into tls."""
    return text if not text else f"{text[0].upper()}{text[1:]}."


def undone_basis(operation: Operation) -> str:
    """What "it was not executed" rests on, once no attempt is ambiguous."""
    standings = {item.standing for item in operation.sends}
    if Standing.ABSENT in standings:
        return "absence"
    answered = Standing.REFUSED in standings or any(item.status is not None for item in operation.sends)
    return "answer" if answered else "unsent"


def _trimmed(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """At most `EVIDENCE_MAX` pieces. The first of each kind stays: "once in progress" must never be forgotten."""
    if len(evidence) <= EVIDENCE_MAX:
        return evidence
    kinds: set[tuple[Source, Finding]] = set()
    for index, item in enumerate(evidence):
        if (item.source, item.finding) in kinds:
            return evidence[:index] + evidence[index + 1 :]
        kinds.add((item.source, item.finding))
    return evidence


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one event: the new image, what to put on record, and what people must be told."""

    operation: Operation
    facts: tuple[Fact, ...]
    alerts: tuple[str, ...] = ()


def observed_fields(before: Attempt, seen: Observation, now: Now) -> dict[str, Any]:
    """What an observation changes on its attempt, its standing and status apart.

    Of two closing times of the same boot the later one counts: a settle time must never start too early.
    """
    closed_ms, closed_id = before.closed_boot_ms, before.closed_boot_id
    if seen.closed_boot_ms is not None:
        earlier = closed_ms if closed_ms is not None and closed_id == now.boot_id else 0
        closed_ms, closed_id = max(seen.closed_boot_ms, earlier), now.boot_id
    elif before.standing is not Standing.OPEN:
        # It was taken for closed because its process was taken for dead, and it was not.
        closed_ms, closed_id = None, None
    return {
        "ended_ms": seen.ended_ms,
        "closed_boot_ms": closed_ms,
        "closed_boot_id": closed_id,
        "phase": seen.phase.value,
        "bytes_written": seen.bytes_written,
        "observation": seen.summary,
    }


class Draft:
    """Holds the working image. Nothing outside sees it before `finish`, so a refused move leaves no trace.

    Changes are gathered and become an image only when someone reads one: most events are one copy, not six.
    """

    __slots__ = ("_changes", "_image", "action", "alerts", "facts", "now")

    def __init__(self, action: Action, operation: Operation, now: Now) -> None:
        """`operation` stays as it is."""
        self.action = action
        self.now = now
        self.facts: list[Fact] = []
        self.alerts: list[str] = []
        self._image = operation
        self._changes: dict[str, Any] = {}

    @property
    def operation(self) -> Operation:
        """The image with every change so far."""
        if self._changes:
            self._image = self._image.but(**self._changes)
            self._changes = {}
        return self._image

    @property
    def _state(self) -> State:
        state: State = self._changes.get("state", self._image.state)
        return state

    @property
    def _attempts(self) -> tuple[Attempt, ...]:
        attempts: tuple[Attempt, ...] = self._changes.get("attempts", self._image.attempts)
        return attempts

    def move(self, event: str, target: State, **changes: Any) -> None:  # noqa: ANN401 - checked by the image itself
        """Take one arrow of the table. Raises IllegalMoveError if it does not exist."""
        source = self._state
        if not permitted(source, event, target):
            raise IllegalMoveError(source, event, f"no arrow leads from {source.value} to {target.value} by {event}")
        if target is not source:
            changes.setdefault("probes", 0)
        self._changes |= changes
        self._changes["state"] = target

    def change(self, **changes: Any) -> None:  # noqa: ANN401 - checked by the image itself
        """Change fields that are not the state."""
        self._changes |= changes

    def fact(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - checked by the image itself
        """Put something on record."""
        self.facts.append(Fact(event, fields))

    def alert(self, name: str) -> None:
        """Tell people."""
        self.alerts.append(name)

    def attempt(self, number: int) -> Attempt:
        """The attempt of that number. Raises IllegalMoveError if there is none."""
        for item in self._attempts:
            if item.number == number:
                return item
        raise IllegalMoveError(self._state, "observe", f"there is no attempt {number}")

    def unseen(self, number: int, kind: Kind) -> Attempt:
        """The attempt of that number and kind, of which nothing was observed yet. Raises IllegalMoveError.

        An attempt ends once. A second report could only weaken what the first one proved.
        """
        found = self.attempt(number)
        if found.kind is not kind or found.phase is not None:
            raise IllegalMoveError(self._state, "observe", f"attempt {number} has no {kind.value} to report")
        return found

    def set_attempt(self, number: int, **changes: Any) -> None:  # noqa: ANN401 - checked by the image itself
        """Change one attempt."""
        self.set_attempts(lambda item: item.number == number, **changes)

    def set_attempts(self, which: Callable[[Attempt], bool], **changes: Any) -> None:  # noqa: ANN401 - checked by the image itself
        """Change every attempt that `which` holds for."""
        self._changes["attempts"] = tuple([item.but(**changes) if which(item) else item for item in self._attempts])

    def settle_attempts(self, standing: Standing) -> None:
        """Evidence names what became of everything that was ambiguous."""
        self.set_attempts(lambda item: item.standing in AMBIGUOUS_STANDINGS, standing=standing)

    def saw(
        self, source: Source, finding: Finding, detail: str, *, at_ms: int | None = None, attempt: int | None = None
    ) -> None:
        """Append evidence and put it on record."""
        self.gather(source, finding, detail, at_ms=at_ms, attempt=attempt)
        self.fact("evidence", source=source.value, finding=finding.value, detail=detail, attempt=attempt)

    def gather(
        self, source: Source, finding: Finding, detail: str, *, at_ms: int | None = None, attempt: int | None = None
    ) -> None:
        """Append evidence that another fact puts on record; an equal look right after the last one is counted."""
        moment = self.now.wall_ms if at_ms is None else at_ms
        seen: tuple[Evidence, ...] = self._changes.get("evidence", self._image.evidence)
        new = Evidence(source, finding, moment, detail, attempt)
        if seen and replace(seen[-1], at_ms=moment, count=1, last_at_ms=None) == new:
            last = replace(seen[-1], count=seen[-1].count + 1, last_at_ms=moment)
            self.change(evidence=(*seen[:-1], last))
        else:
            self.change(evidence=_trimmed((*seen, new)))

    def keep_steps(self, shown: tuple[StepSeen, ...], *, late: bool = False) -> bool:
        """Keep what is known of a job's steps, on record if it is news; true if it contradicts what was known."""
        before = self.operation.steps
        steps, contradicts = merged(before, shown, late=late)
        if steps != before:
            self.change(steps=steps)
            self.fact("steps", steps=[{"name": item.name, "state": item.state, "exit": item.exit} for item in steps])
        return contradicts

    def keep_found_steps(self, seen: Observation) -> None:
        """The same for what a fence or a cancel found on its way to the step that it was for."""
        shown = found_steps(self.action, seen) if self.action.steps and not self.operation.final else ()
        if shown and self.keep_steps(shown):
            self.contradict()

    def contradict(self) -> None:
        """Evidence contradicts the outcome, or itself. People are told once; the mark stays."""
        if not self.operation.contradicted:
            self.alert("contradiction")
            self.change(contradicted=True)

    def succeed(self, event: str, basis: str) -> None:
        """Take the arrow to success; the effect is shown."""
        self.settle_attempts(Standing.SETTLED)
        self._end(event, State.SUCCEEDED, Executed.YES, basis, None)

    def fail(self, event: str, basis: str | None, executed: Executed, failure: Failure, *, why: str = "") -> None:
        """Take the arrow to failure, with what is known about execution. `why`: see `core.steps.in_part`."""
        if self.action.steps:
            executed, failure = in_part(self.operation, executed, basis, failure, why=why)
        self._end(event, State.FAILED, executed, basis, failure)

    def cancel(self, event: str, failure: Failure) -> None:
        """Take the arrow to cancelled: nothing was ever executed."""
        self._end(event, State.CANCELLED, Executed.NO, undone_basis(self.operation), failure)

    def _end(self, event: str, target: State, executed: Executed, basis: str | None, failure: Failure | None) -> None:
        # What contradicted itself while in doubt is settled now; from here the mark speaks of the outcome.
        self.move(
            event,
            target,
            executed=executed,
            basis=basis,
            failure=failure,
            final_ms=self.now.wall_ms,
            next_ms=None,
            lease=None,
            looks=(),
            contradicted=False,
        )
        fields: dict[str, Any] = {"state": target.value, "executed": executed.value, "basis": basis, "op_final": True}
        if failure is not None:
            fields["reason"] = failure.code
        self.fact("outcome", **fields)

    def finish(self) -> Step:
        """The finished step; the version rises by one whatever the event was."""
        self._changes["version"] = self._image.version + 1
        return Step(self.operation, tuple(self.facts), tuple(self.alerts))
