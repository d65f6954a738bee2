"""Every kind of mistake in a catalog: the file, the line, a plain sentence and a hint."""

import pytest

from gateway.catalog.lint import check
from tests.unit.catalog.examples import BASE, FILE, MARK, changed, checked, marked_line, mistakes

H = MARK
REQUEST = "      method: POST\n      path: /things\n"
BODY = '      body: {name: "{name}", note: "{note}", size: "{size}"}\n'
BIND = "    bind: {in: header, name: Idempotency-Key}\n"
REJECTED = "    rejected: {any_attempt: 409}\n"
IDENTIFY = '      identify: {path: key, equals: "{operation_id}"}\n'
LOOK = '      request: {method: GET, path: "/things/{operation_id}"}\n'
RULE = "        - {status: 200, path: state, equals: done, finding: executed_ok}\n"
ABSENT = "        - {status: 404, finding: absent}\n"
SETTLE = "      absence: {settle: 30s}\n"
CONFLICT = '    conflict_key: "thing:{name}"\n'
SERVICE = "  api: {base_url: https://api.example.com/v1}\n"
EFFECT = "    effect: irreversible\n"
NAME = "        name: {type: string}\n"
RECONCILE = "    reconcile:\n" + LOOK + IDENTIFY + "      rules:\n" + RULE + ABSENT + SETTLE
FENCE = (
    '      absence: {fence: {request: {method: PUT, path: "/things/{operation_id}"}, won: 201, lost: 409}}\n'
    f"    attempts_max: 3 {H}\n"
)

