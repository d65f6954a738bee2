"""Every pattern of the interface has words, so that no refusal quotes one."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.surfaces.rest import operations
from gateway.surfaces.rest.openapi import document
from gateway.surfaces.rest.words import FORMS, form_of, told


def patterns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from patterns(item)


def test_each_pattern_of_a_body_or_a_query_has_words() -> None:
    bodies = set(patterns(document()["components"]["schemas"]))
    queries = {item.pattern for item in vars(operations).values() if isinstance(item, re.Pattern)} - {
        operations._TRACE.pattern
    }

    assert len(bodies) > 5
    assert len(queries) > 5
    assert [item for item in sorted(bodies | queries) if form_of(item) is None] == []
    assert not [words for words in FORMS.values() if re.search(r"[\^\\{}\[\]]", words)]


@pytest.mark.parametrize(
    ("kind", "context", "detail", "guidance"),
    [
        ("missing", {}, "This member is missing.", "Add it."),
        ("string_type", {}, "A JSON string is expected here.", "See."),
        ("string_too_short", {"min_length": 1}, "It is empty.", "Give it, or leave it out where nothing is meant."),
        ("string_too_short", {"min_length": 4}, "It has fewer than 4 characters.", "Give more of it."),
        ("string_too_long", {"max_length": 9}, "It has more than 9 characters.", "Give less."),
        (
            "literal_error",
            {"expected": "'a' or 'b'"},
            "It is none of the words that are known here.",
            "Give 'a' or 'b'.",
        ),
        ("string_pattern_mismatch", {"pattern": "^x{7}$"}, "It has another form than is declared.", "`/openapi.json`"),
        (
            "string_pattern_mismatch",
            {"pattern": "^[0-9a-f]{64}$"},
            "It has another form than is declared.",
            "Give the 64",
        ),
    ],
)
def test_an_error_of_the_form_is_said_in_words(
    kind: str, context: dict[str, object], detail: str, guidance: str
) -> None:
    said = told(kind, context, "See.")

    assert said is not None
    assert said[0] == detail
    assert said[1].startswith(guidance)


def test_words_to_choose_from_are_listed() -> None:
    assert form_of("TERM|INT|KILL") == "TERM, INT or KILL"
    assert told("greater_than", {"gt": 0}, "See.") is None
