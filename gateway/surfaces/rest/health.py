"""Liveness, readiness and metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gateway.model.operation import State
from gateway.surfaces.rest.call import Call, Reply


class Metrics:
    """The gateway's own numbers, in a registry of their own so that two gateways in one process do not mix."""

    def __init__(self) -> None:
        """All start at zero."""
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "gateway_requests_total",
            "Requests answered, by route and status.",
            ["route", "status"],
            registry=self.registry,
        )
        self.problems = Counter(
            "gateway_problems_total", "Requests refused, by problem code.", ["code"], registry=self.registry
        )
        self._states = Gauge("gateway_operations", "Stored operations by state.", ["state"], registry=self.registry)
        self._live = Gauge("gateway_unsettled", "Unsettled operations in memory.", registry=self.registry)
        self._busy = Gauge("gateway_driven", "Operations that are being carried out now.", registry=self.registry)
        self._lag = Gauge(
            "gateway_audit_lag_frames", "Audit frames in the store that wait for their file.", registry=self.registry
        )
        self._cosigned = Gauge(
            "gateway_audit_cosignature_age_seconds",
            "Age of the newest witness's cosignature; +Inf if there never was one, absent without witnesses.",
            [],
            registry=None,
        )
        self._quarantine = Gauge(
            "gateway_quarantine", "1 while writes are held after a restore.", registry=self.registry
        )

    async def render(self, call: Call) -> bytes:
        """The page in Prometheus' text format."""
        ports = call.ports
        counts = await ports.store.counts()
        for state in State:
            self._states.labels(state.value).set(counts.get(state.value, 0))
        unsettled, busy = ports.gateway.load()
        self._live.set(unsettled)
        self._busy.set(busy)
        self._lag.set(ports.keeper.lag_frames)
        age_seconds = ports.keeper.cosigned_age_seconds()
        self._cosigned.set(age_seconds or 0.0)
        self._quarantine.set(1 if ports.gateway.doorkeeper.quarantined else 0)
        page = generate_latest(self.registry)
        return page if age_seconds is None else page + generate_latest(self._cosigned)


async def healthz(call: Call) -> Reply:
    """`GET /healthz`: the process runs."""
    call.query({})
    return Reply(200, {"status": "ok"})


async def readyz(call: Call) -> Reply:
    """`GET /readyz`: operations are taken. 503 names the first reason against it."""
    call.query({})
    reason = call.ports.gateway.doorkeeper.unready()
    if reason is not None:
        return Reply(503, {"status": "not ready", "reason": reason})
    return Reply(200, {"status": "ready"})


async def metrics(call: Call, source: Metrics) -> Reply:
    """`GET /metrics`."""
    call.query({})
    return Reply(200, content=await source.render(call), content_type=CONTENT_TYPE_LATEST)
