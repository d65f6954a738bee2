"""Is it said whose data the personal arguments are? Without that, nobody's could ever be erased."""

from collections.abc import Iterator

from gateway.catalog.finding import Declared, Finding
from gateway.catalog.rules_names import fits_text, unknown_names
from gateway.core.placeholders import RESERVED, names_in
from gateway.core.strictjson import Json


def personal_rules(subject: Declared) -> Iterator[Finding]:
    """Arguments marked `personal: true`, and the person that they belong to."""
    marked = []
    for name, schema in subject.arguments.items():
        if not isinstance(schema, dict) or "personal" not in schema:
            continue
        path = ("input", "properties", name, "personal")
        if schema["personal"] is not True:
            yield Finding(path, "“personal” is true or left out.", "Write “personal: true”, or remove it.")
        elif subject.form.subject is None:
            hint = 'Declare whose: “subject: "{customer}"”.'
            yield Finding(path, f"“{name}” is personal, and it is not said whose.", hint)
        else:
            marked.append(name)
    yield from _nested(("input",), subject.form.input, 0)
    if subject.form.subject is not None:
        if not marked:
            yield Finding(("subject",), "No argument is personal.", "Mark it “personal: true”, or remove “subject”.")
        yield from _names(subject, subject.form.subject)


def _names(subject: Declared, text: str) -> Iterator[Finding]:
    yield from unknown_names(("subject",), text, subject)
    names = names_in(text)
    if not names:
        yield Finding(("subject",), "All calls would be one person's.", "Name an argument: “{customer}”.")
    for name in sorted(names):
        if name in RESERVED:
            yield Finding(("subject",), f"“{{{name}}}” differs in every operation.", "Name an argument.")
        elif name in subject.arguments and name not in subject.required:
            hint = "List it in “required”: without it, different people would share a key."
            yield Finding(("subject",), f"The argument “{name}” is optional.", hint)
        elif not fits_text(subject.arguments.get(name)):
            yield Finding(("subject",), f"The argument “{name}” does not fit into a text.", "Use a plain argument.")


def _nested(path: tuple[str | int, ...], value: Json, depth: int) -> Iterator[Finding]:
    """A mark where it has no meaning would be a promise that nobody keeps."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nested((*path, index), item, depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            here = (*path, name)
            if name == "personal" and item is True and not (depth == 2 and path[1] == "properties"):
                yield Finding(here, "Only a whole argument can be personal.", "Mark the argument that holds it.")
            yield from _nested(here, item, depth + 1)
