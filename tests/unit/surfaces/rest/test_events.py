"""The event stream: own changes only, alerts for people only, and an end when the key or the gateway ends."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse

from fixtures.service.server import DeployService
from gateway.engine import hub
from gateway.surfaces.rest import events
from gateway.surfaces.wire import instant
from tests.streams import opened
from tests.unit.surfaces.door import WAIT_SECONDS, Door, Home, ShiftedClock, open_door

Seen = tuple[str, dict[str, Any]]


@asynccontextmanager
async def listening(door: Door, key: str) -> AsyncIterator["Reader"]:
    headers = {"Authorization": f"Bearer {key}"}
    async with door.session.get(door.address + "/v1/events", headers=headers) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        reader = Reader(response, door)
        assert await reader.block() == [": connected"]
        yield reader


class Reader:
    def __init__(self, response: ClientResponse, door: Door) -> None:
        self._response = response
        self._door = door

    async def block(self) -> list[str]:
        """Lines up to an empty one; none at the end of the stream."""
        async with asyncio.timeout(WAIT_SECONDS):
            data = await self._response.content.readuntil(b"\n\n")
        self._door.home.heard.append(data)
        return data.decode().splitlines()[:-1]

    async def event(self) -> Seen:
        """The next event that is not a beat."""
        while (lines := await self.block())[0].startswith(":"):
            pass
        fields = dict(line.split(": ", 1) for line in lines)
        return fields["event"], json.loads(fields["data"])

    async def until(self, **wanted: object) -> dict[str, Any]:
        """The data of the next event that has these members."""
        while True:
            _, data = await self.event()
            if all(data.get(name) == value for name, value in wanted.items()):
                return data

    async def rest(self) -> bytes:
        """Everything up to the end of the stream."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self._response.content.read()


async def test_callers_hear_of_their_own_operations_only_and_people_of_all(door: Door) -> None:
    async with (
        listening(door, door.home.caller_key) as mine,
        listening(door, door.foreign_key) as theirs,
        listening(door, door.home.person_key) as all_of_them,
    ):
        first = (await door.submit("deploy", name="one")).document["operation_id"]
        second = (await door.submit("deploy", name="two", key=door.foreign_key)).document["operation_id"]
        last = (await door.submit("deploy", name="three")).document["operation_id"]

        heard = {(await mine.event())[1]["operation_id"] for _ in range(2)}
        await mine.until(operation_id=last, state="succeeded")
        assert heard <= {first, last}
        assert (await theirs.event())[1]["operation_id"] == second
        kind, data = await all_of_them.event()
        assert (kind, data["operation_id"]) == ("operation", first)
        await all_of_them.until(operation_id=second, state="succeeded")
        await all_of_them.until(operation_id=last, state="succeeded")


async def test_alerts_are_for_people(door: Door, service: DeployService) -> None:
    async with listening(door, door.home.caller_key) as caller, listening(door, door.home.person_key) as person:
        body = {"action": "deploy", "args": {"name": "a"}, "key": "k"}
        await door.call("POST", "/v1/operations", body=body)
        await door.call("POST", "/v1/operations", body=body | {"args": {"name": "b"}})
        await door.call("POST", "/v1/operations", body=body | {"key": "k-2", "args": {"name": "c"}})

        alert = await person.until(alert="key_reused")
        assert (alert["caller"], alert["action"]) == ("agent-a", "deploy")
        seen = []
        while True:
            kind, data = await caller.event()
            seen.append(kind)
            if data["state"] == "succeeded" and len(seen) > 2:
                break
        assert set(seen) == {"operation"}


async def test_a_reader_that_lags_is_told_to_list_anew(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "BACKLOG_MAX", 3)
    async with listening(door, door.home.person_key) as reader:
        for number in range(10):
            # Without giving way in between, so that the stream cannot keep up.
            door.running.assembly.hub.alert(f"alert-{number}", None, "d")

        assert await reader.event() == ("lagged", {})
        assert (await reader.event())[1]["alert"] == "alert-9"


async def test_a_revoked_key_ends_its_streams_at_once_and_no_other(door: Door) -> None:
    keys = await door.call("GET", "/v1/keys", key=door.home.person_key)
    key_id = next(line["key_id"] for line in keys.document["keys"] if line["name"] == "agent-a")
    async with listening(door, door.home.caller_key) as ended, listening(door, door.foreign_key) as lives:
        await door.call("DELETE", f"/v1/keys/{key_id}", key=door.home.person_key)

        assert await ended.rest() == b""
        await door.submit("look", key=door.foreign_key)
        assert (await lives.event())[0] == "operation"


async def test_an_expired_key_ends_its_stream_with_the_next_beat(
    home: Home, service: DeployService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BEAT_SECONDS", 0.05)
    clock = ShiftedClock()
    async with open_door(home, service, clock=clock) as door:
        body = {"kind": "caller", "name": "agent-c", "expires_at": instant(clock.wall_ms() + 600_000)}
        key = (await door.call("POST", "/v1/keys", key=home.person_key, body=body)).document["key"]
        async with listening(door, key) as reader:
            assert await reader.block() == [": beat"]
            clock.shift_ms += 600_000
            assert set((await reader.rest()).splitlines()) <= {b": beat", b""}


async def test_streams_under_one_key_are_bounded(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "STREAMS_PER_KEY_MAX", 1)
    async with listening(door, door.home.caller_key), listening(door, door.foreign_key):
        answer = await door.call("GET", "/v1/events")

    assert (answer.status, answer.document["code"]) == (429, "too_many_requests")
    assert answer.headers["Retry-After"] == "1"


async def test_a_reader_that_takes_nothing_is_cut_off(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "WRITE_SECONDS", 0.1)
    head = f"GET /v1/events HTTP/1.1\r\nHost: {door.netloc}\r\nAuthorization: Bearer {door.home.person_key}\r\n\r\n"
    streams = door.running.site._streams
    async with opened(door.netloc, limit=1024) as (reader, writer), asyncio.timeout(WAIT_SECONDS):
        writer.write(head.encode())
        await reader.readuntil(b": connected\n\n")
        while streams:
            for _ in range(900):
                door.running.assembly.hub.alert("a", None, "x" * 10_000)
            await asyncio.sleep(0.01)


async def test_the_end_of_the_gateway_ends_every_stream(home: Home, service: DeployService) -> None:
    async with contextlib.AsyncExitStack() as stack, open_door(home, service) as door:
        reader, writer = await stack.enter_async_context(opened(door.netloc))
        head = f"GET /v1/events HTTP/1.1\r\nHost: {door.netloc}\r\nAuthorization: Bearer {home.caller_key}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b": connected\n\n")
        stack.push_async_callback(ends_whole, reader)
        # Left with the stream open.


async def ends_whole(reader: asyncio.StreamReader) -> None:
    """The last chunk was sent: an end, not a cut."""
    async with asyncio.timeout(WAIT_SECONDS):
        assert (await reader.read()).endswith(b"0\r\n\r\n")
