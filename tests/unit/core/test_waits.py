"""How long to wait: the service's word within bounds, and a backoff spread by jitter."""

from dataclasses import replace

import pytest

from gateway.core.matching import Answer
from gateway.core.strictjson import Json
from gateway.core.waits import BACKOFF_MAX_SECONDS, WAIT_MAX_SECONDS, backoff_seconds, due_ms, wait_seconds
from gateway.model.action import RateLimit
from tests.unit.core.builders import T0, action, now

DATE = ("Date", "Mon, 01 Jan 2024 10:00:00 GMT")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([("Retry-After", "7")], 7.0),
        ([("retry-after", " 7 ")], 7.0),
        ([("Retry-After", "0")], 0.0),
        ([("Retry-After", "Mon, 01 Jan 2024 10:01:30 GMT"), DATE], 90.0),
        ([("Retry-After", "Mon, 01 Jan 2024 09:00:00 GMT"), DATE], 0.0),
        # Without the service's own clock a date would measure the skew between its clock and ours.
        ([("Retry-After", "Mon, 01 Jan 2024 10:01:30 GMT")], None),
        ([("Retry-After", "Mon, 01 Jan 2024 10:01:30"), DATE], None),
        ([], None),
        ([("Retry-After", "")], None),
        ([("Retry-After", "soon")], None),
        ([("Retry-After", "-5")], None),
        ([("Retry-After", "²")], None),
        ([("Retry-After", "inf")], None),
        ([("Retry-After", "9" * 400)], WAIT_MAX_SECONDS),
        ([("Retry-After", "Mon, 01 Jan 9999 10:01:30 GMT"), DATE], WAIT_MAX_SECONDS),
    ],
)
def test_retry_after(headers: list[tuple[str, str]], seconds: float | None) -> None:
    assert wait_seconds(action(), Answer(503, tuple(headers))) == seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (3, 3.0),
        (2.5, 2.5),
        (0, 0.0),
        (-1, 7.0),
        (True, 7.0),
        ("3", 7.0),
        (None, 7.0),
        (10**400, WAIT_MAX_SECONDS),
        (float("inf"), WAIT_MAX_SECONDS),
    ],
)
def test_the_actions_own_signal_comes_before_the_header(value: Json, seconds: float) -> None:
    rules = action(rate_limit=RateLimit((), wait_path="wait"))

    assert wait_seconds(rules, Answer(200, (("Retry-After", "7"),), {"wait": value})) == seconds


def test_the_action_may_name_another_header() -> None:
    rules = action(rate_limit=RateLimit((), wait_header="X-Reset-After"))

    assert wait_seconds(rules, Answer(429, (("Retry-After", "7"), ("X-Reset-After", "9")))) == 9.0


@pytest.mark.parametrize(
    ("interval", "tries", "jitter", "seconds"),
    [
        (1.0, 0, 0.0, 0.5),
        (1.0, 0, 1.0, 1.0),
        (1.0, 3, 0.0, 4.0),
        (1.0, 3, 1.0, 8.0),
        (1.0, 10, 1.0, BACKOFF_MAX_SECONDS),
        (1.0, 100_000, 0.0, BACKOFF_MAX_SECONDS / 2),
        (90.0, 0, 1.0, 90.0),
        (90.0, 5, 1.0, 90.0),
        (0.2, 1, 0.5, 0.3),
    ],
)
def test_backoff_doubles_up_to_a_minute_and_keeps_to_its_upper_half(
    interval: float, tries: int, jitter: float, seconds: float
) -> None:
    assert backoff_seconds(interval, tries, now(jitter=jitter)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("delay", "asked", "left", "wait_ms"),
    [
        (1.0, None, None, 1000),
        (1.0, None, 100, 1000),
        (1.0, 5.0, 100, 5000),
        (5.0, 1.0, 100, 5000),
        # what is asked for counts up to half of the time that is left, and our own delay up to all of it
        (1.0, 80.0, 100, 50_000),
        (60.0, 80.0, 100, 60_000),
        (200.0, None, 100, 100_000),
        (200.0, 1.0, 100, 100_000),
        (0.0, 1e18, 100, 50_000),
        (0.0, WAIT_MAX_SECONDS, None, 86_400_000),
        # never now, never behind us
        (0.0, None, 100, 1),
        (1.0, None, 0, 1),
        (1.0, 7.0, -50, 1),
    ],
)
def test_when_to_act_next(delay: float, asked: float | None, left: int | None, wait_ms: int) -> None:
    moment = now()
    deadline = None if left is None else T0 + left * 1000

    assert due_ms(moment, delay, asked_seconds=asked, deadline_ms=deadline) - T0 == wait_ms
    assert due_ms(replace(moment, jitter=0.9), delay, asked_seconds=asked, deadline_ms=deadline) - T0 == wait_ms
