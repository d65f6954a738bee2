"""One life of the gateway's process: opens what the last one left, runs the shipped engine, and dies at any moment."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adapters.contract import HttpExchange
from adapters.ssh.transport import RunnerTransport
from audit.checkpoint import Publisher
from audit.export import Exporter
from audit.head import Head
from audit.keyring import Recipient, RecipientKey, Role, SealKey
from audit.memory import MemoryDirectory
from audit.note import NoteKey, NoteSigner
from audit.seal import Sealer, SegmentLimits
from gateway.assembly import Assembly, Ports, assemble
from gateway.core.ids import parse_id
from gateway.engine.log_keeper import Cadence, LogKeeper
from gateway.engine.log_start import find_log, start_log
from gateway.engine.tasks import Tasks
from gateway.model.access import AccessRule, Policy
from gateway.settings import RecoverySettings, Settings
from gateway.store.inloop import InLoopStore
from gateway.store.items import HEAD, Item
from gateway.store.points import Crash
from tests.model.calls import Call
from tests.model.history import Sent
from tests.model.network import Network
from tests.model.sessions import Sessions
from tests.model.stand_ins import HostKeys, PlainCipher, PlainShaper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.model.simulation import Simulation

T = TypeVar("T")
ORIGIN = "sim.example/audit"


def _entropy(seed: str) -> Callable[[int], bytes]:
    count = 0

    def draw(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_128(f"{seed}/{count}".encode()).digest(size)

    return draw


class RememberedSigner(NoteSigner):
    """Derives its public half once, not at every signature."""

    @cached_property
    def signer(self) -> Ed25519PrivateKey:
        return super().signer

    @cached_property
    def key(self) -> NoteKey:
        return super().key


class RememberedSealKey(SealKey):
    """As above."""

    @cached_property
    def public(self) -> bytes:
        return super().public


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys of every simulated log. Made once: they are no part of what is tried."""

    signer: NoteSigner
    seal: SealKey
    auditor: RecipientKey

    @property
    def recipients(self) -> list[Recipient]:
        return [self.auditor.recipient]


def _make_keys() -> Keyring:
    draw = _entropy("keys")
    signer = RememberedSigner.generate(ORIGIN, draw)
    seal = RememberedSealKey.issue(signer.signer, ORIGIN, draw)
    return Keyring(signer, seal, RecipientKey.generate(Role.AUDITOR, "a", draw))


KEYS = _make_keys()
POLICY = Policy((AccessRule("allow", "all"),))
SETTINGS = Settings(recovery=RecoverySettings(sweep_interval_seconds=30.0))


_STATES_OF = {"send": ("sending",), "fence": ("in_doubt",)}
"""In which states bytes of an attempt may leave. Of a cancel in any: the command may have ended in the meantime."""


class Gone(Exception):
    """The connection to the gateway broke: whoever called knows nothing."""


