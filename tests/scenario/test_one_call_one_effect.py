"""Public reports of actions that ran twice, or not at all against all belief, held against the ledger."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from fixtures.proxy.recorder import Recorder, read_records
from fixtures.proxy.server import FaultProxy
from fixtures.service.server import DeployService
from gateway.settings import LimitSettings
from tests.scenario.kit import (
    ACCEPTED,
    FINAL,
    READ,
    Api,
    Document,
    Home,
    brief_action,
    effects,
    sends,
    taken,
    write_action,
)
from tests.scenario.wire import Wire, header
from tests.unit.fixtures.raw_client import call

UNSEEN = {"reconcile": None, "unknown_accepted": True, "reason": "A person compares the books of the service."}


def address(service: DeployService) -> str:
    return f"127.0.0.1:{service.port}"


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def proxy(service: DeployService, wire: Wire) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(address(service), watch=wire.listen) as between:
        yield between


async def test_a_repeat_under_a_new_key_is_refused_while_the_first_is_in_doubt_and_answered_with_it_afterwards(
    home: Home, service: DeployService
) -> None:
    """D01, openai/openai-agents-python#4254: a retry comes with a new id of its own making, so ids do not match."""
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    service.faults.add("commit_then_drop")
    service.faults.add("lookup_unavailable", times=None)
    async with home.running() as api:
        first = await api.begin("deploy", name="web", key="call_1")
        await api.until_state(first["operation_id"], "in_doubt")

        second = await api.submit("deploy", name="web", key="call_2", wait=5)

        assert (second.status, second.document["code"]) == (409, "predecessor_unsettled")
        assert second.document["operation_id"] == first["operation_id"]
        assert second.headers["x-should-retry"] == "false"
        joined = await api.begin("deploy", name="web")
        assert (joined["operation_id"], joined["joined"]) == (first["operation_id"], True)
        service.faults.remove()
        settled = await api.settled(first["operation_id"])
        assert settled["outcome"] == "success"

        third = await api.submit("deploy", name="web", wait=5)

        assert (third.status, third.document["code"]) == (409, "probable_repeat")
        assert third.document["operation"]["operation_id"] == first["operation_id"]
        assert third.document["operation"]["outcome"] == "success"
        assert third.document["operation"]["result"] == settled["result"]
    assert effects(service.ledger.entries) == 1
    assert len(sends(service.ledger.entries)) == 1


async def test_a_replayed_run_gets_the_stored_success_also_after_the_gateway_was_killed(
    home: Home, service: DeployService
) -> None:
    """D02, agno-agi/agno#10366: replaying a run executes its successful call again."""
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    async with home.process() as api:
        first = await api.begin("deploy", name="web", key="run_1/call_1", wait=10)
        assert first["outcome"] == "success"
        await api.kill()

    async with home.process() as api:
        for _ in range(3):
            again = await api.submit("deploy", name="web", key="run_1/call_1", wait=10)
            document = taken(again)
            assert again.headers["Idempotent-Replayed"] == "true"
            assert document["replayed"] is True
            assert len(document["attempts"]) == 1
            for name in ("operation_id", "outcome", "executed", "result", "attempts", "evidence"):
                assert document[name] == first[name]
        api.send(signal.SIGTERM)
        assert await api.ended() == 0
    assert effects(service.ledger.entries) == 1
    assert len(sends(service.ledger.entries)) == 1
    code, said = home.verify()
    assert code == 0, said


