"""The form of what is said about answers."""

import pytest

from tests.unit.catalog.examples import BIND, RULE, H, assert_told

MISTAKES = [
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
    (BIND, f"{BIND}    accepted: {{handle: url}} {H}\n", "“rules” is missing", "without rules"),
    (BIND, f"{BIND}    accepted: {{handle: url, rules: []}} {H}\n", "at least 1 entry", ""),
    (BIND, f"{BIND}    accepted: {{rules: []}} {H}\n", "“handle” is missing", "Location"),
    (
        BIND,
        f"{BIND}    rate_limit: {{signals: 429, wait: {{header: a, path: b}}}} {H}\n",
        "either a “header”",
        "One of",
    ),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)
