"""An action as the rest of the gateway sees it: compiled from the catalog, frozen, known by its digest."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gateway.model.evidence import Finding


class Effect(StrEnum):
    """What carrying out the action does to the world, as its owner declares it."""

    READ = "read"
    REVERSIBLE = "reversible"
    IRREVERSIBLE = "irreversible"


class Resend(StrEnum):
    """When the owner allows another attempt after one that may have been carried out."""

    NEVER = "never"
    SAME_KEY = "same_key"
    ON_ABSENCE = "on_absence"


class ReplayAfter5xx(StrEnum):
    """What the service does with our value after it answered 5xx once."""

    SAME_OUTCOME = "same_outcome"
    REEXECUTES = "reexecutes"
    UNKNOWN = "unknown"


class BindPlace(StrEnum):
    """Where the operation's outward value travels."""

    HEADER = "header"
    BODY = "body"
    QUERY = "query"
    PATH = "path"
    NONE = "none"


class IdFormat(StrEnum):
    """The form in which the operation id is shown to the service."""

    OP = "op"
    UUID = "uuid"
    HEX = "hex"


class Marker(StrEnum):
    """Who keeps the record of a command on its host."""

    RUNNER = "runner"
    """The runner: each attempt runs at most once, can be asked for, and can be fenced."""
    COMMAND = "command"
    """The command itself, and a status command of its own tells of it."""
    NONE = "none"
    """Nobody: a lost answer stays unknown."""


@dataclass(frozen=True, slots=True)
class Host:
    """How a host is reached and believed. Public keys as OpenSSH writes them: `ssh-ed25519 AAAA…`."""

    name: str
    address: str
    user: str
    port: int
    credential: str
    store: str | None = None
    """Absolute path of the runner's store on the host; None for one that is only passed through."""
    store_id: str | None = None
    """The identity of that store, from its making: another store answers for another host."""
    host_keys: tuple[str, ...] = ()
    host_authorities: tuple[str, ...] = ()
    revoked_keys: tuple[str, ...] = ()
    allow_private: bool = False
    jump: "Host | None" = None
    """The host to go through."""

    @property
    def origin(self) -> str:
        """Where its credential may go."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"ssh://{address.lower()}" if self.port == 22 else f"ssh://{address.lower()}:{self.port}"


@dataclass(frozen=True, slots=True)
class Service:
    """A declared service or host: the only place from which a request's scheme and host come."""

    name: str
    base_url: str
    credential: str | None = None
    concurrency_max: int | None = None
    """Attempts under way at once; None: as the settings say."""
    allow_private: bool = False
    ca_file: str | None = None
    proxy: str | None = None
    reuse: bool = False
    host: Host | None = None
    """Set where commands are run over SSH instead of requests sent over HTTP."""

    @property
    def noun(self) -> str:
        """What people call it."""
        return "service" if self.host is None else "host"


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A request with placeholders `{name}`; rendered by `core.template`, a command by `core.command`."""

    method: str
    path: str
    query: tuple[tuple[str, Any], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: Any = None
    """JSON value with placeholders in its strings, or None for no body."""
    opaque: tuple[str, ...] = ()
    """Path placeholders whose value may hold `/`, `\\` and `%`, which then travel percent-encoded in one segment.

    In a command: placeholders whose value may begin with a dash, because its schema says so."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """True of an answer when every given part holds. `statuses` are inclusive ranges, empty for "any status".

    `path` is a JMESPath into the JSON body; with neither `equals` nor `any_of`, it holds when the value is truthy.
    Strings in `equals` and `any_of` may hold placeholders. A body that is cut or not JSON fails every `path`.
    """

    statuses: tuple[tuple[int, int], ...] = ()
    header: str | None = None
    path: str | None = None
    equals: tuple[Any, ...] = ()
    """Empty: not given; one element: the value to equal (`equals: null` is a real test)."""
    any_of: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class JobStep:
    """One command of a job of several; its words stand in the request under the same name."""

    name: str
    success: Predicate
    """When the next step may begin; any other end stops the job."""
    lock: str | None = None


@dataclass(frozen=True, slots=True)
class FindingRule:
    """First match wins. `executed` refines an `executed_failed` finding: did the work happen before it failed?"""

    when: Predicate
    finding: Finding
    executed: str | None = None


@dataclass(frozen=True, slots=True)
class Bind:
    """What makes the service see repeats as one operation."""

    place: BindPlace
    name: str | None = None
    format: IdFormat = IdFormat.OP
    length_max: int | None = None
    charset: str | None = None
    window_min_seconds: float | None = None
    """The shortest time for which the service promises to remember the value; None: no promise, no same-key repeat."""
    window_margin_seconds: float = 0.0
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Precondition:
    """A conditional write: the header and the argument or preview path its value comes from."""

    header: str
    template: str


@dataclass(frozen=True, slots=True)
class HandleSource:
    """Where a 202 names the place to follow: a response header or a JMESPath into the body."""

    header: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """How an accepted answer is recognised and followed to its end."""

    when: Predicate
    handle: HandleSource
    rules: tuple[FindingRule, ...]
    interval_seconds: float = 1.0
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Identify:
    """How a look-up proves that what it found is our operation.

    `state` means success by state: it proves nothing alone and needs a baseline probe (see `core.reconcile`).
    """

    path: str | None = None
    equals: str | None = None
    state: bool = False


@dataclass(frozen=True, slots=True)
class Settle:
    """Absence becomes conclusive this long after the last socket was hard-closed, confirmed by a second look."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fence:
    """Absence becomes conclusive by occupying the id ourselves (put-if-absent)."""

    request: RequestTemplate
    won: Predicate
    lost: Predicate


