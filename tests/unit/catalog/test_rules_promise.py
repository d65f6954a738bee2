"""Promises that do not hold together."""

import pytest

from tests.unit.catalog.examples import (
    ABSENT,
    BIND,
    BODY,
    CONFLICT,
    EFFECT,
    FENCE,
    IDENTIFY,
    LOOK,
    MARK,
    RECONCILE,
    REJECTED,
    REQUEST,
    RULE,
    SETTLE,
    H,
    assert_told,
    assert_warned,
    changed,
    mistakes,
)

CONTROL_PUT = "      positive_control: {request: {method: DELETE, path: /health}, status: 200}"
DONE = "{status: 200, path: state, finding: executed_ok}"

READ = """\
services:
  api: {base_url: https://api.example.com/v1}
actions:
  things.list:
    description: List things.
    effect: read
    service: api
    input: {type: object, additionalProperties: false}
    request: {method: GET, path: /things}
"""

MISTAKES = [
    (BIND, f"    bind: {{in: path}} {H}\n", "path of the request does not hold", "{operation_id}"),
    (BIND, f"    bind: {{in: header, name: X-Id, max: 20}} {H}\n", "has 29 characters", "hex"),
    (BIND, f'    bind: {{in: header, name: X-Id, charset: "a-z0-9"}} {H}\n', "other characters", "hex"),
    (BIND, f'    bind: {{in: header, name: X-Id, charset: "z-a"}} {H}\n', "no list of characters", "a-z0-9_-"),
    (BIND, f"    bind: {{in: body, name: a..b}} {H}\n", "no member of the body", "outer.inner"),
    (BIND, f"    bind: {{in: none, window: {{min: 24h, margin: 1h}}}} {H}\n", "no value for the service", "travels"),
    (
        BIND,
        f"    bind: {{in: header, name: X-Id, window: {{min: 24h, margin: 10s}}}} {H}\n",
        "margin does not exceed",
        "raise",
    ),
    (
        BIND,
        f"    bind: {{in: header, name: X-Id, window: {{min: 1h, margin: 1h}}}} {H}\n",
        "not longer than",
        "Nothing",
    ),
    (BIND, f"{BIND}    resend: same_key {H}\n", "Nobody promises how long", "bind.window"),
    (BIND, f"    resend: same_key {H}\n", "needs a key", "second effect"),
    (BIND, f"    replay_after_5xx: same_outcome {H}\n", "nothing to replay", "bind"),
    (SETTLE, f"    resend: on_absence {H}\n", "absence becomes conclusive", "settle"),
    (SETTLE, FENCE.replace("attempts_max: 3", "resend: on_absence"), "cannot follow a fence", "for good"),
    (
        SETTLE,
        f"      absence: {{fence: {{request: {{method: PUT, path: /x}}, won: 201, lost: 409}}}} {H}\n",
        "not name the operation",
        "{operation_id}",
    ),
    (
        SETTLE,
        f'      absence: {{fence: {{request: {{method: GET, path: "/{{operation_id}}"}}, won: 201, lost: 409}}}} {H}\n',
        "must occupy",
        "creates",
    ),
    (
        SETTLE,
        f'      absence: {{fence: {{request: {{method: PUT, path: "/{{operation_id}}"}}, won: 201, lost: 409}}}} {H}\n',
        "tells our fence",
        "fenced",
    ),
    (SETTLE, f"      absence: {{settle: 5s}} {H}\n", "shorter than the request deadline", "lag"),
    (SETTLE, f"      absence: {{settle: 5m}} {H}\n", "do not fit into the recovery deadline", "Raise"),
    (ABSENT + SETTLE, f"      absence: {{settle: 30s}} {H}\n", "ever finds the operation absent", "404"),
    (RULE + ABSENT, "        - {status: 404, finding: inconclusive}\n#\n", "ever settle the outcome", "executed_ok"),
    (
        LOOK,
        f'      request: {{method: GET, path: "/things/{{operation_uuid}}"}} {H}\n',
        "never saw “{operation_uuid}”",
        "same format",
    ),
    (
        IDENTIFY,
        f'      identify: {{path: key, equals: "{{operation_hex}}"}} {H}\n',
        "never saw “{operation_hex}”",
        "same format",
    ),
    (
        IDENTIFY,
        f'      identify: {{path: name, equals: "{{name}}"}} {H}\n',
        "another one with the same arguments",
        "{operation_id}",
    ),
    (IDENTIFY, f"      identify: {{path: name, equals: fixed}} {H}\n", "another one with the same arguments", "state"),
    (SETTLE, f"{SETTLE}      interval: 0s {H}\n", "Two looks need time", "1s"),
    (BIND, f"{BIND}    refused_before_work: 2xx {H}\n", "no refusal", "“path”"),
    (REJECTED, f"    rejected: {{first_attempt: [409, 200]}} {H}\n", "no refusal", "“path”"),
    (BIND, f"{BIND}    deadlines: {{connect: 20s}} {H}\n", "longer than the whole request", "counts from"),
    (BIND, f"{BIND}    deadlines: {{request: 10m}} {H}\n", "recovery deadline does not exceed", "after it"),
    (BIND, f"{BIND}    deadlines: {{start: 0s}} {H}\n", "lets nothing happen", "10s"),
    (BIND, f"{BIND}    reads: {{consistency: eventual}} {H}\n", "describes actions of effect read", "Remove"),
    (
        BIND,
        f"{BIND}    accepted: {{handle: u, rules: [{{status: 500, finding: inconclusive}}]}} {H}\n",
        "ever settle",
        "executed_ok",
    ),
    (BIND, f"{BIND}    accepted: {{handle: u, interval: 0s, rules: [{DONE}]}} {H}\n", "Two looks need time", "1s"),
    (BIND, f"{BIND}    success: {{path: ok}} {H}\n", "Success needs a status", "2xx"),
    (SETTLE, f"{SETTLE}      interval: 99ms {H}\n", "Two looks need time", "100ms"),
    (LOOK, f'      request: {{method: PUT, path: "/things/{{operation_id}}"}} {H}\n', "must change nothing", "GET"),
    (SETTLE, f"{SETTLE}{CONTROL_PUT} {H}\n", "must change nothing", "GET"),
    (EFFECT, "    effect: read\n#\n", "belongs to actions that change something", "declare the effect"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)


WINDOW = "    bind: {in: header, name: X-Id, window: {min: 24h, margin: 1h}}\n"
CONTROL = "      positive_control: {request: {method: GET, path: /health}, status: 200}\n"
WARNINGS = [
    (ABSENT + SETTLE, CONTROL, "Only absence needs a positive control", "Remove it"),
    (REJECTED, "", "what a 409 of this service means", "“rejected”"),
    (BIND, WINDOW + "    resend: same_key\n", "never be sent again", "same_outcome"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), WARNINGS)
def test_each_warning_is_told_and_does_not_stand_in_the_way(old: str, new: str, words: str, hint: str) -> None:
    assert_warned(old, new, words, hint)


def test_success_by_state_needs_a_conflict_key() -> None:
    text = changed((IDENTIFY, "      identify: state\n"), (CONFLICT, ""))
    assert any("“identify: state” needs a “conflict_key”" in mistake.detail for mistake in mistakes(text))
    assert mistakes(changed((IDENTIFY, "      identify: state\n"))) == ()


def test_missing_identify_is_refused_where_a_rule_finds_more_than_absence() -> None:
    assert any("“identify” is missing" in mistake.detail for mistake in mistakes(changed((IDENTIFY, ""))))


def test_exists_without_a_look_up_is_refused() -> None:
    text = changed((RECONCILE, ""), (REJECTED, "    exists: 409\n"))
    assert any("leads to a look-up" in mistake.detail for mistake in mistakes(text))


def test_a_fence_that_tells_itself_apart_passes() -> None:
    fenced = f"{ABSENT}        - {{status: 200, path: fence, finding: fenced}}\n"
    text = changed((ABSENT, fenced), (SETTLE, FENCE.replace(f" {MARK}", "")))
    assert mistakes(text) == ()


def test_a_read_needs_no_promises() -> None:
    assert mistakes(READ) == ()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("resend: same_key", "repeated whatever “resend” says"),
        ("bind: {in: header, name: X-Id}", "“bind” belongs to actions that change something"),
        ("conflict_key: all", "“conflict_key” belongs"),
        ("exists: 409", "“exists” belongs"),
        ("unknown_accepted: true\n    reason: none", "“unknown_accepted” belongs"),
    ],
)
def test_promises_about_repeats_are_refused_for_a_read(field: str, words: str) -> None:
    found = [mistake for mistake in mistakes(f"{READ}    {field}\n") if words in mistake.detail]
    assert [(mistake.line, mistake.warning) for mistake in found] == [(10, False)]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_read_by_a_method_that_changes_things_is_a_warning(method: str) -> None:
    found = mistakes(READ.replace("GET", method))
    assert [mistake.warning for mistake in found] == [True]
    assert "changes things" in found[0].detail
    assert mistakes(READ.replace("GET", "POST")) == ()


@pytest.mark.parametrize(
    ("request_form", "words"),
    [
        ('{method: GET, path: "/things/{name}"}', "GET request has no body"),
        ("{method: POST, path: /things, body: [1]}", "no object that could hold"),
    ],
)
def test_a_value_in_the_body_needs_a_body_that_can_hold_it(request_form: str, words: str) -> None:
    text = changed(
        ("    request:\n" + REQUEST + BODY, f"    request: {request_form}\n"),
        (BIND, "    bind: {in: body, name: op}\n"),
    )
    assert any(words in mistake.detail and mistake.line == 18 for mistake in mistakes(text))


@pytest.mark.parametrize(
    ("path", "bind"),
    [
        ("/things/{operation_id}", "{in: path}"),
        ("/things/{operation_uuid}/{operation_id}", "{in: path, format: uuid}"),
        ("/things", "{in: body, name: meta.op, max: 29, charset: a-z0-9_}"),
        ("/things", "{in: query, name: token, format: op}"),
    ],
)
def test_a_value_that_fits_its_place_passes(path: str, bind: str) -> None:
    text = changed((REQUEST, f'      method: POST\n      path: "{path}"\n'), (BIND, f"    bind: {bind}\n"))
    assert mistakes(text) == ()
