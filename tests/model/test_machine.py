"""Random walks that shrink: every step names its fault, and a broken claim comes out as a story of few lines."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gateway.engine.ports import POINTS as ENGINE_POINTS
from gateway.store.points import POINTS as STORE_POINTS
from tests.model.agents import Agent, Person
from tests.model.checker import check, story
from tests.model.faults import LOOKS, SENDS
from tests.model.host_faults import HOST_LOOKS, HOST_SENDS
from tests.model.kinds import KINDS
from tests.model.simulation import HOUR_MS, RUN_ON_SECONDS, WATCHED_SECONDS, Plan, Simulation, quiet

AGENTS_MAX = 4
RUNS = 100
STEPS = 30
CALM = Plan(
    level=0.0, agents=0, deaths=0, every=1, reboots=0.5, steps=False, stops=False, full=False, blackout=False
)  # fmt: skip

fates = st.sampled_from(sorted({*SENDS, *HOST_SENDS}))
looks = st.sampled_from((*LOOKS, *HOST_LOOKS))
pick = st.integers(min_value=0, max_value=AGENTS_MAX - 1)


class GatewayMachine(RuleBasedStateMachine):
    """Agents, faults and deaths in any order; time passes only by `tick` and while an answer is awaited."""

    @initialize(seed=st.integers(min_value=0, max_value=7))
    def begin(self, seed: int) -> None:
        self.quiet = quiet()
        self.quiet.__enter__()
        self.world = Simulation(seed, CALM)
        self.agents: list[Agent] = []
        self.world.loop.set_exception_handler(self.world._loop_error)
        self.world.boot()
        self.pass_time(0.1)

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        self.world.loop.run_until_complete(work)

    def pass_time(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    def agent(self, number: int) -> Agent:
        return self.agents[number % len(self.agents)]

    @precondition(lambda self: len(self.agents) < AGENTS_MAX)
    @rule(kind=st.sampled_from(sorted(KINDS)), keyed=st.booleans(), size=st.integers(0, 1), fate=fates)
    def submit(self, kind: str, keyed: bool, size: int, fate: str) -> None:
        agent = Agent(self.world, len(self.agents))
        agent.kind, agent.action = kind, f"{kind}.do"
        agent.arguments = {"name": "a", "size": size}
        agent.key = f"key-{len(self.agents)}" if keyed else None
        self.agents.append(agent)
        self.world.faults.queue.append(fate)
        self.do(agent.submit())

    @precondition(lambda self: self.agents)
    @rule(number=pick, fate=fates)
    def submit_again(self, number: int, fate: str) -> None:
        self.world.faults.queue.append(fate)
        self.do(self.agent(number).submit())

    @precondition(lambda self: self.agents)
    @rule(number=pick)
    def submit_changed(self, number: int) -> None:
        if self.agent(number).op is not None:
            self.do(self.agent(number).changed())

    @precondition(lambda self: self.agents)
    @rule(number=pick)
    def cancel(self, number: int) -> None:
        self.do(self.agent(number).cancel())

    @precondition(lambda self: self.agents)
    @rule(number=pick, look=looks)
    def reconcile(self, number: int, look: str) -> None:
        self.world.faults.looks.append(look)
        self.do(self.agent(number).reconcile())

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 20.0, 70.0]), look=looks)
    def tick(self, seconds: float, look: str) -> None:
        self.world.faults.looks.append(look)
        self.pass_time(seconds)

    @rule()
    def crash(self) -> None:
        self.world.process.kill()
        self.pass_time(0.2)

    @rule(point=st.sampled_from((*ENGINE_POINTS, *STORE_POINTS)), fails=st.booleans())
    def crash_at(self, point: str, fails: bool) -> None:
        self.world.trap = point, fails

    @rule(forward=st.booleans())
    def step_clock(self, forward: bool) -> None:
        self.world.step_clock(HOUR_MS if forward else -HOUR_MS)

    @invariant()
    def nothing_wrong_was_seen(self) -> None:
        if hasattr(self, "world"):
            assert not self.world.history.broken, self.world.history.broken

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.do(self._end())
            found = check(self.world)
            assert not found, story(self.world, found)
        finally:
            self.world.loop.close()
            self.quiet.__exit__()

    async def _end(self) -> None:
        self.world.trap = None
        self.world.calm()
        await self.world.settle()
        await asyncio.sleep(WATCHED_SECONDS)
        await Person(self.world).close_books()
        await self.world.stop_for_good()
        await asyncio.sleep(RUN_ON_SECONDS)


def test_no_walk_of_steps_and_faults_breaks_a_claim() -> None:
    run_state_machine_as_test(GatewayMachine, settings=settings(max_examples=RUNS, stateful_step_count=STEPS))