@dataclass(frozen=True, slots=True)
class PositiveControl:
    """Something that must be visible, so that "not there" is not "cannot see"."""

    request: RequestTemplate
    when: Predicate


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The service's own answer to "did it happen?"."""

    request: RequestTemplate
    identify: Identify
    rules: tuple[FindingRule, ...]
    compare: tuple[tuple[str, Any], ...] = ()
    positive_control: PositiveControl | None = None
    absence: Settle | Fence | None = None
    result: str | None = None
    interval_seconds: float = 1.0
    watch_seconds: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How this service says "not now" and where it names the wait, in seconds or as an HTTP date."""

    when: tuple[Predicate, ...]
    wait_header: str | None = None
    wait_path: str | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """All in seconds. `request` bounds one attempt, `recovery` the operation from its first begin, `start` its wait."""

    connect_seconds: float = 5.0
    request_seconds: float = 10.0
    recovery_seconds: float = 300.0
    start_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Reads:
    """What a read that decides writes may be trusted for."""

    consistency: str = "strong"
    settle_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Output:
    """What the caller may see of the answer."""

    select: str | None = None
    max_bytes: int = 65_536
    redact: tuple[str, ...] = ()
    personal: tuple[str, ...] = ()
    schema: Any = None


@dataclass(frozen=True, slots=True)
class Action:
    """One compiled action. Operations pin it by `digest`, so that a catalog edit never changes their rules."""

    name: str
    description: str
    effect: Effect
    digest: str
    """SHA-256 over the canonical JSON of the definition, service included; hex."""
    service: Service
    request: RequestTemplate
    input_schema: Any
    success: Predicate
    rejected_first: tuple[Predicate, ...] = ()
    """Definite refusals on a first, single attempt."""
    rejected_any: tuple[Predicate, ...] = ()
    """Definite refusals on any attempt that follows no ambiguous one."""
    refused_before_work: tuple[Predicate, ...] = ()
    failed: tuple[Predicate, ...] = ()
    """Answers that mean: it was carried out, and it failed."""
    exists: tuple[Predicate, ...] = ()
    in_flight: tuple[Predicate, ...] = ()
    rate_limit: RateLimit | None = None
    replay_after_5xx: ReplayAfter5xx = ReplayAfter5xx.UNKNOWN
    precondition: Precondition | None = None
    bind: Bind = field(default_factory=lambda: Bind(BindPlace.NONE))
    accepted: Accepted | None = None
    reconcile: Reconcile | None = None
    resend: Resend = Resend.NEVER
    attempts_max: int = 3
    deadlines: Deadlines = field(default_factory=Deadlines)
    conflict_key: str | None = None
    repeat_window_seconds: float = 600.0
    reads: Reads | None = None
    output: Output = field(default_factory=Output)
    subject: str | None = None
    """Whose data the arguments marked as personal are, as a text with placeholders; None: none is marked."""
    unknown_accepted: str | None = None
    """The owner's reason for living without any way to settle an unknown outcome."""
    marker: Marker | None = None
    """Of a command."""
    lock: str | None = None
    """Of a command: a name under which only one runs on its host at a time."""
    steps: tuple[JobStep, ...] = ()
    """Of a job of several commands, which run one after the other; empty for a single one."""

    @property
    def is_read(self) -> bool:
        """Reads may be repeated: they change nothing."""
        return self.effect is Effect.READ
