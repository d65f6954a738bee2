"""The table of routes is the whole surface: what it does not name is not there, however it is spelt."""

from gateway.surfaces.rest.routes import ROUTES
from gateway.surfaces.rest.table import Table
from tests.unit.surfaces.door import Door

TABLE = Table(ROUTES)
ONE = "op_01jd3v6k8n5q7r9s2t4w6x8y0z"


def test_every_route_is_found_at_its_own_path() -> None:
    for route in ROUTES:
        place = TABLE.find(route.path.replace("{id}", ONE).replace("{run}", "r").replace("{name}", "n"))
        assert place.routes[route.method] is route


def test_parameters_are_decoded_after_the_path_was_taken_apart() -> None:
    assert TABLE.find("/v1/runs/a%2Fb").parameters == {"run": "a/b"}
    assert TABLE.find("/v1/runs/%2e%2e").parameters == {"run": ".."}
    assert TABLE.find(f"/v1/operations/{ONE}/cancel").parameters == {"id": ONE}


ELSEWHERE = [
    "/",
    "//",
    "/v1",
    "/v1/",
    "/v1/operations/",
    "/v1//operations",
    "//v1/operations",
    "/v1/operations/x/",
    "/v1/operations/x/unknown",
    "/V1/operations",
    "/v1%2Foperations",
    "/v1/operations%00",
    "/v1/keys/../operations",
    "/v1/operations;a=b",
    "/v1/operations%0A",
    "/%ff%fe",
    "/healthz/",
]


async def test_another_spelling_is_nothing(door: Door) -> None:
    for path in ELSEWHERE:
        assert not TABLE.find(path).routes
        answer = await door.call("GET", path)
        assert (answer.status, answer.document["code"]) == (404, "not_found"), path


async def test_other_methods_are_refused_with_those_that_are_taken(door: Door) -> None:
    for path, allowed in [
        ("/v1/operations", "GET, HEAD, POST"),
        (f"/v1/operations/{ONE}", "GET, HEAD"),
        (f"/v1/operations/{ONE}/cancel", "POST"),
        ("/v1/events", "GET"),
        ("/v1/credentials/x", "DELETE, PUT"),
        ("/healthz", "GET, HEAD"),
    ]:
        for method in ("TRACE", "OPTIONS", "PATCH", "PROPFIND"):
            answer = await door.call(method, path)
            assert (answer.status, answer.document["code"]) == (405, "method_not_allowed"), (method, path)
            assert answer.headers["Allow"] == allowed
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_head_is_answered_like_get_without_a_body(door: Door) -> None:
    for path in ("/healthz", "/v1/actions", "/docs", "/v1/operations"):
        shown, head = await door.call("GET", path), await door.call("HEAD", path)
        assert (head.status, head.content) == (200, b"")
        assert head.headers["Content-Length"] == str(len(shown.content))
