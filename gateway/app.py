"""The composition root: the only module that knows every concrete class.

Each part is imported by the method that puts it to use: most commands ask a running gateway, and need none of them.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.engine.chance import Chance, SystemChance
from gateway.engine.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from gateway.engine.log_look import LogLook
    from gateway.settings import Settings
    from gateway.surfaces.cli.composition import HostQuestions, Initialised, InitOptions, Opened


class App:
    """Fills `surfaces.cli.composition.Composition` with the real parts."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` is read once, here."""
        self.environment = environment
        self.clock: Clock = SystemClock()
        self.chance: Chance = SystemChance()

    async def initialise(self, options: InitOptions) -> Initialised:
        """Make a new gateway in a folder."""
        from gateway.founding import found

        return await found(options, self.environment, self.clock, self.chance)

    @asynccontextmanager
    async def open(self, settings: Settings) -> AsyncIterator[Opened]:
        """Open the data folder without running anything."""
        from gateway.office import open_office
        from gateway.surfaces.cli.composition import Opened

        async with open_office(settings, self.environment, self.clock, self.chance) as office:
            yield Opened(
                office.store,
                office.keys,
                office.vault,
                office.subjects,
                office.log_keys,
                office.origin,
                office.quarantine,
                office.paths.audit,
            )

    def look(self, settings: Settings) -> LogLook:
        """The audit log of the data folder, unopened."""
        from gateway.engine.log_look import LogLook
        from gateway.office import Paths

        return LogLook(settings, Paths(Path(settings.data_folder)))

    async def recover(
        self, settings: Settings, *, person: str, reason: str, accept_loss: bool, auditor_key: Path | None
    ) -> str:
        """Lift a quarantine, or go on after a loss."""
        from gateway.founding import go_on

        return await go_on(
            settings,
            self.environment,
            self.clock,
            self.chance,
            person=person,
            reason=reason,
            accept_loss=accept_loss,
            auditor_key=auditor_key,
        )

    def host_script(self, store: str) -> bytes:
        """The script that makes a runner's store."""
        from adapters.ssh.runner_setup import setup_script

        return setup_script(store, self.chance.bytes(16).hex())

    def read_host(self, output: bytes) -> dict[str, object] | None:
        """The answer to it."""
        from adapters.ssh.runner_setup import setup_answer

        found = setup_answer(output)
        return None if found is None else dict(found)

    @asynccontextmanager
    async def hosts(self, settings: Settings, opened: Opened) -> AsyncIterator[HostQuestions]:
        """Ask hosts without a running gateway."""
        from gateway.catalog.declared_hosts import DeclaredHosts
        from gateway.catalog.load import load, read_folder
        from gateway.hosting import Desk, ways_to_hosts
        from gateway.surfaces.cli.composition import HostQuestions

        # As written, mistakes or not: a host whose keys are still to be fetched has none yet.
        loaded = load(read_folder(Path(settings.catalog_folder)))
        declared = DeclaredHosts({name: entry.form for name, entry in loaded.hosts.items()})
        ways = ways_to_hosts(self.clock, self.chance, lambda _host, _port: False)
        desk = Desk(declared, ways, opened.vault, opened.store, self.clock)
        try:
            yield HostQuestions(desk.ask(), desk.enrol())
        finally:
            await ways.commands.close()

    async def serve(self, settings: Settings, ready: Callable[[str], None]) -> int:
        """Serve until SIGTERM or SIGINT."""
        from gateway.running import serve

        return await serve(settings, self.environment, self.clock, self.chance, ready=ready)
