"""An engine on the in-loop store, with a clock set by hand and an outside world that answers as it is told."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import orjson

from adapters.contract import Hooks, HttpExchange, Observation, Secret
from gateway.assembly import Assembly, Ports, StoredDefinitions, assemble
from gateway.catalog.lint import check
from gateway.engine.gateway import View
from gateway.engine.live import Live
from gateway.engine.ports import Shaped
from gateway.engine.submit import Request
from gateway.model.access import AccessRule, Policy
from gateway.model.action import Action
from gateway.model.operation import Operation
from gateway.model.principal import Principal, PrincipalKind
from gateway.model.problem import Code, Problem
from gateway.settings import LimitSettings, RecoverySettings, Settings
from gateway.store.inloop import InLoopStore, Medium
from gateway.store.points import COMMITTED, RULED
from gateway.store.port import Unavailable
from tests.unit.audit.logs import Journal
from tests.unit.core.builders import BOOT0, TIMEOUT, UNSENT, answer
from tests.unit.engine.keeping import CountedChance
from tests.unit.store.kit import START_MS, attach, cipher

BASE = "https://svc.example"
CALLER = Principal(PrincipalKind.CALLER, "agent-a", "ann", "key-a")
OTHER = Principal(PrincipalKind.CALLER, "agent-b", "ann", "key-b")
PERSON = Principal(PrincipalKind.PERSON, "ann", "ann", "key-p")
DONE = answer(201, b'{"state": "succeeded"}', ("Content-Type", "application/json"))
BUSY = answer(200, b'{"state": "running"}')
ABSENT = answer(404, b"{}")
SICK = answer(503)
TURNS_MAX = 5_000
SWEEP_SECONDS = 30.0

_WRITE: dict[str, Any] = {
    "description": "Make a thing.",
    "effect": "irreversible",
    "service": "svc",
    "input": {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    },
    "request": {"method": "POST", "path": "/things", "body": {"name": "{name}"}},
    "bind": {"in": "header", "name": "Idempotency-Key", "window": {"min": "24h", "margin": "1h"}},
    "rejected": {"any_attempt": [{"status": 400}]},
    "in_flight": {"status": 409},
    "deadlines": {"connect": "1s", "request": "2s", "recovery": "1m"},
}
_FINDINGS = [
    {"status": 200, "path": "state", "equals": "succeeded", "finding": "executed_ok"},
    {"status": 200, "path": "state", "equals": "failed", "finding": "executed_failed"},
    {"status": 200, "path": "state", "equals": "running", "finding": "in_progress"},
    {"status": 404, "finding": "absent"},
]
_LOOK: dict[str, Any] = {
    "request": {"method": "GET", "path": "/things/by-key/{operation_id}"},
    "identify": {"path": "key", "equals": "{operation_id}"},
    "rules": _FINDINGS,
    "absence": {"settle": "5s"},
}
_FENCE: dict[str, Any] = {
    "request": {"method": "PUT", "path": "/places/{operation_id}", "body": {"tombstone": "{operation_id}"}},
    "won": {"status": 201},
    "lost": {"status": 409},
}
_HANDLE = {"status": 202, "handle": {"header": "Operation-Location"}, "rules": _FINDINGS}
_TOMBSTONE = {"status": 200, "path": "state", "equals": "tombstone", "finding": "fenced"}
_STATE_LOOK: dict[str, Any] = _LOOK | {
    "request": {"method": "GET", "path": "/state"},
    "identify": "state",
}
ACTIONS: Mapping[str, Any] = {
    "make": _WRITE | {"reconcile": _LOOK},
    "make.again": _WRITE | {"reconcile": _LOOK, "resend": "same_key", "replay_after_5xx": "same_outcome"},
    "make.blind": _WRITE,
    "make.slow": _WRITE | {"reconcile": _LOOK, "accepted": _HANDLE},
    "make.fenced": _WRITE | {"reconcile": _LOOK | {"absence": {"fence": _FENCE}, "rules": [_TOMBSTONE, *_FINDINGS]}},
    "make.controlled": _WRITE
    | {"reconcile": _LOOK | {"positive_control": {"request": {"method": "GET", "path": "/control"}, "status": 200}}},
    "make.state": _WRITE | {"reconcile": _STATE_LOOK, "conflict_key": "thing:{name}"},
    "make.narrow": _WRITE | {"service": "narrow"},
    "make.locked": _WRITE | {"service": "locked"},
    "read": {
        "description": "Look at a thing.",
        "effect": "read",
        "service": "svc",
        "input": _WRITE["input"],
        "request": {"method": "GET", "path": "/things/{name}"},
        "deadlines": {"connect": "1s", "request": "2s", "recovery": "10s"},
    },
}


@cache
def definitions() -> StoredDefinitions:
    """Compiled once: nothing changes them."""
    services = {
        "svc": {"base_url": BASE},
        "narrow": {"base_url": BASE, "limits": {"concurrency": 1}},
        "locked": {"base_url": BASE, "credential": "token"},
    }
    checked = check({"workshop.yaml": json.dumps({"services": services, "actions": dict(ACTIONS)}).encode()})
    assert checked.catalog is not None, checked.mistakes
    catalog = checked.catalog
    return StoredDefinitions(catalog.definition(action) for action in catalog.actions.values())


class ElasticClock:
    """Stands still until it is moved. A sleep ends at once and moves it, so that no test waits."""

    def __init__(self) -> None:
        self.wall_moved_ms = 0
        self.boot_moved_ms = 0
        self.slept: list[float] = []

    @property
    def boot_id(self) -> str:
        return "boot-1"

    def wall_ms(self) -> int:
        return START_MS + self.wall_moved_ms

    def boot_ms(self) -> int:
        return BOOT0 + self.boot_moved_ms

    def move(self, seconds: float) -> None:
        self.wall_moved_ms += int(seconds * 1000)
        self.boot_moved_ms += int(seconds * 1000)

    def step_wall(self, seconds: float) -> None:
        """Somebody sets the machine's time; boot time knows nothing of it."""
        self.wall_moved_ms += int(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.move(seconds)
        await asyncio.sleep(0)


Reaction = Observation | Callable[[HttpExchange, Hooks], Awaitable[Observation]]


class Outside:
    """The transport. Each exchange takes the next reaction planned for its kind; what nobody planned fails the test."""

    def __init__(self, clock: ElasticClock) -> None:
        self._clock = clock
        self.exchanges: list[HttpExchange] = []
        self.writes: list[Reaction] = []
        self.reads: list[Reaction] = []
        self.refused: list[str] = []
        self.unplanned: list[str] = []

    async def attempt(self, exchange: HttpExchange, hooks: Hooks) -> Observation:
        now = self._clock.wall_ms()
        refused = hooks.before_send()
        if refused is not None:
            self.refused.append(refused)
            return replace(UNSENT, summary=refused, started_ms=now, ended_ms=now)
        self.exchanges.append(exchange)
        queue = self.reads if exchange.method == "GET" else self.writes
        if not queue:
            self.unplanned.append(self.sent[-1])
        reaction = queue.pop(0) if queue else TIMEOUT
        seen = reaction if isinstance(reaction, Observation) else await reaction(exchange, hooks)
        closed = None if seen.closed_boot_ms is None else self._clock.boot_ms()
        return replace(seen, started_ms=now, ended_ms=self._clock.wall_ms(), closed_boot_ms=closed)

    async def self_test(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        return

    @property
    def sent(self) -> list[str]:
        return [f"{exchange.method} {exchange.url.removeprefix(BASE)}" for exchange in self.exchanges]

    @property
    def posts(self) -> int:
        return sum(exchange.method == "POST" for exchange in self.exchanges)


class Held:
    """A reaction that is under way until the test lets it end."""

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.hooks: Hooks | None = None
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, _exchange: HttpExchange, hooks: Hooks) -> Observation:
        self.hooks = hooks
        self.begun.set()
        await self.may_end.wait()
        return self.seen


class PlainShaper:
    """Masks nothing and shapes nothing: both have tests of their own."""

    def mask(self, observation: Observation) -> Observation:
        return observation

    def shape(self, action: Action, body: bytes, content_type: str | None) -> Shaped:
        return Shaped(body or b"null", True)

    def shape_value(self, action: Action, value: object) -> Shaped:
        return Shaped(orjson.dumps(value), False)


class NoVault:
    """Has no credential at all."""

    def secret_for(self, name: str, origin: str) -> Secret:
        raise Problem(Code.CREDENTIAL_MISSING, f"The credential {name} is not in the vault.")


class Points:
    """Runs what a test hangs on a name, once."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self.planned: dict[str, Callable[[], None]] = {}

    def hit(self, name: str) -> None:
        self.hits.append(name)
        planned = self.planned.pop(name, None)
        if planned is not None:
            planned()


@dataclass(slots=True)
class Workshop:
    """One engine and everything around it."""

    store: InLoopStore
    clock: ElasticClock
    outside: Outside
    points: Points
    assembly: Assembly
    medium: Medium
    dead: list[str] = field(default_factory=list)
    """Why the process had to end; a test that makes it end takes this out, or its end fails."""

    async def submit(self, action: str = "make", *, name: str = "a", who: Principal = CALLER, **more: Any) -> str:
        """Give in an operation and let everything happen that happens by itself; its id."""
        view = await self.begin(action, name=name, who=who, **more)
        await self.quiet()
        return view.operation.id

    async def begin(self, action: str = "make", *, name: str = "a", who: Principal = CALLER, **more: Any) -> View:
        """Give in an operation and wait for nothing."""
        return await self.assembly.gateway.submit(who, Request(action, {"name": name}, **more))

    async def quiet(self) -> None:
        """Until no driver is at work."""
        await self.until(lambda: not len(self.assembly.tasks))

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(TURNS_MAX):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came about")

    async def turns(self) -> None:
        """Let everything happen that can happen without time."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def pass_on(self, seconds: float) -> None:
        """Let time pass, and whatever is due then be done."""
        self.clock.move(seconds)
        await self.one_round()
        await self.quiet()

    async def one_round(self) -> None:
        """One round of recovery's loop."""
        running = asyncio.ensure_future(self.assembly.recovery.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    def live(self, operation_id: str) -> Live:
        found = self.assembly.recovery.find(operation_id)
        assert found is not None
        return found

    async def show(self, operation_id: str) -> Operation:
        return (await self.assembly.gateway.get(PERSON, operation_id)).operation

    async def ending(self, operation_id: str) -> tuple[str, str, str | None]:
        """State, executed and basis."""
        operation = await self.show(operation_id)
        return operation.state.value, operation.executed.value, operation.basis

    async def state(self, operation_id: str) -> str:
        operation = await self.show(operation_id)
        return operation.state.value + (", ambiguous" if operation.ambiguous else "")

    async def events(self) -> list[str]:
        """Names of everything on record, in order."""
        frames = [orjson.loads(item.frame) for item in await self.store.tail(10_000)]
        return [frame["body"]["ev"] for frame in frames if frame["kind"] == "data"]

    def refuse_next(self, times: int = 1) -> None:
        """The next transactions are refused before anything is written."""

        def refuse() -> None:
            if times > 1:
                self.refuse_next(times - 1)
            raise Unavailable("planted")

        self.points.planned[RULED] = refuse

    def lose_next(self) -> None:
        """Nobody will know what became of the next transaction."""

        def lose() -> None:
            raise OSError("planted")

        self.points.planned[COMMITTED] = lose

    async def die(self) -> None:
        """What is under way is cut off, as when the process is killed; the medium stays."""
        self.assembly.recovery.stop()
        self.store.crash()
        await self.assembly.tasks.finish(0)

    async def reopen(self) -> "Workshop":
        """A new process on what this one left; it has taken nothing over yet."""
        await self.die()
        return await open_workshop(self.medium, self.clock)

    async def close(self) -> None:
        self.assembly.recovery.stop()
        await self.assembly.tasks.finish(0)
        await self.store.close()
        assert (self.dead, self.outside.unplanned) == ([], [])


async def open_workshop(
    medium: Medium | None = None, clock: ElasticClock | None = None, *, log: Journal | None = None, **limits: Any
) -> Workshop:
    """A gateway's engine; on a medium that was used before nothing is taken over yet. `log`: a real one, just begun."""
    medium, clock = medium or Medium(), clock or ElasticClock()
    points, outside, dead = Points(), Outside(clock), list[str]()
    store = InLoopStore(medium, cipher(), wall_ms=clock.wall_ms, points=points)
    if log is None:
        await attach(store)
    else:
        await store.attach(log.sealer, log.frames)
    ports = Ports(
        store=store,
        transport=outside,
        credentials=NoVault(),
        shaper=PlainShaper(),
        definitions=definitions(),
        policy=Policy((AccessRule("deny", "no-z", where={"name": "z"}), AccessRule("allow", "all"))),
        clock=clock,
        chance=CountedChance(),
        on_dead=dead.append,
        points=points,
    )
    settings = Settings(
        limits=LimitSettings(**limits),
        recovery=RecoverySettings(sweep_interval_seconds=SWEEP_SECONDS, probes_concurrency_max=2),
    )
    return Workshop(store, clock, outside, points, assemble(ports, settings), medium, dead)
