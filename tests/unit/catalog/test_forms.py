"""Fields that are unknown, missing, of another type, or of a part that does not exist yet."""

import pytest

from tests.unit.catalog.examples import BIND, EFFECT, IDENTIFY, LOOK, REJECTED, RULE, SERVICE, SETTLE, H, assert_told

MISTAKES = [
    (EFFECT, f"    efect: irreversible {H}\n", "no field “efect”", "Did you mean “effect”"),
    (SERVICE, f"  api: {{base_url: https://api.example.com/v1, limit: 3}} {H}\n", "no field “limit”", "“limits”"),
    (IDENTIFY, f"      identify: {{path: key, equal: x}} {H}\n", "no field “equal”", "Did you mean “equals”"),
    (RULE, f"        - {{status: 200, finding: executed_ok, fnding: x}} {H}\n", "no field “fnding”", "“finding”"),
    (SETTLE, f"      absence: {{setle: 30s}} {H}\n", "no field “setle”", "Did you mean “settle”"),
    ("services:\n", f"servces: {{}} {H}\nservices:\n", "no field “servces”", "Did you mean “services”"),
    ("    service: api\n", f"    service: api\n    zzz: 1 {H}\n", "no field “zzz”", "Known here: accepted"),
    (EFFECT, "", "“effect” is missing", "read, reversible or irreversible"),
    (IDENTIFY, f"      identify: {{path: key}} {H}\n", "“equals” is missing", "Add it"),
    ("    service: api\n", f"    service: api\n    host: web-1 {H}\n", "no field “host”", "Known here: accepted"),
    ("services:\n", f"hosts: 5 {H}\nservices:\n", "“hosts” is a mapping", "a name and a colon"),
    (BIND, f"{BIND}    marker: runner {H}\n", "no field “marker”", "Known here: accepted"),
    (BIND, f"{BIND}    steps: [] {H}\n", "no field “steps”", "Known here: accepted"),
    (BIND, f"{BIND}    approval: {{required: true}} {H}\n", "“approval” arrives with approvals", "Remove it"),
    (BIND, f"{BIND}    preview: {{}} {H}\n", "“preview” arrives with approvals", "Remove it"),
    (BIND, f"{BIND}    ask: x {H}\n", "“ask” arrives with approvals", "Remove it"),
    (BIND, f"{BIND}    use: stripe/refunds {H}\n", "“use” arrives with recipes", "Remove it"),
    (LOOK, f"      command: [status] {H}\n{LOOK}", "no field “command”", "Known here: absence"),
    (
        BIND,
        f"{BIND}    precondition: {{header: If-Match, from: preview.etag}} {H}\n",
        "arrives with approvals",
        "argument",
    ),
    (EFFECT, f"    effect: irreversable {H}\n", "must be one of: read", "Did you mean “irreversible”"),
    (EFFECT, f"    effect: 5 {H}\n", "must be one of: read", ""),
    ("Create a thing.", f"7 {H}", "must be text", "Quote it"),
    ("Create a thing.", f'"" {H}', "must not be empty", "Write something"),
    (REJECTED, f"{REJECTED}    attempts_max: 0 {H}\n", "at least 1", ""),
    (REJECTED, f'{REJECTED}    attempts_max: "3" {H}\n', "a whole number", ""),
    (SERVICE, f"  api: {{base_url: https://a.example, allow_private: 1}} {H}\n", "true or false", ""),
    (BIND, f"    bind: {{in: header}} {H}\n", "needs a “name”", "Name the header"),
    (BIND, f"    bind: {{in: path, name: x}} {H}\n", "has no name", "Remove “name”"),
    (BIND, f"    bind: {{in: cookie, name: x}} {H}\n", "must be one of: header", ""),
    (BIND, f"    bind: {{in: header, name: X-Id, window: {{min: 24h}}}} {H}\n", "“margin” is missing", "1h"),
    (BIND, f"{BIND}    unknown_accepted: true {H}\n", "go together", "Say why"),
    (BIND, f"{BIND}    unknown_accepted: fine {H}\n    reason: x\n", "can only be true", "belongs into “reason”"),
    (BIND, f"{BIND}    unknown_accepted: false {H}\n    reason: x\n", "can only be true", "Write true"),
    (BIND, f"{BIND}    output: {{max_bytes: 1}} {H}\n", "at least 256", ""),
    ("  things.create:\n", f"  things create: {H}\n", "A name has up to 100", "deployments.create"),
    ("    input:\n", f"    input: 5 {H}\n    output:\n", "mapping of names", ""),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)
