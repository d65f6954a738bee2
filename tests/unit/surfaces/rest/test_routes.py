"""Every route against every kind of key, generated from the table: a route that forgets to ask cannot be added."""

from fixtures.service.server import DeployService
from gateway.surfaces.rest.routes import ROUTES, Route
from gateway.surfaces.wire import instant
from tests.unit.surfaces.door import Answer, Door, Home, ShiftedClock, open_door

TEN_MINUTES_MS = 600_000
KEYED = [route for route in ROUTES if not route.open]
PEOPLE_ONLY = [route for route in ROUTES if route.person]


def place(route: Route) -> str:
    path = route.path.replace("{id}", "op_01jd3v6k8n5q7r9s2t4w6x8y0z")
    return path.replace("{run}", "run_1").replace("{name}", "deploy").replace("{lock}", "web")


async def knock(door: Door, route: Route, key: str) -> Answer:
    """The route with a body that nothing could be done with."""
    body: dict[str, str] | None = {} if route.body is not None else None
    return await door.call(route.method, place(route), key=key, body=body)


async def make_key(door: Door, **body: str) -> tuple[str, str]:
    made = await door.call("POST", "/v1/keys", key=door.home.person_key, body={"kind": "caller", **body})
    return made.document["key"], made.document["line"]["key_id"]


async def bad_keys(door: Door, clock: ShiftedClock) -> dict[str, str]:
    """One of each kind that must not open anything."""
    good = door.home.caller_key
    revoked, key_id = await make_key(door, name="agent-gone")
    assert (await door.call("DELETE", f"/v1/keys/{key_id}", key=door.home.person_key)).status == 204
    ends = clock.wall_ms() + TEN_MINUTES_MS
    expired, _ = await make_key(door, name="agent-late", expires_at=instant(ends) or "")
    clock.shift_ms += TEN_MINUTES_MS
    return {
        "none": "",
        "malformed": "gwk_short",
        "not ours": "sk-" + "a" * 40,
        "wrong secret": good[:-4] + ("AAAA" if not good.endswith("AAAA") else "BBBB"),
        "unknown id": "gwk_0000000000" + good[14:],
        "long": good + "a" * 5000,
        "injected": "gwk_' OR 1=1--" + good[14:],
        "expired": expired,
        "revoked": revoked,
    }


async def test_no_route_answers_a_bad_key_and_all_bad_keys_look_alike(home: Home, service: DeployService) -> None:
    clock = ShiftedClock()
    async with open_door(home, service, clock=clock) as door:
        keys = await bad_keys(door, clock)
        answers = {
            (route.method, route.path, kind): await knock(door, route, key)
            for route in KEYED
            for kind, key in keys.items()
        }

    assert {answer.status for answer in answers.values()} == {401}
    assert len({answer.content for answer in answers.values()}) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers.values()} == {'Bearer realm="action-gateway"'}
    assert {answer.headers["x-should-retry"] for answer in answers.values()} == {"false"}


async def test_a_good_key_in_another_form_is_none(door: Door) -> None:
    for form in ("Basic {}", "bearer  {}", "Bearer\t{}", "Token {}", "{}", "Bearer {} x"):
        given = {"Authorization": form.format(door.home.caller_key)}
        assert (await door.call("GET", "/v1/actions", key="", headers=given)).status == 401


async def test_open_routes_need_no_key_and_mind_no_wrong_one(door: Door) -> None:
    opened = [route for route in ROUTES if route.open]

    for route in opened:
        assert (await knock(door, route, "")).status == 200
        assert (await knock(door, route, "gwk_wrong")).status == 200
    assert {route.path for route in opened} == {"/healthz", "/readyz", "/openapi.json", "/docs"}


async def test_a_callers_key_opens_no_route_for_people_whatever_it_sends(door: Door) -> None:
    assert {route.path for route in PEOPLE_ONLY} == {
        "/v1/keys",
        "/v1/keys/{id}",
        "/v1/credentials",
        "/v1/credentials/{name}",
        "/v1/operations/{id}/attest",
        "/v1/hosts/{name}/keys",
        "/v1/hosts/{name}/enroll",
        "/v1/hosts/{name}/check",
        "/v1/hosts/{name}/operations",
        "/v1/hosts/{name}/locks/{lock}",
        "/v1/hosts/{name}/fence",
        "/v1/hosts/{name}/unlock",
        "/v1/hosts/{name}/collect",
        "/v1/subjects/shred",
        "/v1/audit/rotate-keys",
    }
    for route in PEOPLE_ONLY:
        if route.path.endswith("/attest"):
            body = {"outcome": "success", "executed": "yes", "reason": "seen", "digest": "0" * 64}
            answer = await door.call("POST", place(route), body=body)
        else:
            answer = await knock(door, route, door.home.caller_key)
        assert (answer.status, answer.document["code"]) == (403, "forbidden"), route.path
    keys = await door.call("GET", "/v1/keys", key=door.home.person_key)
    assert sorted(line["name"] for line in keys.document["keys"]) == ["agent-a", "agent-b", "operator"]


async def test_a_persons_key_does_not_act_as_an_agent(door: Door, service: DeployService) -> None:
    answer = await door.submit("deploy", key=door.home.person_key)

    assert (answer.status, answer.document["code"]) == (403, "forbidden")
    assert not service.ledger.entries


async def test_every_route_that_needs_a_key_answers_a_good_one(door: Door) -> None:
    for route in KEYED:
        if route.path == "/v1/events":
            continue
        answer = await knock(door, route, door.home.person_key)
        assert answer.status not in {401, 429, 500}, route.path
        assert answer.status in {*route.answers, *route.statuses}, (route.path, answer.document)
