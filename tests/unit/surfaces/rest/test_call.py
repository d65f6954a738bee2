"""What a body and a query may be: bounded, unambiguous, and refused with a pointer and without being repeated."""

import asyncio
import gzip
import json
import re

from fixtures.service.server import DeployService
from tests.canary import Canaries
from tests.streams import opened
from tests.unit.surfaces.door import WAIT_SECONDS, Answer, Door, Home, open_door

DEEP = b'{"action": "deploy", "args": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001


async def post(door: Door, data: bytes, **headers: str) -> Answer:
    return await door.call("POST", "/v1/operations", data=data, headers=headers)


async def nothing_was_done(door: Door, service: DeployService) -> bool:
    listed = (await door.call("GET", "/v1/operations")).document
    return not listed["operations"] and not service.ledger.entries


async def test_json_that_can_be_read_in_two_ways_is_malformed(door: Door, service: DeployService) -> None:
    for data in [
        b"",
        b" ",
        b"{",
        b'{"action": "deploy", "action": "look"}',
        b'{"action": "deploy", "args": {"name": "a", "name": "b"}}',
        b'{"action": "deploy", "args": {"name": NaN}}',
        b'{"action": "deploy", "args": {"name": Infinity}}',
        b'{"action": "deploy", "args": {"count": 1e999}}',
        b'{"action": "deploy"} {}',
        b'{"action": "deploy",}',
        b"{'action': 'deploy'}",
        b'{"action": "\xff\xfe"}',
        b'{"action": "\\ud800"}',
        b'\xef\xbb\xbf{"action": "deploy"}',
        '{"action": "deploy"}'.encode("utf-16"),
        b'{"action": "dep\nloy"}',
        DEEP,
        b"[" * 100_000,
    ]:
        answer = await post(door, data)
        assert (answer.status, answer.document["code"]) == (400, "malformed"), data[:80]
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["x-should-retry"] == "false"
        assert answer.document["guidance"]
    assert await nothing_was_done(door, service)


async def test_json_of_another_form_is_pointed_at(door: Door, service: DeployService) -> None:
    for body, pointer in [
        ([], ""),
        ("deploy", ""),
        (7, ""),
        ({}, "/action"),
        ({"action": 1}, "/action"),
        ({"action": ""}, "/action"),
        ({"action": "a" * 201}, "/action"),
        ({"action": "deploy", "args": []}, "/args"),
        ({"action": "deploy", "args": None}, "/args"),
        ({"action": "deploy", "key": ""}, "/key"),
        ({"action": "deploy", "key": "a b"}, "/key"),
        ({"action": "deploy", "key": "ü"}, "/key"),
        ({"action": "deploy", "key": "a" * 256}, "/key"),
        ({"action": "deploy", "key": 7}, "/key"),
        ({"action": "deploy", "run": "a\nb"}, "/run"),
        ({"action": "deploy", "parent": "op_1"}, "/parent"),
        ({"action": "deploy", "supersedes": True}, "/supersedes"),
        ({"action": "deploy", "args": {"name": "a"}, "caller": "agent-b"}, ""),
        ({"action": "deploy", "args": {"name": 5}}, "/args/name"),
        ({"action": "deploy", "args": {"name": "A B"}}, "/args/name"),
        ({"action": "deploy", "args": {"name": "a", "count": "1"}}, "/args/count"),
        ({"action": "deploy", "args": {"name": "a", "count": True}}, "/args/count"),
        ({"action": "deploy", "args": {}}, "/args/name"),
        ({"action": "deploy", "args": {"name": "a", "other": 1}}, "/args"),
    ]:
        answer = await door.call("POST", "/v1/operations", body=body)
        assert (answer.status, answer.document["code"]) == (422, "invalid_input"), body
        errors = answer.document["errors"]
        assert [item["pointer"] for item in errors] == [pointer], (body, errors)
        assert all(item["detail"] and item["guidance"] for item in errors)
        # The caller speaks JSON: names of Python's classes and of a library's rules mean nothing to it.
        assert not re.search(r"dictionary|instance|class_name|[a-z]_length|should|Input", str(errors)), errors
    assert await nothing_was_done(door, service)