async def test_what_is_never_to_be_resent_goes_out_once_whatever_the_limits_allow(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    """D03, MervinPraison/PraisonAI#4256: declared not idempotent, and still repeated by two loops."""
    async with Recorder(tmp_path / "wire", address(service)) as recorder:
        action = write_action(
            resend="never", attempts_max=10, deadlines={"request": "1s", "connect": "1s", "recovery": "1h"}
        )
        home.configure({"deploys": recorder.url}, {"deploy": action})
        service.faults.add("commit_then_reset")
        service.faults.add("lookup_unavailable", times=3)
        async with home.running() as api:
            begun = await api.begin("deploy", name="web")
            doubtful = await api.until_state(begun["operation_id"], "in_doubt")
            assert (doubtful["outcome"], doubtful["executed"]) == ("unknown", "unknown")
            await api.client.call("POST", f"/v1/operations/{begun['operation_id']}/reconcile", wait_seconds=5)
            settled = await api.settled(begun["operation_id"])
    assert (settled["outcome"], settled["executed"], settled["basis"]) == ("success", "yes", "probe")
    assert len(settled["attempts"]) == 1
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1
    looks = [entry for entry in service.ledger.entries if entry.method == "GET"]
    assert len(read_records(tmp_path / "wire")) == 1 + len(looks)


async def test_an_allowed_repeat_carries_the_same_key_and_the_same_bytes(
    home: Home, service: DeployService, proxy: FaultProxy, wire: Wire
) -> None:
    """D04, ComposioHQ/composio#3654: time-outs, 429 and resets are repeated without a key."""
    action = write_action(refused_before_work=[{"status": 429}], resend="on_absence")
    home.configure({"deploys": proxy.url}, {"deploy": action})
    service.faults.add("429_without_effect", params={"retry_after": "0"})
    service.faults.add("commit_then_drop")
    async with home.running() as api:
        begun = await api.begin("deploy", name="web")
        settled = await api.settled(begun["operation_id"])
    assert (settled["outcome"], settled["basis"]) == ("success", "probe")
    assert [attempt["status"] for attempt in settled["attempts"]] == [429, None]
    first, second = wire.requests("POST")
    assert header(first, "Idempotency-Key") == header(second, "Idempotency-Key") == begun["operation_id"].encode()
    assert first == second
    assert effects(service.ledger.entries) == 1


async def test_an_answer_that_breaks_the_output_schema_is_a_success_with_a_note_and_no_reason_to_send_again(
    home: Home, service: DeployService
) -> None:
    """D05, crewAIInc/crewAI#7449: a catch-all calls the tool again after any exception, also one about its output."""
    output = {"schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}}
    home.configure({"deploys": service.url}, {"deploy": write_action(output=output, resend="same_key")})
    service.faults.add("commit_then_body_breaks_schema")
    async with home.running() as api:
        settled = await api.begin("deploy", name="web", wait=10)
    assert (settled["outcome"], settled["executed"], settled["output_valid"]) == ("success", "yes", False)
    assert len(settled["attempts"]) == 1
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


@pytest.mark.parametrize("fault", ["commit_then_drop", "commit_then_reset"])
@pytest.mark.parametrize("warm", [False, True], ids=["fresh", "warm"])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_no_library_below_sends_a_put_or_delete_again(  # noqa: PLR0917 - three parameters and three fixtures
    method: str, warm: bool, fault: str, home: Home, service: DeployService, proxy: FaultProxy, wire: Wire
) -> None:
    """D06, aio-libs/aiohttp#10790: the client library itself resends PUT and DELETE when a connection breaks."""
    home.configure({"deploys": proxy.url}, {"act": write_action(method), "put": write_action("PUT"), "read": READ})
    setup = {"repository": "web", "revision": "abc1234", "environment": "staging"}
    await call(service.port, "PUT", "/deployments/web", key="set-up", body=orjson.dumps(setup))
    async with home.running() as api:
        if warm:
            assert (await api.begin("put", name="other", wait=10))["outcome"] == "success"
            assert (await api.begin("read", name="staging", wait=10))["outcome"] == "success"
        service.faults.add(fault, match={"path": "/deployments/web"})
        settled = await api.begin("act", name="web", wait=10)
        operation = settled["operation_id"]
    assert (settled["outcome"], settled["executed"]) == ("success", "yes")
    assert len(settled["attempts"]) == 1
    on_the_wire = [request for request in wire.requests(method) if operation.encode() in request]
    assert len(on_the_wire) == len(sends(service.ledger.entries, operation)) == 1
    assert effects(service.ledger.entries, operation) == 1


async def test_a_caller_that_gives_up_cancels_nothing_and_finds_the_outcome_when_it_comes_back(
    home: Home, service: DeployService
) -> None:
    """D14, modelcontextprotocol/python-sdk#212 and srbhptl39/MCP-SuperAssistant#155, over REST.

    The caller times out and says "cancelled", the service has done it, and the caller calls again.
    """
    home.configure({"deploys": service.url}, {"deploy": brief_action()})
    service.faults.add("commit_then_hang")
    async with home.running() as api:
        gone = asyncio.create_task(api.submit("deploy", name="web", key="call_1", wait=20))
        entry = (await service.wait_for(lambda entry: entry.effect == "done"))[0]
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)

        cancel = await api.client.call("POST", f"/v1/operations/{entry.op}/cancel")

        assert (cancel.status, cancel.document["code"]) == (409, "wrong_state")
        again = await api.begin("deploy", name="web", key="call_1", wait=20)
        assert again["operation_id"] == entry.op
        assert again["joined"] is True
        assert (again["state"], again["outcome"], again["executed"]) == ("succeeded", "success", "yes")
        replay = await api.begin("deploy", name="web", key="call_1")
        assert replay["replayed"] is True
        assert replay["result"] == again["result"]
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


async def test_a_long_action_is_answered_as_being_in_progress_before_the_callers_own_limit(
    home: Home, service: DeployService
) -> None:
    """D15, anthropics/claude-code#17662 and databricks-solutions/ai-dev-kit PR #80: nothing came back, so it "failed".

    Faster than reported: the caller's limit is 40 s instead of 60 s, and the action takes until after it was answered.
    """
    assert LimitSettings().wait_seconds_max < 60
    async with FaultProxy(address(service)) as proxy:
        proxy.toxics.add("hold_request", times=1)
        action = write_action(reconcile=None, resend="same_key", replay_after_5xx="same_outcome")
        home.configure({"deploys": proxy.url}, {"deploy": action}, limits={"wait_seconds_max": 0.5})
        async with home.running() as api:
            async with asyncio.timeout(40.0):
                answer = await api.submit("deploy", name="web", wait=60)

            assert answer.status == 202
            assert answer.headers["Location"] == f"/v1/operations/{answer.document['operation_id']}"
            assert int(answer.headers["Retry-After"]) >= 1
            assert answer.headers["x-should-retry"] == "false"
            assert (answer.document["state"], answer.document["outcome"]) == ("sending", "unknown")
            assert "being carried out now" in answer.document["guidance"]
            assert answer.document["next_step"] == "wait"
            proxy.release()
            settled = await api.settled(answer.document["operation_id"])
    assert settled["outcome"] == "success"
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


@pytest.mark.parametrize("killed", [True, False], ids=["killed after the head", "left hanging"])
@pytest.mark.parametrize("half", ["read", "commit"])
async def test_the_handle_of_an_accepted_action_is_stored_before_its_body_comes(
    half: str, killed: bool, home: Home, service: DeployService
) -> None:
    """D18, hashicorp/terraform#5347 and hetznercloud/terraform-provider-hcloud PR #1257.

    It was created, then a time-out, and its id was never saved: the next run creates another one.
    """
    deadlines = {"connect": "1s", "request": "3s", "recovery": "2m"}
    lookup = write_action()["reconcile"] | {"absence": {"settle": "3s"}}
    action = write_action(accepted=ACCEPTED, deadlines=deadlines, reconcile=lookup)
    home.configure({"deploys": service.url}, {"deploy": action})
    service.faults.add(f"{half}_then_accepted_head_hang")
    async with home.process() as api:
        begun = await api.begin("deploy", name="web", key="call_1")
        operation = begun["operation_id"]
        handle = f"{service.url}/operations/by-id/{operation}"
        settled = await api.until(operation, lambda document: document["reconcile"]["path"] == handle)
        assert settled["outcome"] == "unknown"
        if killed:
            await api.kill()
            assert handle in home.query("select life from operations")[0][0].decode()
        else:
            settled = await api.until(operation, lambda document: document["state"] in FINAL or was_lost(document))
    if killed:
        async with home.process() as api:
            again = await api.begin("deploy", name="web", key="call_1", wait=1)
            assert again["operation_id"] == operation
            settled = await api.until(operation, lambda document: document["state"] in FINAL or was_lost(document))
    assert len(settled["attempts"]) == len(sends(service.ledger.entries)) == 1
    if half == "commit":
        assert (settled["outcome"], settled["basis"]) == ("success", "handle")
        assert effects(service.ledger.entries) == 1
    else:
        # It was acknowledged, and then nobody knew it: that may be lost as well as done and cleared away.
        assert (settled["state"], settled["outcome"], settled["executed"]) == ("in_doubt", "unknown", "unknown")
        assert effects(service.ledger.entries) == 0


def was_lost(document: Document) -> bool:
    """The handle led nowhere, and then the look-up did."""
    return [item["source"] for item in document["evidence"] if item["finding"] == "absent"] == ["handle", "probe"]


async def raw_submit(
    api: Api, body: bytes, key: str, *, length: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A submission whose connection is in the test's own hands."""
    where = urlsplit(api.client._address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(
        b"POST /v1/operations HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\nIdempotency-Key: %b\r\n"
        b"Content-Type: application/json\r\nPrefer: wait=20\r\nContent-Length: %d\r\n\r\n%b"
        % (where.netloc.encode(), api.client._key.encode(), key.encode(), length or len(body), body)
    )
    return reader, writer


POINTS_OF_A_CALL = (
    "admit.before_commit",
    "admit.after_commit",
    "begin.after_commit",
    "send.before_first_byte",
    "send.after_answer",
    "outcome.before_commit",
    "outcome.after_commit",
    "probe.before",
    "probe.after",
)


@pytest.mark.parametrize("place", POINTS_OF_A_CALL)
async def test_a_caller_that_disconnects_at_any_moment_cancels_nothing(
    place: str, home: Home, service: DeployService
) -> None:
    """D14 once more, at every named place of the way: the connection to the caller is cut exactly there."""

    class Cutting:
        writer: asyncio.StreamWriter | None = None
        cut = False

        def hit(self, name: str) -> None:
            if name == place and self.writer is not None:
                self.writer.transport.abort()
                self.cut = True

    points = Cutting()
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    service.faults.add("commit_then_drop")
    async with home.running(points=points) as api:
        body = orjson.dumps({"action": "deploy", "args": {"name": "web"}})
        reader, points.writer = await raw_submit(api, body, "call_1")
        await service.wait_for(lambda entry: entry.effect == "done")
        document = await api.begin("deploy", name="web", key="call_1", wait=15)
        assert points.cut
        assert await reader.read() == b""
    assert (document["outcome"], document["executed"]) == ("success", "yes")
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


async def test_a_call_that_never_arrived_whole_creates_nothing(home: Home, service: DeployService) -> None:
    """D14: the connection breaks before the gateway has the whole call."""
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    async with home.running() as api:
        whole = orjson.dumps({"action": "deploy", "args": {"name": "web"}})
        _, writer = await raw_submit(api, whole[:-1], "call_1", length=len(whole))
        writer.close()
        await writer.wait_closed()
        document = await api.begin("deploy", name="other", wait=10)
        assert [item["operation_id"] for item in await api.everything()] == [document["operation_id"]]
    assert [entry.op for entry in sends(service.ledger.entries)] == [document["operation_id"]]
