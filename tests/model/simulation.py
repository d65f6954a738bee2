"""One seed, one run: the shipped engine, store writer and sealer, services, agents and every fault, in virtual time.

First a phase of faults, in which nothing wrong may be claimed or done; then the faults stop, and everything must come
to its end. `Simulation` can also be driven step by step (see `test_machine`).
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson
import structlog

from audit.memory import MemoryDirectory
from gateway.core.ids import parse_id
from gateway.model.operation import FINAL, State
from gateway.store.points import Crash
from gateway.store.port import StoreUnknown, Unavailable
from tests.model.agents import Agent, Person
from tests.model.directing import direct
from tests.model.faults import Faults
from tests.model.history import History
from tests.model.hosts import SimHost
from tests.model.kinds import KINDS
from tests.model.loop import VirtualLoop
from tests.model.medium import ReusedMedium
from tests.model.points import DISK_POINTS, FAILING
from tests.model.process import Process
from tests.model.services import Services
from tests.model.stand_ins import SimChance, SimClock, SimDefinitions

FAULTS_SECONDS_MAX = 200.0
LIVENESS_SECONDS_MAX = 7200.0
RUN_ON_SECONDS = 600.0
WATCHED_SECONDS = 70.0
"""Until nobody looks at an unresolved operation any more."""
HOUR_MS = 3_600_000
PROCESSES_MAX = 40
"""Far more starts than deaths can be planned."""
SETTLED = frozenset({*FINAL, State.UNRESOLVED})


@dataclass(slots=True)
class Plan:
    """What a seed brings beside the fates of its requests."""

    level: float
    agents: int
    deaths: int
    """Crashes and failed commits that are still to come."""
    every: int
    """About that many points lie between two of them."""
    reboots: float
    steps: bool
    stops: bool
    full: bool
    blackout: bool

    @classmethod
    def draw(cls, random: Random) -> "Plan":
        return cls(
            level=random.choice([0.2, 0.5, 0.8]),
            agents=random.choices([1, 2, 3], [6, 3, 1])[0],
            deaths=random.choices([0, 1, 2, 4], [4, 4, 2, 1])[0],
            every=random.choice([6, 15, 40]),
            reboots=0.4,
            steps=random.random() < 0.08,
            stops=random.random() < 0.08,
            full=random.random() < 0.06,
            blackout=random.random() < 0.12,
        )


class Simulation:
    """Everything outside the process, and the process of the moment."""

    def __init__(self, seed: int, plan: Plan | None = None, kinds: Sequence[str] = ()) -> None:
        self.seed = seed
        self.kinds = tuple(kinds) or tuple(KINDS)
        self.random = Random(seed)
        self.plan = plan or Plan.draw(self.random)
        self.loop = VirtualLoop()
        self.history = History()
        self.clock = SimClock(self.loop)
        self.chance = SimChance(Random(seed ^ 0x5EED))
        self.definitions = SimDefinitions()
        self.faults = Faults(self.random, self.plan.level)
        self.services = Services(self.loop, self.random, self.history)
        self.services.known = self._is_known
        self._hosts: dict[str, SimHost] = {}
        self.medium = ReusedMedium()
        self.directory = MemoryDirectory()
        self.anchor = MemoryDirectory()
        self.export_seconds = self.random.choice([15.0, 30.0, 60.0])
        self.segment_entries = self.random.choice([12, 40, 65_536, 65_536, 65_536])
        self.up = asyncio.Event()
        self.processes = 0
        self.process: Process
        self.liars: set[str] = set()
        self.disk_full = False
        self.blackout = self.plan.blackout
        self.over = False
        self.stepped = False
        """The wall clock was not a clock all the time, so that times of the log cannot be compared."""
        self.down_seconds = self.put_back_seconds = 0.0
        self.urge: str | None = None
        """The one habit that the agents have."""
        self.trap: tuple[str, bool] | None = None
        """The next time that this point is reached, the process dies there; or its disk fails, where it can."""
        self._main: asyncio.Task[None] | None = None
        self._countdown = self._next_death()
        if plan is None and not kinds:
            direct(self)

    def set_trap(self, point: str) -> None:
        self.trap = point, self.random.random() < 0.5

    # --- what happens

    def tell(self, text: str) -> None:
        self.history.told.append((self.loop.now, text))

    def break_(self, text: str) -> None:
        """Something is wrong, seen while it happens."""
        self.history.broken.append(text)
        self.tell(f"WRONG: {text}")

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Committed rows: nothing else is there between two turns of the store."""
        return self.medium.connect().execute(sql, values).fetchall()

    def host(self, name: str) -> SimHost:
        """The host of a kind of action, made when it is first reached."""
        found = self._hosts.get(name)
        if found is None:
            found = self._hosts[name] = SimHost(name, self.loop, self.random, self.history)
        return found

    def _is_known(self, op: str) -> bool:
        rows = self.rows("SELECT life FROM operations WHERE id = ?", parse_id(op))
        return bool(rows) and bool(orjson.loads(rows[0][0]).get("handle"))

    def _next_death(self) -> int:
        return int(self.random.expovariate(1 / self.plan.every)) + 1 if self.plan.deaths else -1

    def _disk_step(self, operation: str, name: str, size: int) -> None:
        """A step of the log's files, which can fail, or be the last that the process takes."""
        if f"disk.{operation}" in DISK_POINTS and not self.over:
            process = self.process
            if process.dead:
                raise Crash(name)
            self.at_point(process, f"disk.{operation}")

    def kill_now(self) -> None:
        """SIGKILL from outside, between any two lines."""
        if not self.process.dead and not self.over:
            self.tell(f"process {self.process.number} is killed")
            self.process.kill()

    def rearm(self) -> None:
        """The plan was changed from outside."""
        self._countdown = self._next_death()
        self.blackout = self.plan.blackout

    def at_point(self, process: Process, name: str) -> None:
        """A point of the engine or the store was reached."""
        if self.trap is not None and self.trap[0] == name and not self.over:
            (_, fails), self.trap = self.trap, None
            if fails and name in FAILING:
                self.history.reached(f"failed: {name}")
                raise OSError("the disk failed")
            self.die_at(process, name)
        self._countdown -= 1
        if self._countdown != 0 or self.over:
            return
        self.plan.deaths -= 1
        self._countdown = self._next_death()
        if name in FAILING and self.random.random() < 0.4:
            self.history.reached(f"failed: {name}")
            self.tell(f"the disk fails at {name}")
            raise OSError("the disk failed")
        self.die_at(process, name)

    def die_at(self, process: Process, name: str) -> None:
        """The process dies here, in the middle of a line."""
        self.history.reached(f"died: {name}")
        self.tell(f"process {process.number} is killed at {name}")
        process.kill()
        raise Crash(name)

    def died(self, process: Process) -> None:
        """The dead process is buried: what is on its disks stays, and the next one comes."""
        power = self.random.random() < self.plan.reboots
        self.directory.hook = None
        if power:
            self.history.reached("machine: power loss")
            self.directory = self.directory.after_power_loss(lambda most: self.random.randint(0, most))
            self.clock.reboot()
        else:
            self.directory = self.directory.after_kill()
        self.anchor = self.anchor.after_kill()
        if not self.over:
            down = self.random.choice([0.1, 2.0, 30.0])
            self.down_seconds += down
            self.loop.call_later(down, self.boot)

    def boot(self) -> None:
        """A new process on what is there."""
        self.processes += 1
        if self.processes > PROCESSES_MAX and self._main is not None:
            self.break_("S16 the gateway never comes up again")
            self._main.cancel()
            return
        self.directory.hook = self._disk_step
        self.process = Process(self, self.processes)
        self.tell(f"process {self.processes} starts")
        self.loop.run_in(self.process, self._start(self.process))

    async def _start(self, process: Process) -> None:
        try:
            await process.start()
        except (Unavailable, StoreUnknown, OSError) as error:
            self.tell(f"process {process.number} could not start: {error}")
            self.loop.call_soon(process.kill)
        except BaseException as error:
            # A crash inside a task group comes wrapped up.
            if not process.dead:
                self.break_(f"process {process.number} died at its start: {error!r}")
                self.loop.call_soon(process.kill)
            if isinstance(error, asyncio.CancelledError):
                raise

    def step_clock(self, milliseconds: int) -> None:
        self.stepped = True
        self.history.reached("clock: forward" if milliseconds > 0 else "clock: back")
        self.clock.step_ms += milliseconds
        self.put_back_seconds += max(-milliseconds, 0) / 1000
        self.tell(f"the wall clock is stepped by {milliseconds // 1000} s")

    def leaving(self) -> None:
        """Bytes of a write are leaving: the moment at which a stepped clock hurts most."""
        if self.plan.steps and self.random.random() < 0.3:
            self.loop.call_later(self.random.random(), self.step_clock, self.random.choice([-HOUR_MS, HOUR_MS]))
            self.plan.steps = False

    # --- a whole run

    async def _troubles(self) -> None:
        random, plan = self.random, self.plan
        if plan.steps:
            await asyncio.sleep(random.uniform(0.0, 60.0))
            if plan.steps:
                self.step_clock(random.choice([-HOUR_MS, HOUR_MS]))
        if plan.full:
            await asyncio.sleep(random.uniform(0.0, 10.0))
            self.disk_full = True
            self.history.reached("disk: full")
            await asyncio.sleep(random.uniform(1.0, 30.0))
            self.disk_full = False
        if plan.stops:
            await asyncio.sleep(random.uniform(0.0, 30.0))
            await self.stop()

    async def stop(self) -> None:
        """SIGTERM and a new start."""
        process = self.process
        if process.dead or not process.ready:
            return
        self.history.reached("process: stopped in order")
        self.tell(f"process {process.number} is told to stop")
        task = self.loop.run_in(process, process.stop())
        await asyncio.wait({task})
        if not process.dead:
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, Unavailable | StoreUnknown | Crash):
                self.break_(f"process {process.number} did not stop in order: {error!r}")
            process.kill()

    async def main(self) -> None:
        """Both phases and the time after them."""
        self.boot()
        agents = [Agent(self, number) for number in range(self.plan.agents)]
        work = [self.loop.create_task(agent.run()) for agent in agents]
        trouble = self.loop.create_task(self._troubles())
        await asyncio.wait([*work, trouble], timeout=FAULTS_SECONDS_MAX)
        self.calm()
        await asyncio.gather(*work, trouble)
        await self.settle()
        await asyncio.sleep(WATCHED_SECONDS)
        await Person(self).close_books()
        await self.stop_for_good()
        # What is still on its way arrives, and there is no gateway any more that could correct what it said.
        await asyncio.sleep(RUN_ON_SECONDS)

    def calm(self) -> None:
        """No more faults."""
        self.faults.level = 0.0
        self.faults.queue.clear()
        self.faults.looks.clear()
        self.plan.deaths = 0
        self._countdown = -1
        self.blackout = self.disk_full = False
        self.tell("the faults stop")

    async def settle(self) -> None:
        """Until every operation is final or unresolved, by its deadlines: the wall clock's, later if it is put back."""
        waited, open_ = 0.0, []
        while waited < LIVENESS_SECONDS_MAX + self.put_back_seconds:
            await self.up.wait()
            open_ = self.rows(
                "SELECT id FROM operations WHERE state NOT IN ('succeeded', 'failed', 'cancelled', 'unresolved')"
            )
            if not open_:
                return
            await asyncio.sleep(10.0)
            waited += 10.0
        self.break_(f"I4 {len(open_)} operations never come to an end")

    async def stop_for_good(self) -> None:
        """Everything to the files, in order."""
        await self.up.wait()
        self.over = True
        process = self.process
        task = self.loop.run_in(process, process.stop())
        await asyncio.wait({task})
        if (error := task.exception()) is not None:
            self.break_(f"the last process did not stop in order: {error!r}")
        process.kill()

    def run(self) -> History:
        """Run to the end; nothing is checked here but what is seen on the way."""
        return self.run_work(self.main())

    def run_work(self, work: Coroutine[Any, Any, None]) -> History:
        self.loop.set_exception_handler(self._loop_error)
        asyncio.set_event_loop(None)
        with quiet():
            try:
                self._main = self.loop.create_task(work)
                self.loop.run_until_complete(self._main)
            except asyncio.CancelledError:
                if not self.history.broken:
                    raise
            finally:
                self.loop.close()
        return self.history

    def _loop_error(self, _loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Crash | BaseExceptionGroup) and "never retrieved" in context.get("message", ""):
            self.tell(f"nobody heard of {error!r}")


class quiet:  # noqa: N801 - reads as what it does
    """Log lines of a simulated gateway are of no use and cost time."""

    def __enter__(self) -> None:
        self._before = structlog.get_config()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=False)

    def __exit__(self, *_exc: object) -> None:
        structlog.configure(**self._before)
