"""Is each value of an action well formed? What is compared, expressions, schemas and what is shown."""

import re
from collections.abc import Iterable, Iterator, Mapping

import jsonschema_rs
from jmespath.exceptions import JMESPathError

from gateway.catalog.arguments import compile_schema
from gateway.catalog.finding import Declared, Finding, Subject
from gateway.catalog.rules_names import fits_text, unknown_names
from gateway.catalog.schema_lookup import IdentifyForm
from gateway.catalog.yamltext import Path
from gateway.core.matching import compiled
from gateway.core.placeholders import RESERVED, names_in
from gateway.core.strictjson import Json
from gateway.core.template import HEADER_NAME


def value_rules(subject: Subject) -> Iterator[Finding]:
    """Placeholders outside requests: in what is compared."""
    form = subject.form
    for path, test in subject.tests():
        yield from unknown_names((*path, "equals"), test.equals, subject)
        yield from unknown_names((*path, "in"), test.in_, subject)
        if test.header is not None and HEADER_NAME.fullmatch(test.header) is None:
            yield Finding((*path, "header"), "This is no name of a header.", "For example X-RateLimit-Remaining.")
    if form.reconcile:
        yield from unknown_names(("reconcile", "compare"), form.reconcile.compare, subject)
        yield from comparable(form.reconcile.compare, subject)
        if isinstance(form.reconcile.identify, IdentifyForm):
            yield from unknown_names(("reconcile", "identify", "equals"), form.reconcile.identify.equals, subject)


def conflict_rules(subject: Declared) -> Iterator[Finding]:
    """The conflict key is built from arguments that every call has."""
    form = subject.form
    if form.conflict_key is None:
        return
    yield from unknown_names(("conflict_key",), form.conflict_key, subject)
    for name in sorted(names_in(form.conflict_key)):
        if name in RESERVED:
            hint = "Build the key from arguments."
            yield Finding(("conflict_key",), f"“{{{name}}}” differs in every operation.", hint)
        elif name in subject.arguments and name not in subject.required:
            hint = "List it in “required”: without it, different things would share a key."
            yield Finding(("conflict_key",), f"The argument “{name}” is optional.", hint)
        elif not fits_text(subject.arguments.get(name)):
            yield Finding(
                ("conflict_key",), f"The argument “{name}” does not fit into a text.", "Use a plain argument."
            )


def expression_rules(subject: Subject) -> Iterator[Finding]:
    """Every JMESPath must compile."""
    for path, expression in subject.expressions():
        try:
            compiled(expression)
        except JMESPathError:
            yield Finding(path, "This is no JMESPath expression.", "For example state, data.id or items[0].status.")


def schema_rules(subject: Declared) -> Iterator[Finding]:
    """The schemas of arguments and result: they compile, and nothing in them reaches out for more."""
    form = subject.form
    yield from _schema(("input",), form.input)
    if form.output.schema_ is not None:
        yield from _schema(("output", "schema"), form.output.schema_)
    if form.input.get("type") != "object":
        yield Finding(("input",), "Arguments are an object.", "Start the schema with “type: object”.")
    if form.input.get("additionalProperties") is not False:
        hint = "Add “additionalProperties: false”, so that a misspelt argument is refused."
        yield Finding(("input",), "Arguments that are not declared would pass unnoticed.", hint, warning=True)
    for name in sorted(set(subject.arguments) & RESERVED):
        hint = "Call the argument something else."
        yield Finding(("input", "properties", name), f"“{name}” is a variable of the gateway.", hint)
    for name in sorted(subject.required - set(subject.arguments)):
        yield Finding(("input", "required"), f"“{name}” is required and not declared.", "Add it to “properties”.")


def output_rules(subject: Declared) -> Iterator[Finding]:
    """Names of members to mask are plain names, each given once."""
    for field in ("redact", "personal"):
        seen: set[str] = set()
        for index, name in enumerate(getattr(subject.form.output, field)):
            if re.fullmatch(r"[^\s.\[\]*]+", name) is None:
                hint = "Give the name of a member alone; it is masked wherever it occurs."
                yield Finding(("output", field, index), "This is no name of a member.", hint)
            elif name in seen:
                yield Finding(("output", field, index), f"“{name}” is listed twice.", "Remove one.")
            seen.add(name)


def comparable(compare: Mapping[str, Json], subject: Declared) -> Iterator[Finding]:
    """What is compared must be there."""
    for path, value in compare.items():
        for name in sorted(names_in(value)):
            if name in subject.arguments and name not in subject.required:
                hint = (
                    "Compare required arguments only: an absent one equals nothing, so nothing would ever be settled."
                )
                yield Finding(("reconcile", "compare", path), f"The argument “{name}” is optional.", hint)


def _schema(where: Path, schema: Json) -> Iterator[Finding]:
    remote = list(_remote_references(schema, where))
    yield from remote
    if remote:
        return
    try:
        compile_schema(schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        place = list(getattr(error, "instance_path", ()))
        yield Finding(
            (*where, *place), "This is no valid JSON Schema (2020-12).", "Check keywords, types and patterns."
        )


def _remote_references(schema: Json, where: Path) -> Iterator[Finding]:
    items: Iterable[tuple[str | int, Json]] = ()
    if isinstance(schema, dict):
        items = schema.items()
        for keyword in ("$ref", "$dynamicRef"):
            target = schema.get(keyword)
            if isinstance(target, str) and not target.startswith("#"):
                hint = "Copy the schema under “$defs” and refer to it as “#/$defs/name”."
                yield Finding((*where, keyword), "A reference to another document is refused.", hint)
    elif isinstance(schema, list):
        items = enumerate(schema)
    for key, item in items:
        yield from _remote_references(item, (*where, key))
