"""Who uses the gateway: agents that submit, repeat, change, poll, cancel and lose connections; a person at the end.

An agent knows only what it was answered. Everything it is told goes into the history.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from gateway.core.ids import format_id
from gateway.core.judge import claim
from gateway.engine.gateway import Gateway, View, attest_digest
from gateway.engine.submit import Request
from gateway.model.operation import FINAL, Executed, Outcome, State
from gateway.model.principal import Principal, PrincipalKind
from gateway.model.problem import Code, Problem
from gateway.store.points import Crash
from gateway.store.port import StoreUnknown, Unavailable
from tests.model.history import Said
from tests.model.kinds import HELD_FREE_MAX
from tests.model.process import Gone

if TYPE_CHECKING:
    from tests.model.simulation import Simulation

PERSON = Principal(PrincipalKind.PERSON, "ann", "ann", "k-ann")
NAMES = ("a", "b")
TRIES_MAX = 8
_LATER = frozenset(
    {Code.AUDIT_UNAVAILABLE, Code.STORE_UNAVAILABLE, Code.SHUTTING_DOWN, Code.TOO_MANY_REQUESTS, Code.QUARANTINED}
)
_ENDED = frozenset({*FINAL, State.UNRESOLVED})


async def ask(world: "Simulation", what: Callable[[Gateway], Awaitable[View]]) -> View:
    """One call to the gateway that is up. Raises Gone if it dies before it answers, Problem if it refuses."""
    await world.up.wait()
    process = world.process

    async def call() -> View:
        return await what(process.assembly.gateway)

    task = world.loop.run_in(process, call())
    await asyncio.wait({task})
    if process.dead or task.cancelled() or isinstance(task.exception(), Crash | StoreUnknown | Unavailable):
        # The door makes a 503 of a store that is lost: no more is known than after a cut.
        raise Gone
    view: View = task.result()
    return view


async def ask_surely(world: "Simulation", what: Callable[[Gateway], Awaitable[View]]) -> View:
    """Until there is an answer."""
    while True:
        try:
            return await ask(world, what)
        except Gone:
            await asyncio.sleep(1.0)


def hear(world: "Simulation", who: str, view: View) -> View:
    """Put an answer into the history."""
    operation = view.operation
    claimed = claim(operation)
    world.history.kind_of[operation.id] = view.action.name.removesuffix(".do")
    world.history.said.append(
        Said(
            world.loop.now,
            operation.id,
            who,
            operation.state.value,
            None if claimed.outcome is None else claimed.outcome.value,
            claimed.executed.value,
            operation.version,
            operation.contradicted,
            operation.basis,
        )
    )
    return view


class Agent:
    """One caller with one task, and its bad habits."""

    def __init__(self, world: "Simulation", number: int) -> None:
        self.world = world
        self.random = world.random
        self.name = f"agent-{self.random.choice([0, 0, 1])}"
        self.who = Principal(PrincipalKind.CALLER, self.name, "ann", f"k-{self.name}")
        self.kind = self.random.choice(world.kinds)
        self.action = f"{self.kind}.do"
        self.arguments: dict[str, Any] = {
            "name": self.random.choice(NAMES),
            "size": self.random.randrange(3 if number else 2),
        }
        self.key = f"key-{number}" if self.random.random() < 0.7 else None
        self.op: str | None = None
        self.state: State | None = None

    async def run(self) -> None:
        await asyncio.sleep(self.random.random() * 5.0)
        await self.submit()
        for _ in range(self.random.randint(0, 3)):
            if self.op is None:
                return
            await self.habit()
        await self.wait()

    async def submit(self) -> None:
        """Submit until there is an answer. Whoever has no key can only say the same once more."""
        for _ in range(TRIES_MAX):
            view = await self.call(self._request(self.arguments), "submit")
            if view is not None:
                self.take(view)
                return
            await asyncio.sleep(self.random.choice([0.5, 5.0, 20.0]))

    def _request(self, arguments: dict[str, Any]) -> Callable[[Gateway], Awaitable[View]]:
        return lambda gateway: gateway.submit(self.who, Request(self.action, arguments, key=self.key))

    def take(self, view: View) -> None:
        operation = view.operation
        if self.key is not None:
            first = self.world.history.of_key.setdefault((self.name, self.action, self.key), operation.id)
            if first != operation.id:
                self.world.break_(f"S8 one key, two operations: {first} and {operation.id}")
        self.op, self.state = operation.id, operation.state

    async def call(self, what: Callable[[Gateway], Awaitable[View]], doing: str) -> View | None:
        """One call; None where nothing was learned."""
        world, begun = self.world, self.world.clock.wall_ms()
        try:
            return hear(world, f"{self.name} ({doing})", await ask(world, what))
        except Gone:
            world.history.reached(f"agent: cut off while {doing}")
            world.tell(f"{self.name} is cut off ({doing})")
        except Problem as problem:
            self._refused(problem, doing, begun)
        return None

    def _refused(self, problem: Problem, doing: str, begun: int) -> None:
        world = self.world
        world.history.reached(f"refused: {problem.code.value}")
        world.tell(f"{self.name} is refused ({doing}): {problem}")
        view = problem.extra.get("view")
        if view is not None:
            hear(world, f"{self.name} (refusal)", view)
        if doing == "submit" and problem.code in _LATER and problem.operation_id is None:
            what = {"begun": begun, "arguments": self.arguments, "caller": self.name}
            world.history.nothing_created.append((world.loop.now, self.action, what))

    async def habit(self) -> None:
        """One thing that agents do while they should wait."""
        habits = (self.again, self.changed, self.poll, self.cancel, self.reconcile)
        urge = self.world.urge
        if urge is None:
            await self.random.choice(habits)()
        else:
            # Not at once: what it is about shall be under way.
            await asyncio.sleep(0.5 + self.random.random() * 2.0)
            await getattr(self, urge)()
        await asyncio.sleep(self.random.choice([0.0, 0.3, 3.0, 15.0]))

    async def again(self) -> None:
        """The same once more."""
        self.world.history.reached(f"again while {self.state}")
        view = await self.call(self._request(self.arguments), "again")
        if view is not None and self.key is not None and view.operation.id != self.op:
            self.world.break_(f"S8 the same key gave {view.operation.id} after {self.op}")

    async def changed(self) -> None:
        """Other arguments under the same key."""
        if self.key is None:
            return
        other = self.arguments | {"size": self.arguments["size"] + 100}
        try:
            view = await ask(self.world, self._request(other))
        except Gone:
            return
        except Problem as problem:
            self.world.history.reached(f"changed while {self.state}: {problem.code.value}")
            if problem.code not in _LATER | {Code.KEY_REUSED}:
                self.world.break_(f"S7 other arguments under a used key met {problem.code.value}")
            return
        self.world.break_(f"S7 other arguments under the key of {self.op} were taken as {view.operation.id}")

    async def poll(self) -> None:
        if self.op is not None:
            op, seconds = self.op, self.random.choice([0.0, 1.0, 10.0])
            view = await self.call(lambda gateway: gateway.wait(self.who, op, seconds), "poll")
            if view is not None:
                self.state = view.operation.state

    async def cancel(self) -> None:
        if self.op is not None and (self.world.urge is not None or self.random.random() < 0.5):
            op = self.op
            view = await self.call(lambda gateway: gateway.cancel(self.who, op), "cancel")
            if view is not None and view.operation.state is State.CANCELLED:
                self.world.history.reached("cancelled")

    async def reconcile(self) -> None:
        if self.op is not None:
            op = self.op
            await self.call(lambda gateway: gateway.reconcile(self.who, op), "reconcile")

    async def wait(self) -> None:
        """Until it is over, or patience is."""
        for _ in range(self.random.randint(1, 6)):
            op = self.op
            if op is None or self.state in _ENDED:
                return
            view = await self.call(lambda gateway, op=op: gateway.wait(self.who, op, 25.0), "wait")  # type: ignore[misc]  # a default binds the name of this round
            if view is not None:
                self.state = view.operation.state


class Person:
    """Looks at everything at the end, and settles what nobody could: she can see the service itself."""

    def __init__(self, world: "Simulation") -> None:
        self.world = world

    async def close_books(self) -> None:
        """Read every operation; attest those that are left, by the service's own ledger."""
        world = self.world
        for (name,) in world.rows("SELECT id FROM operations"):
            op = _id(name)
            view = hear(world, "ann", await ask_surely(world, lambda gateway, op=op: gateway.get(PERSON, op)))  # type: ignore[misc]  # as above
            world.history.reached(f"end: {view.operation.state.value} by {view.operation.basis}")
            if view.operation.state is State.UNRESOLVED and world.random.random() < 0.5:
                await self._attest(view)

    async def _attest(self, view: View) -> None:
        world, op = self.world, view.operation.id
        # She knows of the service how long a request can be held up on its way, and waits that out.
        await asyncio.sleep(HELD_FREE_MAX + 10.0)
        happened = any(effect.op == op for effect in world.history.effects)
        outcome = Outcome.SUCCESS if happened and not world.history.exits.get(op) else Outcome.ERROR
        executed = Executed.YES if happened else Executed.NO
        while True:
            # A host is looked at for days, so there may be news.
            view = hear(world, "ann", await ask_surely(world, lambda gateway: gateway.get(PERSON, op)))
            if view.operation.state is not State.UNRESOLVED:
                break
            seen = attest_digest(view.operation)

            async def attest(gateway: Gateway, seen: str = seen) -> View:
                return await gateway.attest(
                    PERSON, op, outcome=outcome, executed=executed, reason="seen at the service", seen=seen
                )

            try:
                hear(world, "ann (attest)", await ask_surely(world, attest))
            except Problem as problem:
                if problem.code is not Code.STALE_DIGEST:
                    raise
                world.history.reached("attest: news came in between")
        world.history.reached(f"end: {view.operation.state.value} by {view.operation.basis}")


def _id(raw: bytes) -> str:
    return format_id(raw)
