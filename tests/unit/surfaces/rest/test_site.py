"""The door itself: hosts and origins, rates, headers, failures of our own, and clients that go away."""

import asyncio
import socket

import pytest

from fixtures.service.server import DeployService
from gateway.store.port import Refused
from tests.unit.surfaces.door import Door, Home, open_door


async def test_a_name_that_was_rebound_to_loopback_is_refused(door: Door) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "169.254.169.254", "[::", "localhost.evil", "0.0.0.0"):
        for path in ("/healthz", "/v1/actions", "/nowhere"):
            answer = await door.call("GET", path, headers={"Host": host})
            assert (answer.status, answer.document["code"]) == (403, "forbidden")
            assert host.encode() not in answer.content


async def test_a_page_of_another_site_is_refused(door: Door) -> None:
    for origin in ("http://evil.example", "null", "https://other:1", "http://[::", "file://", ""):
        answer = await door.call("GET", "/v1/actions", headers={"Origin": origin})

        assert (answer.status, answer.document["code"]) == (403, "forbidden"), origin


async def test_own_names_and_own_pages_are_served(door: Door) -> None:
    port = door.netloc.rsplit(":", 1)[1]

    for host in (door.netloc, f"localhost:{port}", f"LOCALHOST:{port}", "[::1]", "127.0.0.9"):
        assert (await door.call("GET", "/v1/actions", headers={"Host": host})).status == 200
    assert (await door.call("GET", "/v1/actions", headers={"Origin": door.address})).status == 200


async def test_every_answer_carries_the_headers_that_browsers_obey(door: Door) -> None:
    for path in ("/docs", "/openapi.json", "/v1/actions", "/nowhere", "/v1/operations/x"):
        headers = (await door.call("GET", path)).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Server"] == "action-gateway"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"


async def test_docs_page_names_every_route_and_runs_no_script(door: Door) -> None:
    page = (await door.call("GET", "/docs", key="")).content.decode()

    assert "<script" not in page
    assert "/v1/operations/{id}/reconcile" in page
    assert "predecessor_unsettled" in page


async def test_too_many_requests_under_one_key_wait_and_others_do_not(home: Home, service: DeployService) -> None:
    limits = {"rate_per_key_per_second_max": 0.2, "burst_per_key_max": 3}
    async with open_door(home, service, limits=limits) as door:
        answers = [await door.call("GET", "/v1/actions") for _ in range(4)]
        other = await door.call("GET", "/v1/actions", key=door.foreign_key)

    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    refused = answers[-1]
    assert refused.document["code"] == "too_many_requests"
    assert refused.document["retryable"] is True
    assert refused.headers["Retry-After"] == "5"
    assert "x-should-retry" not in refused.headers
    assert other.status == 200


async def test_a_taken_port_is_a_sentence(home: Home, service: DeployService) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=f"cannot listen at 127.0.0.1:{port}: Address already in use. .*GATEWAY_ADDR"):
            async with open_door(home, service, server={"port": port}):
                pass
    async with open_door(home, service, server={"port": port}) as door:
        assert door.address.endswith(f":{port}")


async def test_an_error_of_our_own_is_a_problem_and_a_log_line(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[object]:
        raise LookupError("planted")

    monkeypatch.setattr(door.running.office.vault, "list", broken)
    answer = await door.call("GET", "/v1/credentials", key=door.home.person_key)
    logged = door.log.getvalue()

    assert (answer.status, answer.document["code"]) == (500, "internal")
    assert answer.headers["x-should-retry"] == "false"
    assert b"planted" not in answer.content
    assert "request_failed" in logged
    assert "planted" in logged
    # The test that nothing shows a traceback is about everything but this line.
    door.log.seek(0)
    door.log.truncate()


async def test_client_that_leaves_changes_nothing_and_is_no_news(door: Door, service: DeployService) -> None:
    service.faults.add("read_then_hang")
    waiting = asyncio.ensure_future(door.submit("deploy", wait=20))
    await service.wait_for(lambda entry: entry.fault == "read_then_hang")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    listed = (await door.call("GET", "/v1/operations")).document["operations"]
    assert [item["state"] for item in listed] in (["sending"], ["in_doubt"])
    assert '"error"' not in door.log.getvalue()
