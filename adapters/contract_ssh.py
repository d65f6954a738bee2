"""What the SSH adapter takes and gives: a command for one host in, an observation out, nothing decided.

The rules of `adapters.contract` hold here too: one attempt, never sent twice, every failure a value.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from adapters.contract import Hooks


class Stage(StrEnum):
    """How far an attempt got, in the order of `STAGE_ORDER`. Known from the session's own calls, never from a text."""

    PREPARED = "prepared"
    """Nothing was done on the network yet."""
    CONNECTING = "connecting"
    """Name look-up, TCP connect, key exchange, host key, login; behind jump hosts the same for each of them."""
    CONNECTED = "connected"
    """Logged in; no channel of ours is confirmed."""
    OPENED = "opened"
    """The channel is confirmed; the before-send check has not passed and the command has not been written."""
    ASKED = "asked"
    """The check passed; the command was written in the same step and may have left."""
    ACCEPTED = "accepted"
    """The host says it accepted the command. It proves a fork at most, never that the command ran."""
    ENDED = "ended"
    """An exit status or a signal was reported."""


STAGE_ORDER: tuple[Stage, ...] = tuple(Stage)


@dataclass(frozen=True, slots=True)
class SshPins:
    """The only keys a host is believed by. Public keys as OpenSSH writes them: `ssh-ed25519 AAAA…`."""

    keys: tuple[str, ...] = ()
    """Host keys."""
    authorities: tuple[str, ...] = ()
    """Authorities whose host certificates count; a certificate must name the host (`SshRoute.name`)."""
    revoked: tuple[str, ...] = ()
    """Keys that never count, whoever vouches for them."""


@dataclass(frozen=True, slots=True)
class SshCredential:
    """A private key as the vault holds it, and maybe its certificate. Its text appears in no repr, log or error."""

    private_key: str = field(repr=False)
    """PEM or OpenSSH text without a passphrase."""
    certificate: str | None = field(default=None, repr=False)
    """User certificate as OpenSSH writes it: `ssh-ed25519-cert-v01@openssh.com AAAA…`."""


@dataclass(frozen=True, slots=True)
class SshRoute:
    """Which host, as whom, believed by what. Built from the host definition, never from arguments."""

    name: str
    """The host's name for certificates; it is not looked up."""
    address: str
    """Name or address that is dialled; behind a jump host, by the jump host."""
    user: str
    pins: SshPins
    credential: SshCredential
    port: int = 22
    jump: "SshRoute | None" = None
    """The host to go through, with pins and a credential of its own."""
    allow_private: bool = False
    """Loopback, private and link-local addresses are allowed (metadata addresses never are)."""


@dataclass(frozen=True, slots=True)
class SshLimits:
    """One time limit per stage, in seconds. Each ends with `SshExchange.run_seconds` at the latest."""

    connect_seconds: float = 10.0
    """TCP connect."""
    login_seconds: float = 10.0
    """Key exchange and login, for each host on the way."""
    open_seconds: float = 10.0
    """From asking for a channel to its confirmation."""
    reply_seconds: float = 10.0
    """From the command to its acceptance."""
    grace_seconds: float = 2.0
    """After the exit status, for output still on its way. A background child may hold the channel open for ever."""
    keepalive_seconds: float = 5.0
    keepalive_misses: int = 3
    """A silent connection is given up after `keepalive_misses` + 1 times `keepalive_seconds`."""


@dataclass(frozen=True, slots=True)
class SshExchange:
    """The exact command of one attempt."""

    route: SshRoute
    command: str
    """What the login shell is given, visible in the host's list of processes: printable ASCII, no secret."""
    stdin: bytes = field(default=b"", repr=False)
    """What the command reads, to its end."""
    run_seconds: float = 60.0
    """Deadline of this attempt from the start of connecting to the exit status; output may take the grace longer."""
    limits: SshLimits = SshLimits()
    head_bytes_max: int = 8192
    """Of each output stream, how much of its beginning is kept."""
    tail_bytes_max: int = 8192
    """And how much of its end. Everything is counted and hashed."""
    fresh: bool = False
    """On a connection of its own: what a probe sees must not depend on what a pooled connection believes."""


@dataclass(frozen=True, slots=True)
class Capture:
    """One output stream. `head` and `tail` never overlap; between them lie `gap` bytes that were not kept."""

    count: int = 0
    """Bytes received."""
    head: bytes = field(default=b"", repr=False)
    tail: bytes = field(default=b"", repr=False)
    sha256: str | None = None
    """Hash of all bytes received, hex; None where nothing was."""

    @property
    def gap(self) -> int:
        """How many bytes were dropped between head and tail."""
        return self.count - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class SshObservation:
    """What one attempt or probe showed. A value: it claims nothing about success.

    Times are milliseconds: `*_ms` wall clock since the Unix epoch, `*_boot_ms` CLOCK_BOOTTIME of this machine.
    """

    stage: Stage
    nothing_left: bool
    """Proof that the host never executed the command. The only field on which "not executed" may rest."""
    started_ms: int
    ended_ms: int
    closed_boot_ms: int | None
    """When our socket was hard-closed, so that no further byte can leave; None where the connection lives on."""
    summary: str
    """One plain sentence without personal data."""
    exit_status: int | None = None
    """0 to 255 as the host reported it. None is no status: neither success nor failure."""
    exit_signal: str | None = None
    """Name of the signal that ended the command, without `SIG`."""
    stdout: Capture = Capture()
    stderr: Capture = Capture()
    output_complete: bool = False
    """The command ended, and the host said that its output did too."""
    input_complete: bool = False
    """All of stdin had been handed over by the time the attempt ended."""
    reused: bool = False
    """The connection had served before."""
    error_class: str | None = None
    error_code: int | None = None
    """Reason of a refused channel (RFC 4254 section 5.1, and the library's own from 0xfffffffd)."""
    error_cause: str | None = None
    peer: str | None = None
    host_key: str | None = None
    """Fingerprint of the key the host presented, believed or not."""
    host_key_refused: bool = False
    """It was not believed: somebody must look at this, and nothing may be tried again."""
    hops_short: int = 0
    """How many hosts before the one that was meant it ended: 1 is the jump host before it, 0 the host itself. Then
    `host_key` and `host_key_refused` are about that jump host, too."""
    contradictions: tuple[str, ...] = ()
    """Things that cannot both be true, for example a second exit status."""

    @property
    def answered(self) -> bool:
        """The host reported one end of the command, with all of its output, free of contradictions."""
        ended = self.exit_status is not None or self.exit_signal is not None
        return ended and self.output_complete and not self.contradictions


class HostTransport(Protocol):
    """One way to a host's shell. Ports for tests and the simulator implement the same call.

    `attempt` never raises except `asyncio.CancelledError` (after giving its channel up), never asks twice, and returns
    within the exchange's limits.
    """

    async def attempt(self, exchange: SshExchange, hooks: Hooks) -> SshObservation:
        """Carry out one command and say what was seen. Of the hooks only `before_send` is used."""
        ...

    async def close(self) -> None:
        """Release pooled connections. Attempts under way are aborted."""
        ...