FORM = [
    # unknown, missing and misplaced fields
    (EFFECT, f"    efect: irreversible {H}\n", "no field “efect”", "Did you mean “effect”"),
    (SERVICE, f"  api: {{base_url: https://api.example.com/v1, limit: 3}} {H}\n", "no field “limit”", "“limits”"),
    (IDENTIFY, f"      identify: {{path: key, equal: x}} {H}\n", "no field “equal”", "Did you mean “equals”"),
    (RULE, f"        - {{status: 200, finding: executed_ok, fnding: x}} {H}\n", "no field “fnding”", "“finding”"),
    (SETTLE, f"      absence: {{setle: 30s}} {H}\n", "no field “setle”", "Did you mean “settle”"),
    ("services:\n", f"servces: {{}} {H}\nservices:\n", "no field “servces”", "Did you mean “services”"),
    ("    service: api\n", f"    service: api\n    zzz: 1 {H}\n", "no field “zzz”", "Known here: accepted"),
    (EFFECT, "", "“effect” is missing", "read, reversible or irreversible"),
    (IDENTIFY, f"      identify: {{path: key}} {H}\n", "“equals” is missing", "Add it"),
    # parts that do not exist yet
    ("    service: api\n", f"    service: api\n    host: web-1 {H}\n", "“host” arrives with SSH actions", "Remove it"),
    ("services:\n", f"hosts: {{}} {H}\nservices:\n", "“hosts” arrives with SSH actions", "Remove it"),
    (BIND, f"{BIND}    command: [ls] {H}\n", "“command” arrives with SSH actions", "Remove it"),
    (BIND, f"{BIND}    marker: runner {H}\n", "“marker” arrives with SSH actions", "Remove it"),
    (BIND, f"{BIND}    lock: x {H}\n", "“lock” arrives with SSH actions", "Remove it"),
    (BIND, f"{BIND}    steps: [] {H}\n", "“steps” arrives with SSH actions", "Remove it"),
    (BIND, f"{BIND}    approval: {{required: true}} {H}\n", "“approval” arrives with approvals", "Remove it"),
    (BIND, f"{BIND}    preview: {{}} {H}\n", "“preview” arrives with approvals", "Remove it"),
    (BIND, f"{BIND}    ask: x {H}\n", "“ask” arrives with approvals", "Remove it"),
    (BIND, f"{BIND}    use: stripe/refunds {H}\n", "“use” arrives with recipes", "Remove it"),
    (LOOK, f"      command: [status] {H}\n{LOOK}", "“command” arrives with SSH actions", "Remove it"),
    (
        BIND,
        f"{BIND}    precondition: {{header: If-Match, from: preview.etag}} {H}\n",
        "arrives with approvals",
        "argument",
    ),
    # types and values
    (EFFECT, f"    effect: irreversable {H}\n", "must be one of: read", "Did you mean “irreversible”"),
    (EFFECT, f"    effect: 5 {H}\n", "must be one of: read", ""),
    ("      method: POST\n", f"      method: post {H}\n", "must be one of: GET", ""),
    ("Create a thing.", f"7 {H}", "must be text", "Quote it"),
    ("Create a thing.", f'"" {H}', "must not be empty", "Write something"),
    (REJECTED, f"{REJECTED}    attempts_max: 0 {H}\n", "at least 1", ""),
    (REJECTED, f'{REJECTED}    attempts_max: "3" {H}\n', "a whole number", ""),
    (SERVICE, f"  api: {{base_url: https://a.example, allow_private: 1}} {H}\n", "true or false", ""),
    (SETTLE, f"      absence: {{settle: 30}} {H}\n", "whole number with a unit", "10s, 5m"),
    (SETTLE, f"      absence: {{settle: 30 sec}} {H}\n", "whole number with a unit", "10s, 5m"),
    (SETTLE, f"      absence: never {H}\n", "must be one of: none", ""),
    (RULE, f"        - {{status: 2x, finding: executed_ok}} {H}\n", "no HTTP status", "2xx"),
    (RULE, f"        - {{status: 600, finding: executed_ok}} {H}\n", "no HTTP status", "2xx"),
    (RULE, f"        - {{status: 299-200, finding: executed_ok}} {H}\n", "no HTTP status", "2xx"),
    (RULE, f"        - {{status: [], finding: executed_ok}} {H}\n", "no HTTP status", "2xx"),
    (RULE, f"        - {{status: 200, path: a, finding: done}} {H}\n", "must be one of: executed_ok", ""),
    (RULE, f"        - {{finding: executed_ok}} {H}\n", "would match every answer", "Give a “status”"),
    (RULE, f"        - {{status: 200, equals: 1, finding: executed_ok}} {H}\n", "need a “path”", "Say what"),
    (RULE, f"        - {{path: a, equals: 1, in: [1], finding: executed_ok}} {H}\n", "not both", "“in” with one"),
    (RULE, f"        - {{path: a, header: b, finding: executed_ok}} {H}\n", "not at both", "Write two rules"),
    (RULE, f"        - {{path: a, in: [], finding: executed_ok}} {H}\n", "at least 1 entry", ""),
    (RULE, f'        - {{path: a, finding: executed_ok, executed: "no"}} {H}\n', "only refines", "Remove it"),
    (BIND, f"    bind: {{in: header}} {H}\n", "needs a “name”", "Name the header"),
    (BIND, f"    bind: {{in: path, name: x}} {H}\n", "has no name", "Remove “name”"),
    (BIND, f"    bind: {{in: cookie, name: x}} {H}\n", "must be one of: header", ""),
    (BIND, f"    bind: {{in: header, name: X-Id, window: {{min: 24h}}}} {H}\n", "“margin” is missing", "1h"),
    (BIND, f"{BIND}    accepted: {{handle: url}} {H}\n", "“rules” is missing", "without rules"),
    (BIND, f"{BIND}    accepted: {{handle: url, rules: []}} {H}\n", "at least 1 entry", ""),
    (BIND, f"{BIND}    accepted: {{rules: []}} {H}\n", "“handle” is missing", "Location"),
    (
        BIND,
        f"{BIND}    rate_limit: {{signals: 429, wait: {{header: a, path: b}}}} {H}\n",
        "either a “header”",
        "One of",
    ),
    (BIND, f"{BIND}    unknown_accepted: true {H}\n", "go together", "Say why"),
    (BIND, f"{BIND}    output: {{max_bytes: 1}} {H}\n", "at least 256", ""),
    ("  things.create:\n", f"  things create: {H}\n", "A name has up to 100", "deployments.create"),
    ("    input:\n", f"    input: 5 {H}\n    output:\n", "mapping of names", ""),
]

