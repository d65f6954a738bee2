"""Writes gateway/SETTINGS.md and gateway/CATALOG.md from what the program itself reads (`make docs`)."""

import ast
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from gateway import settings
from gateway.catalog.jsonschema_export import catalog_schema
from gateway.catalog.schema import ARRIVES
from tests.house.source import ROOT

SETTINGS = ROOT / "gateway" / "SETTINGS.md"
CATALOG = ROOT / "gateway" / "CATALOG.md"

Schema = Mapping[str, Any]

_SETTINGS_HEAD = """\
# Settings

Everything that `gateway.yaml` may say, with its default. `gateway init` writes a commented file with the settings
that most installations touch. A field that is not listed here is refused, not ignored; `gateway check` names file and
line. `${NAME}` takes a text from the environment, and a variable that is not set is a mistake. Relative paths count
from the folder of the file. This page is generated from `gateway/settings.py` by `make docs`.

## Environment

| variable | does |
|---|---|
| `GATEWAY_CONFIG` | the settings file; default `gateway.yaml` in the current folder |
| `GATEWAY_ADDR` | `host:port`: where `serve` listens, and where the other commands look for the gateway |
| `GATEWAY_KEY` | the API key that commands send; never written anywhere |
| `GATEWAY_STORE_URL` | overrides `store.url` |
| `GATEWAY_VAULT_KEY` | the vault's key, in place of `vault.key_file` |
| `GATEWAY_DATA_KEY` | the key of stored requests and results, in place of `data/keys/data.key` |
"""

_CATALOG_HEAD = """\
# Catalog

What is not declared in the catalog does not exist for an agent. Every `*.yaml` file in `catalog_folder` is read. The
YAML is strict: no anchors or aliases, no tags, no duplicate keys, no field that is not listed here. `gateway check`
names every mistake with file, line, a plain sentence and a hint; `gateway schema` prints the JSON Schema for your
editor. `gateway init` writes a commented example. This page is generated from the forms in `gateway/catalog`
by `make docs`.

## Writing values

- A *duration* is a whole number with a unit: `500ms`, `10s`, `5m`, `24h`, `7d`.
- A *status* is `200`, `2xx`, `200-204`, or a list of these.
- A *test* is a status, or a mapping in which every given part must hold; see [Predicate](#predicate).
- `{name}` in a request stands for an argument, or for one of the gateway's own values: `{operation_id}`,
  `{operation_uuid}` and `{operation_hex}` (the operation's id in three forms), `{run}`, `{correlation_id}`. Quote what
  begins with a brace. An optional argument that is absent drops its header, parameter or member; in a command it is a
  mistake. `{{name}}` stands for the text `{name}`.

## The three questions

For every action that changes something, `gateway check` asks its owner three questions, and says which are
unanswered:

1. **What makes repeats one operation?** `bind`, with the `window` for which the service promises to remember the
   value.
2. **Where can the outcome be looked up when the answer is lost?** `reconcile`, with `identify` as the proof that what
   was found is this operation, or `accepted` for work that is followed by a handle.
3. **What remains when the connection breaks?** `reconcile.absence`: `settle` if the longest time is known for which a
   request can be held up, `fence` if the place can be occupied, else nothing. And `resend`, if a repeat is safe.

An irreversible action without any answer needs `unknown_accepted: true` and a `reason`.

For a command on a host the runner answers all three (`marker: runner`): it travels with the command and needs nothing
on the host but `sh`, remembers in the host's `store` what it was told to run, runs each attempt at most once, and can
see to it that a late one never runs. A status command of your own (`reconcile.command`) may tell what became of it
instead.

## A job of several commands

```yaml
release.publish:
  description: Bring a release into service.
  effect: irreversible
  host: web-1
  input: {type: object, properties: {version: {type: string}}, required: [version], additionalProperties: false}
  steps:
    - {name: migrate, command: [/usr/local/bin/migrate-db, --to, "{version}"]}
    - {name: restart, command: [/usr/bin/systemctl, restart, app], success: {exit: [0, 3]}}
  conflict_key: release
  deadlines: {request: 2m, recovery: 30m}
```

`steps` are one operation. They run in order, each at most once, and the next one begins when the one before has ended
as its `success` says; otherwise the job stops there and has failed. If the session, the host or the gateway is lost on
the way, the operation is unknown until the host has been asked; then it goes on at the first step of which the host
holds no record. A step that was begun and left no record of its end (the host was restarted meanwhile) is never run
again: the operation becomes unresolved, and a person settles it. `attempts_max` counts the tries of a job at one step;
`deadlines.request` bounds one try, which may bring several steps on, and `deadlines.recovery` the whole.
"""

_ORDER = (
    "Service",
    "Host",
    "Action",
    "Command",
    "Request",
    "Bind",
    "Reconcile",
    "Accepted",
    "Rejected",
    "Predicate",
    "Rule",
    "Deadlines",
)


def settings_text() -> str:
    """The settings page."""
    classes = {node.name: node for node in ast.parse((ROOT / "gateway" / "settings.py").read_text()).body
               if isinstance(node, ast.ClassDef)}  # fmt: skip
    parts = [_SETTINGS_HEAD]
    for name, owner, each, sentence in _sections(classes, "Settings", ""):
        parts.append(
            f"\n## `{name}`{each}\n\n{ast.get_docstring(classes[owner])}" + (f" {sentence}" if sentence else "")
        )
        parts.append("\n" + _table("setting", list(_fields(classes[owner]))).rstrip())
    plain = [row for row in _fields(classes["Settings"]) if not any(owner in row[1] for owner in classes)]
    parts.insert(1, "\n## At the top\n\n" + _table("setting", plain).rstrip())
    return "\n".join(parts).rstrip() + "\n"


