"""Definitions: normalised, known by their digest, and read back as the very same action."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.catalog.compile import compile_definition, definition_of
from gateway.catalog.lint import check
from gateway.catalog.schema import ActionForm, ServiceForm
from gateway.catalog.starter import STARTER_CATALOG
from gateway.core.strictjson import Json, canonical
from gateway.model.action import (
    Action,
    Bind,
    BindPlace,
    Deadlines,
    Fence,
    FindingRule,
    HandleSource,
    Identify,
    IdFormat,
    Output,
    Precondition,
    Predicate,
    RateLimit,
    Reads,
    ReplayAfter5xx,
    RequestTemplate,
    Resend,
    Service,
    Settle,
)
from gateway.model.evidence import Finding
from tests.unit.catalog.examples import BASE, changed, checked, compiled

FULL = """\
services:
  api:
    base_url: https://api.example.com/v1
    credential: api-token
    limits: {concurrency: 3}
    ca_file: ca.pem
    proxy: http://proxy.example:3128
    connection: reuse
actions:
  things.put:
    description: Put a thing.
    effect: reversible
    service: api
    input:
      type: object
      properties: {id: {type: string}, etag: {type: string}, n: {type: integer}}
      required: [id, etag]
      additionalProperties: false
    request:
      method: PUT
      path: "/things/{id}"
      opaque: [id]
      query: {dry: false, n: "{n}"}
      headers: {X-Op: "{operation_uuid}"}
      body: {id: "{id}", k: null}
    precondition: {header: If-Match, from: etag}
    bind:
      {in: body, name: meta.op, format: uuid, max: 36, charset: "0-9a-f-", window: {min: 24h, margin: 1h},
       scope: region}
    success: {status: [200, 204], path: ok, equals: true}
    rejected: {first_attempt: [404, {path: code, in: [bad, worse]}], any_attempt: 400-403}
    refused_before_work: {status: 429, header: Retry-After}
    exists: 412
    in_flight: {status: 409, path: code, equals: busy}
    rate_limit: {signals: [429, {header: X-Left, equals: 0}], wait: {path: wait}}
    replay_after_5xx: same_outcome
    accepted:
      handle: {header: Location}
      path: queued
      interval: 250ms
      result: out
      rules: [{path: s, equals: null, finding: executed_ok}]
    reconcile:
      request: {method: GET, path: "/things/{id}"}
      identify: {path: op, equals: "{operation_uuid}"}
      compare: {id: "{id}"}
      positive_control: {request: {method: GET, path: /health}, status: 200}
      absence: {fence: {request: {method: POST, path: "/fence/{operation_uuid}"}, won: 201, lost: {status: 409}}}
      rules:
        - {status: 200, path: fence, finding: fenced}
        - {status: 200, path: s, equals: failed, finding: executed_failed, executed: "yes"}
        - {status: 200, finding: executed_ok}
        - {status: 404, finding: absent}
      result: thing
      interval: 2s
      watch: 1d
    resend: same_key
    attempts_max: 5
    deadlines: {connect: 1s, request: 2s, recovery: 1m, start: 2m}
    conflict_key: "thing:{id}"
    repeat_window: 1h
    output: {select: id, max_bytes: 1000, redact: [token], personal: [mail], schema: {type: string}}
  things.get:
    description: Get a thing.
    effect: read
    service: api
    input: {type: object, additionalProperties: false}
    request: {method: GET, path: /things}
    reads: {consistency: eventual, settle: 5s}
