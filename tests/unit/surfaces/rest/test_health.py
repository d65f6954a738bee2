"""Liveness, readiness and numbers."""

from audit.cosign import Cosigner
from fixtures.service.server import DeployService
from gateway.engine.chance import SystemChance
from gateway.surfaces.rest.health import Metrics
from tests.unit.surfaces.door import Door, Home, open_door


def sample(page: bytes, line: str) -> float:
    """The value of one line of the page."""
    found = [text.rsplit(" ", 1)[1] for text in page.decode().splitlines() if text.startswith(line + " ")]
    assert len(found) == 1, line
    return float(found[0])


async def test_readiness_names_the_first_reason_against_it(door: Door) -> None:
    doorkeeper = door.running.assembly.gateway.doorkeeper
    assert (await door.call("GET", "/readyz", key="")).document == {"status": "ready"}

    doorkeeper.log_refusal = lambda: "The log is full."
    answer = await door.call("GET", "/readyz", key="")
    assert (answer.status, answer.document) == (503, {"status": "not ready", "reason": "The log is full."})
    refused = await door.submit("deploy")
    assert (refused.status, refused.document["code"]) == (503, "audit_unavailable")
    assert "Nothing was sent" in refused.document["detail"]
    assert refused.headers["Retry-After"] == "5"

    doorkeeper.draining = True
    assert (await door.call("GET", "/readyz", key="")).document["reason"] == "shutting down"
    refused = await door.submit("deploy")
    assert (refused.status, refused.document["code"]) == (503, "shutting_down")
    assert refused.headers["Retry-After"] == "1"
    assert (await door.call("GET", "/healthz", key="")).status == 200
    assert (await door.call("GET", "/v1/operations")).document["operations"] == []


async def test_metrics_count_requests_refusals_and_operations(door: Door, service: DeployService) -> None:
    await door.submit("deploy", name="one")
    service.faults.add("read_then_hang")
    await door.submit("deploy", name="two", wait=0)
    await door.submit("nothing")
    await door.call("GET", "/nowhere/with/something")

    page = (await door.call("GET", "/metrics")).content
    await service.release()

    assert sample(page, 'gateway_requests_total{route="/v1/operations",status="200"}') == 1
    assert sample(page, 'gateway_requests_total{route="/v1/operations",status="202"}') == 1
    assert sample(page, 'gateway_requests_total{route="/v1/operations",status="404"}') == 1
    assert sample(page, 'gateway_requests_total{route="none",status="404"}') == 1
    assert sample(page, 'gateway_problems_total{code="unknown_action"}') == 1
    assert sample(page, 'gateway_operations{state="succeeded"}') == 1
    assert sample(page, 'gateway_operations{state="sending"}') == 1
    assert sample(page, "gateway_unsettled") == 1
    assert sample(page, "gateway_driven") == 1
    assert sample(page, "gateway_quarantine") == 0
    assert b"with/something" not in page


async def test_age_of_the_newest_cosignature_is_a_number_where_there_are_witnesses(
    home: Home, service: DeployService
) -> None:
    vkey = str(Cosigner.generate("w.test/one", SystemChance().bytes).key)
    async with open_door(home, service) as door:
        assert b"cosignature_age" not in (await door.call("GET", "/metrics")).content
    async with open_door(home, service, audit={"witnesses": [{"vkey": vkey, "url": "http://127.0.0.1:9"}]}) as door:
        page = (await door.call("GET", "/metrics")).content
    assert sample(page, "gateway_audit_cosignature_age_seconds") == float("inf")


async def test_two_gateways_count_apart(home: Home, service: DeployService) -> None:
    async with open_door(home, service) as door:
        await door.call("GET", "/nowhere")
        other = Metrics()

    assert other.registry.get_sample_value("gateway_requests_total", {"route": "none", "status": "404"}) is None
