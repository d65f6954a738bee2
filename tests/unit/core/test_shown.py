"""What is shown to people shows everything: nothing moves, hides or reorders."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.shown import shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", "plain text"),
        ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\rb\nc\td", "a\\x0db\\x0ac\\x09d"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("no\u00a0break\u3000", "no\\xa0break\\u3000"),
        ("\u2028\u2029\x85\x7f", "\\u2028\\u2029\\x85\\x7f"),
        ("\ud800", "\\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("\u3164\u115f\ufe0f\U000e0100", "\\u3164\\u115f\\ufe0f\\U000e0100"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_shown_as_its_escape(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_lines_stay_lines_where_asked() -> None:
    assert shown("a\nb\tc\r\x1b", lines=True) == "a\nb\tc\\x0d\\x1b"


@given(st.text(st.characters()))
def test_only_visible_characters_are_left(text: str) -> None:
    result = shown(text)

    assert all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in result)
    assert shown(result) == result
