"""An operation and its attempts: what the caller asked for, once, and everything tried for it."""

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeVar

from gateway.model.evidence import Evidence, Look
from gateway.model.problem import ensure
from gateway.model.step import TOUCHED, StepSeen


class State(StrEnum):
    """Where an operation is in its life. Never one variable with its outcome."""

    HELD = "held"
    """Waits for a person. Moved by their decision, by expiry, or by its caller withdrawing it."""
    READY = "ready"
    """May be sent. Moved by the driver when a place is free, or cancelled while nothing may have left."""
    SENDING = "sending"
    """An attempt is under way under a lease. Moved by what the adapter observed, or by the reaper."""
    ACCEPTED = "accepted"
    """The service took it and gave a handle. Moved by polling the handle."""
    IN_DOUBT = "in_doubt"
    """May or may not have been carried out. Moved by evidence only."""
    UNRESOLVED = "unresolved"
    """The recovery deadline passed in doubt. Watched; moved by late evidence or a person's attestation."""
    SUCCEEDED = "succeeded"
    """Final: evidence shows the effect."""
    FAILED = "failed"
    """Final: evidence shows that it failed or never ran, or it is a read that got no answer."""
    CANCELLED = "cancelled"
    """Final: nothing was ever executed."""


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
UNSETTLED = frozenset(State) - FINAL


class Outcome(StrEnum):
    """What we may claim. `None` in an operation document means: not sent, nothing to claim."""

    SUCCESS = "success"
    ERROR = "error"
    UNKNOWN = "unknown"


class Executed(StrEnum):
    """Did the effect happen?"""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    """An attempt carries out the action; a fence occupies its place so that no attempt can.

    A cancel tells the host that the command is no longer wanted: it fences what has not begun, and signals what has.
    """

    SEND = "send"
    FENCE = "fence"
    CANCEL = "cancel"


class Standing(StrEnum):
    """What evidence says of one attempt by now."""

    OPEN = "open"
    """Begun, nothing observed yet."""
    DOUBT = "doubt"
    """Observed, and it may have been carried out."""
    UNSENT = "unsent"
    """Proven: no request byte left, or the answer is declared to come before any work."""
    REFUSED = "refused"
    """A definite refusal by the service."""
    ABSENT = "absent"
    """Conclusive absence: it was not carried out and no late copy can be."""
    FENCED = "fenced"
    """Our fence holds its place: it was not carried out and never will be."""
    SETTLED = "settled"
    """Evidence names what became of it."""


AMBIGUOUS_STANDINGS = frozenset({Standing.OPEN, Standing.DOUBT})


class _Shape(NamedTuple):
    """The fields of a class of images."""

    size: int
    defaults: dict[str, Any]
    required: frozenset[str]


class _Image:
    """What stays as it is while copies of it change, many times an operation."""

    @classmethod
    def make(cls, **values: Any) -> Self:  # noqa: ANN401 - each field has a type of its own
        """A new one. A frozen dataclass's own `__init__` sets every field by its name: five times as slow.

        Raises BrokenInvariantError for a field that does not exist, or one without a default that is not given.
        """
        shape = _shape(cls)
        ensure(values.keys() >= shape.required, "an image names every field that has no default")
        return _become(cls, shape, shape.defaults | values)

    def but(self, **changes: Any) -> Self:  # noqa: ANN401 - each field has a type of its own
        """A copy with other values. `dataclasses.replace` sets every field anew by its name: ten times as slow."""
        return _become(type(self), _shape(type(self)), self.__dict__ | changes)


_ImageT = TypeVar("_ImageT", bound=_Image)
_SHAPES: dict[type[_Image], _Shape] = {}


def _shape(cls: type[_Image]) -> _Shape:
    known = _SHAPES.get(cls)
    if known is None:
        every = fields(cls)  # type: ignore[arg-type]  # every class of images is a dataclass
        defaults = {item.name: item.default for item in every if item.default is not MISSING}
        known = _SHAPES[cls] = _Shape(len(every), defaults, frozenset(item.name for item in every) - defaults.keys())
    return known


def _become(cls: type[_ImageT], shape: _Shape, values: dict[str, Any]) -> _ImageT:
    ensure(len(values) == shape.size, "an image has the fields that its class declares, and no others")
    image = object.__new__(cls)
    object.__setattr__(image, "__dict__", values)
    return image


@dataclass(frozen=True)
class Attempt(_Image):
    """One try, numbered from 1 across sends and fences. Boot times are CLOCK_BOOTTIME milliseconds of `boot_id`."""

    number: int
    kind: Kind
    fence: int
    """Fencing token under which it was begun; a stale owner's token is refused."""
    started_ms: int
    started_boot_ms: int
    boot_id: str
    standing: Standing = Standing.OPEN
    ended_ms: int | None = None
    closed_boot_ms: int | None = None
    """When its socket was certainly closed hard; counted from our start if a dead process held it."""
    closed_boot_id: str | None = None
    phase: str | None = None
    bytes_written: int | None = None
    status: int | None = None
    observation: str | None = None


