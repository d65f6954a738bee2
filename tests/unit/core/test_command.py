"""A command's arguments stay words: none becomes an option, a second line or another program."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ssh.runner_command import COMMAND_BYTES_MAX, command_of
from gateway.core.command import WORDS_BYTES_MAX
from gateway.core.ids import format_id
from gateway.core.placeholders import variables_of
from gateway.core.strictjson import canonical
from gateway.core.template import Rendered, render_request
from gateway.model.action import RequestTemplate
from gateway.model.problem import BrokenInvariantError, Code, Problem

BASE = "ssh://deploy@web-1.example.com:22"
OPERATION = format_id(bytes(range(16)))


def render(argv: list[str], arguments: dict[str, Any] | None = None, *, opaque: tuple[str, ...] = ()) -> Rendered:
    variables = variables_of(arguments or {}, operation_id=OPERATION)
    return render_request(RequestTemplate("RUN", "", body={"argv": argv}, opaque=opaque), variables, base_url=BASE)


def words(argv: list[str], arguments: dict[str, Any] | None = None, **options: Any) -> list[str]:
    found = json.loads(render(argv, arguments, **options).body)["argv"]
    assert isinstance(found, list)
    return found


def refused(argv: list[str], arguments: dict[str, Any], **options: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        render(argv, arguments, **options)
    assert caught.value.code is Code.INVALID_INPUT
    return caught.value


def test_a_command_is_a_verb_and_words_for_the_declared_host_alone() -> None:
    made = render(["migrate", "--to", "{version}", "--op={operation_id}", "{{version}}"], {"version": "7 b"})

    argv = ["migrate", "--to", "7 b", f"--op={OPERATION}", "{version}"]
    assert made == Rendered("RUN", BASE, (), canonical({"argv": argv}))


def test_a_question_without_a_command_has_no_body() -> None:
    variables = variables_of({}, operation_id=OPERATION)
    assert render_request(RequestTemplate("STATUS", ""), variables, base_url=BASE) == Rendered("STATUS", BASE, (), b"")


@given(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=200))
def test_whatever_an_argument_holds_it_stays_one_word(value: str) -> None:
    assert words(["run", "--name={name}", "x"], {"name": value}) == ["run", f"--name={value}", "x"]


@pytest.mark.parametrize(("value", "word"), [(4, "4"), (4.0, "4"), (True, "true")])
def test_numbers_and_booleans_are_written_as_in_json(value: Any, word: str) -> None:
    assert words(["run", "{n}"], {"n": value}) == ["run", word]


@pytest.mark.parametrize("value", ["a\0b", "a\nb", "a\r", "\n", "\0", [1], {"a": 1}, None, 1.5])
@pytest.mark.parametrize("element", ["{name}", "--name={name}"])
def test_a_value_that_is_no_part_of_a_line_is_refused_by_its_name(element: str, value: Any) -> None:
    problem = refused(["run", element], {"name": value})

    assert [error.pointer for error in problem.errors] == ["/name"]


def test_an_argument_that_is_absent_is_refused_and_never_dropped() -> None:
    assert refused(["run", "--to", "{version}"], {}).errors[0].pointer == "/version"


@pytest.mark.parametrize(
    ("element", "arguments"),
    [("{a}", {"a": "-rf"}), ("{a}", {"a": -5}), ("{a}/x", {"a": "--help"}), ("{a}-x", {"a": ""})],
)
def test_a_word_of_the_callers_is_no_option(element: str, arguments: dict[str, Any]) -> None:
    assert refused(["rm", element], arguments).errors[0].pointer == "/a"
    assert words(["rm", element], arguments, opaque=("a",))[1].startswith("-")
    assert words(["rm", f"./{element}"], arguments)[1].startswith("./")


def test_the_program_is_named_by_the_definition() -> None:
    for argv in ([], [""], ["-x"]):
        with pytest.raises(BrokenInvariantError):
            render(argv)


@pytest.mark.parametrize(
    ("value", "fits"),
    [("x" * 100, True), ("x" * 60_000, False), ("'" * 16_000, False), ("ü" * 29_000, True), ("ü" * 30_000, False)],
)
def test_the_whole_command_is_bounded_as_the_runner_bounds_it(value: str, fits: bool) -> None:
    assert WORDS_BYTES_MAX == COMMAND_BYTES_MAX
    if fits:
        command_of(words(["run", "{a}"], {"a": value}))
    else:
        assert refused(["run", "{a}"], {"a": value}).errors[0].pointer == ""


def test_the_longest_command_that_is_rendered_is_taken_by_the_runner() -> None:
    room = WORDS_BYTES_MAX - len("exec 'run' ''\n")

    assert len(command_of(words(["run", "{a}"], {"a": "x" * room})).text) == COMMAND_BYTES_MAX
    assert refused(["run", "{a}"], {"a": "x" * (room + 1)}).errors
