"""Strict YAML: what JSON has, and nothing that two readers could understand differently."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.mistake import MistakesError
from gateway.catalog.yamltext import DEPTH_MAX, Place, read_yaml
from gateway.core.strictjson import INTEGER_MAX, Json

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED = [
    pytest.param("a: no\n", 1, 4, "true or false to some readers", "Quote it", id="no"),
    pytest.param("a: Yes\n", 1, 4, "true or false to some readers", "Quote it", id="yes"),
    pytest.param("a: off\n", 1, 4, "true or false to some readers", "Quote it", id="off"),
    pytest.param("a: True\n", 1, 4, "unusual spelling", "Quote it", id="True"),
    pytest.param("a: NULL\n", 1, 4, "unusual spelling", "Quote it", id="NULL"),
    pytest.param("a: ~\n", 1, 4, "means null", "Quote it", id="tilde"),
    pytest.param("a: 010\n", 1, 4, "octal", "Quote it", id="octal"),
    pytest.param("a: 0123456\n", 1, 4, "octal", "Quote it", id="a revision that is all digits"),
    pytest.param("a: 0x1F\n", 1, 4, "another base", "Quote it", id="hex"),
    pytest.param("a: 0o17\n", 1, 4, "another base", "Quote it", id="octal of 1.2"),
    pytest.param("a: 22:22\n", 1, 4, "base 60", "Quote it", id="sexagesimal"),
    pytest.param("a: 1_000\n", 1, 4, "text to others", "Quote it", id="underscores"),
    pytest.param("a: .inf\n", 1, 4, "not a number that JSON has", "Quote it", id="inf"),
    pytest.param("a: -.Inf\n", 1, 4, "not a number that JSON has", "Quote it", id="minus inf"),
    pytest.param("a: .nan\n", 1, 4, "not a number that JSON has", "Quote it", id="nan"),
    pytest.param("a: +1\n", 1, 4, "form that JSON lacks", "Quote it", id="plus"),
    pytest.param("a: 1.\n", 1, 4, "form that JSON lacks", "Quote it", id="trailing dot"),
    pytest.param("a: .5\n", 1, 4, "form that JSON lacks", "Quote it", id="leading dot"),
    pytest.param("a: -.5\n", 1, 4, "form that JSON lacks", "Quote it", id="minus leading dot"),
    pytest.param("a: 2026-01-02\n", 1, 4, "date", "Quote it", id="date"),
    pytest.param("a: 2026-01-02T03:04:05Z\n", 1, 4, "date", "Quote it", id="time stamp"),
    pytest.param("a: 1e999\n", 1, 4, "64-bit", "Quote it", id="overflow"),
    pytest.param("a: 9007199254740992\n", 1, 4, "2^53", "Quote it", id="too large"),
    pytest.param("a: " + "9" * 5000 + "\n", 1, 4, "2^53", "Quote it", id="five thousand digits"),
    pytest.param("a:\n  <<: {b: 1}\n", 2, 3, "command", "Quote it", id="merge key"),
    pytest.param(
        "a: 1\nb: 2\na: 3\n", 3, 1, "“a” appears twice here; it was first given on line 1", "Remove", id="twice"
    ),
    pytest.param('e:\n  x: 1\n  "x": 2\n', 3, 3, "“x” appears twice", "Remove", id="twice, once quoted"),
    pytest.param("a: {b: 1, b: 2}\n", 1, 11, "“b” appears twice", "Remove", id="twice in one line"),
    pytest.param("a: &x 1\n", 1, 4, "Anchors", "Write the value out", id="anchor"),
    pytest.param("a: &x {b: 1}\n", 1, 4, "Anchors", "Write the value out", id="anchor on a mapping"),
    pytest.param("a: *x\n", 1, 4, "Aliases", "Write the value out", id="alias"),
    pytest.param("a: !!str 1\n", 1, 4, "Tags", "“!”", id="tag"),
    pytest.param("a: !!python/object/apply:os.system [x]\n", 1, 4, "Tags", "“!”", id="python tag"),
    pytest.param("a: !x {}\n", 1, 4, "Tags", "“!”", id="own tag"),
    pytest.param("1: a\n", 1, 1, "A key must be text", "Quote it", id="number as key"),
    pytest.param("true: a\n", 1, 1, "A key must be text", "Quote it", id="true as key"),
    pytest.param("404: a\n", 1, 1, "A key must be text", "Quote it", id="status as key"),
    pytest.param("on: a\n", 1, 1, "true or false to some readers", "Quote it", id="on as key"),
    pytest.param("? [a]\n: b\n", 1, 3, "A key must be text", "Quote it", id="list as key"),
    pytest.param("a: {b}\n", 1, 5, "A placeholder needs quotes", 'Write "{b}"', id="placeholder"),
    pytest.param("a: b\n---\na: c\n", 2, 1, "more than one document", "“---”", id="two documents"),
    pytest.param("a:\n\tb: 1\n", 2, 1, "not valid YAML", "spaces, not tabs", id="tab"),
    pytest.param("a: [1\nb: 2\n", 2, 2, "not valid YAML", "Check indentation", id="open list"),
    pytest.param("a: b: c\n", 1, 5, "not valid YAML", "Check indentation", id="two colons"),
    pytest.param('a: "x\n', 2, 1, "not valid YAML", "Check", id="open quote"),
    pytest.param("a: x\n b: y\n", 2, 3, "not valid YAML", "Check", id="indentation"),
    pytest.param("a: @x\n", 1, 4, "not valid YAML", "Check", id="reserved sign"),
    pytest.param("a: 1\nb: \x07\n", 2, 1, "character that YAML does not allow", "Remove it", id="bell"),
    pytest.param('a: "\\ud800"\n', 1, 4, "surrogate", "Write the character", id="lone surrogate"),
    pytest.param(
        'a: 1\nb: "\\UFFFFFFFF"\n', 2, 7, "number that is too large", "Write the character", id="no character"
    ),
    pytest.param('a: "\\U00110000"\n', 1, 7, "number that is too large", "Write the character", id="beyond Unicode"),
    pytest.param("%YAML " + "1" * 5000 + ".1\n---\n", 1, 7, "number that is too large", "Write", id="huge version"),
    pytest.param("a: " + "[" * 70 + "]" * 70 + "\n", 1, 67, "nested deeper", "Flatten", id="deep"),
    pytest.param("a: " + "[" * 100_000 + "\n", 1, 67, "nested deeper", "Flatten", id="very deep"),
    pytest.param(BOMB, 1, 4, "Anchors", "Write the value out", id="alias bomb"),
]


@pytest.mark.parametrize(("text", "line", "column", "words", "hint"), REFUSED)
def test_yaml_beyond_json_is_refused_at_its_place(text: str, line: int, column: int, words: str, hint: str) -> None:
    with pytest.raises(MistakesError) as caught:
        read_yaml(text.encode(), "f.yaml")
    first = next(mistake for mistake in caught.value.mistakes if words in mistake.detail)
    assert (first.file, first.line, first.column) == ("f.yaml", line, column)
    assert hint in first.hint


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    with pytest.raises(MistakesError) as caught:
        read_yaml(b"a: 1\nb: \xff\n", "f.yaml")
    assert [(mistake.line, mistake.detail) for mistake in caught.value.mistakes] == [
        (2, "The file is not valid UTF-8.")
    ]


def test_more_than_a_megabyte_is_refused_unread() -> None:
    with pytest.raises(MistakesError, match="larger than 1 MB"):
        read_yaml(b"# " + b"x" * 1_000_000, "f.yaml")


def test_an_alias_bomb_is_refused_without_being_built() -> None:
    with pytest.raises(MistakesError) as caught:
        read_yaml(BOMB.encode(), "f.yaml")
    assert len(caught.value.mistakes) == 9 + 8 * 9


def test_the_number_of_mistakes_is_bounded() -> None:
    with pytest.raises(MistakesError) as caught:
        read_yaml(b"a: [" + b"no," * 10_000 + b"no]\n", "f.yaml")
    assert len(caught.value.mistakes) == 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: true", True), ("a: false", False), ("a: null", None), ("a:", None), ("a: 0", 0), ("a: -1", -1),
        ("a: 1.5", 1.5), ("a: 1e3", 1000.0), ('a: "no"', "no"), ("a: 'no'", "no"), ("a: |\n  010\n", "010\n"),
        ("a: 10s", "10s"), ("a: 2xx", "2xx"), ("a: 1.2.3", "1.2.3"), ("a: y", "y"), ("a: a:b", "a:b"),
        ("a: $ref", "$ref"), ("a: 9007199254740991", INTEGER_MAX), ("a: -x", "-x"), ("a: v1_0", "v1_0"),
        ("a: ..", ".."),
        ('a: "{b}"', "{b}"), ("a: {b: null}", {"b": None}),
        ("a: {}", {}), ("a: []", []), ("a: 127.0.0.1", "127.0.0.1"), ("a: nothing", "nothing"), ("a: é", "é"),
    ],
)  # fmt: skip
def test_json_values_and_plain_text_are_read(text: str, value: Json) -> None:
    read = read_yaml(text.encode(), "f.yaml").value["a"]
    assert read == value
    assert type(read) is type(value)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff\ufffe\uffff")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc {}:", max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(_json)
def test_json_is_yaml(value: Json) -> None:
    assert read_yaml(json.dumps(value, ensure_ascii=False).encode(), "f.yaml").value == value


def test_every_key_and_value_has_its_place() -> None:
    document = read_yaml(b"a:\n  - x\n  - {b: 1, c: [2]}\n", "f.yaml")
    assert document.keys["a",] == Place(1, 1)
    assert document.places["a",] == Place(2, 3)
    assert document.places["a", 0] == Place(2, 5)
    assert document.keys["a", 1, "c"] == Place(3, 12)
    assert document.places["a", 1, "c", 0] == Place(3, 16)


def test_a_mistake_at_a_missing_path_is_told_at_the_nearest_place_above() -> None:
    document = read_yaml(b"a:\n  b: 1\n", "f.yaml")
    assert document.mistake(("a", "b", "c", 3), "x.").line == 2
    assert document.mistake(("a", "z"), "x.").line == 1
    assert document.mistake((), "x.").column == 1
    assert str(document.mistake(("a",), "Wrong.", "Right.")) == "f.yaml:1:1: Wrong. Right."


def test_the_depth_that_is_allowed_is_read() -> None:
    text = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert read_yaml(text.encode(), "f.yaml").value
