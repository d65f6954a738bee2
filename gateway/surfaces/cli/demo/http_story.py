"""The demo over HTTP: answers lost on purpose, a status endpoint that is down, and the service's own ledger."""

import asyncio
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from gateway.surfaces.cli.client import Client
from gateway.surfaces.cli.demo.account import effects_by_operation
from gateway.surfaces.cli.demo.callers import Callers
from gateway.surfaces.cli.demo.cases import BY_NAME, CASES, Case
from gateway.surfaces.cli.demo.catalog import catalog_text, write_configuration
from gateway.surfaces.cli.demo.kit import Kit
from gateway.surfaces.cli.demo.processes import DemoFailedError, Program, output_of, running
from gateway.surfaces.cli.demo.show import Show
from gateway.surfaces.cli.demo.story import Story

LOOKS_MAX: Final = 100
LOOK_SECONDS: Final = 0.1


class HttpStory(Story):
    """A service that keeps a ledger, a fault proxy before it, and every way to lose an answer."""

    cases = CASES
    settled, other = BY_NAME["lost-done"], BY_NAME["good-day"]
    opening = "Starting a service that keeps a ledger, a fault proxy, and a gateway on an empty folder"
    checking = "Holding every answer against the service's ledger, and verifying the audit log"

    def __init__(
        self, folder: Path, environment: Mapping[str, str], show: Show, *, service_options: Sequence[str] = ()
    ) -> None:
        """Nothing is started yet. The folder must be empty.

        `service_options` go to the fault kit's service, so that a test can let it break its promises.
        """
        super().__init__(folder, environment, show)
        self._service_options = tuple(service_options)
        self._ledger_file = self._folder / "service.ledger"
        self._kit_program: Program
        self._kit: Kit

    async def _set_up(self, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - as the base says
        self._kit_program, keys = await asyncio.gather(self._start_kit(stack), self._initialise())
        kit = self._kit = Kit.of(self._kit_program.ready)
        nobody = stack.enter_context(_port_that_refuses())
        write_configuration(self._folder, catalog_text(service=kit.service, proxy=kit.proxy, nobody=nobody))
        return keys

    async def _start_kit(self, stack: AsyncExitStack) -> Program:
        command = ("fixtures", "up", "--ledger", str(self._ledger_file), "--async-after-seconds", "1")
        arguments = (*command, *self._service_options)
        return await stack.enter_async_context(running(arguments, self._environment, self._folder / "service.log"))

    async def _make_ready(self, person: Client) -> None:
        """The demo's service asks for no credential."""

    async def _lose_answers(self, callers: Callers) -> None:
        """Requests leave together while the service's status endpoint is down as well."""
        await self._kit.lookups_down()
        together = self._cases("together")
        for case in together:
            await self._kit.plan(case)
        self._show.doing(f"{len(together)} agents call at the same time; the service's status endpoint is down")
        await self._call_together(callers, together)

    async def _in_flight(self, cases: Sequence[Case]) -> None:
        await self._kit.have_arrived(cases)

    async def _plan(self, case: Case) -> None:
        await self._kit.plan(case)

    async def _settle(self, callers: Callers, person: Client) -> None:
        """The status endpoint is back: evidence settles what is in doubt."""
        kit = self._kit
        await kit.lookups_up()
        self._show.settling()
        late, fenced, nobody_knows = BY_NAME["late"], BY_NAME["late-fenced"], BY_NAME["nobody-knows"]
        others = [case for case in self._cases("together", "in_flight") if case not in (late, nobody_knows)]
        waits = asyncio.gather(*(self._until_final(case, callers) for case in others))
        await self._let_the_late_one_through(late, callers)
        await waits
        await self._until_final(late, callers)
        await kit.release_service(callers.newest[fenced.name]["operation_id"])
        await kit.has_come_late(callers.newest[fenced.name]["operation_id"])
        await self._attest(nobody_knows, callers, person)
        for case in self._cases("afterwards"):
            await callers.call(case)
            await self._until_final(case, callers)

    async def _truth(self, case: Case, operation: str) -> tuple[int, int]:
        entries = await self._kit.ledger()
        # By its path: looks, and what a fence writes, go elsewhere and are no requests of the operation itself.
        requests = sum(entry["path"] == case.path and entry["kind"] == "request" for entry in entries)
        return effects_by_operation(entries)[operation], requests

    async def _let_the_late_one_through(self, case: Case, callers: Callers) -> None:
        """The service says "not there", which is true, and proves nothing: the request is still on its way."""
        document = await self._looked(case, callers)
        findings = {item["finding"] for item in document["evidence"]}
        self._expect("absent" in findings, f"{case.name}: looked, and found {', '.join(sorted(findings))}")
        self._expect(document["outcome"] == "unknown", f"{case.name}: {document['outcome']} while on its way")
        await self._kit.release_proxy()
        await self._kit.has_effect(document["operation_id"])
        await callers.reconcile(case)

    async def _looked(self, case: Case, callers: Callers) -> Mapping[str, Any]:
        """Its document once a look has got an answer: the gateway may be at one already that still fails."""
        document = await callers.reconcile(case)
        for _ in range(LOOKS_MAX):
            if document["outcome"] != "unknown" or "absent" in {item["finding"] for item in document["evidence"]}:
                break
            await asyncio.sleep(LOOK_SECONDS)
            document = await callers.reconcile(case)
        return document

    async def _attest(self, case: Case, callers: Callers, person: Client) -> None:
        """Nobody can be asked: a person reads the service's books and answers for what they say."""
        document = callers.newest[case.name]
        effects = effects_by_operation(await self._kit.ledger())[document["operation_id"]]
        body = {
            "outcome": "success" if effects else "error",
            "executed": "yes" if effects else "no",
            "reason": f"The service's ledger shows {effects} effects.",
            "digest": document["attest_digest"],
        }
        answer = await person.call("POST", f"/v1/operations/{document['operation_id']}/attest", body=body)
        if answer.is_problem:
            raise DemoFailedError(f"A person could not settle {case.name}: {answer.document}")
        await self._until_final(case, callers)

    async def _stop(self) -> None:
        if await self._kit_program.stop() != 0:
            self._wrong.append("The service did not end in order.")

    async def _entries(self) -> list[dict[str, Any]]:
        """Whoever checks is another program: the fault kit reads its ledger from the file."""
        ledger = await output_of(("fixtures", "ledger", str(self._ledger_file), "--json"), self._environment)
        entries: list[dict[str, Any]] = ledger["entries"]
        return entries


@contextmanager
def _port_that_refuses() -> Iterator[str]:
    """A port of ours where nobody listens: connecting to it is refused, and nobody else can take it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