"""


def test_every_field_reaches_the_action() -> None:
    result = checked(FULL)
    assert [str(mistake) for mistake in result.mistakes if not mistake.warning] == []
    assert result.catalog is not None
    action = result.catalog.actions["things.put"]
    assert action.service == Service(
        "api", "https://api.example.com/v1", "api-token", 3, False, "ca.pem", "http://proxy.example:3128", True
    )
    assert action.request == RequestTemplate(
        "PUT",
        "/things/{id}",
        (("dry", False), ("n", "{n}")),
        (("X-Op", "{operation_uuid}"),),
        {"id": "{id}", "k": None},
        ("id",),
    )
    assert action.precondition == Precondition("If-Match", "{etag}")
    assert action.bind == Bind(BindPlace.BODY, "meta.op", IdFormat.UUID, 36, "0-9a-f-", 86_400.0, 3600.0, "region")
    assert action.success == Predicate(((200, 200), (204, 204)), None, "ok", (True,))
    assert action.rejected_first == (Predicate(((404, 404),)), Predicate(path="code", any_of=("bad", "worse")))
    assert action.rejected_any == (Predicate(((400, 403),)),)
    assert action.refused_before_work == (Predicate(((429, 429),), "Retry-After"),)
    assert action.exists == (Predicate(((412, 412),)),)
    assert action.in_flight == (Predicate(((409, 409),), None, "code", ("busy",)),)
    limit = Predicate(((429, 429),)), Predicate(header="X-Left", equals=(0,))
    assert action.rate_limit == RateLimit(limit, None, "wait")
    assert action.replay_after_5xx is ReplayAfter5xx.SAME_OUTCOME
    assert action.resend is Resend.SAME_KEY
    assert action.attempts_max == 5
    assert action.deadlines == Deadlines(1.0, 2.0, 60.0, 120.0)
    assert (action.conflict_key, action.repeat_window_seconds) == ("thing:{id}", 3600.0)
    assert action.output == Output("id", 1000, ("token",), ("mail",), {"type": "string"})
    assert result.catalog.actions["things.get"].reads == Reads("eventual", 5.0)


def test_look_ups_reach_the_action() -> None:
    action = compiled(FULL, "things.put")
    assert action.accepted is not None
    assert action.accepted.when == Predicate(((202, 202),), path="queued")
    assert action.accepted.handle == HandleSource(header="Location")
    assert action.accepted.rules == (FindingRule(Predicate(path="s", equals=(None,)), Finding.EXECUTED_OK),)
    assert (action.accepted.interval_seconds, action.accepted.result) == (0.25, "out")
    looks = action.reconcile
    assert looks is not None
    assert looks.identify == Identify("op", "{operation_uuid}")
    assert looks.compare == (("id", "{id}"),)
    assert looks.positive_control is not None
    assert looks.positive_control.when == Predicate(((200, 200),))
    fence = RequestTemplate("POST", "/fence/{operation_uuid}")
    assert looks.absence == Fence(fence, Predicate(((201, 201),)), Predicate(((409, 409),)))
    assert looks.rules[1] == FindingRule(
        Predicate(((200, 200),), path="s", equals=("failed",)), Finding.EXECUTED_FAILED, "yes"
    )
    assert (looks.result, looks.interval_seconds, looks.watch_seconds) == ("thing", 2.0, 86_400.0)


def test_what_is_left_out_takes_its_default() -> None:
    action = compiled(BASE)
    assert action.success == Predicate(((200, 299),))
    assert (action.resend, action.attempts_max) == (Resend.NEVER, 3)
    assert action.deadlines == Deadlines()
    assert (action.repeat_window_seconds, action.output) == (600.0, Output())
    assert action.reconcile is not None
    assert (action.reconcile.absence, action.reconcile.watch_seconds) == (Settle(30.0), 7 * 86_400.0)


@pytest.mark.parametrize("text", [BASE, FULL, STARTER_CATALOG])
def test_stored_definitions_come_back_identical(text: str) -> None:
    catalog = check({"c.yaml": text.encode()}).catalog
    assert catalog is not None
    for action in catalog.actions.values():
        definition = catalog.definition(action)
        assert compile_definition(definition) == action
        assert sha256(definition).hexdigest() == action.digest
        assert canonical(json.loads(definition)) == definition


def test_the_digest_covers_the_service_and_every_default() -> None:
    first = compiled(BASE).digest
    assert compiled(BASE).digest == first
    assert compiled(BASE.replace("/v1", "/v2")).digest != first
    assert compiled(BASE + "    attempts_max: 4\n").digest != first
    assert compiled(BASE + "    attempts_max: 3\n").digest == first
    assert compiled("# a comment\n" + BASE).digest == first


def test_a_null_that_is_tested_for_survives() -> None:
    action = compiled(changed(("equals: done", "equals: null")))
    assert action.reconcile is not None
    assert action.reconcile.rules[0].when.equals == (None,)


_words = st.text("abc", min_size=1, max_size=5)
_values = st.none() | st.booleans() | st.integers(-9, 9) | _words | st.lists(st.integers(0, 3), max_size=2)
_statuses = st.sampled_from([200, "2xx", "400-404", [200, 404]])
_durations = st.builds(
    lambda number, unit: f"{number}{unit}", st.integers(1, 99), st.sampled_from(["ms", "s", "m", "h", "d"])
)


def _some(**fields: st.SearchStrategy[Json]) -> st.SearchStrategy[dict[str, Json]]:
    return st.fixed_dictionaries({}, optional=fields)


_tests = _statuses | st.builds(
    lambda status, extra: {"status": status} | extra,
    _statuses,
    st.sampled_from([{}]) | st.fixed_dictionaries({"path": _words}, optional={"equals": _values}),
)
_rules = st.lists(
    st.builds(
        lambda status, finding: {"status": status, "finding": finding},
        _statuses,
        st.sampled_from(["executed_ok", "executed_failed", "absent", "in_progress"]),
    ),
    min_size=1,
    max_size=3,
)
_requests = st.fixed_dictionaries(
    {"method": st.sampled_from(["GET", "POST", "PUT"]), "path": st.just("/x")},
    optional={"query": st.dictionaries(_words, _values, max_size=2), "body": _values},
)
_actions = st.builds(
    lambda needed, extra: needed | extra,
    st.fixed_dictionaries(
        {
            "description": _words,
            "effect": st.sampled_from(["read", "reversible", "irreversible"]),
            "service": st.just("api"),
            "input": st.just({"type": "object"}),
            "request": _requests,
        }
    ),
    _some(
        success=_tests,
        exists=st.lists(_tests, min_size=1, max_size=2),
        in_flight=_tests,
        bind=st.fixed_dictionaries({"in": st.just("header"), "name": _words}, optional={"max": st.integers(29, 50)}),
        reconcile=st.fixed_dictionaries(
            {"request": _requests, "rules": _rules},
            optional={
                "identify": st.sampled_from(["state", {"path": "a", "equals": "{operation_id}"}]),
                "absence": st.sampled_from(["none", {"settle": "5s"}]),
                "compare": st.dictionaries(_words, _values, max_size=2),
                "interval": _durations,
            },
        ),
        deadlines=_some(request=_durations, recovery=_durations),
        repeat_window=_durations,
        attempts_max=st.integers(1, 20),
        output=_some(select=_words, redact=st.lists(_words, max_size=2)),
    ),
)


@given(_actions)
def test_any_action_comes_back_from_its_definition(content: dict[str, Json]) -> None:
    form = ActionForm.model_validate(content)
    definition = definition_of("a.b", form, "api", ServiceForm(base_url="https://a.example"))
    action = compile_definition(definition)
    assert isinstance(action, Action)
    stored = json.loads(definition)
    again = definition_of(
        "a.b", ActionForm.model_validate(stored["action"]), "api", ServiceForm(base_url="https://a.example")
    )
    assert again == definition
    assert compile_definition(bytes(again)) == action


@pytest.mark.parametrize("definition", [b"{}", b"[]", b'{"format": 2}', b"null"])
def test_definitions_of_another_format_are_refused(definition: bytes) -> None:
    with pytest.raises(ValueError, match="format"):
        compile_definition(definition)


def test_a_definition_with_an_unknown_field_is_refused_rather_than_half_understood() -> None:
    catalog = checked(BASE).catalog
    assert catalog is not None
    content = json.loads(catalog.definition(catalog.actions["things.create"]))
    content["action"]["later"] = True
    with pytest.raises(ValidationError):
        compile_definition(canonical(content))