RULES = [
    # services
    (SERVICE, f"  api: {{base_url: http://api.example.com}} {H}\n", "Without TLS", "Use https"),
    (SERVICE, f"  api: {{base_url: ftp://api.example.com}} {H}\n", "no address of a service", "https://host"),
    (SERVICE, f"  api: {{base_url: api.example.com}} {H}\n", "no address of a service", "https://host"),
    (SERVICE, f"  api: {{base_url: 'https://[::1'}} {H}\n", "no address of a service", "https://host"),
    (SERVICE, f"  api: {{base_url: 'https://u:p@api.example.com'}} {H}\n", "A name or password", "“credential”"),
    (SERVICE, f"  api: {{base_url: 'https://api.example.com/?a=b'}} {H}\n", "query or fragment", "action"),
    (SERVICE, f"  api: {{base_url: 'https://{{host}}.example.com'}} {H}\n", "placeholder", "one service per host"),
    (SERVICE, f"  api: {{base_url: 'https://api.example.com/a/../b'}} {H}\n", "not plain", "“..”"),
    (SERVICE, f"  api: {{base_url: https://127.0.0.1:8443}} {H}\n", "private", "allow_private"),
    (SERVICE, f"  api: {{base_url: http://localhost:80}} {H}\n", "private", "allow_private"),
    (SERVICE, f"  api: {{base_url: https://10.0.0.8}} {H}\n", "private", "allow_private"),
    (SERVICE, f"  api: {{base_url: https://a.example, proxy: 'http://u:p@p:1'}} {H}\n", "proxy", "without a password"),
    (SERVICE, f"  api: {{base_url: https://a.example, credential: a b}} {H}\n", "A name has up to", "example"),
    ("    service: api\n", f"    service: ap {H}\n", "no service “ap”", "Did you mean “api”"),
    # requests
    ("path: /things\n", f"path: things {H}\n", "does not start with “/”", "base_url"),
    ("path: /things\n", f"path: /things?a=b {H}\n", "query or fragment", "under “query”"),
    ("path: /things\n", f'path: "/things/{{+name}}" {H}\n', "belongs to no placeholder", "{name}"),
    ("path: /things\n", f'path: "/things/{{name" {H}\n', "belongs to no placeholder", "{name}"),
    ("path: /things\n", f"path: /a b {H}\n", "percent-encoded", "%XX"),
    ("path: /things\n", f"path: /a/../b {H}\n", "“.” or “..”", "plain path"),
    ("path: /things\n", f"path: /a/%2E%2e/b {H}\n", "“.” or “..”", "plain path"),
    ("path: /things\n", f"path: /a//b {H}\n", "empty part", "plain path"),
    ("path: /things\n", f'path: "/things/{{nme}}" {H}\n', "“{nme}” names no argument", "Did you mean “name”"),
    ("path: /things\n", f'path: "/things/{{note}}" {H}\n', "“{note}” may be absent", "“required”"),
    ("path: /things\n", f'path: "/things/{{run}}" {H}\n', "“{run}” may be absent", "{operation_id}"),
    ("path: /things\n", f"path: /things\n      opaque: [name] {H}\n", "no placeholder of the path", ""),
    (BODY, f'      body: {{name: "{{naem}}"}} {H}\n', "“{naem}” names no argument", "{{naem}}"),
    (BODY, f'      body: {{name: "a {{size}}"}} {H}\n', "“size” does not fit into a text", "stand alone"),
    (BODY, f'      body: {{"{{name}}": 1}} {H}\n', "cannot stand in a name", "Only values"),
    (BODY, f'{BODY}      query: {{q: "{{nope}}"}} {H}\n', "“{nope}” names no argument", "{{nope}}"),
    (BODY, f'{BODY}      headers: {{X-Run: "{{runn}}"}} {H}\n', "“{runn}” names no argument", "“run”"),
    (BODY, f"{BODY}      headers: {{X Y: a}} {H}\n", "no name of a header", "Letters"),
    (BODY, f"{BODY}      headers: {{Host: a}} {H}\n", "The gateway sets “Host” itself", "Remove it"),
    (BODY, f"{BODY}      headers: {{Authorization: Bearer x}} {H}\n", "sets “Authorization” itself", "“credential”"),
    (BODY, f"{BODY}      headers: {{X-A: a, x-a: b}} {H}\n", "set twice", "Remove one"),
    (BODY, f"{BODY}      headers: {{X-A: ü}} {H}\n", "visible ASCII", "Remove the others"),
    (BODY, f'{BODY}      headers: {{X-A: "a\\nb"}} {H}\n', "visible ASCII", "Remove the others"),
    (BODY, f"{BODY}      headers: {{Content-Type: text/xml}} {H}\n", "sent as JSON", "application/json"),
    (BODY, f"{BODY}      headers: {{Idempotency-Key: x}}\n#\n", "sets this header already", "Remove it"),
    (
        LOOK,
        f'      request: {{method: GET, path: "/t/{{operation_id}}", body: {{}}}} {H}\n',
        "GET request has no body",
        "query",
    ),
    (BIND, f"    bind: {{in: header, name: Host}} {H}\n", "sets “Host” itself", "Remove it"),
    (BIND, f"    bind: {{in: header, name: 'X Y'}} {H}\n", "no name of a header", "Letters"),
    (BIND, f"{BIND}    precondition: {{header: If-Match, from: note}} {H}\n", "no required argument", "unconditional"),
    # values
    (RULE, f'        - {{path: a, equals: "{{x}}", finding: executed_ok}} {H}\n', "“{x}” names no argument", ""),
    (RULE, f"        - {{header: a b, finding: executed_ok}} {H}\n", "no name of a header", "X-Rate"),
    (RULE, f'        - {{path: "a[", finding: executed_ok}} {H}\n', "no JMESPath", "items[0]"),
    (IDENTIFY, f'      identify: {{path: "a[", equals: "{{operation_id}}"}} {H}\n', "no JMESPath", "data.id"),
    (BIND, f'{BIND}    output: {{select: "{{a"}} {H}\n', "no JMESPath", "data.id"),
    (BIND, f"{BIND}    output: {{redact: [a.b]}} {H}\n", "no name of a member", "wherever"),
    (BIND, f"{BIND}    output: {{personal: [a, a]}} {H}\n", "“a” is listed twice", "Remove one"),
    (CONFLICT, f'    conflict_key: "thing:{{nam}}" {H}\n', "“{nam}” names no argument", "Did you mean “name”"),
    (CONFLICT, f'    conflict_key: "thing:{{note}}" {H}\n', "“note” is optional", "share a key"),
    (CONFLICT, f'    conflict_key: "t:{{operation_id}}" {H}\n', "differs in every operation", "arguments"),
    (SETTLE, f'      compare: {{note: "{{note}}"}} {H}\n{SETTLE}', "“note” is optional", "required arguments"),
    # schemas
    (NAME, f'        name: {{$ref: "https://evil.example/s.json"}} {H}\n', "another document", "$defs"),
    (NAME, f"        name: {{$ref: other.json}} {H}\n", "another document", "$defs"),
    (NAME, f"        name: {{type: strin}} {H}\n", "no valid JSON Schema", "Check keywords"),
    (NAME, f'        name: {{type: string, pattern: "("}} {H}\n', "no valid JSON Schema", "patterns"),
    (NAME, f"        run: {{type: string}} {H}\n{NAME}", "“run” is a variable of the gateway", "something else"),
    (
        "      required: [name]\n",
        f"      required: [name, nme] {H}\n",
        "“nme” is required and not declared",
        "properties",
    ),
    ("    input:\n      type: object\n", f"    input: {H}\n", "Arguments are an object", "type: object"),
    (BIND, f"{BIND}    output: {{schema: {{type: objekt}}}} {H}\n", "no valid JSON Schema", "types"),
    # promises
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
    (EFFECT, "    effect: read\n#\n", "belongs to actions that change something", "declare the effect"),
    # the environment
    ("path: /things\n", f"path: /things/${{HOME}} {H}\n", "environment is not read", "vault"),
    (SERVICE, f"  api: {{base_url: 'https://${{HOST}}'}} {H}\n", "environment is not read", "vault"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), FORM + RULES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    text = changed((old, new))
    found = [mistake for mistake in mistakes(text) if words in mistake.detail]
    assert found, [str(mistake) for mistake in mistakes(text)]
    assert found[0].file == FILE
    assert hint in found[0].hint
    assert not found[0].warning
    assert checked(text).catalog is None
    if MARK in text:
        assert marked_line(text) in {mistake.line for mistake in found}


WINDOW = "    bind: {in: header, name: X-Id, window: {min: 24h, margin: 1h}}\n"
WARNINGS = [
    ("      additionalProperties: false\n", "", "pass unnoticed", "additionalProperties: false"),
    (REJECTED, "", "what a 409 of this service means", "“rejected”"),
    (BIND, WINDOW + "    resend: same_key\n", "never be sent again", "same_outcome"),
    (SETTLE, "", "What evidence remains", "never conclusive"),
    (BIND, BIND + "    unknown_accepted: true\n    reason: no need\n", "not needed", "Remove it"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), WARNINGS)
def test_each_warning_is_told_and_does_not_stand_in_the_way(old: str, new: str, words: str, hint: str) -> None:
    result = checked(changed((old, new)))
    found = [mistake for mistake in result.mistakes if words in mistake.detail]
    assert found, [str(mistake) for mistake in result.mistakes]
    assert found[0].warning
    assert hint in found[0].hint
    assert result.catalog is not None


def test_the_example_itself_has_no_mistake() -> None:
    assert [str(mistake) for mistake in mistakes(BASE)] == []


def test_success_by_state_needs_a_conflict_key() -> None:
    text = changed((IDENTIFY, "      identify: state\n"), (CONFLICT, ""))
    assert any("“identify: state” needs a “conflict_key”" in mistake.detail for mistake in mistakes(text))
    assert mistakes(changed((IDENTIFY, "      identify: state\n"))) == ()


def test_missing_identify_is_refused_where_a_rule_finds_more_than_absence() -> None:
    assert any("“identify” is missing" in mistake.detail for mistake in mistakes(changed((IDENTIFY, ""))))


def test_an_irreversible_action_without_any_answer_is_refused_unless_its_owner_accepts() -> None:
    bare = changed((BIND, ""), (RECONCILE, ""))
    refused = [mistake for mistake in mistakes(bare) if not mistake.warning]
    assert ["could never be known" in mistake.detail for mistake in refused] == [True]
    accepted = bare + "    unknown_accepted: true\n    reason: a newsletter may be lost\n"
    result = checked(accepted)
    assert result.catalog is not None
    assert result.catalog.actions["things.create"].unknown_accepted == "a newsletter may be lost"
    assert checked(bare.replace("irreversible", "reversible")).catalog is not None


def test_exists_without_a_look_up_is_refused() -> None:
    text = changed((RECONCILE, ""), (REJECTED, "    exists: 409\n"))
    assert any("leads to a look-up" in mistake.detail for mistake in mistakes(text))


def test_a_fence_that_tells_itself_apart_passes() -> None:
    fenced = f"{ABSENT}        - {{status: 200, path: fence, finding: fenced}}\n"
    text = changed((ABSENT, fenced), (SETTLE, FENCE.replace(f" {MARK}", "")))
    assert mistakes(text) == ()


def test_mistakes_of_all_files_are_told_at_once() -> None:
    first = changed((EFFECT, "    effect: nope\n")).encode()
    second = b"actions: {b: 5, c: {effect: read}}\n"
    third = b"actions:\n\tb: 1\n"
    result = check({"a.yaml": first, "b.yaml": second, "c.yaml": third})
    assert {mistake.file for mistake in result.mistakes} == {"a.yaml", "b.yaml", "c.yaml"}
    assert len([mistake for mistake in result.mistakes if mistake.file == "b.yaml"]) > 3


def test_the_same_name_in_two_files_is_refused_and_both_places_are_named() -> None:
    result = check({"a.yaml": BASE.encode(), "b.yaml": BASE.encode()})
    told = [str(mistake) for mistake in result.mistakes]
    assert any("b.yaml:4:3: “things.create” is declared already, in a.yaml on line 4." in line for line in told)
    assert any("b.yaml:2:3: “api” is declared already" in line for line in told)


def test_a_service_in_an_unreadable_file_is_not_reported_as_missing() -> None:
    lines = BASE.splitlines(keepends=True)
    actions = "".join(lines[2:])
    result = check({"services.yaml": b"services: {api: &x}\n", "actions.yaml": actions.encode()})
    assert not any("no service" in mistake.detail for mistake in result.mistakes)
    assert check({"services.yaml": "".join(lines[:2]).encode(), "actions.yaml": actions.encode()}).catalog is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "A catalog file is a mapping"),
        ("services: [a]\n", "“services” is a mapping"),
        ("actions: 5\n", "“actions” is a mapping"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, words: str) -> None:
    assert any(words in mistake.detail for mistake in mistakes(text))


def test_empty_files_declare_nothing() -> None:
    result = check({"a.yaml": b"", "b.yaml": b"# nothing\n", "c.yaml": b"services:\nactions:\n"})
    assert result.mistakes == ()
    assert result.catalog is not None
    assert dict(result.catalog.actions) == {}