@dataclass(eq=False)
class Process:
    """`dead` once killed: nothing of it acts any more, whatever its tasks believe."""

    world: "Simulation"
    number: int
    tasks: dict["asyncio.Task[Any]", None] = field(default_factory=dict)
    """In the order of their start: the order of a set is another one in each run, and with it that of their ends."""
    dead: bool = False
    ready: bool = False
    open_writes: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = self.world.clock
        self.directory: MemoryDirectory = self.world.directory
        self.store = InLoopStore(
            self.world.medium, PlainCipher(), wall_ms=self.clock.wall_ms, points=self, room=self._room
        )
        self.network = Network(self)
        self.assembly: Assembly
        self.keeper: LogKeeper
        self.services = Tasks(lambda name, error: self._on_dead(f"{name}: {error!r}"))
        self.exporter = Exporter(self.directory)

    # --- start and end

    async def start(self) -> None:
        """What `gateway.office` and `gateway.running` do, in their order."""
        world, clock = self.world, self.clock
        found = await find_log(self.store, self.directory, ORIGIN, f"{clock.boot_id}/{self.number}")
        if not found.join.sound:
            world.break_(f"S16 the log does not go on at start {self.number}: {found.join.reason}")
        if found.recoveries:
            world.history.reached("log: torn tail set aside")
        sealer = Sealer(
            origin=ORIGIN,
            recipients=KEYS.recipients,
            seal_key=KEYS.seal,
            head=found.head,
            entropy=world.chance.bytes,
            writer_id="sim",
            boot_id=f"{clock.boot_id}/{self.number}",
            limits=SegmentLimits(entries_max=world.segment_entries),
        )
        await start_log(self.store, sealer, found.recoveries, now_ms=clock.wall_ms(), quarantine=None)
        self._assemble()
        unsettled = await self.assembly.recovery.take_over()
        if unsettled:
            world.history.reached("start: takes over")
        self.services.start(self.assembly.recovery.run(), "recovery")
        self.services.start(self.keeper.run(), "log keeper")
        self.ready = True
        world.up.set()

    def _assemble(self) -> None:
        world = self.world
        ports = Ports(
            store=self.store,
            transport=self.network,
            credentials=HostKeys(),
            hosts=RunnerTransport(Sessions(self), self.clock, self._token),
            shaper=PlainShaper(),
            definitions=world.definitions,
            policy=POLICY,
            clock=self.clock,
            chance=world.chance,
            on_dead=self._on_dead,
            points=self,
        )
        self.assembly = assemble(ports, SETTINGS)
        self.keeper = LogKeeper(
            self.store,
            self.exporter,
            Publisher(self.directory, KEYS.signer, [world.anchor]),
            origin=ORIGIN,
            clock=self.clock,
            cadence=Cadence(40.0, 200.0, export_seconds=world.export_seconds),
            points=self,
            alert=lambda name, reason: world.tell(f"ALERT {name}: {reason}"),
        )
        self.assembly.gateway.doorkeeper.log_refusal = self.keeper.refusal

    async def stop(self) -> None:
        """A clean end, as on SIGTERM; whatever is still under way after the grace is cut off."""
        gateway = self.assembly.gateway
        gateway.doorkeeper.draining = True
        self.assembly.recovery.stop()
        self.keeper.stop()
        await self.assembly.tasks.finish(self.world.random.choice([0.0, 3.0, 20.0]))
        await self.services.finish(5.0)
        await self.store.close_log()
        await self.keeper.drain()
        await self.store.close()

    def kill(self) -> None:
        """SIGKILL: no line of it runs any more. Its sockets are closed by the kernel."""
        if self.dead:
            return
        self.dead = True
        self.world.history.killed[self.number] = self.world.loop.now
        self.world.up.clear()
        if not self.store.crashed:
            self.store.crash()
        for write in list(self.open_writes):
            write.closed()
        self.world.loop.call_soon(self._bury)

    def _bury(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        self.world.loop.call_soon(self.world.died, self)

    def _on_dead(self, reason: str) -> None:
        """The engine asks for the end of its process."""
        if self.dead or self.world.over:
            return
        if not self.store.failed and "Crash" not in reason:
            self.world.break_(f"the engine died: {reason}")
        self.world.tell(f"process {self.number} ends itself: {reason}")
        # It goes on for a moment, as a real one does.
        self.world.loop.call_later(self.world.random.choice([0.0, 0.001, 0.3]), self.kill)

    # --- ports

    def hit(self, name: str) -> None:
        """Every point of engine and store."""
        if self.dead:
            raise Crash(name)
        self.world.at_point(self, name)

    def _room(self, items: "Sequence[Item]") -> str | None:
        return "The disk is almost full." if self.world.disk_full else None

    async def alive(self, wanted: Awaitable[T]) -> T:
        """Wait, and never come back from it in a dead process."""
        result = await wanted
        if self.dead:
            await self.world.loop.create_future()
        return result

    async def alive_after(self, seconds: float) -> None:
        await self.alive(asyncio.sleep(seconds))

    def _token(self) -> str:
        return self.world.chance.bytes(8).hex()

    # --- the witness

    def note_bytes(self, op: str, what: str, exchange: HttpExchange) -> int:
        """Bytes of a request leave now."""
        head = b"\n".join((exchange.method.encode(), exchange.url.encode(), repr(exchange.headers).encode()))
        return self._note(op, what, self._attempts(op, what), head + b"\n" + exchange.body)

    def note_call(self, call: Call, what: str) -> int:
        """A call of a host's runner leaves now. Only the first of those that belong to one fence counts."""
        # A cancel may settle it between the begin of a fence and its bytes; a fence more does no harm.
        attempts = self._attempts(call.op, what, lenient=what != "send")
        sends = sum(item["kind"] == "send" for item in attempts)
        if what != "send" and call.attempt != max(sends, 1):
            return 0
        return self._note(call.op, what, attempts, " ".join(call.argv).encode())

    def _attempts(self, op: str, what: str, *, lenient: bool = False) -> list[dict[str, Any]]:
        """What is stored of its attempts. Asks the committed state, not the engine, what is known of it."""
        rows = self.world.rows("SELECT state, life FROM operations WHERE id = ?", parse_id(op))
        if not rows:
            self.world.break_(f"I1 {op}: bytes of a {what} left, and no row is stored")
            return []
        state, life = rows[0]
        attempts: list[dict[str, Any]] = orjson.loads(life).get("attempts") or []
        last: dict[str, Any] = next((item for item in reversed(attempts) if item.get("kind") == what), {})
        states = None if lenient else _STATES_OF.get(what)
        if not last or (states and (state not in states or last.get("standing", "open") != "open")):
            self.world.break_(f"I1 {op}: bytes of a {what} left while the stored row is {state}, {last}")
        return attempts

    def _note(self, op: str, what: str, attempts: list[dict[str, Any]], request: bytes) -> int:
        heads = self.world.rows("SELECT value FROM meta WHERE name = ?", HEAD)
        head = Head.from_bytes(heads[0][0]).size if heads else 0
        number = next((int(item["number"]) for item in reversed(attempts) if item.get("kind") == what), 0)
        self.world.history.sent.append(Sent(self.world.loop.now, op, what, number, head, request, self.number))
        return number

    def under_way(self, op: str) -> int:
        """The number of the send that was begun last."""
        rows = self.world.rows("SELECT life FROM operations WHERE id = ?", parse_id(op))
        attempts = orjson.loads(rows[0][0]).get("attempts") if rows else None
        return max((int(item["number"]) for item in attempts or () if item["kind"] != "cancel"), default=0)
