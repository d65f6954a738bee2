"""The steps of a compound job: what is known of each, by the host's own record."""

from dataclasses import dataclass
from enum import StrEnum


class StepState(StrEnum):
    """What the newest evidence says of one step."""

    NOT_BEGUN = "not_begun"
    """The host holds no record of it."""
    SENT = "sent"
    """It was sent and no answer came: it may have begun."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """Ended, and its success rule is met: it never runs again."""
    FAILED = "failed"
    """Ended otherwise: nothing after it is begun."""
    LOST = "lost"
    """The host began it and has no record of its end: it never runs again, and nobody knows how far it came."""
    NEVER_RAN = "never_ran"
    """It has not run and never will."""


ENDED = frozenset({StepState.SUCCEEDED, StepState.FAILED})
"""An exit record is there. It is final, whatever a later look says."""
TOUCHED = ENDED | {StepState.RUNNING, StepState.LOST}
"""The host's own word that it was begun."""


@dataclass(frozen=True, slots=True)
class StepSeen:
    """One step of an operation."""

    name: str
    state: StepState = StepState.NOT_BEGUN
    exit: int | None = None
    """Its exit status, once it ended."""
    marker: int = 1
    """Which of its places on the host counts. Raised only when the host says that the one before gave up by itself
    before the command began, so that this step may be tried anew while nothing else of it can run."""


def all_of(names: tuple[str, ...], seen: tuple[StepSeen, ...]) -> tuple[StepSeen, ...]:
    """Every step in its order, whatever of it has been seen."""
    known = {item.name: item for item in seen}
    return tuple(known.get(name) or StepSeen(name) for name in names)


def first_unfinished(steps: tuple[StepSeen, ...]) -> int | None:
    """Index of the first step that has not succeeded; None where all have."""
    return next((index for index, item in enumerate(steps) if item.state is not StepState.SUCCEEDED), None)
