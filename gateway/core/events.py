"""What can happen to an operation. Each event is a fact that was already observed or decided elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapters.contract import Observation
from gateway.model.evidence import Finding
from gateway.model.operation import Executed, Outcome
from gateway.model.step import StepSeen


@dataclass(frozen=True, slots=True)
class Begin:
    """A place to send from is free and a lease can be taken: send now, if that is still right."""

    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Observed:
    """Attempt `attempt` ended and this was seen. `variables` are those of its request, for rules that name them."""

    attempt: int
    observation: Observation
    variables: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HeadSeen:
    """The head of an answer named a handle or an id; kept before the body is read (scenario D18)."""

    attempt: int
    handle: str | None
    outward_id: str | None


@dataclass(frozen=True, slots=True)
class Restarted:
    """A new process owns the operation. Whoever held its sockets is dead: settle times start now."""

    sole_owner: bool = True
    """The exclusive lock of the only machine that uses this store is ours, so no other process can hold a socket of any
    attempt. False where another machine may: then no settle time starts, and only a fence or the same key helps."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The store was restored from a backup and holds an older image: it must be taken for sent since.

    Either the audit log says so, or nobody can rule it out. Whoever sent it is dead.
    """


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The lease ran out while the attempt was under way and nothing was reported."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A stored handle exists: follow it before anything else."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look showed, before any rule of the lifecycle is applied."""

    finding: Finding
    detail: str
    executed: Executed | None = None
    wait_seconds: float | None = None
    """A wait that the service asked for; capped by the lifecycle."""
    contradiction: bool = False
    """The object found names our operation but is not what was asked for."""
    steps: tuple[StepSeen, ...] = ()
    """Of a job: every step as this look shows it; empty if it shows none."""


@dataclass(frozen=True, slots=True)
class Probed:
    """A look at the service's own record. `begun_boot_ms` is when the look began, for the settle rule."""

    sighting: Sighting
    begun_ms: int
    begun_boot_ms: int


@dataclass(frozen=True, slots=True)
class Polled:
    """A look at the handle of an accepted operation. `ABSENT` means that the handle is lost."""

    sighting: Sighting
    begun_ms: int


@dataclass(frozen=True, slots=True)
class BaselineTaken:
    """The look before the first send, for success by state."""

    sighting: Sighting
    begun_ms: int


@dataclass(frozen=True, slots=True)
class FenceBegun:
    """About to occupy the operation's place: a write, journaled like an attempt."""

    lease_seconds: float


@dataclass(frozen=True, slots=True)
class FenceObserved:
    """What the fence's request showed. `won` and `lost` are None when its answer proves neither."""

    attempt: int
    observation: Observation
    won: bool | None


@dataclass(frozen=True, slots=True)
class CancelBegun:
    """About to tell the host that the command is no longer wanted: a write, journaled like an attempt."""

    actor: str
    signal: str
    """What a command that has begun is sent: TERM, INT or KILL."""


@dataclass(frozen=True, slots=True)
class CancelObserved:
    """What the host answered. It says nothing about the command's end: that is in the exit record alone."""

    attempt: int
    observation: Observation
    fenced: bool | None
    """True: it had not begun, and never will. False: it had. None: the answer proves neither."""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The clock went past `start_by` or the recovery deadline."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller (or a person) no longer wants it."""

    actor: str


@dataclass(frozen=True, slots=True)
class Attested:
    """A person settles an unresolved operation without proof."""

    person: str
    reason: str
    digest: str
    outcome: Outcome
    executed: Executed


Event = (
    Begin
    | Observed
    | HeadSeen
    | Restarted
    | Restored
    | LeaseLost
    | Followed
    | Probed
    | Polled
    | BaselineTaken
    | FenceBegun
    | FenceObserved
    | CancelBegun
    | CancelObserved
    | DeadlinePassed
    | Cancelled
    | Attested
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to put on record: an event name and JSON-ready fields, without credentials or payloads."""

    event: str
    fields: dict[str, Any]
