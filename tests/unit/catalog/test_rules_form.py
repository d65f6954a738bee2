"""Values that are not well formed: comparisons, expressions, schemas, names of members."""

import pytest

from tests.unit.catalog.examples import BIND, CONFLICT, IDENTIFY, NAME, RULE, SETTLE, H, assert_told, assert_warned

MISTAKES = [
    (CONFLICT, f'    conflict_key: "{{list}}" {H}\n', "“list” does not fit into a text", "plain argument"),
    (RULE, f"        - {{header: a b, finding: executed_ok}} {H}\n", "no name of a header", "X-Rate"),
    (RULE, f'        - {{path: "a[", finding: executed_ok}} {H}\n', "no JMESPath", "items[0]"),
    (IDENTIFY, f'      identify: {{path: "a[", equals: "{{operation_id}}"}} {H}\n', "no JMESPath", "data.id"),
    (BIND, f'{BIND}    output: {{select: "{{a"}} {H}\n', "no JMESPath", "data.id"),
    (BIND, f"{BIND}    output: {{redact: [a.b]}} {H}\n", "no name of a member", "wherever"),
    (BIND, f"{BIND}    output: {{personal: [a, a]}} {H}\n", "“a” is listed twice", "Remove one"),
    (CONFLICT, f'    conflict_key: "thing:{{note}}" {H}\n', "“note” is optional", "share a key"),
    (CONFLICT, f'    conflict_key: "t:{{operation_id}}" {H}\n', "differs in every operation", "arguments"),
    (SETTLE, f'      compare: {{note: "{{note}}"}} {H}\n{SETTLE}', "“note” is optional", "required arguments"),
    (NAME, f'        name: {{$ref: "https://evil.example/s.json"}} {H}\n', "another document", "$defs"),
    (NAME, f"        name: {{$ref: other.json}} {H}\n", "another document", "$defs"),
    (NAME, f"        name: {{type: strin}} {H}\n", "no valid JSON Schema", "Check keywords"),
    (NAME, f"        name: {{type: {{}}}} {H}\n", "no valid JSON Schema", "types"),
    (NAME, f"        name: {{type: [string, [x]]}} {H}\n", "no valid JSON Schema", "types"),
    (NAME, f'        name: {{type: string, pattern: "("}} {H}\n', "no valid JSON Schema", "patterns"),
    (NAME, f"        run: {{type: string}} {H}\n{NAME}", "“run” is a variable of the gateway", "something else"),
    (
        "      required: [name, list]\n",
        f"      required: [name, nme] {H}\n",
        "“nme” is required and not declared",
        "properties",
    ),
    ("    input:\n      type: object\n", f"    input: {H}\n", "Arguments are an object", "type: object"),
    (BIND, f"{BIND}    output: {{schema: {{type: objekt}}}} {H}\n", "no valid JSON Schema", "types"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)


def test_undeclared_arguments_that_would_pass_are_a_warning() -> None:
    assert_warned("      additionalProperties: false\n", "", "pass unnoticed", "additionalProperties: false")
