"""Does an answer match? Predicates over status, headers and JSON body, with JSON's own idea of equality."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, NoReturn

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from adapters.contract import Framing, Observation
from gateway.core.placeholders import ABSENT, render_value
from gateway.core.strictjson import DEPTH_MAX, Json, canonical, has_surrogate, nesting
from gateway.model.action import Predicate


class _Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""There is no JSON body to look into: none came, or it was cut, not JSON or undecodable. Not the same as null."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a predicate can see of an answer."""

    status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    body: Json = MISSING
    """The JSON value of the body, or `MISSING`."""

    def header(self, name: str) -> str | None:
        """First value of a header, by case-insensitive name."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)


def answer_of(observation: Observation) -> Answer:
    """The answer within an observation. Whether it is whole enough to rest a verdict on is the judge's question."""
    whole = (
        observation.body_complete
        and not observation.body_cut
        and observation.framing not in {None, Framing.UNTIL_CLOSE}
    )
    body = read_body(observation.body) if whole else MISSING
    return Answer(observation.status, observation.headers, body)


def matches(predicate: Predicate, answer: Answer, variables: Mapping[str, Json]) -> bool:
    """Whether every given part of the predicate holds. Whatever cannot be evaluated does not match.

    `header` alone tests its presence, with `equals` or `any_of` its value as text. With a `path`, `equals` and `any_of`
    test what the path finds (null where it finds nothing, as JMESPath has it); with neither, it must be truthy.
    """
    if predicate.statuses and not _status_within(predicate.statuses, answer.status):
        return False
    found: Json = None
    if predicate.header is not None:
        found = answer.header(predicate.header)
        if found is None:
            return False
    if predicate.path is not None:
        found = _search(predicate.path, answer.body)
        if found is MISSING:
            return False
    elif predicate.header is None:
        return True
    return _value_fits(predicate, found, variables)


def read_path(expression: str, body: Json) -> Json:
    """What a JMESPath finds in a body; None where it finds nothing, cannot be evaluated, or there is no body."""
    found = _search(expression, body)
    return None if found is MISSING else found


def read_body(data: bytes) -> Json:
    """A service's body, read as leniently as is safe: what two readers could understand differently is `MISSING`."""
    if nesting(data, DEPTH_MAX * 2) > DEPTH_MAX * 2:
        return MISSING
    try:
        value = _reader().decode(data.decode("utf-8-sig"))
    except ValueError:
        return MISSING
    # Half a surrogate pair could be neither stored nor shown later.
    return MISSING if b"\\u" in data and has_surrogate(value) else value


@cache
def _reader() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_not_json)


@lru_cache(maxsize=4096)
def compiled(expression: str) -> ParsedResult:
    """The parsed expression. Raises `jmespath.exceptions.JMESPathError` for one that is not JMESPath."""
    return jmespath.compile(expression)


def json_equal(left: Json, right: Json) -> bool:
    """Equality of JSON values. Python alone would take `True` for `1`; `1` and `1.0` are one JSON number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


def truthy(value: Json) -> bool:
    """Truth in JMESPath: false, null and everything empty are false; every number is true, zero included."""
    return not (value is None or value is False or (isinstance(value, str | list | dict) and not value))


def _status_within(ranges: tuple[tuple[int, int], ...], status: int | None) -> bool:
    return status is not None and any(low <= status <= high for low, high in ranges)


def _value_fits(predicate: Predicate, found: Json, variables: Mapping[str, Json]) -> bool:
    wanted = predicate.equals or predicate.any_of
    if not wanted:
        return predicate.path is None or truthy(found)
    filled = [value for value in (render_value(item, variables) for item in wanted) if value is not ABSENT]
    if predicate.path is None:
        return any(found == _header_text(value) for value in filled)
    return any(json_equal(found, value) for value in filled)


def _header_text(value: Json) -> str:
    """A header is text: a number in the definition means its digits."""
    return value if isinstance(value, str) else canonical(value).decode()


def _search(expression: str, body: Json) -> Json:
    if body is MISSING:
        return MISSING
    try:
        return compiled(expression).search(body)
    except (JMESPathError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # The interpreter meets whatever a service sends; an expression that trips over it has found nothing.
        return MISSING


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate name")
    return result


def _finite(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError("beyond every float")
    return value


def _not_json(_literal: str) -> NoReturn:
    raise ValueError("not JSON")
