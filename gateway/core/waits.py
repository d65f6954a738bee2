"""How long to wait before looking or trying again: the service's word, capped, or a backoff with jitter."""

from email.utils import parsedate_to_datetime

from gateway.core.matching import Answer, read_path
from gateway.model.action import Action
from gateway.model.operation import Now

BACKOFF_FACTOR = 2.0
BACKOFF_MAX_SECONDS = 60.0
WAIT_MAX_SECONDS = 86_400.0
"""What a service may ask for at most; what it writes may be any number, infinite ones included."""


def wait_seconds(action: Action, answer: Answer) -> float | None:
    """The wait that an answer names: the action's own signal, else Retry-After (RFC 9110 section 10.2.3)."""
    limit = action.rate_limit
    if limit is not None and limit.wait_path is not None:
        value = read_path(limit.wait_path, answer.body)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(min(value, WAIT_MAX_SECONDS))
    name = limit.wait_header if limit is not None and limit.wait_header else "Retry-After"
    return _parse_wait(answer.header(name), answer.header("Date"))


def _parse_wait(text: str | None, date: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text) if text.strip().isdigit() else _until(text, date)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if seconds is None else min(max(seconds, 0.0), WAIT_MAX_SECONDS)


def _until(text: str, date: str | None) -> float | None:
    # A date is read against the service's own clock, so that its skew to ours does not matter.
    if date is None:
        return None
    return (parsedate_to_datetime(text) - parsedate_to_datetime(date)).total_seconds()


def backoff_seconds(interval_seconds: float, tries: int, now: Now) -> float:
    """Exponential from `interval_seconds`, at most a minute, spread over its upper half (`tries` from 0)."""
    exponent = min(tries, 16)
    whole = min(interval_seconds * BACKOFF_FACTOR**exponent, max(BACKOFF_MAX_SECONDS, interval_seconds))
    return whole * (0.5 + now.jitter / 2)


def due_ms(now: Now, delay_seconds: float, *, asked_seconds: float | None, deadline_ms: int | None) -> int:
    """When to act next. A wait that the service asked for counts up to half of the time that is left."""
    delay = delay_seconds
    if asked_seconds is not None:
        delay = max(delay, asked_seconds)
    if deadline_ms is None:
        return now.wall_ms + int(delay * 1000)
    left_ms = max(deadline_ms - now.wall_ms, 0)
    if asked_seconds is not None:
        delay = min(delay, max(left_ms / 2000, delay_seconds))
    return min(now.wall_ms + max(int(delay * 1000), 1), max(deadline_ms, now.wall_ms + 1))
