"""A running gateway: an opened data folder, the engine on it, the door, and an orderly end."""

import asyncio
import gc
import resource
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from adapters.contract import Transport
from adapters.http.client import HttpAdapter
from audit.disk import DiskDirectory, log_folder
from gateway.assembly import Assembly, Ports, StoredDefinitions, assemble
from gateway.catalog.lint import open_catalog
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.housekeeping import Housekeeping
from gateway.engine.log_keeper import Cadence, LogKeeper
from gateway.engine.log_results import LogResults
from gateway.engine.logs import bind_mask
from gateway.engine.output import Shaping
from gateway.engine.ports import NoPoints, Points
from gateway.engine.tasks import Tasks
from gateway.hosting import Desk, HostWays, built_in, ways_to_hosts
from gateway.model.access import AccessRule, CallerLimits, Policy
from gateway.office import Office, open_office
from gateway.settings import Settings
from gateway.surfaces.rest.call import SitePorts
from gateway.surfaces.rest.site import Site

log = structlog.get_logger(__name__)

EXIT_STORE_UNKNOWN = 17
"""The store's state is unknown or an invariant broke: the process ended so that the next start reads what is there."""

COLLECT_AFTER = 10_000
"""Containers made and not freed again before the youngest are looked through for cycles; Python's own is 700."""
OPEN_FILES = 65_536
"""Open files that `serve` asks the system for."""
ANSWER_SECONDS = 5.0
"""After everybody who waits was told: how long their answers may take to be written."""
ABORT_SECONDS = 0.5
"""How long an attempt that began during the drain may go on before it is left to recovery."""


@dataclass(slots=True)
class Running:
    """One running gateway; `dead` is set with a reason when it must end at once."""

    office: Office
    assembly: Assembly
    keeper: LogKeeper
    site: Site
    dead: "asyncio.Future[str]"


def policy_of(settings: Settings) -> Policy:
    """The access rules of the settings as the core reads them."""
    rules = tuple(
        AccessRule(rule.decision, rule.name, rule.caller, rule.action, rule.effect, rule.service, rule.where)
        for rule in settings.access
    )
    return Policy(rules, tuple(CallerLimits(item.name, item.writes) for item in settings.callers))


@asynccontextmanager
async def run_gateway(
    settings: Settings,
    environment: Mapping[str, str],
    clock: Clock,
    chance: Chance,
    *,
    transport: Transport | None = None,
    points: Points | None = None,
    host_ways: HostWays | None = None,
) -> AsyncIterator[Running]:
    """Open the folder, take over what is unsettled, listen, and at the end drain in order.

    Raises `store.port.Refused` (with a sentence) and `catalog.mistake.MistakesError` before anything runs.
    """
    catalog = open_catalog(Path(settings.catalog_folder))
    declared = (catalog.definition(action) for action in catalog.actions.values())
    definitions = StoredDefinitions(declared, catalog.hosts, built_in=built_in(catalog.hosts))
    listeners: set[tuple[str, int]] = set()
    way = transport or HttpAdapter(clock, denied=lambda host, port: (host, port) in listeners)
    ways = host_ways or ways_to_hosts(clock, chance, lambda host, port: (host, port) in listeners)
    dead: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_dead(reason: str) -> None:
        log.critical("gateway_dead", reason=reason)
        if not dead.done():
            dead.set_result(reason)

    try:
        await way.self_test()
        async with open_office(settings, environment, clock, chance, points=points, serving=True) as office:
            bind_mask(lambda: office.vault.mask)
            ports = Ports(
                store=office.store,
                subjects=office.subjects,
                transport=way,
                credentials=office.vault,
                shaper=Shaping(lambda: office.vault.mask),
                definitions=definitions,
                policy=policy_of(settings),
                clock=clock,
                chance=chance,
                on_dead=on_dead,
                points=points or NoPoints(),
                hosts=ways.commands,
                results=_results(settings, office, chance, points),
            )
            desk = Desk(catalog.hosts, ways, office.vault, office.store, clock)
            async with _engine(settings, office, ports, dead, desk) as running:
                listeners.update(running.site.addresses)
                yield running
    finally:
        await way.close()
        await ways.commands.close()


def _results(settings: Settings, office: Office, chance: Chance, points: Points | None) -> LogResults | None:
    if not settings.audit.keep_large_results:
        return None
    directory = DiskDirectory(log_folder(office.paths.audit, office.origin))
    over_bytes = settings.audit.large_result_bytes
    return LogResults(directory, chance, over_bytes=over_bytes, subjects=office.subjects, points=points)


