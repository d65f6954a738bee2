"""What every adapter takes and gives: an exchange in, an observation out, nothing decided.

An adapter carries out exactly one attempt (or one probe) and reports what it saw. It never decides whether the action
was executed, never sends twice, and never raises across this border except for cancellation: a failure is an
observation like any other.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Phase(StrEnum):
    """How far an attempt got, in the order of `PHASE_ORDER`. A phase proves nothing, see `Observation.nothing_left`."""

    PREPARED = "prepared"
    """Nothing was done on the network yet."""
    CONNECTING = "connecting"
    """Name look-up, TCP connect, proxy or TLS handshake under way."""
    CONNECTED = "connected"
    """A usable connection exists; the before-send check has not passed."""
    REQUEST_STARTED = "request_started"
    """The before-send check passed; request bytes may have left."""
    REQUEST_WRITTEN = "request_written"
    """The whole request was handed to the operating system."""
    RESPONSE_STARTED = "response_started"
    """The head of a final answer was read and parsed."""
    RESPONSE_COMPLETE = "response_complete"
    """The answer was read to the end its own framing promises."""


PHASE_ORDER: tuple[Phase, ...] = tuple(Phase)


class Framing(StrEnum):
    """How the end of an answer's body is known (RFC 9112 section 6.3)."""

    LENGTH = "length"
    CHUNKED = "chunked"
    EMPTY = "empty"
    """No body by rule: 204, 304, or an answer to HEAD."""
    UNTIL_CLOSE = "until_close"
    """The end is the end of the connection: a cut looks like completion, so this never proves a whole answer."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A credential joined to the exchange at the last moment. Its text appears in no repr, log or error."""

    kind: str
    """`bearer`, `header`, `basic`, `query` or `ssh_key`."""
    name: str
    """Header or query parameter that carries it (`Authorization` for bearer and basic)."""
    value: str = field(repr=False)
    """The complete header or parameter value, for example `Bearer …`; a private key, and its certificate below it."""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where an exchange may go. Built from the service definition, never from arguments."""

    origin: str
    """`scheme://host[:port]`, lower case, no path."""
    allow_private: bool = False
    """Loopback, private and link-local addresses are allowed (metadata addresses never are)."""
    ca_file: str | None = None
    """PEM bundle to trust instead of the system's."""
    connect_seconds: float = 5.0
    proxy: str | None = None
    """Explicit HTTP proxy URL; the environment is never consulted."""
    reuse: bool = False
    """`connection: reuse`, for reads only."""


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """The exact request of one attempt. The same bytes for every attempt of an operation."""

    method: str
    url: str
    """Absolute, already percent-encoded; its origin equals `target.origin`."""
    headers: tuple[tuple[str, str], ...]
    body: bytes
    target: HttpTarget
    request_seconds: float
    """Deadline of this attempt from the start of connecting to the end of the answer."""
    body_max_bytes: int = 1_000_000
    """Bound of the answer's body after decompression; what exceeds it is cut and marked."""
    secret: Secret | None = None
    is_read: bool = False
    """A probe, or an attempt of an action whose effect is `read`."""


class HostVerb(StrEnum):
    """What is asked of a host."""

    RUN = "RUN"
    """Run the command as this attempt, at most once."""
    PROBE = "PROBE"
    """Run the command with nothing that remembers it."""
    ASK = "ASK"
    """Run a status command, whose own output is the answer."""
    STATUS = "STATUS"
    """Say what became of the attempt."""
    FENCE = "FENCE"
    """See to it that an attempt which has not begun never will."""
    CANCEL = "CANCEL"
    """The same, and where it has begun, note that it is no longer wanted and signal the command."""
    CHECK = "CHECK"
    """Say what the host and its store offer."""
    LIST = "LIST"
    """Say which operations the store holds."""
    LOCK = "LOCK"
    """Say who holds a lock."""


@dataclass(frozen=True, slots=True)
class HostTarget:
    """Which host, as whom, believed by what. Built from the host definition, never from arguments."""

    name: str
    address: str
    port: int
    user: str
    credential: Secret
    host_keys: tuple[str, ...] = ()
    host_authorities: tuple[str, ...] = ()
    revoked_keys: tuple[str, ...] = ()
    allow_private: bool = False
    jump: "HostTarget | None" = None
    """The host to go through."""


