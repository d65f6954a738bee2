"""What happens in every demo, in order: answers lost, a kill, evidence, agents that try again, and the accounts."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

from gateway.surfaces.cli.client import Client
from gateway.surfaces.cli.demo.account import Totals, settle_accounts
from gateway.surfaces.cli.demo.callers import Callers
from gateway.surfaces.cli.demo.cases import Case, Stage
from gateway.surfaces.cli.demo.processes import Program, environment_for, output_of, running
from gateway.surfaces.cli.demo.show import Show

VERDICTS = frozenset({0, 1, 3, 4, 5})
"""Exit codes of `audit verify` with which it prints a report."""


class Story(ABC):
    """One run of the demo in one folder. What differs between a service and hosts is left to those who inherit."""

    cases: ClassVar[Sequence[Case]]
    settled: ClassVar[Case]
    """One that is in doubt first: an agent says it again during doubt, and under its own key afterwards."""
    other: ClassVar[Case]
    """One that was answered: an agent says it again without a key."""
    opening: ClassVar[str]
    checking: ClassVar[str]

    def __init__(self, folder: Path, environment: Mapping[str, str], show: Show) -> None:
        """Nothing is started yet. The folder must be empty."""
        self._folder = folder.resolve()
        self._show = show
        self._base = environment
        self._environment = environment_for(
            environment, GATEWAY_CONFIG=str(self._folder / "gateway.yaml"), GATEWAY_ADDR="127.0.0.1:0"
        )
        self._wrong: list[str] = []

    async def play(self) -> Totals:
        """Everything, from an empty folder to the totals. Raises DemoFailedError."""
        async with AsyncExitStack() as stack:
            self._show.doing(self.opening)
            keys = await self._set_up(stack)
            gateway = await self._start_gateway(stack)
            callers = Callers(Client(gateway.ready["address"], keys["caller"]["key"]))
            await self._make_ready(Client(gateway.ready["address"], keys["person"]["key"]))
            await self._lose_answers(callers)
            refused = await callers.refusal(self.settled, key="demo-impatient")
            self._expect(refused == "predecessor_unsettled", f"a second call during doubt was answered {refused}")
            self._show.turned_away("the same again under a new key", refused)
            gateway = await self._kill(stack, gateway, callers)
            await self._settle(callers, Client(gateway.ready["address"], keys["person"]["key"]))
            await self._try_again(callers)
            documents = await callers.all_operations()
            if await gateway.stop() != 0:
                self._wrong.append("The gateway did not end in order.")
            await self._stop()
        return await self._account(documents, callers)

    # --- what the two kinds do differently

    @abstractmethod
    async def _set_up(self, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - any JSON value
        """Start what the gateway acts on, and write its configuration; returns what `gateway init` printed."""

    @abstractmethod
    async def _make_ready(self, person: Client) -> None:
        """What a person does once the gateway runs."""

    @abstractmethod
    async def _lose_answers(self, callers: Callers) -> None:
        """The cases that begin together, each with its fault."""

    @abstractmethod
    async def _plan(self, case: Case) -> None:
        """Let a single case meet its fault."""

    @abstractmethod
    async def _in_flight(self, cases: Sequence[Case]) -> None:
        """Wait until the other side has these."""

    @abstractmethod
    async def _settle(self, callers: Callers, person: Client) -> None:
        """Evidence comes in again."""

    @abstractmethod
    async def _truth(self, case: Case, operation: str) -> tuple[int, int]:
        """How often it took effect so far, and how often it was asked for."""

    @abstractmethod
    async def _stop(self) -> None:
        """End what was started."""

    @abstractmethod
    async def _entries(self) -> list[dict[str, Any]]:
        """What really happened, as entries of a ledger; asked for when everything has ended."""

    # --- what they have in common

    async def _initialise(self) -> Any:  # noqa: ANN401 - any JSON value
        return await output_of(("gateway", "init", str(self._folder), "--json"), environment_for(self._base))

    async def _start_gateway(self, stack: AsyncExitStack) -> Program:
        log = self._folder / "gateway.log"
        return await stack.enter_async_context(running(("gateway", "serve"), self._environment, log))

    async def _call_together(self, callers: Callers, cases: Sequence[Case]) -> None:
        await asyncio.gather(*(callers.call(case) for case in cases))
        self._show.heading("caller is told", "")
        for case in cases:
            self._show.told(case, callers.first[case.name])

    async def _kill(self, stack: AsyncExitStack, gateway: Program, callers: Callers) -> Program:
        """More calls leave, reach the other side, and the gateway dies before any answer."""
        in_flight = self._cases("in_flight")
        for case in in_flight:
            await self._plan(case)
        calls = asyncio.gather(*(callers.call(case) for case in in_flight))
        await self._in_flight(in_flight)
        await gateway.kill()
        await calls
        for case in in_flight:
            self._show.told(case, callers.first[case.name])
        self._show.doing(f"kill -9 {gateway.pid}; the gateway starts again on the same folder")
        gateway = await self._start_gateway(stack)
        callers.turn_to(gateway.ready["address"])
        await asyncio.gather(*(callers.ask_by_key(case) for case in self.cases if case.stage != "afterwards"))
        for case in self.cases:
            if case.doubtful:
                document = callers.newest[case.name]
                self._expect(document["outcome"] == "unknown", f"{case.name}: {document['outcome']} without evidence")
        return gateway

    async def _until_final(self, case: Case, callers: Callers) -> None:
        document = await callers.wait_until_final(case)
        self._expect(document["outcome"] == case.ends, f"{case.name} ended as {document['outcome']}")
        effects, requests = await self._truth(case, document["operation_id"])
        self._show.settled(case, document, effects, requests)

    async def _try_again(self, callers: Callers) -> None:
        """Agents that repeat what is done already: the stored answer, or a refusal that carries it."""
        self._show.heading("is answered", "")
        replayed = await callers.replay(self.settled)
        self._expect(replayed, "the same key again was not answered from the store")
        self._show.refused("a settled one again, same key", "stored outcome" if replayed else "sent again")
        refused = await callers.refusal(self.other, key=None)
        self._expect(refused == "probable_repeat", f"a repeat without a key was answered {refused}")
        self._show.refused("a settled one again, no key", refused)

    async def _account(self, documents: list[dict[str, Any]], callers: Callers) -> Totals:
        """Whoever checks is another program: the auditor verifies the log."""
        self._show.doing(self.checking)
        folder = self._folder
        verify = ("audit", "verify", str(folder / "data" / "audit"), "--trust", str(folder / "trust.policy"))
        entries, report = await asyncio.gather(
            self._entries(),
            output_of((*verify, "--anchor", str(folder / "anchors"), "--json"), self._environment, fine=VERDICTS),
        )
        self._expect(len(documents) == len(self.cases), f"{len(documents)} operations came of {len(self.cases)} calls")
        totals = settle_accounts(
            documents,
            entries,
            told_unknown=callers.told_unknown,
            audit=report["verdict"]["word"],
            wrong=self._wrong,
        )
        self._show.summary(totals)
        return totals

    def _expect(self, held: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like the assertion that it is
        if not held:
            self._wrong.append(f"Not as planned: {otherwise}.")

    def _cases(self, *stages: Stage) -> list[Case]:
        return [case for case in self.cases if case.stage in stages]