@asynccontextmanager
async def _engine(
    settings: Settings, office: Office, ports: Ports, dead: "asyncio.Future[str]", desk: Desk
) -> AsyncIterator[Running]:
    assembly = assemble(ports, settings)
    keeper = LogKeeper(
        office.store,
        office.exporter,
        office.publisher,
        origin=office.origin,
        clock=ports.clock,
        cadence=Cadence(settings.audit.seal_interval_seconds, settings.audit.checkpoint_interval_seconds),
        points=ports.points,
        alert=lambda name, reason: assembly.hub.alert(name, None, reason),
        anchoring=office.anchoring,
    )
    office.log_keys.on_change = keeper.hasten
    housekeeping = Housekeeping(
        office.store, office.keys, ports.clock, retention_seconds=settings.retention.operations_seconds
    )
    services = Tasks(lambda name, error: ports.on_dead(f"{name}: {error!r}"))
    gateway = assembly.gateway
    # Both: nothing new is taken, and what the restored store still wants to send is not sent.
    gateway.doorkeeper.quarantined = assembly.driver.writes_held = office.quarantine is not None
    gateway.doorkeeper.log_refusal = keeper.refusal
    await desk.remember(ports.definitions)
    unsettled = await assembly.recovery.take_over(restored=office.quarantine is not None)
    log.info("taken_over", unsettled=unsettled)
    hosts = desk.serve(gateway, ports.definitions)
    log_parts = keeper, office.subjects, office.log_keys
    site = Site(SitePorts(gateway, office.keys, office.vault, settings, ports.clock, office.store, *log_parts, hosts))
    services.start(assembly.recovery.run(), "recovery")
    services.start(keeper.run(), "log keeper")
    services.start(housekeeping.run(), "housekeeping")
    try:
        async with site:
            _log_settings(settings, office, site)
            yield Running(office, assembly, keeper, site, dead)
            await _drain(assembly, site, 0.0 if dead.done() else settings.server.drain_seconds)
    finally:
        assembly.recovery.stop()
        keeper.stop()
        housekeeping.stop()
        cancelled = await assembly.tasks.finish(0.0 if dead.done() else ABORT_SECONDS)
        await services.finish(5.0)
        log.info("stopped", interrupted=cancelled)


async def _drain(assembly: Assembly, site: Site, seconds: float) -> None:
    """Take nothing new, let attempts under way end and their callers learn of it; then whoever waits is told."""
    assembly.gateway.doorkeeper.draining = True
    assembly.recovery.stop()
    await assembly.tasks.settle(seconds)
    assembly.hub.close()
    await site.drain(ANSWER_SECONDS)


def _log_settings(settings: Settings, office: Office, site: Site) -> None:
    """One line with every safety-relevant setting in force; a test compares it with a golden line."""
    durable = office.store.durability
    log.info(
        "serving",
        address=site.address,
        journal_mode=durable.get("journal_mode"),
        synchronous=durable.get("synchronous"),
        redirects="off",
        resend_by_library="off",
        environment_proxies="off",
        body_max_bytes=settings.limits.body_max_bytes,
        answer_max_bytes=settings.limits.answer_max_bytes,
        in_flight_max=settings.limits.in_flight_max,
        audit_origin=office.origin,
        quarantine=office.quarantine is not None,
    )


async def serve(
    settings: Settings,
    environment: Mapping[str, str],
    clock: Clock,
    chance: Chance,
    *,
    ready: Callable[[str], None],
    points: Points | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. `ready` gets the address once the door is open."""
    allow_open_files()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with run_gateway(settings, environment, clock, chance, points=points) as running:
        _spare_collector()
        ready(running.site.address)
        waiting = Tasks(lambda name, error: log.error(name, error=repr(error)))
        stopped = waiting.start(_until(stop), "stop")
        await asyncio.wait({stopped, running.dead}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        dead = running.dead.done()
    return EXIT_STORE_UNKNOWN if dead else 0


def _spare_collector() -> None:
    """Keep what the start has loaded out of every later collection, and collect less often.

    What ends an operation is freed by its reference counts; the collector only finds what stands in cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


def allow_open_files() -> None:
    """Take as many descriptors as the system grants, up to `OPEN_FILES`.

    Most systems begin with 1024: less than callers who wait for `in_flight_max` operations need, with the connections
    of these. A gateway without a free one can neither be asked nor look anything up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        granted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, granted), hard))


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()