@dataclass(frozen=True, slots=True)
class HostExchange:
    """One question to one host. The same words for every attempt of an operation."""

    verb: HostVerb
    argv: tuple[str, ...]
    """The words of the command that is run by this exchange, if it runs one."""
    command: tuple[str, ...]
    """The words of the operation's own command: an answer about another one is no answer."""
    target: HostTarget
    store: str
    """Absolute path of the record on the host."""
    store_id: str
    operation: str
    attempt: int
    """Counted from 1 among the sends of the operation."""
    attempts_max: int
    """No attempt beyond this one is ever sent: a fence or a cancel that is to be final takes the places of all."""
    issued_ms: int
    """When the operation was first begun, milliseconds since the Unix epoch."""
    connect_seconds: float
    request_seconds: float
    """Deadline from the start of connecting to the answer."""
    body_max_bytes: int = 1_000_000
    lock: str | None = None
    """Name of a lock on the host to be held meanwhile, or that is asked about."""
    signal: str = "TERM"
    """What a cancel sends to a command that has begun: TERM, INT or KILL."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a final answer, handed to `Hooks.on_head` before any of the body is read."""

    status: int
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Calls back into the owner of the attempt.

    `before_send` runs when a connection stands and no request byte has left. A returned sentence refuses the attempt,
    which then provably sent nothing. It checks lease, deadline and, for a repeat under the same key, the window.
    `on_head` is awaited after the head of the answer and before its body, so that a handle survives a crash there.
    """

    before_send: Callable[[], str | None]
    on_head: Callable[[Head], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What one attempt or probe showed. A value: it claims nothing about success.

    Times are milliseconds: `*_ms` wall clock since the Unix epoch, `*_boot_ms` CLOCK_BOOTTIME of this machine.
    """

    phase: Phase
    nothing_left: bool
    """Proof that no request byte left this machine. The only field on which "not sent" may rest."""
    started_ms: int
    ended_ms: int
    closed_boot_ms: int | None
    """When our socket was hard-closed, so that no further byte can leave; None if that is not certain."""
    summary: str
    """One plain sentence without personal data, for example "response deadline exceeded after request write"."""
    bytes_written: int | None = None
    """Bytes of the request that the operating system took from us, counted at the socket from the moment the connection
    stood (so without handshakes). Under TLS record overhead is included: the count proves zero, not completeness."""
    bytes_expected: int | None = None
    """Size of the request's head and body in plain text."""
    request_complete: bool = False
    """The whole request was written before the answer was taken as one."""
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    framing: Framing | None = None
    body: bytes = field(default=b"", repr=False)
    """Decoded body, at most `body_max_bytes`."""
    body_complete: bool = False
    """The body ended where its framing says, and was decoded without error."""
    body_cut: bool = False
    """The body was longer than `body_max_bytes` and the rest was dropped."""
    body_sha256: str | None = None
    """Hash of the raw body as received, hex."""
    error_class: str | None = None
    error_cause: str | None = None
    peer: str | None = None
    tls: str | None = None
    """Protocol version and certificate fingerprint of the peer."""
    contradictions: tuple[str, ...] = ()
    """Things that cannot both be true, for example a 2xx before the request was fully written."""
    untrusted: bool = False
    """The other side did not prove who it is, so nothing was sent. No other attempt can mend that: people must look."""
    hops_short: int = 0
    """How many hosts before its target it ended: 1 is the jump host before that, whose `tls` and `untrusted` these are
    then. 0 where there is no jump host, or the target itself was asked for."""

    def header(self, name: str) -> str | None:
        """First value of a response header, by case-insensitive name."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    @property
    def answered(self) -> bool:
        """A whole, framed answer to a wholly written request, free of contradictions."""
        return (
            self.status is not None
            and self.body_complete
            and self.request_complete
            and self.framing not in (None, Framing.UNTIL_CLOSE)
            and not self.contradictions
        )


class Clock(Protocol):
    """The two readings of time that an adapter stamps on what it saw. It never asks the machine itself."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def boot_ms(self) -> int:
        """Milliseconds of CLOCK_BOOTTIME: counts on during suspension and never goes back."""
        ...


class Transport(Protocol):
    """One way to the outside. Ports for tests and the simulator implement the same call.

    `attempt` never raises except `asyncio.CancelledError` (after closing its socket), never repeats anything, and
    returns within the exchange's deadlines.
    """

    async def attempt(self, exchange: HttpExchange, hooks: Hooks) -> Observation:
        """Carry out one exchange and say what was seen."""
        ...

    async def self_test(self) -> Mapping[str, str]:
        """Prove on loopback that this build keeps its promises; raises `SelfTestFailed` with the broken one."""
        ...

    async def close(self) -> None:
        """Release pooled resources. Attempts under way are aborted."""
        ...


@dataclass(frozen=True, slots=True)
class HostEnd:
    """An attempt that a host's own record once said had ended, by the names under which the host holds it."""

    address: str
    port: int
    store_id: str
    operation: str
    attempt: int
    issued_ms: int
    """As in the exchange that it was told to run by."""
    seen_ms: int
    """When the gateway took note of the end, milliseconds since the Unix epoch."""


class HostTransport(Protocol):
    """The way to hosts. What `Transport.attempt` promises holds here too; of the hooks `before_send` is used.

    An answer of the host is a whole answer (`Observation.answered`): its status is the command's exit status, 0 where
    there is none, its header `Phase` says how far the command is, `Exited` stands there only if it ended, and its body
    is JSON. Nothing but an answer in the agreed frame is one, whatever the session reported.
    """

    async def attempt(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        """Carry out one exchange and say what was seen."""
        ...

    async def close(self) -> None:
        """Release pooled connections. Attempts under way are aborted."""
        ...


@dataclass(frozen=True, slots=True)
class HostPlace:
    """Where a host is reached whose keys are not known yet."""

    address: str
    port: int
    allow_private: bool = False
    jump: HostTarget | None = None
    """A host to go through, believed by its own pins."""


@dataclass(frozen=True, slots=True)
class Presented:
    """The keys that a host has proven to hold, or why there are none."""

    keys: tuple[str, ...]
    """Public keys as OpenSSH writes them, without a comment: `ssh-ed25519 AAAA…`; one of each kind at most."""
    failure: str | None = None
    """One plain sentence; set where not every kind could be asked for."""
    hops_short: int = 0
    """As in `Observation`, for the failure."""


class HostKeys(Protocol):
    """The only place where a host's key is ever learned. Nothing is sent but the key exchange."""

    async def presented(self, place: HostPlace, *, connect_seconds: float, seconds: float) -> Presented:
        """Ask for a key of each kind, within `seconds` together. Never raises except `CancelledError`."""
        ...


class SelfTestFailed(RuntimeError):
    """The start-up self-test found a promise broken; the gateway must not start."""
