"""What happens in the demo, in order: faults, callers, a kill, evidence, and the accounts."""

import asyncio
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from gateway.surfaces.cli.client import Client
from gateway.surfaces.cli.demo.account import Totals, effects_by_operation, settle_accounts
from gateway.surfaces.cli.demo.callers import Callers
from gateway.surfaces.cli.demo.cases import BY_NAME, CASES, Case, Stage
from gateway.surfaces.cli.demo.catalog import write_configuration
from gateway.surfaces.cli.demo.kit import Kit
from gateway.surfaces.cli.demo.processes import DemoFailedError, Program, environment_for, output_of, running
from gateway.surfaces.cli.demo.show import Show

VERDICTS = frozenset({0, 1, 3, 4, 5})
"""Exit codes of `audit verify` with which it prints a report."""


class Story:
    """One run of the demo in one folder."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], show: Show, *, service_options: Sequence[str] = ()
    ) -> None:
        """Nothing is started yet. The folder must be empty.

        `service_options` go to the fault kit's service, so that a test can let it break its promises.
        """
        self._folder = folder.resolve()
        self._show = show
        self._base = environment
        self._environment = environment_for(
            environment, GATEWAY_CONFIG=str(self._folder / "gateway.yaml"), GATEWAY_ADDR="127.0.0.1:0"
        )
        self._service_options = tuple(service_options)
        self._ledger_file = self._folder / "service.ledger"
        self._wrong: list[str] = []

    async def play(self) -> Totals:
        """Everything, from an empty folder to the totals. Raises DemoFailedError."""
        async with AsyncExitStack() as stack:
            self._show.doing("Starting a service that keeps a ledger, a fault proxy, and a gateway on an empty folder")
            kit_program, keys = await asyncio.gather(self._start_kit(stack), self._initialise())
            kit = Kit.of(kit_program.ready)
            nobody = stack.enter_context(_port_that_refuses())
            write_configuration(self._folder, service=kit.service, proxy=kit.proxy, nobody=nobody)
            gateway = await self._start_gateway(stack)
            callers = Callers(Client(gateway.ready["address"], keys["caller"]["key"]))
            await self._lose_answers(kit, callers)
            gateway = await self._kill(stack, gateway, kit, callers)
            person = Client(gateway.ready["address"], keys["person"]["key"])
            await self._settle(kit, callers, person)
            await self._try_again(callers)
            documents = await callers.all_operations()
            if await gateway.stop() != 0:
                self._wrong.append("The gateway did not end in order.")
            if await kit_program.stop() != 0:
                self._wrong.append("The service did not end in order.")
        return await self._account(documents, callers)

    async def _start_kit(self, stack: AsyncExitStack) -> Program:
        command = ("fixtures", "up", "--ledger", str(self._ledger_file), "--async-after-seconds", "1")
        arguments = (*command, *self._service_options)
        return await stack.enter_async_context(running(arguments, self._environment, self._folder / "service.log"))

    async def _initialise(self) -> Any:  # noqa: ANN401 - any JSON value
        return await output_of(("gateway", "init", str(self._folder), "--json"), environment_for(self._base))

    async def _start_gateway(self, stack: AsyncExitStack) -> Program:
        log = self._folder / "gateway.log"
        return await stack.enter_async_context(running(("gateway", "serve"), self._environment, log))

    async def _lose_answers(self, kit: Kit, callers: Callers) -> None:
        """Requests leave together while the service's status endpoint is down as well."""
        await kit.lookups_down()
        together = _cases("together")
        for case in together:
            await kit.plan(case)
        self._show.doing(f"{len(together)} agents call at the same time; the service's status endpoint is down")
        await asyncio.gather(*(callers.call(case) for case in together))
        self._show.heading("caller is told", "")
        for case in together:
            self._show.told(case, callers.first[case.name])
        refused = await callers.refusal(BY_NAME["lost-done"], key="demo-impatient")
        self._expect(refused == "predecessor_unsettled", f"a second call during doubt was answered {refused}")
        self._show.refused("the same again under a new key", refused)

    async def _kill(self, stack: AsyncExitStack, gateway: Program, kit: Kit, callers: Callers) -> Program:
        """Two more requests leave, reach the service, and the gateway dies before any answer."""
        in_flight = _cases("in_flight")
        for case in in_flight:
            await kit.plan(case)
        calls = asyncio.gather(*(callers.call(case) for case in in_flight))
        await kit.have_arrived(in_flight)
        await gateway.kill()
        await calls
        for case in in_flight:
            self._show.told(case, callers.first[case.name])
        self._show.doing(f"kill -9 {gateway.pid}; the gateway starts again on the same folder")
        gateway = await self._start_gateway(stack)
        callers.turn_to(gateway.ready["address"])
        await asyncio.gather(*(callers.ask_by_key(case) for case in CASES if case.stage != "afterwards"))
        for case in CASES:
            if case.doubtful:
                document = callers.newest[case.name]
                self._expect(document["outcome"] == "unknown", f"{case.name}: {document['outcome']} without evidence")
        return gateway

    async def _settle(self, kit: Kit, callers: Callers, person: Client) -> None:
        """The status endpoint is back: evidence settles what is in doubt."""
        await kit.lookups_up()
        self._show.heading("now", "service's ledger          settled by")
        late, fenced, nobody_knows = BY_NAME["late"], BY_NAME["late-fenced"], BY_NAME["nobody-knows"]
        others = [case for case in _cases("together", "in_flight") if case not in (late, nobody_knows)]
        waits = asyncio.gather(*(self._until_final(case, kit, callers) for case in others))
        await self._let_the_late_one_through(late, kit, callers)
        await waits
        await self._until_final(late, kit, callers)
        await kit.release_service(callers.newest[fenced.name]["operation_id"])
        await kit.has_come_late(callers.newest[fenced.name]["operation_id"])
        await self._attest(nobody_knows, kit, callers, person)
        for case in _cases("afterwards"):
            await callers.call(case)
            await self._until_final(case, kit, callers)

    async def _until_final(self, case: Case, kit: Kit, callers: Callers) -> None:
        document = await callers.wait_until_final(case)
        self._expect(document["outcome"] == case.ends, f"{case.name} ended as {document['outcome']}")
        await self._show_settled(case, document, kit)

    async def _show_settled(self, case: Case, document: Mapping[str, Any], kit: Kit) -> None:
        entries = await kit.ledger()
        effects = effects_by_operation(entries)[document["operation_id"]]
        # By its path: looks, and what a fence writes, go elsewhere and are no requests of the operation itself.
        requests = sum(entry["path"] == case.path and entry["kind"] == "request" for entry in entries)
        self._show.settled(case, document, effects, requests)

    async def _let_the_late_one_through(self, case: Case, kit: Kit, callers: Callers) -> None:
        """The service says "not there", which is true, and proves nothing: the request is still on its way."""
        document = await callers.reconcile(case)
        findings = {item["finding"] for item in document["evidence"]}
        self._expect("absent" in findings, f"{case.name}: looked, and found {', '.join(sorted(findings))}")
        self._expect(document["outcome"] == "unknown", f"{case.name}: {document['outcome']} while on its way")
        await kit.release_proxy()
        await kit.has_effect(document["operation_id"])
        await callers.reconcile(case)

    async def _attest(self, case: Case, kit: Kit, callers: Callers, person: Client) -> None:
        """Nobody can be asked: a person reads the service's books and answers for what they say."""
        document = callers.newest[case.name]
        effects = effects_by_operation(await kit.ledger())[document["operation_id"]]
        body = {
            "outcome": "success" if effects else "error",
            "executed": "yes" if effects else "no",
            "reason": f"The service's ledger shows {effects} effects.",
            "digest": document["attest_digest"],
        }
        answer = await person.call("POST", f"/v1/operations/{document['operation_id']}/attest", body=body)
        if answer.is_problem:
            raise DemoFailedError(f"A person could not settle {case.name}: {answer.document}")
        await self._until_final(case, kit, callers)

    async def _try_again(self, callers: Callers) -> None:
        """Agents that repeat what is done already: the stored answer, or a refusal that carries it."""
        self._show.heading("is answered", "")
        done = BY_NAME["lost-done"]
        replayed = await callers.replay(done)
        self._expect(replayed, "the same key again was not answered from the store")
        self._show.refused("a settled one again, same key", "stored outcome" if replayed else "sent again")
        refused = await callers.refusal(BY_NAME["good-day"], key=None)
        self._expect(refused == "probable_repeat", f"a repeat without a key was answered {refused}")
        self._show.refused("a settled one again, no key", refused)

    async def _account(self, documents: list[dict[str, Any]], callers: Callers) -> Totals:
        """Whoever checks is another program each time: the fault kit reads its ledger, the auditor verifies the log."""
        self._show.doing("Holding every answer against the service's ledger, and verifying the audit log")
        folder = self._folder
        verify = ("audit", "verify", str(folder / "data" / "audit"), "--trust", str(folder / "trust.policy"))
        ledger, report = await asyncio.gather(
            output_of(("fixtures", "ledger", str(self._ledger_file), "--json"), self._environment),
            output_of((*verify, "--anchor", str(folder / "anchors"), "--json"), self._environment, fine=VERDICTS),
        )
        self._expect(len(documents) == len(CASES), f"{len(documents)} operations came of {len(CASES)} calls")
        totals = settle_accounts(
            documents,
            ledger["entries"],
            told_unknown=callers.told_unknown,
            audit=report["verdict"]["word"],
            wrong=self._wrong,
        )
        self._show.summary(totals)
        return totals

    def _expect(self, held: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like the assertion that it is
        if not held:
            self._wrong.append(f"Not as planned: {otherwise}.")


def _cases(*stages: Stage) -> list[Case]:
    return [case for case in CASES if case.stage in stages]


@contextmanager
def _port_that_refuses() -> Iterator[str]:
    """A port of ours where nobody listens: connecting to it is refused, and nobody else can take it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