async def test_refusals_do_not_repeat_what_was_sent(door: Door, canaries: Canaries) -> None:
    secret = canaries.mint()
    quoted = json.dumps(secret)[1:-1]
    answers = [
        await post(door, f'{{"{quoted}": 1, "{quoted}": 2}}'.encode()),
        await post(door, f'{{"action": {quoted}'.encode()),
        await post(door, b"{}", **{"Content-Type": "text/x-" + secret.replace("/", "_")}),
        await door.call("GET", f"/v1/operations?{secret.replace('+', '')}=1"),
        await door.call("GET", f"/v1/operations?state={secret.replace('+', '')}"),
        await door.call("GET", f"/v1/operations?since={secret.replace('+', '')}"),
        await door.call("GET", f"/v1/operations/{secret.replace('/', '')}"),
        await door.call("GET", f"/v1/{secret}"),
        await door.call("POST", "/v1/operations", body={}, headers={"Idempotency-Key": secret + " x"}),
        await door.call("POST", "/v1/operations", body={"action": secret}),
        await door.call("POST", "/v1/operations", body={secret: secret}),
        await door.call("POST", "/v1/operations", body={"action": "deploy", "args": {"name": secret}}),
        await door.call("POST", "/v1/operations", body={"action": "deploy", "args": {secret: secret, "name": "a"}}),
        await door.call("POST", "/v1/operations", body={"action": "deploy", "key": secret + "\n"}),
        await door.call("POST", "/v1/operations", body={"action": "deploy", "args": {"name": "a"}, "parent": secret}),
        await door.call("POST", "/v1/keys", key=door.home.person_key, body={"kind": "caller", "name": secret}),
        await door.call("POST", "/v1/keys", key=door.home.person_key, body={"kind": secret, "name": "a"}),
        await door.call(
            "PUT",
            "/v1/credentials/token",
            key=door.home.person_key,
            body={"kind": "bearer", "value": secret + "\x00", "origin": f"ftp://{secret}"},
        ),
    ]

    assert all(400 <= answer.status < 500 for answer in answers), [answer.status for answer in answers]
    assert all(secret.encode() not in answer.content for answer in answers)
    assert secret not in door.log.getvalue()


async def test_bodies_are_bounded_before_and_while_they_arrive(home: Home, service: DeployService) -> None:
    async with open_door(home, service, limits={"body_max_bytes": 2000}) as door:
        fits = json.dumps({"action": "look", "args": {"name": "a"}}).encode().ljust(2000)
        announced = await post(door, fits + b" ")
        chunked = await door.raw(
            f"POST /v1/operations HTTP/1.1\r\nHost: {door.netloc}\r\nAuthorization: Bearer {home.caller_key}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
            + b"3e8\r\n"
            + b" " * 1000
            + b"\r\n7d0\r\n"
            + b" " * 2000
            + b"\r\n0\r\n\r\n"
        )
        exact = await post(door, fits)

    assert (announced.status, announced.document["code"]) == (413, "too_large")
    assert b"2000 bytes" in announced.content
    assert chunked.startswith(b"HTTP/1.1 413 ")
    assert exact.status == 200


async def test_what_is_not_plain_json_by_its_headers_is_refused(door: Door, service: DeployService) -> None:
    body = json.dumps({"action": "deploy", "args": {"name": "a"}}).encode()
    for headers in [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/jsonp"},
        {"Content-Type": ""},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "br, identity"},
    ]:
        answer = await post(door, body, **headers)
        assert (answer.status, answer.document["code"]) == (415, "unsupported_media_type"), headers
    bomb = await post(door, gzip.compress(b" " * 50_000_000), **{"Content-Encoding": "gzip"})
    assert bomb.status == 415
    assert await nothing_was_done(door, service)
    assert (await post(door, body, **{"Content-Type": "application/json; charset=utf-8"})).status == 200


