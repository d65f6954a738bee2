"""Puts an engine together from its ports: the running gateway, the tests and the simulator use the same function."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from adapters.contract import HostTransport, Transport
from gateway.catalog.compile import compile_definition
from gateway.catalog.registry import Catalog
from gateway.engine.cancelling import Cancelling
from gateway.engine.chance import Chance, Ids
from gateway.engine.clock import Clock
from gateway.engine.driver import Driver
from gateway.engine.gate import Doorkeeper
from gateway.engine.gateway import Gateway
from gateway.engine.hub import Hub
from gateway.engine.journal import Journal
from gateway.engine.log_results import LogResults
from gateway.engine.looks import Looks
from gateway.engine.outbound import Outbound
from gateway.engine.ports import Credentials, Definitions, NoPoints, Points, Shaper
from gateway.engine.recovery import Recovery
from gateway.engine.revive import Revival
from gateway.engine.slots import Slots
from gateway.engine.subjects import Subjects
from gateway.engine.submit import Submissions
from gateway.engine.tasks import Tasks
from gateway.model.access import Policy
from gateway.model.action import Action
from gateway.settings import Settings
from gateway.store.port import Store, StoreUnknown

log = structlog.get_logger(__name__)


class StoredDefinitions(Catalog):
    """The catalog, also reviving definitions that earlier catalogs stored."""

    def compile(self, definition: bytes) -> Action:
        """A stored definition as an action."""
        return compile_definition(definition)


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that reaches outside the process, and everything that is not reproducible."""

    store: Store
    transport: Transport
    credentials: Credentials
    shaper: Shaper
    definitions: Definitions
    policy: Policy
    clock: Clock
    chance: Chance
    on_dead: Callable[[str], None]
    """Told once when the store's state is unknown or an invariant is broken: the process must end."""
    points: Points
    subjects: Subjects | None = None
    """Keys of people, for actions that mark personal arguments."""
    hosts: HostTransport | None = None
    """The way to hosts, for actions that run commands."""
    results: LogResults | None = None
    """Keeps large results beside the audit log; None: none is kept there."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """One engine and the parts that its owner starts and stops."""

    gateway: Gateway
    driver: Driver
    recovery: Recovery
    tasks: Tasks
    hub: Hub
    journal: Journal


def assemble(ports: Ports, settings: Settings) -> Assembly:
    """Wire an engine. Nothing runs yet: take over what is unsettled, then start `recovery.run`."""
    ids = Ids(ports.clock, ports.chance)
    hub = Hub()
    journal = Journal(
        ports.store,
        ports.clock,
        ports.chance,
        hub,
        owner=ids.token(),
        subjects=ports.subjects,
        results=ports.results,
    )
    if ports.results is not None:
        ports.results.alert = lambda name, reason: hub.alert(name, None, reason)
    tasks = Tasks(_reporter(ports.on_dead))
    outbound = Outbound(ports.transport, ports.credentials, ports.shaper, ports.clock, ports.hosts)
    looks = Looks(
        journal, outbound, ports.shaper, ports.points, concurrency_max=settings.recovery.probes_concurrency_max
    )
    driver = Driver(
        journal,
        outbound=outbound,
        looks=looks,
        slots=Slots(),
        shaper=ports.shaper,
        points=ports.points,
        answer_max_bytes=settings.limits.answer_max_bytes,
        concurrency_max=settings.limits.service_concurrency_max,
    )
    revival = Revival(ports.store, ports.definitions)
    recovery = Recovery(
        journal,
        driver,
        revival,
        tasks,
        ports.clock,
        sweep_seconds=settings.recovery.sweep_interval_seconds,
        on_dead=ports.on_dead,
    )
    doorkeeper = _doorkeeper(ports, recovery, settings)
    gateway = Gateway(
        ports.store,
        journal,
        driver=driver,
        recovery=recovery,
        revival=revival,
        submissions=Submissions(ports.definitions, doorkeeper, ids, ports.clock),
        doorkeeper=doorkeeper,
        definitions=ports.definitions,
        hub=hub,
        clock=ports.clock,
        points=ports.points,
        cancelling=Cancelling(journal, outbound),
        subjects=ports.subjects,
    )
    return Assembly(gateway, driver, recovery, tasks, hub, journal)


def _doorkeeper(ports: Ports, recovery: Recovery, settings: Settings) -> Doorkeeper:
    limits = settings.limits
    return Doorkeeper(
        ports.store,
        recovery,
        ports.policy,
        ports.credentials,
        in_flight_max=limits.in_flight_max,
        per_caller_max=limits.in_flight_per_caller_max,
        depth_max=limits.call_depth_max,
    )


def _reporter(on_dead: Callable[[str], None]) -> Callable[[str, BaseException], None]:
    """A background task that dies takes the process with it: half a gateway would leave operations behind."""

    def report(name: str, error: BaseException) -> None:
        if isinstance(error, StoreUnknown):
            on_dead(str(error))
            return
        log.error("task_died", task=name, error=repr(error), exc_info=error)
        on_dead(f"{name}: {type(error).__name__}")

    return report


__all__ = ["Assembly", "NoPoints", "Ports", "assemble"]
