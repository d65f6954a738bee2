"""The form of requests and look-ups."""

import pytest

from tests.unit.catalog.examples import SETTLE, H, assert_told

MISTAKES = [
    ("      method: POST\n", f"      method: post {H}\n", "must be one of: GET", ""),
    (SETTLE, f"      absence: {{settle: 30}} {H}\n", "whole number with a unit", "10s, 5m"),
    (SETTLE, f"      absence: {{settle: 30 sec}} {H}\n", "whole number with a unit", "10s, 5m"),
    (SETTLE, f"      absence: never {H}\n", "must be one of: none", ""),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)