def _sections(classes: Mapping[str, ast.ClassDef], within: str, before: str) -> Iterator[tuple[str, str, str, str]]:
    """(path, class, whether a list, sentence) of each group of settings, those inside of groups included."""
    for name, kind, _, sentence in _fields(classes[within]):
        owner = next((owner for owner in classes if owner in kind), None)
        if owner is not None:
            yield f"{before}{name}", owner, " (a list)" if kind.startswith("tuple") else "", "" if before else sentence
            yield from _sections(classes, owner, f"{before}{name}.")


def _fields(owner: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    """(name, type, default, sentence) of each field that a file or the environment may give."""
    for node, following in zip(owner.body, [*owner.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            default = _default(getattr(settings, owner.name).__dataclass_fields__[node.target.id])
            yield node.target.id, ast.unparse(node.annotation), default, _said(following)


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default is dataclasses.MISSING:
        return "required" if item.default_factory is dataclasses.MISSING else "none"
    return "none" if item.default in {None, ()} else f"`{json.dumps(item.default)}`"


def _said(node: ast.stmt) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
        case _:
            return ""


def _table(first: str, rows: list[tuple[str, str, str, str]]) -> str:
    lines = [f"| {first} | form | default | |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {_form(kind)} | {default} | {_cell(sentence)} |" for name, kind, default, sentence in rows]
    return "\n".join(lines) + "\n"


def _form(kind: str) -> str:
    names = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "str | None": "text"}
    if kind.startswith("tuple[str"):
        return "list of texts"
    if kind.startswith("tuple["):
        return "list, see below"
    if kind.startswith("Literal"):
        values = ast.literal_eval(kind.removeprefix("Literal"))
        return " or ".join(f"`{value}`" for value in values)
    if kind.startswith("Mapping"):
        return "mapping"
    return names.get(kind, kind)


def _cell(text: str) -> str:
    """One line: a line break would end the table."""
    return " ".join(text.split()).replace("|", "\\|")


def catalog_text() -> str:
    """The catalog page."""
    schema = catalog_schema()
    forms: dict[str, Schema] = {name.removesuffix("Form"): form for name, form in schema["$defs"].items()}
    order = [*_ORDER, *sorted(set(forms) - set(_ORDER))]
    parts = [_CATALOG_HEAD, "## At the top of a file\n"]
    parts.append(
        "`services` maps names to a [Service](#service), `hosts` names to a [Host](#host), and `actions` names to an"
        " [Action](#action) that sends a request to a service, or to a [Command](#command) that runs on a host.\n"
    )
    parts.append("## Not yet\n\nThese fields are known and refused until their part exists: " + _arriving() + ".\n")
    for name in order:
        parts.append(f"## {name}\n\n{forms[name].get('description', '')}\n")
        parts.append(_form_table(forms[name], forms))
    return "\n".join(parts).rstrip() + "\n"


def _arriving() -> str:
    return ", ".join(f"`{field}` ({part})" for field, part in ARRIVES.items())


def _form_table(form: Schema, forms: Mapping[str, Schema]) -> str:
    required = set(form.get("required", ()))
    lines = ["| field | form | default | |", "|---|---|---|---|"]
    for name, field in form["properties"].items():
        if name in required:
            default = "required"
        elif field.get("default") is None or isinstance(field["default"], dict | list):
            of_command = "exit" in (field.get("default") or {})
            default = ("`exit: 0`" if of_command else "`2xx`") if name == "success" else ""
        else:
            default = f"`{field['default']}`"
        said = field.get("description") or _said_of(field, forms)
        lines.append(f"| `{name}` | {_kind(field)} | {default} | {_cell(said)} |")
    return "\n".join(lines) + "\n"


def _said_of(field: Schema, forms: Mapping[str, Schema]) -> str:
    """What the form says of itself that a field refers to, where the field has no sentence of its own."""
    for part in (field, *field.get("anyOf", ())):
        if "$ref" in part:
            return str(forms[_named(part)].get("description", ""))
    return ""


def _named(part: Schema) -> str:
    return str(part["$ref"]).rpartition("/")[2].removesuffix("Form")


def _kind(field: Schema) -> str:
    options = field.get("anyOf") or field.get("oneOf") or [field]
    if any(_named(option) == "Predicate" for option in options if "$ref" in option):
        several = any("anyOf" in option.get("items", {}) for option in options)
        return "[test](#predicate) or list of tests" if several else "[test](#predicate)"
    kinds: list[str] = []
    for option in options:
        kind = _kind_of_one(option)
        if kind and kind not in kinds:
            kinds.append(kind)
    return " or ".join(kinds)


def _kind_of_one(part: Schema) -> str:
    if "$ref" in part:
        return f"[{_named(part)}](#{_named(part).lower()})"
    if "oneOf" in part or "anyOf" in part:
        return _kind(part)
    if "const" in part:
        return f"`{json.dumps(part['const']).strip(chr(34))}`"
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    if part.get("type") == "array":
        inner = part["items"]
        return f"list of {_kind(inner)}" if "anyOf" in inner or "$ref" in inner else "list"
    pattern = str(part.get("pattern", ""))
    if "ms|s|m|h|d" in pattern:
        return "duration"
    if "xx|" in pattern or part.get("maximum") == 599:
        return "status"
    names = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "mapping", "null": ""}
    return names.get(str(part.get("type", "")), "any value")


if __name__ == "__main__":
    SETTINGS.write_text(settings_text(), encoding="utf-8")
    CATALOG.write_text(catalog_text(), encoding="utf-8")
