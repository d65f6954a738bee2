"""Small values that a person writes in YAML: durations, statuses, names, and how a mistake in one is said."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gateway.core.strictjson import Json

_DURATION = re.compile(r"(0|[1-9][0-9]{0,8})(ms|s|m|h|d)")
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_STATUS = re.compile(r"([1-5])xx|([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?")
_NAME_FORM = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


NAME_RULE: Final = (
    "A name has up to 100 letters, digits, dots, dashes and underscores, and a letter or digit at both ends.",
    "For example deployments.create.",
)


def problem(detail: str, hint: str, field: str = "") -> PydanticCustomError:
    """A mistake with a hint of its own; both are sentences of ours and never hold a secret.

    `field` names the part of a mapping to point at, where the mapping as a whole was looked at.
    """
    return PydanticCustomError("plain", "{detail}", {"detail": detail, "hint": hint, "field": field})


def seconds(text: str) -> float:
    """A duration with its unit in seconds. Raises `ValueError` for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("not a duration")
    return int(match.group(1)) * _UNIT_SECONDS[match.group(2)]


def status_ranges(value: Json) -> tuple[tuple[int, int], ...]:
    """`200`, `2xx`, `200-204` or a list of these, as inclusive ranges. Raises `ValueError` for anything else."""
    if isinstance(value, list):
        return tuple(pair for item in value for pair in status_ranges(item))
    match = _STATUS.fullmatch(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if match is None:
        raise ValueError("not a status")
    if match.group(1):
        first = int(match.group(1)) * 100
        return ((first, first + 99),)
    low, high = int(match.group(2)), int(match.group(3) or match.group(2))
    if low > high:
        raise ValueError("not a range")
    return ((low, high),)


def _check_duration(value: Json) -> Json:
    if isinstance(value, bool) or not isinstance(value, str) or _DURATION.fullmatch(value) is None:
        raise problem("A duration is a whole number with a unit.", "For example 500ms, 10s, 5m, 24h or 7d.")
    return value


def _check_status(value: Json) -> Json:
    try:
        ranges = status_ranges(value)
    except ValueError:
        ranges = ()
    if not ranges:
        raise problem("This is no HTTP status.", "Write 200, 2xx, 200-204, or a list of these.")
    return value


def _check_word(value: str) -> str:
    if not value.strip():
        raise problem("This must not be empty.", "Write something, or remove the field.")
    return value


def is_name(text: str) -> bool:
    """Whether a text can name a service, an action or a credential."""
    return _NAME_FORM.fullmatch(text) is not None


def _check_name(value: str) -> str:
    if not is_name(value):
        raise problem(*NAME_RULE)
    return value


Duration = Annotated[
    str,
    BeforeValidator(_check_duration),
    WithJsonSchema({"type": "string", "pattern": f"^(?:{_DURATION.pattern})$", "examples": ["10s", "5m", "24h"]}),
]
"""A time with its unit."""

Status = Annotated[
    Json,
    BeforeValidator(_check_status),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 100, "maximum": 599},
                {"type": "string", "pattern": f"^(?:{_STATUS.pattern})$"},
                {"type": "array", "minItems": 1, "items": {"type": ["integer", "string"]}},
            ]
        }
    ),
]
"""One or more HTTP statuses."""

Word = Annotated[str, AfterValidator(_check_word), Field(min_length=1)]
"""Text that is not empty."""

Name = Annotated[str, AfterValidator(_check_name)]
"""A name that other files, command lines and records use."""

Bytes = Annotated[int, Field(ge=256, le=10_000_000)]
"""A size in bytes."""
