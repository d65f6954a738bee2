"""The demo's agents remember what they were told, and ask by key when an answer was lost."""

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from gateway.surfaces.cli.client import Client
from gateway.surfaces.cli.demo.callers import Callers
from gateway.surfaces.cli.demo.cases import BY_NAME
from gateway.surfaces.cli.demo.kit import Kit
from gateway.surfaces.cli.demo.processes import DemoFailedError

CASE = BY_NAME["lost-done"]
UNKNOWN: dict[str, Any] = {"operation_id": "op_1", "outcome": "unknown", "state": "in_doubt"}
DONE = {**UNKNOWN, "outcome": "success", "state": "succeeded"}


async def gateway(*, submitted: Any, found: Any = None, read: Any = None) -> TestServer:
    async def submit(request: web.Request) -> web.Response:
        if submitted is None:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(submitted)

    async def find(request: web.Request) -> web.Response:
        assert request.query["key"] == CASE.key
        return web.json_response({"operations": found})

    async def look(request: web.Request) -> web.Response:
        return web.json_response(read)

    app = web.Application()
    app.router.add_post("/v1/operations", submit)
    app.router.add_get("/v1/operations", find)
    app.router.add_get("/v1/operations/op_1", look)
    server = TestServer(app)
    await server.start_server()
    return server


def callers(server: BaseTestServer) -> Callers:
    return Callers(Client(f"http://127.0.0.1:{server.port}", "key"))


async def test_unknown_is_remembered_for_good() -> None:
    async with await gateway(submitted=UNKNOWN, read=DONE) as server:
        agents = callers(server)
        await agents.call(CASE)
        final = await agents.wait_until_final(CASE)

    assert agents.first[CASE.name] == UNKNOWN
    assert final == DONE
    assert agents.told_unknown == {"op_1"}


async def test_a_lost_answer_is_asked_for_by_key() -> None:
    async with await gateway(submitted=None, found=[UNKNOWN]) as server:
        agents = callers(server)
        await agents.call(CASE)
        assert agents.first[CASE.name] is None
        await agents.ask_by_key(CASE)

    assert agents.newest[CASE.name] == UNKNOWN


async def test_an_operation_that_is_missing_after_a_lost_answer_fails_the_demo() -> None:
    async with await gateway(submitted=None, found=[]) as server:
        agents = callers(server)
        with pytest.raises(DemoFailedError, match="0 operations"):
            await agents.ask_by_key(CASE)


async def test_an_operation_that_never_ends_fails_the_demo() -> None:
    async with await gateway(submitted=UNKNOWN, read=UNKNOWN) as server:
        agents = callers(server)
        await agents.call(CASE)
        with pytest.raises(DemoFailedError, match="still in_doubt"):
            await agents.wait_until_final(CASE)


def test_a_kit_that_does_not_say_where_it_is_fails_the_demo() -> None:
    with pytest.raises(DemoFailedError, match="control"):
        Kit.of({})
