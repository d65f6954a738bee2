"""Placeholders keep JSON types, drop what is absent and never read values as templates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.ids import format_id, outward
from gateway.core.placeholders import ABSENT, Name, names_in, parts, render_text, render_value, variables_of
from gateway.core.strictjson import Json
from gateway.model.action import IdFormat
from gateway.model.problem import Code, Problem

OPERATION = format_id(bytes(range(16)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("{a}", (Name("a"),)),
        ("x{a}y{b-c}", ("x", Name("a"), "y", Name("b-c"))),
        ("{{a}}", ("{a}",)),
        ("{{a}}{a}", ("{a}", Name("a"))),
        ("query { viewer { login } }", ("query { viewer { login } }",)),
        ('{"a":{"b":1}}', ('{"a":{"b":1}}',)),
        ("{1a} {} {a b} {a", ("{1a} {} {a b} {a",)),
    ],
)
def test_only_braced_names_are_placeholders(text: str, expected: tuple[str | Name, ...]) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize("value", ["x", 1, 1.5, True, None, [1, "{b}"], {"k": "{b}"}])
def test_a_whole_placeholder_keeps_the_type_and_is_not_read_again(value: Json) -> None:
    filled = render_value({"m": "{a}"}, {"a": value, "b": "never"})
    assert filled == {"m": value}
    assert type(filled["m"]) is type(value)


@given(st.text())
def test_values_are_never_templates(value: str) -> None:
    assert render_value("{a}", {"a": value, "b": "never"}) == value
    assert render_value("<{a}>", {"a": value, "b": "never"}) == f"<{value}>"


def test_absent_arguments_drop_members_items_and_texts() -> None:
    template = {"a": "{a}", "b": "x{b}", "c": [1, "{a}", "{c}"], "d": {"e": "{a}"}, "f": 1}
    assert render_value(template, {"c": None}) == {"c": [1, None], "d": {}, "f": 1}
    assert render_value("{a}", {}) is ABSENT


@pytest.mark.parametrize(
    ("value", "text"), [("s", "v-s"), (3, "v-3"), (4.0, "v-4"), (True, "v-true"), (False, "v-false")]
)
def test_plain_values_fit_into_texts(value: Json, text: str) -> None:
    assert render_value("v-{a}", {"a": value}) == text


@pytest.mark.parametrize("value", [None, 1.5, [1], {"a": 1}])
def test_other_values_do_not_fit_into_texts(value: Json) -> None:
    with pytest.raises(Problem) as caught:
        render_value("v-{a}", {"a": value})
    assert caught.value.code is Code.INVALID_INPUT
    assert [error.pointer for error in caught.value.errors] == ["/a"]


def test_a_conflict_key_needs_all_its_arguments() -> None:
    assert render_text("deploy:{env}", {"env": "staging"}) == "deploy:staging"
    with pytest.raises(Problem) as caught:
        render_text("deploy:{env}", {})
    assert caught.value.errors[0].pointer == "/env"


def test_the_gateways_variables_win_over_arguments() -> None:
    given_arguments = {"operation_id": "forged", "run": "forged", "correlation_id": "forged", "x": 1}
    variables = variables_of(given_arguments, operation_id=OPERATION)
    assert variables == {
        "operation_id": OPERATION,
        "operation_uuid": outward(OPERATION, IdFormat.UUID),
        "operation_hex": outward(OPERATION, IdFormat.HEX),
        "x": 1,
    }
    assert variables_of({}, operation_id=OPERATION, run="r", correlation_id="c")["run"] == "r"


def test_names_are_found_in_values_and_not_in_member_names() -> None:
    assert names_in({"{k}": ["{a}", {"x": "y{b}"}], "c": 1}) == {"a", "b"}
