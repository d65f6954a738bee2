"""What a word of the command line means as the value of an argument: text, or the JSON that it spells."""

from collections.abc import Callable, Mapping

from gateway.core.strictjson import Json, JsonError, parse

DEFINITIONS = ("$defs", "definitions")
"""Members of an action's schema that the schema of one argument may point to."""


def typed(text: str, declared: Json, schema: Mapping[str, Json]) -> Json:
    """The value meant by `text`, where `declared` is the form of the argument and `schema` that of all arguments.

    One declared type decides alone, whether the value fits it or not: the gateway's refusal says what is wrong. Where
    several are allowed, or an enum or a reference says which, the reading that fits is meant.
    """
    kind = declared.get("type") if isinstance(declared, dict) else None
    if not isinstance(declared, dict) or kind == "string":
        return text
    try:
        spelled = parse(text.encode())
    except JsonError:
        return text
    if isinstance(kind, str):
        return spelled
    first, second = (text, spelled) if kind is None else (spelled, text)
    fits = _checker({**{name: schema[name] for name in DEFINITIONS if name in schema}, **declared})
    return second if fits(second) and not fits(first) else first


def _checker(schema: dict[str, Json]) -> Callable[[Json], bool]:
    import jsonschema_rs

    from gateway.catalog.arguments import compile_schema

    try:
        return compile_schema(schema).is_valid
    except (ValueError, jsonschema_rs.ReferencingError):
        # It points elsewhere into the whole; the gateway, which has that, will tell.
        return lambda _: False
