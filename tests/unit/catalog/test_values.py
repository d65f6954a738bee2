"""Durations and statuses: what is read, and what is not guessed at."""

import pytest

from gateway.catalog.values import is_name, seconds, status_ranges
from gateway.core.strictjson import Json


@pytest.mark.parametrize(
    ("text", "value"), [("500ms", 0.5), ("0s", 0.0), ("10s", 10.0), ("5m", 300.0), ("24h", 86_400.0), ("7d", 604_800.0)]
)
def test_durations_are_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1.5s", "-1s", "+1s", "1 s", "1S", "01s", "1w", "1s ", "9999999999s", "\u0663s"]
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("value", "ranges"),
    [
        (200, ((200, 200),)),
        ("204", ((204, 204),)),
        ("2xx", ((200, 299),)),
        ("400-404", ((400, 404),)),
        ([200, "5xx"], ((200, 200), (500, 599))),
    ],
)
def test_statuses_are_ranges(value: Json, ranges: tuple[tuple[int, int], ...]) -> None:
    assert status_ranges(value) == ranges


@pytest.mark.parametrize("value", [99, 600, "xx", "6xx", "2XX", "404-400", True, None, 200.0, "200-", {}, [True]])
def test_other_statuses_are_refused(value: Json) -> None:
    with pytest.raises(ValueError, match="not a"):
        status_ranges(value)


@pytest.mark.parametrize("name", ["a", "deployments.create", "web-1", "A_b", "x" * 100])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", ".a", "a.", "a b", "a/b", "ä", "x" * 101, "a\n", "-a", "*"])
def test_what_is_no_name(name: str) -> None:
    assert not is_name(name)