async def test_a_body_that_trickles_in_is_given_up(home: Home, service: DeployService) -> None:
    async with open_door(home, service, server={"body_seconds": 0.3}) as door:
        begun = (
            f"POST /v1/operations HTTP/1.1\r\nHost: {door.netloc}\r\nAuthorization: Bearer {home.caller_key}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        async with opened(door.netloc) as (reader, writer), asyncio.timeout(WAIT_SECONDS):
            writer.write(begun.encode())
            head = await reader.readuntil(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"Retry-After: 1" in head


async def test_a_query_of_another_form_is_told_which_it_should_have(door: Door) -> None:
    for query, wanted in [
        ("since=yesterday", "a time with a zone, for example 2027-01-31T00:00:00Z"),
        ("since=2026-13-40T00:00:00Z", "a time with a zone"),
        ("cursor=abc", "an operation's id"),
        ("state=done", "cancelled"),
        ("key=", "visible ASCII characters"),
    ]:
        answer = await door.call("GET", f"/v1/operations?{query}")
        assert wanted in answer.document["errors"][0]["guidance"], query


async def test_queries_take_what_is_declared_once(door: Door) -> None:
    for path in [
        "/v1/operations?unknown=1",
        "/v1/operations?state=succeeded&state=failed",
        "/v1/operations?state=done",
        "/v1/operations?outcome=maybe",
        "/v1/operations?limit=0",
        "/v1/operations?limit=-1",
        "/v1/operations?limit=1e3",
        "/v1/operations?limit=99999",
        "/v1/operations?since=yesterday",
        "/v1/operations?since=2026-13-40T00:00:00Z",
        "/v1/operations?since=2026-01-01T00:00:00",
        "/v1/operations?key=",
        "/v1/operations?key=a%0ab",
        "/v1/operations?cursor=%27",
        "/v1/operations?cursor=abc",
        "/v1/operations/op_01jd3v6k8n5q7r9s2t4w6x8y0z?wait=soon",
        "/v1/operations/op_01jd3v6k8n5q7r9s2t4w6x8y0z?wait=-1",
        "/v1/actions?x=1",
        "/v1/actions/deploy?x",
        "/v1/runs/r?x=1",
        "/healthz?x=1",
        "/readyz?x=1",
        "/metrics?x=1",
        "/docs?x=1",
        "/openapi.json?x=1",
        "/v1/events?x=1",
    ]:
        answer = await door.call("GET", path)
        assert (answer.status, answer.document.get("code")) == (422, "invalid_input"), path
    for method, path in [
        ("POST", "/v1/operations?x=1"),
        ("POST", "/v1/operations/op_01jd3v6k8n5q7r9s2t4w6x8y0z/cancel?x=1"),
        ("POST", "/v1/operations/op_01jd3v6k8n5q7r9s2t4w6x8y0z/reconcile?x=1"),
    ]:
        answer = await door.call(method, path, body={"action": "deploy", "args": {"name": "a"}})
        assert (answer.status, answer.document["code"]) == (422, "invalid_input"), path


async def test_a_header_that_counts_once_may_not_come_twice(door: Door, service: DeployService) -> None:
    head = (
        f"POST /v1/operations HTTP/1.1\r\nHost: {door.netloc}\r\nAuthorization: Bearer {door.home.caller_key}\r\n"
        "Content-Type: application/json\r\nConnection: close\r\nContent-Length: 43\r\n"
    )
    body = b'{"action": "deploy", "args": {"name": "a"}}'
    for extra in [
        f"Authorization: Bearer {door.foreign_key}\r\n",
        "Idempotency-Key: a\r\nIdempotency-Key: b\r\n",
        "Origin: http://a\r\nOrigin: http://b\r\n",
        "Host: other\r\n",
    ]:
        answer = await door.raw(f"{head}{extra}\r\n".encode() + body)
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), extra.partition(":")[0]
    assert await nothing_was_done(door, service)
