"""A change to one operation in the making: arrows checked against the table, facts and alerts collected."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.core.events import Fact
from gateway.core.transitions import IllegalMoveError, permitted
from gateway.model.action import Action
from gateway.model.evidence import Evidence, Finding, Source
from gateway.model.operation import (
    AMBIGUOUS_STANDINGS,
    Attempt,
    Executed,
    Failure,
    Now,
    Operation,
    Standing,
    State,
)

EVIDENCE_MAX = 200
"""Equal looks in a row are counted, so this bounds only ever-changing answers; the audit log keeps them all."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one event: the new image, what to put on record, and what people must be told."""

    operation: Operation
    facts: tuple[Fact, ...]
    alerts: tuple[str, ...] = ()


@dataclass(slots=True)
class Draft:
    """Holds the working image. Nothing outside sees it before `finish`, so a refused move leaves no trace."""

    action: Action
    operation: Operation
    now: Now
    facts: list[Fact] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)

    def move(self, event: str, target: State, **changes: Any) -> None:  # noqa: ANN401 - checked by the dataclass itself
        """Take one arrow of the table. Raises IllegalMoveError if it does not exist."""
        source = self.operation.state
        if not permitted(source, event, target):
            raise IllegalMoveError(source, event, f"no arrow leads from {source.value} to {target.value} by {event}")
        if target is not source:
            changes.setdefault("probes", 0)
        self.operation = replace(self.operation, state=target, **changes)

    def change(self, **changes: Any) -> None:  # noqa: ANN401 - checked by the dataclass itself
        """Change fields that are not the state."""
        self.operation = replace(self.operation, **changes)

    def fact(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - checked by the dataclass itself
        """Put something on record."""
        self.facts.append(Fact(event, fields))

    def alert(self, name: str) -> None:
        """Tell people."""
        self.alerts.append(name)

    def attempt(self, number: int) -> Attempt:
        """The attempt of that number. Raises IllegalMoveError if there is none."""
        for item in self.operation.attempts:
            if item.number == number:
                return item
        raise IllegalMoveError(self.operation.state, "observe", f"there is no attempt {number}")

    def set_attempt(self, number: int, **changes: Any) -> None:  # noqa: ANN401 - checked by the dataclass itself
        """Change one attempt."""
        self.set_attempts(lambda item: item.number == number, **changes)

    def set_attempts(self, which: Callable[[Attempt], bool], **changes: Any) -> None:  # noqa: ANN401 - checked by the dataclass itself
        """Change every attempt that `which` holds for."""
        changed = tuple(replace(item, **changes) if which(item) else item for item in self.operation.attempts)
        self.operation = replace(self.operation, attempts=changed)

    def settle_attempts(self, standing: Standing) -> None:
        """Evidence names what became of everything that was ambiguous."""
        self.set_attempts(lambda item: item.standing in AMBIGUOUS_STANDINGS, standing=standing)

    def saw(
        self, source: Source, finding: Finding, detail: str, *, at_ms: int | None = None, attempt: int | None = None
    ) -> None:
        """Append evidence; an equal look right after the last one is counted instead."""
        moment = self.now.wall_ms if at_ms is None else at_ms
        seen = self.operation.evidence
        if seen and seen[-1].source is source and seen[-1].finding is finding and seen[-1].detail == detail:
            last = replace(seen[-1], count=seen[-1].count + 1, last_at_ms=moment)
            self.change(evidence=(*seen[:-1], last))
        else:
            self.change(evidence=(*seen, Evidence(source, finding, moment, detail, attempt))[-EVIDENCE_MAX:])
        self.fact("evidence", source=source.value, finding=finding.value, detail=detail, attempt=attempt)

    def succeed(self, event: str, basis: str) -> None:
        """Take the arrow to success; the effect is shown."""
        self.settle_attempts(Standing.SETTLED)
        self._end(event, State.SUCCEEDED, Executed.YES, basis, None)

    def fail(self, event: str, basis: str, executed: Executed, failure: Failure) -> None:
        """Take the arrow to failure, with what is known about execution."""
        self._end(event, State.FAILED, executed, basis, failure)

    def cancel(self, event: str, failure: Failure) -> None:
        """Take the arrow to cancelled: nothing was ever executed."""
        self._end(event, State.CANCELLED, Executed.NO, "unsent", failure)

    def _end(self, event: str, target: State, executed: Executed, basis: str, failure: Failure | None) -> None:
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
        )
        fields: dict[str, Any] = {"state": target.value, "executed": executed.value, "basis": basis, "op_final": True}
        if failure is not None:
            fields["reason"] = failure.code
        self.fact("outcome", **fields)

    def finish(self) -> Step:
        """The finished step; the version rises by one whatever the event was."""
        operation = replace(self.operation, version=self.operation.version + 1)
        return Step(operation, tuple(self.facts), tuple(self.alerts))
