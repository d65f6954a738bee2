"""Are the arguments of a call what the action declares? One plain sentence per argument, never its value."""

from typing import Final, NoReturn

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from gateway.core.strictjson import Json, canonical
from gateway.model.problem import FieldError

ERRORS_MAX: Final = 20
"""More than anyone reads; bounds the answer."""

_BACKTRACK_MAX = 100_000
_TYPE_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def compile_schema(schema: Json) -> jsonschema_rs.Draft202012Validator:
    """A validator that fetches nothing and bounds the work of patterns. Raises `ValueError` or `ReferencingError`."""
    return jsonschema_rs.Draft202012Validator(
        schema,
        validate_formats=True,
        retriever=_refuse,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_MAX),
    )


def check_arguments(validator: jsonschema_rs.Draft202012Validator, arguments: Json) -> list[FieldError]:
    """What does not fit, each with a JSON pointer into the arguments; empty if all fits."""
    if validator.is_valid(arguments):
        return []
    found = []
    for error in validator.iter_errors(arguments):
        found.append(_field_error(error))
        if len(found) == ERRORS_MAX:
            break
    return found


def _refuse(_uri: str) -> NoReturn:
    raise ValueError("references to other documents are refused")


def _field_error(error: jsonschema_rs.ValidationError) -> FieldError:
    steps = list(error.instance_path)
    kind = error.kind
    if isinstance(kind, Kind.Required):
        return FieldError(_pointer([*steps, kind.property]), "This argument is missing.", "Add it.")
    detail, guidance = _sentence(kind)
    return FieldError(_pointer(steps), detail, guidance)


def _sentence(kind: Kind) -> tuple[str, str]:
    """Sentence and guidance from what the schema declares; the instance is not looked at."""
    match kind:
        case Kind.Type():
            words = " or ".join(_TYPE_WORDS.get(name, name) for name in kind.types)
            return (
                f"This must be {words}.",
                "Use the declared type; JSON text needs quotes, numbers must not have them.",
            )
        case Kind.Enum():
            return "This is none of the declared values.", f"Use one of: {_listed(kind.options)}."
        case Kind.Constant():
            return "This is not the declared value.", f"Use {_listed([kind.expected_value])}."
        case Kind.Pattern():
            return "This does not have the declared form.", f"It must match {kind.pattern}"
        case Kind.Format():
            return f"This is not a valid {kind.format}.", "Use the declared format."
        case Kind.AdditionalProperties() | Kind.UnevaluatedProperties() | Kind.FalseSchema():
            return "There is an argument that is not declared.", "Remove it; check the spelling of the others."
        case Kind.BacktrackLimitExceeded() | Kind.RegexEngineFailure():
            return "This could not be checked against its pattern.", "Give a shorter, simpler value."
        case Kind.AnyOf() | Kind.OneOfNotValid():
            return "This fits none of the declared forms.", "Compare it with the action's schema."
        case Kind.OneOfMultipleValid():
            return "This fits more than one of the declared forms.", "Make clear which one is meant."
        case Kind.UniqueItems():
            return "The list holds an entry twice.", "Remove repeated entries."
        case _:
            return _bound(kind)


_BOUNDS = {
    "minimum": "This must be at least {}.",
    "maximum": "This must be at most {}.",
    "exclusiveMinimum": "This must be greater than {}.",
    "exclusiveMaximum": "This must be less than {}.",
    "minLength": "This must have at least {} characters.",
    "maxLength": "This must have at most {} characters.",
    "minItems": "The list needs at least {} entries.",
    "maxItems": "The list may have at most {} entries.",
    "minProperties": "The object needs at least {} members.",
    "maxProperties": "The object may have at most {} members.",
    "multipleOf": "This must be a multiple of {}.",
}


def _bound(kind: Kind) -> tuple[str, str]:
    sentence = _BOUNDS.get(kind.name)
    if sentence is None:
        return f"This does not fit what “{kind.name}” declares.", "Compare it with the action's schema."
    limit = getattr(kind, "multiple_of", None) if kind.name == "multipleOf" else getattr(kind, "limit", None)
    return sentence.format(limit), "Change the value to fit."


def _listed(values: list[Json]) -> str:
    shown = ", ".join(canonical(value).decode() for value in values[:20])
    return shown if len(values) <= 20 else f"{shown}, …"


def _pointer(steps: list[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
