"""Strict JSON: what is refused, where it is said to stand, and that canonical bytes are those of RFC 8785."""

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.strictjson import INTEGER_MAX, Json, JsonError, canonical, digest, parse

_floats = st.floats(allow_nan=False, allow_infinity=False)
_numbers = st.integers(-INTEGER_MAX, INTEGER_MAX) | _floats
_texts = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)

REFUSED = [
    pytest.param(b'{"a":1,"a":2}', "twice", 7, id="duplicate name"),
    pytest.param(b'{"x":{"a":1,"\\u0061":2}}', "twice", 12, id="duplicate name in another spelling"),
    pytest.param(b'[{"a":1},{"a":1,"b":2,"b":3}]', "twice", 22, id="duplicate in a later object"),
    pytest.param(b'{"a":{"a":1},"a":1}', "twice", 13, id="duplicate after a nested one"),
    pytest.param(b"[NaN]", "NaN", 1, id="NaN"),
    pytest.param(b'["NaN",-Infinity]', "NaN", 7, id="minus infinity"),
    pytest.param(b"[Infinity]", "NaN", 1, id="infinity"),
    pytest.param(b'"\\ud800"', "surrogate", 0, id="lone surrogate"),
    pytest.param(b'[[1,"\\udfff"]]', "surrogate", 4, id="lone surrogate in a list"),
    pytest.param(b'{"ok":"\\ud83d\\ude00","\\udc00":1}', "surrogate", 21, id="lone surrogate in a name"),
    pytest.param(b"9007199254740992", "2^53", 0, id="two to the 53rd"),
    pytest.param(b"[1,-9007199254740992]", "2^53", 3, id="minus two to the 53rd"),
    pytest.param(b"[1, 9007199254740993.0]", "2^53", 4, id="whole number spelt as float"),
    pytest.param(b"1e16", "2^53", 0, id="whole number spelt with exponent"),
    pytest.param(b"9" * 5000, "2^53", 0, id="five thousand digits"),
    pytest.param(b"[1e400]", "64-bit", 1, id="float overflow"),
    pytest.param(b"[0,-1e-400]", "64-bit", 3, id="float underflow"),
    pytest.param(b"1 2", "not JSON", 2, id="trailing value"),
    pytest.param(b"{} \x00", "not JSON", 3, id="trailing NUL"),
    pytest.param(b"", "not JSON", 0, id="empty"),
    pytest.param(b"\xef\xbb\xbf{}", "byte order mark", 0, id="BOM"),
    pytest.param(b'["\xff"]', "UTF-8", 2, id="invalid UTF-8"),
    pytest.param(b'"\xed\xa0\x80"', "UTF-8", 1, id="surrogate in UTF-8"),
    pytest.param(b'"a\nb"', "not JSON", 2, id="raw control character"),
    pytest.param(b"[1,]", "not JSON", None, id="trailing comma"),
    pytest.param(b"{'a':1}", "not JSON", 1, id="single quotes"),
    pytest.param(b"01", "not JSON", 1, id="leading zero"),
    pytest.param(b"[" * 65 + b"]" * 65, "deeply", None, id="65 levels"),
    pytest.param(b"[" * 1_000_000, "deeply", None, id="a million brackets"),
    pytest.param(b'{"a":' * 200_000, "deeply", None, id="many objects"),
    pytest.param(b'"' + b'\\"' * 500_000, "not JSON", 0, id="a long unfinished string"),
    pytest.param(b"[" * 70 + b'"' + b'\\"' * 500_000, "deeply", None, id="deep and unfinished"),
]


@pytest.mark.parametrize(("data", "words", "offset"), REFUSED)
def test_ambiguous_json_is_refused_with_its_place(data: bytes, words: str, offset: int | None) -> None:
    with pytest.raises(JsonError) as caught:
        parse(data)
    assert words in str(caught.value)
    if offset is not None:
        assert caught.value.offset == offset


@pytest.mark.parametrize("data", [b'{"hunter2":1,"hunter2":2}', b'["hunter2" x]', b'"hunter2\\ud800"', b"hunter2"])
def test_refusal_never_repeats_the_input(data: bytes) -> None:
    with pytest.raises(JsonError) as caught:
        parse(data)
    assert "hunter2" not in repr(caught.value) + str(caught.value)
    assert caught.value.__cause__ is None


def test_brackets_inside_strings_do_not_count_as_depth() -> None:
    assert parse(b'["' + b"[{" * 500 + b'\\"[[["]') == ["[{" * 500 + '"[[[']


def test_escapes_and_whole_surrogate_pairs_are_read() -> None:
    assert parse(b'["\\u00e9", "\\ud83d\\ude00", "\\\\u0041"]') == ["é", "😀", "\\u0041"]


def test_exactly_the_allowed_depth_is_read() -> None:
    assert parse(b"[" * 64 + b"]" * 64)
    assert parse(b"[" * 3 + b"]" * 3, depth_max=3) == [[[]]]
    with pytest.raises(JsonError):
        parse(b"[" * 4 + b"]" * 4, depth_max=3)


@pytest.mark.parametrize("number", [INTEGER_MAX, -INTEGER_MAX, 0, 1.5, 1e300, 5e-324, -0.0])
def test_every_exact_number_is_read(number: float) -> None:
    assert parse(json.dumps([number]).encode()) == [number]


@given(values)
def test_canonical_bytes_equal_the_reference(value: Json) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(values)
def test_canonical_bytes_are_read_back_or_were_never_readable(value: Json) -> None:
    try:
        first = parse(json.dumps(value).encode())
    except JsonError:
        return
    assert parse(canonical(first)) == first
    assert canonical(parse(canonical(first))) == canonical(first)


def test_keys_sort_by_utf16_units() -> None:
    assert canonical({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


@pytest.mark.parametrize("value", [float("nan"), INTEGER_MAX + 1, {1: 2}, {1, 2}, "\ud800", b"x"])
def test_values_outside_json_have_no_canonical_form(value: Json) -> None:
    with pytest.raises(JsonError):
        canonical(value)


def test_canonical_refuses_bottomless_nesting_before_the_stack_ends() -> None:
    value: list[Json] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(JsonError):
        canonical([0.5, value])


def test_digest_is_sha256_of_the_canonical_bytes() -> None:
    assert digest({"b": 1, "a": [True]}) == digest({"a": [True], "b": 1.0})
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
