"""What the command line needs from the composition root: the doors may not know how a gateway is put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # what these rest on takes longer to import than most commands take to run
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from gateway.engine.chance import Chance
    from gateway.engine.clock import Clock
    from gateway.engine.enrolling import Enrolment
    from gateway.engine.host_desk import HostDesk
    from gateway.engine.keys import Keys
    from gateway.engine.log_keys import LogKeys
    from gateway.engine.log_look import LogLook
    from gateway.engine.subjects import Subjects
    from gateway.engine.vault import Vault
    from gateway.settings import Settings
    from gateway.store.port import Store


@dataclass(frozen=True, slots=True)
class Opened:
    """A data folder opened by this process alone, without a running engine."""

    store: Store
    keys: Keys
    vault: Vault
    subjects: Subjects
    log_keys: LogKeys
    origin: str
    quarantine: str | None
    log_folder: Path


@dataclass(frozen=True, slots=True)
class InitOptions:
    """Choices of `gateway init`; a public key that is None is made, with its private part in a file of its own."""

    folder: Path
    origin: str
    person: str
    auditor: str | None = None
    recovery: str | None = None


@dataclass(frozen=True, slots=True)
class Initialised:
    """What `gateway init` made. The two key texts are shown once and kept nowhere."""

    files: tuple[Path, ...]
    private_files: tuple[Path, ...]
    """Auditors' private keys: they belong on other machines."""
    config: Path
    log_vkey: str
    person_key: str = field(repr=False)
    caller: str
    caller_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HostQuestions:
    """What can be asked of hosts without a running gateway."""

    desk: HostDesk
    enrolment: Enrolment


class Composition(Protocol):
    """Filled by `gateway.app`."""

    @property
    def clock(self) -> Clock: ...
    @property
    def chance(self) -> Chance: ...
    @property
    def environment(self) -> Mapping[str, str]: ...

    async def initialise(self, options: InitOptions) -> Initialised:
        """Make a data folder, keys and starter files. Raises `store.port.Refused`; overwrites nothing."""
        ...

    def open(self, settings: Settings) -> AbstractAsyncContextManager[Opened]:
        """Open the data folder for this process alone. Raises `store.port.Refused`."""
        ...

    def look(self, settings: Settings) -> LogLook:
        """What can be read of the data folder's audit log without opening it, also while a gateway serves."""
        ...

    async def recover(
        self, settings: Settings, *, person: str, reason: str, accept_loss: bool, auditor_key: Path | None
    ) -> str:
        """Lift a quarantine (audited), or go on after a loss under a new origin. Returns what was done.

        `auditor_key` is a file that opens the audit log, from which the store then learns what it does not know.
        """
        ...

    def host_script(self, store: str) -> bytes:
        """What `sh -s` on a host is to read to make a runner's store. Raises `ValueError` with a reason."""
        ...

    def read_host(self, output: bytes) -> dict[str, object] | None:
        """What a host answered to that script: `phase`, `reason`, `store_id` and what it offers; None: no answer."""
        ...

    def hosts(self, settings: Settings, opened: Opened) -> AbstractAsyncContextManager[HostQuestions]:
        """Ask hosts with what an opened data folder holds. Raises `catalog.mistake.MistakesError`."""
        ...

    async def serve(self, settings: Settings, ready: Callable[[str], None]) -> int:
        """Serve until told to stop; the exit code."""
        ...
