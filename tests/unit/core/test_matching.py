"""Predicates match with JSON's equality, and never on a body that nobody can vouch for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import Framing, Observation, Phase
from gateway.core.matching import MISSING, Answer, answer_of, json_equal, matches, read_path
from gateway.core.strictjson import Json
from gateway.model.action import Predicate


def observed(
    body: bytes, *, complete: bool = True, cut: bool = False, framing: Framing | None = Framing.LENGTH
) -> Observation:
    return Observation(
        phase=Phase.RESPONSE_COMPLETE, nothing_left=False, started_ms=0, ended_ms=1, closed_boot_ms=1, summary="",
        status=200, headers=(("X-A", "1"),), body=body, body_complete=complete, body_cut=cut, framing=framing,
    )  # fmt: skip


ANSWER = Answer(
    200,
    (("X-State", "done"), ("X-Left", "0"), ("X-Empty", "")),
    {"a": {"b": [1, 2]}, "ok": True, "f": False, "n": 1, "z": None, "e": "", "s": "x", "zero": 0},
)

TABLE = [
    (Predicate(), True),
    (Predicate(statuses=((200, 299),)), True),
    (Predicate(statuses=((400, 499), (200, 200))), True),
    (Predicate(statuses=((201, 299),)), False),
    (Predicate(path="ok"), True),
    (Predicate(path="e"), False),
    (Predicate(path="f"), False),
    (Predicate(path="s"), True),
    (Predicate(path="a"), True),
    (Predicate(path="a.b"), True),
    (Predicate(path="a.b[?@ > `5`]"), False),
    (Predicate(header="x-empty"), True),
    (Predicate(path="zero"), True),
    (Predicate(path="a.nothing"), False),
    (Predicate(path="ok", equals=(True,)), True),
    (Predicate(path="ok", equals=(1,)), False),
    (Predicate(path="n", equals=(True,)), False),
    (Predicate(path="n", equals=(1.0,)), True),
    (Predicate(path="n", equals=("1",)), False),
    (Predicate(path="z", equals=(None,)), True),
    (Predicate(path="a.b", equals=([1, 2],)), True),
    (Predicate(path="a.b", equals=([1, True],)), False),
    (Predicate(path="a", equals=({"b": [1, 2]},)), True),
    (Predicate(path="n", any_of=(3, 2, 1)), True),
    (Predicate(path="n", any_of=(3, 2)), False),
    (Predicate(path="n", equals=("{one}",)), True),
    (Predicate(path="n", equals=("{missing}",)), False),
    (Predicate(path="z", equals=("{missing}",)), False),
    (Predicate(path="a.b | length(@)", equals=(2,)), True),
    (Predicate(path="length(n)"), False),
    (Predicate(path="not (", equals=(1,)), False),
    (Predicate(header="x-state"), True),
    (Predicate(header="x-nothing"), False),
    (Predicate(header="X-State", equals=("done",)), True),
    (Predicate(header="X-State", equals=("Done",)), False),
    (Predicate(header="X-Left", equals=(0,)), True),
    (Predicate(header="X-Left", any_of=("1", "0")), True),
    (Predicate(header="x-state", path="n", equals=(1,)), True),
    (Predicate(header="x-nothing", path="n", equals=(1,)), False),
    (Predicate(statuses=((200, 200),), path="ok", equals=(False,)), False),
]


@pytest.mark.parametrize(("predicate", "expected"), TABLE)
def test_predicates(predicate: Predicate, expected: bool) -> None:
    assert matches(predicate, ANSWER, {"one": 1}) is expected


@pytest.mark.parametrize("equals", [(), (None,), (False,), ("",)])
def test_missing_body_fails_every_path(equals: tuple[Json, ...]) -> None:
    assert not matches(Predicate(path="@", equals=equals), Answer(200), {})
    assert not matches(Predicate(path="`true`", equals=equals), Answer(200), {})
    assert matches(Predicate(statuses=((200, 200),)), Answer(200), {})


def test_no_status_matches_no_range() -> None:
    assert not matches(Predicate(statuses=((100, 599),)), Answer(None), {})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"a":1',
        b'{"a":1,"a":2}',
        b"[NaN]",
        b'"\xff"',
        b'["\\ud800"]',
        b"1 2",
        b"[" * 100_000,
        b"9" * 9000,
        b"[1e999]",
        b"-1E400",
    ],
)
def test_unreadable_bodies_are_missing(body: bytes) -> None:
    assert answer_of(observed(body)).body is MISSING


@pytest.mark.parametrize(
    "observation",
    [
        observed(b'{"a":1}', complete=False),
        observed(b'{"a":1}', cut=True),
        observed(b'{"a":1}', framing=Framing.UNTIL_CLOSE),
        observed(b'{"a":1}', framing=None),
    ],
)
def test_bodies_that_may_be_cut_are_missing(observation: Observation) -> None:
    answer = answer_of(observation)
    assert answer.body is MISSING
    assert answer.status == 200


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        (b"null", None),
        (b'{"a":"\\u00e9"}', {"a": "é"}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b"12345678901234567890", 12345678901234567890),
    ],
)
def test_readable_bodies_are_read(body: bytes, value: Json) -> None:
    assert answer_of(observed(body)).body == value
    assert answer_of(observed(body)).header("x-a") == "1"


def test_read_path_never_raises() -> None:
    assert read_path("a.b[1]", ANSWER.body) == 2
    assert read_path("length(n)", ANSWER.body) is None
    assert read_path("a", MISSING) is None
    assert read_path("(", ANSWER.body) is None


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ([1], [True], False), ([0], [False], False), ([1], [1.0], True), ([1], [1, 1], False), ([[1]], [[True]], False),
        ({"a": 1}, {"a": True}, False), ({"a": [0]}, {"a": [False]}, False), ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False), ({}, [], False), ("", None, False), ("1", 1, False), (None, False, False),
    ],
)  # fmt: skip
def test_equality_is_that_of_json_at_every_depth(left: Json, right: Json, equal: bool) -> None:
    assert json_equal(left, right) is equal
    assert json_equal(right, left) is equal


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5]) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=6,
)


@given(_json, _json)
def test_equality_is_reflexive_symmetric_and_typed(left: Json, right: Json) -> None:
    assert json_equal(left, left)
    assert json_equal(left, right) == json_equal(right, left)
    if json_equal(left, right):
        assert left == right
        assert isinstance(left, bool) == isinstance(right, bool)
