"""Do placeholders name something, and does its value fit where they stand?"""

from collections.abc import Iterator

from gateway.catalog.finding import Declared, Finding
from gateway.catalog.mistake import did_you_mean
from gateway.catalog.yamltext import Path
from gateway.core.placeholders import RESERVED, Name, names_in, parts
from gateway.core.strictjson import Json


def unknown_names(where: Path, value: Json, subject: Declared) -> Iterator[Finding]:
    """Placeholders that name nothing, or whose value does not fit where they stand."""
    known = set(subject.arguments) | RESERVED
    for path, text in _texts(value, where):
        for name in sorted(names_in(text) - known):
            hint = did_you_mean(name, known) + f" Write {{{{{name}}}}} for the text {{{name}}} itself."
            yield Finding(path, f"“{{{name}}}” names no argument and no variable.", hint)
        pieces = parts(text)
        for piece in pieces if len(pieces) > 1 else ():
            if isinstance(piece, Name) and not fits_text(subject.arguments.get(piece.name)):
                hint = "Only text, whole numbers and booleans fit; let it stand alone to keep its JSON type."
                yield Finding(path, f"The argument “{piece.name}” does not fit into a text.", hint)


def _texts(value: Json, where: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*where, index))


def fits_text(schema: Json) -> bool:
    """Whether an argument of this schema may stand within a longer text."""
    declared = schema.get("type") if isinstance(schema, dict) else None
    kinds = declared if isinstance(declared, list) else [declared]
    # A type that is no word is a mistake of its own, told elsewhere.
    return not any(kind in ("object", "array", "number", "null") for kind in kinds)
