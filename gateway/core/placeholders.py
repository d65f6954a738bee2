"""Placeholders: parsed once, filled with JSON values, never applied to anything that a service said."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateway.core.ids import other_forms
from gateway.core.strictjson import Json, canonical
from gateway.model.problem import Code, FieldError, Problem

RESERVED: Final = frozenset({"operation_id", "operation_uuid", "operation_hex", "run", "correlation_id"})
"""Variables that the gateway fills in; an argument may not take one of these names."""

ALWAYS_PRESENT: Final = frozenset({"operation_id", "operation_uuid", "operation_hex"})
"""Variables that every operation has."""

_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_-]*)\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")
"""`{name}` stands for a value, `{{name}}` for the literal text `{name}`; every other brace is text."""


class _Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""An optional argument was not given. Not the same as null, which is a value."""


@dataclass(frozen=True, slots=True)
class Name:
    """A placeholder within a text."""

    name: str


Part = str | Name


@lru_cache(maxsize=4096)
def parts(text: str) -> tuple[Part, ...]:
    """A text cut into literal pieces and placeholders."""
    found: list[Part] = []
    literal, position = "", 0
    for match in _PLACEHOLDER.finditer(text):
        literal += text[position : match.start()]
        position = match.end()
        escaped, name = match.groups()
        if name is None:
            literal += f"{{{escaped}}}"
            continue
        if literal:
            found.append(literal)
        literal = ""
        found.append(Name(name))
    literal += text[position:]
    if literal:
        found.append(literal)
    return tuple(found)


def names_in(value: Json) -> frozenset[str]:
    """Every placeholder in the strings of a JSON value; names of members are never templates."""
    if isinstance(value, str):
        return frozenset(part.name for part in parts(value) if isinstance(part, Name))
    if isinstance(value, Mapping):
        return frozenset().union(*map(names_in, value.values()))
    if isinstance(value, list | tuple):
        return frozenset().union(*map(names_in, value))
    return frozenset()


def variables_of(
    arguments: Mapping[str, Json], *, operation_id: str, run: str | None = None, correlation_id: str | None = None
) -> dict[str, Json]:
    """The variables of one operation. The gateway's own win, so that no argument can pose as an operation id."""
    uuid, digits = other_forms(operation_id)
    own: dict[str, Json] = {
        "operation_id": operation_id,
        "operation_uuid": uuid,
        "operation_hex": digits,
    }
    if run is not None:
        own["run"] = run
    if correlation_id is not None:
        own["correlation_id"] = correlation_id
    if not RESERVED.isdisjoint(arguments):
        arguments = {name: value for name, value in arguments.items() if name not in RESERVED}
    return {**arguments, **own}


def render_value(value: Json, variables: Mapping[str, Json]) -> Json:
    """Fill a JSON value. A string that is one placeholder becomes the variable's value, with its JSON type.

    Members and items whose placeholder has no value are left out; `ABSENT` if that leaves nothing of the value itself.
    """
    if isinstance(value, str):
        return _render_string(value, variables)
    if isinstance(value, Mapping):
        filled = {}
        for name, item in value.items():
            done = _render_string(item, variables) if isinstance(item, str) else render_value(item, variables)
            if done is not ABSENT:
                filled[name] = done
        return filled
    if isinstance(value, list | tuple):
        return [item for item in (render_value(item, variables) for item in value) if item is not ABSENT]
    return value


def render_text(text: str, variables: Mapping[str, Json]) -> str:
    """Fill a text in which every placeholder must have a value, for example a conflict key.

    Raises `Problem(invalid_input)` if one is missing: leaving it out would make two different things look the same.
    """
    filled = []
    for part in parts(text):
        if isinstance(part, str):
            filled.append(part)
        elif part.name in variables:
            filled.append(as_text(part.name, variables[part.name]))
        else:
            raise refuse(part.name, "This argument is needed for this call.", "Give a value for it.")
    return "".join(filled)


def as_text(name: str, value: Json) -> str:
    """A value inside a longer text: strings as they are, whole numbers and booleans as JSON writes them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int) or (isinstance(value, float) and value.is_integer()):
        # 4.0 is a whole number to JSON Schema, and the same number as 4 to the fingerprint.
        return canonical(value).decode()
    raise refuse(name, "Only a string, a whole number or a boolean fits into a text.", "Give a plain string.")


def refuse(name: str, detail: str, guidance: str, code: Code = Code.INVALID_INPUT) -> Problem:
    """The problem with one argument: points at it and never repeats its value."""
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    sentence = "A value cannot be used in the request that this action makes."
    return Problem(code, sentence, guidance, errors=(FieldError(pointer, detail, guidance),))


def _render_string(text: str, variables: Mapping[str, Json]) -> Json:
    pieces = parts(text)
    if len(pieces) == 1:
        only = pieces[0]
        return only if isinstance(only, str) else variables.get(only.name, ABSENT)
    if any(isinstance(piece, Name) and piece.name not in variables for piece in pieces):
        return ABSENT
    return "".join(piece if isinstance(piece, str) else as_text(piece.name, variables[piece.name]) for piece in pieces)
