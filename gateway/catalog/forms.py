"""From a read document to a form, with every mistake said in a plain sentence at its line."""

import re
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.catalog.mistake import Mistake, did_you_mean
from gateway.catalog.yamltext import Document, Path
from gateway.core.strictjson import Json

FormT = TypeVar("FormT", bound=BaseModel)

_WHOLE = ("This must be a whole number.", "Write digits without quotes.")
_MAPPING = (
    "This must be a mapping of names to values.",
    "Write lines of a name, a colon and a value, or {name: value}.",
)
_LIST = ("This must be a list.", "Write [one, two], or each entry after a dash on a line of its own.")
_TYPES: Mapping[str, tuple[str, str]] = {
    "string_type": ("This must be text.", "Write words, in quotes if they could be read as anything else."),
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": ("This must be a number.", "Write it without quotes and without a unit."),
    "bool_type": ("This must be true or false.", "Write it without quotes."),
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "list_type": _LIST,
    "tuple_type": _LIST,
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("gt", "This must be greater than {}."),
    "greater_than_equal": ("ge", "This must be at least {}."),
    "less_than": ("lt", "This must be less than {}."),
    "less_than_equal": ("le", "This must be at most {}."),
    "string_too_short": ("min_length", "This must have at least {} character."),
    "string_too_long": ("max_length", "This must have at most {} characters."),
    "too_short": ("min_length", "This needs at least {} entry."),
    "too_long": ("max_length", "This may have at most {} entries."),
}


def read_form(
    document: Document, path: Path, form: type[FormT], arrives: Mapping[str, str]
) -> tuple[FormT | None, list[Mistake]]:
    """Validate the value at a path of a document. `arrives` names fields of parts that do not exist yet.

    Nothing of the value is repeated in a mistake but the names of fields: settings may hold expanded secrets.
    """
    value = _at(document.value, path)
    try:
        return form.model_validate(value), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=True)
        return None, [_mistake(document, path, value, form, arrives, detail) for detail in details]


def unknown_field(
    document: Document, path: Path, known: Iterator[str] | list[str], arrives: Mapping[str, str]
) -> Mistake:
    """The mistake of a field that is not known where it stands."""
    word = str(path[-1])
    if word in arrives:
        return document.mistake(path, f"“{word}” arrives with {arrives[word]}.", "Remove it until then.")
    return document.mistake(path, f"There is no field “{word}” here.", did_you_mean(word, known) or "Remove it.")


def _at(value: Json, path: Path) -> Json:
    for step in path:
        value = value[step]
    return value


def _mistake(  # noqa: PLR0917 - private, called once, and each argument is named there
    document: Document, base: Path, value: Json, form: type[BaseModel], arrives: Mapping[str, str], error: ErrorDetails
) -> Mistake:
    inner = tuple(_written(value, (*error["loc"], error.get("ctx", {}).get("field", ""))))
    path = (*base, *inner)
    if error["type"] == "extra_forbidden":
        return unknown_field(document, path, list(_fields(form, inner[:-1])), arrives)
    if error["type"] == "missing":
        return document.mistake(
            path, f"The field “{error['loc'][-1]}” is missing.", _MISSING_HINTS.get(str(error["loc"][-1]), "Add it.")
        )
    detail, hint = _sentence(error)
    return document.mistake(path, detail, hint)


_MISSING_HINTS: Mapping[str, str] = {
    "rules": "Say what each answer means; without rules nothing can be concluded.",
    "effect": "Say read, reversible or irreversible.",
    "margin": "Say how much of the window to leave unused, for example 1h.",
    "handle": "Say where the answer names the place to follow: a JMESPath, or {header: Location}.",
}

_TRUE_HINTS: Mapping[str, str] = {"unknown_accepted": "Write true; what you mean in words belongs into “reason”."}


def _sentence(error: ErrorDetails) -> tuple[str, str]:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "plain":
        return context["detail"], context["hint"]
    if kind in _TYPES:
        quotable = kind == "string_type" and isinstance(error["input"], bool | int | float)
        detail, hint = _TYPES[kind]
        return detail, "Quote it." if quotable else hint
    if kind in _BOUNDS:
        name, sentence = _BOUNDS[kind]
        bound = context[name]
        return sentence.format(f"{bound:g}" if isinstance(bound, float) else bound), "Change it so that it fits."
    if kind == "literal_error" and context["expected"] == "True":
        return "This can only be true, or be left out.", _TRUE_HINTS.get(str(error["loc"][-1]), "Write true.")
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"]) or [context["expected"]]
        written = error["input"] if isinstance(error["input"], str) else ""
        nearest = did_you_mean(written, known)
        return f"This must be one of: {', '.join(known)}.", nearest if nearest.startswith(
            "Did"
        ) else "Choose one of these words."
    return f"{error['msg'].rstrip('.')}.", "Correct it, or leave it out."


def _written(value: Json, loc: tuple[int | str, ...]) -> Iterator[int | str]:
    """The steps of a location that the document has; the others name alternatives of a form, or what is missing."""
    for step in loc:
        in_mapping = isinstance(value, dict) and step in value
        if in_mapping or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            value = value[step]
            yield step


def _fields(form: type[BaseModel], path: Path) -> Iterator[str]:
    """Names of the fields that may stand at a path of a form."""
    here: list[Any] = [form]
    for step in path:
        here = [inner for annotation in here for inner in _inner(annotation, step)]
    for annotation in here:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from (field.alias or name for name, field in annotation.model_fields.items())


def _inner(annotation: Any, step: int | str) -> Iterator[Any]:  # noqa: ANN401 - annotations have no common type
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if step == (field.alias or name):
                yield from _concrete(field.annotation)
    elif get_origin(annotation) in {dict, list, tuple}:
        yield from _concrete(get_args(annotation)[1 if get_origin(annotation) is dict else 0])


def _concrete(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - annotations have no common type
    if get_origin(annotation) is Annotated:
        yield from _concrete(get_args(annotation)[0])
    elif get_origin(annotation) in {Union, types.UnionType}:
        for choice in get_args(annotation):
            yield from _concrete(choice)
    else:
        yield annotation
