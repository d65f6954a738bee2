"""The demo over SSH: sessions that die before, during and after the command, and the hosts' own account of what ran."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

from gateway.surfaces.cli.client import Client
from gateway.surfaces.cli.demo.callers import Callers
from gateway.surfaces.cli.demo.cases import Case
from gateway.surfaces.cli.demo.catalog import write_configuration
from gateway.surfaces.cli.demo.processes import DemoFailedError, Program, running
from gateway.surfaces.cli.demo.show import Show
from gateway.surfaces.cli.demo.ssh_cases import BEGUN, HONEST, HOST_BY_NAME, HOST_CASES, HOSTS, HostCase
from gateway.surfaces.cli.demo.ssh_catalog import credential, credential_name, ssh_catalog_text
from gateway.surfaces.cli.demo.ssh_kit import DemoHost
from gateway.surfaces.cli.demo.story import Story


class HostSetup(Protocol):
    """What the demo needs of the composition root to make a host's store."""

    def host_script(self, store: str) -> bytes:
        """What `sh -s` on the host is to read."""
        ...

    def read_host(self, output: bytes) -> Mapping[str, object] | None:
        """What the host answered."""
        ...


class SshStory(Story):
    """Four hosts with an account of what ran, each behind a fault proxy. Nothing is installed on them but `sh`."""

    cases = HOST_CASES
    settled, other = HOST_BY_NAME["ran"], HOST_BY_NAME["good-day"]
    opening = (
        f"Starting {len(HOSTS)} hosts reached over SSH, with nothing installed but sh, and a gateway on an empty folder"
    )
    checking = "Holding every answer against what ran on the hosts, and verifying the audit log"

    def __init__(self, folder: Path, environment: Mapping[str, str], show: Show, setup: HostSetup) -> None:
        """Nothing is started yet. The folder must be empty."""
        super().__init__(folder, environment, show)
        self._setup = setup
        self._programs: dict[str, Program] = {}
        self._hosts: dict[str, DemoHost] = {}

    async def _set_up(self, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - as the base says
        *_, keys = await asyncio.gather(*(self._start_host(stack, name) for name in HOSTS), self._initialise())
        write_configuration(self._folder, ssh_catalog_text(self._hosts[name] for name in HOSTS))
        return keys

    async def _start_host(self, stack: AsyncExitStack, name: str) -> None:
        folder = self._folder / name
        folder.mkdir()
        arguments = ("fixtures", "ssh", "--real", "--keys", str(folder / "keys"), "--ledger", str(folder / "sessions"))
        program = await stack.enter_async_context(running(arguments, self._environment, self._folder / "hosts.log"))
        host = DemoHost.of(program.ready)
        await host.prepare(self._setup.host_script(str(host.store)), self._setup.read_host)
        self._programs[name], self._hosts[name] = program, host
        stack.push_async_callback(host.end)

    async def _make_ready(self, person: Client) -> None:
        """The hosts' keys go into the vault; nothing else of the gateway ever holds them."""
        for name, host in self._hosts.items():
            made = await person.call("PUT", f"/v1/credentials/{credential_name(host)}", body=credential(host))
            if made.is_problem:
                raise DemoFailedError(f"The key of {name} could not be stored: {made.document}")

    async def _lose_answers(self, callers: Callers) -> None:
        """Commands leave together; whoever is in doubt is not let in again for now."""
        together = self._cases("together")
        for case in together:
            await self._plan(case)
        self._show.doing(f"{len(together)} agents call; hosts in doubt let nobody in meanwhile")
        await asyncio.gather(self._call_together(callers, together), self._cut_once_it_runs())

    async def _cut_once_it_runs(self) -> None:
        host = self._hosts[HOST_BY_NAME["ran"].host]
        await host.until_ran(1)
        await host.announce(BEGUN)

    async def _plan(self, case: Case) -> None:
        planned = HOST_BY_NAME[case.name]
        await self._hosts[planned.host].plan(planned)

    async def _in_flight(self, cases: Sequence[Case]) -> None:
        honest = self._hosts[HONEST]
        together = sum(HOST_BY_NAME[case.name].host == HONEST for case in self._cases("together"))
        await honest.until_ran(together + len(cases))

    async def _settle(self, callers: Callers, person: Client) -> None:
        """The hosts let the gateway in again, and it asks them what became of each command."""
        del person
        for host in self._hosts.values():
            await host.let_in()
        self._show.settling()
        await asyncio.gather(*(self._until_final(case, callers) for case in self._cases("together", "in_flight")))
        await self._deliver(HOST_BY_NAME["late"], callers)
        for case in self._cases("afterwards"):
            await self._plan(case)
            await callers.call(case)
            await self._until_final(case, callers)

    async def _deliver(self, case: HostCase, callers: Callers) -> None:
        """What was held all the time arrives at last, and finds its place taken."""
        host = self._hosts[case.host]
        await host.deliver()
        document = await callers.reconcile(case)
        fits = document["executed"] == "no" and not host.ran()
        self._expect(fits, f"{case.name}: executed {document['executed']}, and it ran {len(host.ran())} times")
        self._show.arrived("the held one arrives", "met the fence" if not host.ran() else "ran", len(host.ran()))

    async def _truth(self, case: Case, operation: str) -> tuple[int, int]:
        host = self._hosts[HOST_BY_NAME[case.name].host]
        return host.ran().count(operation), 0

    async def _stop(self) -> None:
        for name, program in self._programs.items():
            if await program.stop() != 0:
                self._wrong.append(f"{name} did not end in order.")

    async def _entries(self) -> list[dict[str, Any]]:
        """One for each line that a command wrote when it began to run."""
        ran = [operation for host in self._hosts.values() for operation in host.ran()]
        return [{"op": operation, "fp": None, "effect": "done"} for operation in ran]
