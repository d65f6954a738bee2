"""Fingerprints tell requests apart exactly as JSON does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.fingerprint import fingerprint
from gateway.core.strictjson import Json, JsonError, canonical

_scalars = st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(-10, 10) | st.text(max_size=3)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def test_fingerprint_is_stable_across_releases() -> None:
    assert fingerprint("agent-a", "deployments.create", {"environment": "staging", "n": 1}) == (
        "a7ea1f7dddd5971c3bbc4affdeccc0a2ef1b7af507b5ff3b5776e7a4a380e880"
    )


@pytest.mark.parametrize(
    ("left", "right"), [(1, True), (0, False), (1, "1"), (None, "null"), ([], {}), ({"a": None}, {})]
)
def test_values_that_json_tells_apart_differ(left: Json, right: Json) -> None:
    assert fingerprint("c", "a", {"x": left}) != fingerprint("c", "a", {"x": right})


def test_one_and_one_point_zero_are_the_same_json_number() -> None:
    assert fingerprint("c", "a", {"x": 1}) == fingerprint("c", "a", {"x": 1.0})


def test_parts_cannot_run_into_each_other() -> None:
    assert fingerprint("ab", "c", {}) != fingerprint("a", "bc", {})
    assert fingerprint("a", "b", {}) != fingerprint("b", "a", {})


@given(_values)
def test_order_of_members_does_not_count(value: Json) -> None:
    forward = {"x": value, "y": 1}
    assert fingerprint("c", "a", forward) == fingerprint("c", "a", dict(reversed(forward.items())))


@given(_values, _values)
def test_fingerprints_are_equal_exactly_when_canonical_json_is(left: Json, right: Json) -> None:
    assert (fingerprint("c", "a", left) == fingerprint("c", "a", right)) == (canonical(left) == canonical(right))


def test_arguments_without_canonical_form_are_refused() -> None:
    with pytest.raises(JsonError):
        fingerprint("c", "a", {"x": float("nan")})