@dataclass(frozen=True, slots=True)
class Handle:
    """A place on the service's own origin where an accepted operation is followed."""

    url: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act for an operation until a time on the store's clock."""

    owner: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an operation failed or was cancelled, in words for the caller."""

    code: str
    detail: str
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Attestation:
    """A person settled it without proof; marked for ever."""

    person: str
    reason: str
    digest: str
    at_ms: int


@dataclass(frozen=True)
class Operation(_Image):
    """What the caller asked for, once. Changed only by `core.lifecycle.step`; every change raises `version` by one.

    Times are wall-clock milliseconds since the Unix epoch unless named otherwise.
    """

    id: str
    """`op_` and 26 lower-case Crockford base32 digits of a UUIDv7; also the value that the service sees."""
    caller: str
    owner: str
    """The person who answers for the caller's key."""
    action: str
    definition: str
    """Digest of the pinned definition."""
    effect: str
    fingerprint: str
    created_ms: int
    start_by_ms: int
    target_service: str
    target_url: str
    """The request's; where that would show a person's data, as declared, with the names of what is filled in."""
    request_sha256: str
    key: str | None = None
    conflict_key: str | None = None
    run: str | None = None
    correlation_id: str | None = None
    trace_id: str | None = None
    parent: str | None = None
    supersedes: str | None = None
    superseded: bool = False
    rule: str | None = None
    """The access rule that allowed it."""
    state: State = State.READY
    version: int = 0
    fence: int = 0
    lease: Lease | None = None
    attempts: tuple[Attempt, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    looks: tuple[Look, ...] = ()
    probes: int = 0
    """Probes since the last change of state; drives the backoff."""
    probes_total: int = 0
    handle: Handle | None = None
    outward_id: str | None = None
    """An id of the service's own making, seen in a response head."""
    steps: tuple[StepSeen, ...] = ()
    """Of a job of several commands: what is known of each, once anything is."""
    begun_ms: int | None = None
    begun_boot_ms: int | None = None
    begun_boot_id: str | None = None
    clock_stepped: bool = False
    """The wall clock was once seen behind what was stored: from then on it says nothing about the age of an attempt."""
    recovery_ms: int | None = None
    """Absolute recovery deadline, from the first begin."""
    watch_until_ms: int | None = None
    next_ms: int | None = None
    """When the driver must look at it again; None: nothing is due."""
    final_ms: int | None = None
    baseline: str | None = None
    """Finding of the look taken before the first send, for success by state."""
    basis: str | None = None
    """What the outcome rests on: `answer`, `handle`, `probe`, `state`, `fence`, `absence`, `unsent`, `attestation`;
    None for a read of which nothing is known."""
    executed: Executed = Executed.NO
    """Meaningful in a final state; before that `core.judge.claim` derives it."""
    failure: Failure | None = None
    attestation: Attestation | None = None
    contradicted: bool = False
    """Evidence says otherwise than the outcome, or while unsettled than itself; the state stays, people are alarmed."""
    output_valid: bool | None = None
    delivered: bool = False
    """The final document was once written out to its caller in full."""

    @property
    def ambiguous(self) -> bool:
        """Some attempt or fence may have been carried out and no evidence has settled it. Derived here only.

        Whatever became of a cancel, it cannot have carried out the action.
        """
        if self.state in FINAL:
            return False
        if any(item.standing in AMBIGUOUS_STANDINGS and item.kind is not Kind.CANCEL for item in self.attempts):
            return True
        # A job of which a step has begun is never "not executed", whatever becomes of its attempts.
        return any(item.state in TOUCHED for item in self.steps)

    @property
    def final(self) -> bool:
        """The state never changes again."""
        return self.state in FINAL

    @property
    def sends(self) -> tuple[Attempt, ...]:
        """The attempts that carry out the action, fences left out."""
        return tuple(item for item in self.attempts if item.kind is Kind.SEND)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where the audit log holds the operation's newest record: a tail anchor for whoever keeps it."""

    origin: str
    seq: int
    leaf: str


@dataclass(frozen=True, slots=True)
class Now:
    """One reading of every clock a decision may need, and who is deciding."""

    wall_ms: int
    boot_ms: int
    boot_id: str
    owner: str
    """This process's run of the gateway; changes at every start."""
    jitter: float = 0.5
    """A random number in [0, 1), so that delays can be spread without randomness in the core."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A caller's request after authentication, access and input checks, before identity rules."""

    caller: str
    owner: str
    action: str
    arguments: Any
    key: str | None = None
    run: str | None = None
    parent: str | None = None
    supersedes: str | None = None
    correlation_id: str | None = None
    trace_id: str | None = None
    rule: str | None = None
