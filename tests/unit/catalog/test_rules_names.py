"""Placeholders that name nothing, or whose value does not fit."""

import pytest

from tests.unit.catalog.examples import BODY, CONFLICT, RULE, H, assert_told

MISTAKES = [
    ("path: /things\n", f'path: "/things/{{nme}}" {H}\n', "“{nme}” names no argument", "Did you mean “name”"),
    (BODY, f'      body: {{name: "{{naem}}"}} {H}\n', "“{naem}” names no argument", "{{naem}}"),
    (BODY, f'      body: {{name: "a {{size}}"}} {H}\n', "“size” does not fit into a text", "stand alone"),
    (BODY, f'      body: {{"{{name}}": 1}} {H}\n', "cannot stand in a name", "Only values"),
    (BODY, f'{BODY}      query: {{q: "{{nope}}"}} {H}\n', "“{nope}” names no argument", "{{nope}}"),
    (BODY, f'{BODY}      headers: {{X-Run: "{{runn}}"}} {H}\n', "“{runn}” names no argument", "“run”"),
    (RULE, f'        - {{path: a, equals: "{{x}}", finding: executed_ok}} {H}\n', "“{x}” names no argument", ""),
    (CONFLICT, f'    conflict_key: "thing:{{nam}}" {H}\n', "“{nam}” names no argument", "Did you mean “name”"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)
