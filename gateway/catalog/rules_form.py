"""Is each part of an action well formed? Addresses, headers, placeholders, expressions and schemas."""

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

import jsonschema_rs
from jmespath.exceptions import JMESPathError

from gateway.catalog.arguments import compile_schema
from gateway.catalog.finding import Finding, Subject
from gateway.catalog.mistake import did_you_mean
from gateway.catalog.schema import IdentifyForm, RequestForm, ServiceForm
from gateway.catalog.yamltext import Path
from gateway.core.matching import compiled
from gateway.core.placeholders import ALWAYS_PRESENT, RESERVED, Name, names_in, parts
from gateway.core.strictjson import Json
from gateway.core.template import HEADER_NAME, HEADERS_RESERVED, METHODS_WITHOUT_BODY

_PATH_TEXT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
_HEADER_TEXT = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_JSON_TYPE = re.compile(r"application/(?:[a-z0-9.-]+\+)?json(?:\s*;.*)?", re.IGNORECASE)
_ALL_ARE_LOCAL = frozenset({"localhost", "localhost."})


def service_rules(form: ServiceForm) -> Iterator[Finding]:
    """The address of a service: https, or http within a network that its owner vouches for."""
    try:
        pieces = urlsplit(form.base_url)
        host, _port = pieces.hostname or "", pieces.port
    except ValueError:
        pieces, host = urlsplit(""), ""
    where: Path = ("base_url",)
    if pieces.scheme not in {"http", "https"} or not host:
        yield Finding(where, "This is no address of a service.", "Write https://host/path.")
        return
    if "@" in pieces.netloc:
        yield Finding(where, "A name or password does not belong into the address.", "Use “credential”.")
    if pieces.query or pieces.fragment or form.base_url.endswith(("?", "#")):
        yield Finding(where, "The address has a query or fragment.", "Put a query into the request of an action.")
    if names_in(form.base_url):
        yield Finding(where, "A placeholder cannot stand in the address of a service.", "Declare one service per host.")
    elif _PATH_TEXT.fullmatch(pieces.path) is None or _has_steps(pieces.path.strip("/")):
        yield Finding(where, "The path of the address is not plain.", "Leave out “..”, empty parts and odd characters.")
    local = _is_local(host)
    if pieces.scheme == "http" and not (local or form.allow_private):
        yield Finding(where, "Without TLS everyone on the way can read and change requests.", "Use https.")
    if local and not form.allow_private:
        yield Finding(where, "The address is a private one, which is refused.", "Add “allow_private: true” if meant.")
    if form.proxy is not None and _bad_proxy(form.proxy):
        yield Finding(("proxy",), "This is no address of a proxy.", "Write http://host:port, without a password.")


def request_rules(subject: Subject) -> Iterator[Finding]:
    """Every request of the action: its path, its headers, and what its placeholders name."""
    for path, form in subject.requests():
        yield from _path_shape(form, path)
        yield from _path_names(form, path, subject)
        yield from _headers(form.headers, (*path, "headers"))
        for part in ("path", "query", "headers", "body"):
            yield from _known((*path, part), getattr(form, part), subject)
        for part in ("query", "headers", "body"):
            yield from _plain_keys((*path, part), getattr(form, part))
        if form.body is not None and form.method in METHODS_WITHOUT_BODY:
            yield Finding((*path, "body"), f"A {form.method} request has no body.", "Use “query”, or another method.")


def slot_rules(subject: Subject) -> Iterator[Finding]:
    """The headers that bind and precondition add, beside those of the request."""
    form = subject.form
    taken = {name.lower() for name in form.request.headers}
    added = [("precondition", form.precondition.header)] if form.precondition else []
    if form.bind and form.bind.in_ == "header" and form.bind.name:
        added.append(("bind", form.bind.name))
    for field, name in added:
        key = "header" if field == "precondition" else "name"
        yield from _header_name(name, (field, key))
        if name.lower() in taken:
            yield Finding((field, key), "The request sets this header already.", "Remove it from “headers”.")
        taken.add(name.lower())
    if form.precondition and form.precondition.from_ not in subject.required:
        hint = "Declare the argument and list it in “required”: without it the write would be unconditional."
        yield Finding(("precondition", "from"), "This names no required argument.", hint)


def value_rules(subject: Subject) -> Iterator[Finding]:
    """Placeholders outside requests: in what is compared, and in the conflict key."""
    form = subject.form
    for path, test in subject.tests():
        yield from _known((*path, "equals"), test.equals, subject)
        yield from _known((*path, "in"), test.in_, subject)
        if test.header is not None and HEADER_NAME.fullmatch(test.header) is None:
            yield Finding((*path, "header"), "This is no name of a header.", "For example X-RateLimit-Remaining.")
    if form.reconcile:
        yield from _known(("reconcile", "compare"), form.reconcile.compare, subject)
        yield from _comparable(form.reconcile.compare, subject)
        if isinstance(form.reconcile.identify, IdentifyForm):
            yield from _known(("reconcile", "identify", "equals"), form.reconcile.identify.equals, subject)
    if form.conflict_key is None:
        return
    yield from _known(("conflict_key",), form.conflict_key, subject)
    for name in sorted(names_in(form.conflict_key)):
        if name in RESERVED:
            hint = "Build the key from arguments."
            yield Finding(("conflict_key",), f"“{{{name}}}” differs in every operation.", hint)
        elif name in subject.arguments and name not in subject.required:
            hint = "List it in “required”: without it, different things would share a key."
            yield Finding(("conflict_key",), f"The argument “{name}” is optional.", hint)
        elif not _fits_text(subject.arguments.get(name)):
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


def schema_rules(subject: Subject) -> Iterator[Finding]:
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


def output_rules(subject: Subject) -> Iterator[Finding]:
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


def _comparable(compare: Mapping[str, Json], subject: Subject) -> Iterator[Finding]:
    for path, value in compare.items():
        for name in sorted(names_in(value)):
            if name in subject.arguments and name not in subject.required:
                hint = (
                    "Compare required arguments only: an absent one equals nothing, so nothing would ever be settled."
                )
                yield Finding(("reconcile", "compare", path), f"The argument “{name}” is optional.", hint)


def _path_shape(form: RequestForm, path: Path) -> Iterator[Finding]:
    where: Path = (*path, "path")
    text = form.path
    literal = "".join(part if isinstance(part, str) else "x" for part in parts(text))
    if not text.startswith("/"):
        yield Finding(where, "The path does not start with “/”.", "It is appended to the service's base_url.")
    elif "?" in literal or "#" in literal:
        yield Finding(where, "The path holds a query or fragment.", "Put parameters under “query”.")
    elif "{" in literal or "}" in literal:
        hint = "Only simple placeholders like {name} are known; their values are percent-encoded."
        yield Finding(where, "The path holds a brace that belongs to no placeholder.", hint)
    elif _PATH_TEXT.fullmatch(literal) is None:
        yield Finding(where, "The path holds a character that must be percent-encoded.", "Write it as %XX.")
    elif _has_steps(literal[1:].removesuffix("/")):
        yield Finding(where, "The path holds an empty part, “.” or “..”.", "Write the plain path.")


def _path_names(form: RequestForm, path: Path, subject: Subject) -> Iterator[Finding]:
    where: Path = (*path, "path")
    used = names_in(form.path)
    for name in sorted(used):
        optional = name in subject.arguments and name not in subject.required
        if optional or name in RESERVED - ALWAYS_PRESENT:
            hint = "List it in “required”." if optional else "Use {operation_id} or an argument."
            yield Finding(where, f"“{{{name}}}” may be absent, and a path needs it.", hint)
        elif not _fits_text(subject.arguments.get(name)):
            yield Finding(where, f"The argument “{name}” does not fit into a path.", "Use text or a whole number.")
    for index, name in enumerate(form.opaque):
        if name not in used:
            yield Finding(
                (*path, "opaque", index), f"“{name}” is no placeholder of the path.", did_you_mean(name, used)
            )


def _headers(headers: Mapping[str, str], where: Path) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, value in headers.items():
        yield from _header_name(name, (*where, name))
        if name.lower() in seen:
            yield Finding((*where, name), "This header is set twice in different spellings.", "Remove one.")
        seen.add(name.lower())
        literal = "".join(part if isinstance(part, str) else "x" for part in parts(value))
        if _HEADER_TEXT.fullmatch(literal) is None:
            yield Finding((*where, name), "A header takes visible ASCII characters on one line.", "Remove the others.")
        if name.lower() == "content-type" and _JSON_TYPE.fullmatch(literal) is None:
            yield Finding(
                (*where, name), "Bodies are sent as JSON.", "Use application/json or a type that ends in +json."
            )


def _header_name(name: str, where: Path) -> Iterator[Finding]:
    if HEADER_NAME.fullmatch(name) is None:
        yield Finding(where, "This is no name of a header.", "Letters, digits and dashes, for example X-Request-Id.")
    elif name.lower() in HEADERS_RESERVED:
        secret = name.lower() in {"authorization", "cookie", "proxy-authorization"}
        hint = "Use the service's “credential”." if secret else "Remove it."
        yield Finding(where, f"The gateway sets “{name}” itself.", hint)


def _known(where: Path, value: Json, subject: Subject) -> Iterator[Finding]:
    known = set(subject.arguments) | RESERVED
    for path, text in _texts(value, where):
        for name in sorted(names_in(text) - known):
            hint = did_you_mean(name, known) + f" Write {{{{{name}}}}} for the text {{{name}}} itself."
            yield Finding(path, f"“{{{name}}}” names no argument and no variable.", hint)
        pieces = parts(text)
        for piece in pieces if len(pieces) > 1 else ():
            if isinstance(piece, Name) and not _fits_text(subject.arguments.get(piece.name)):
                hint = "Only text, whole numbers and booleans fit; let it stand alone to keep its JSON type."
                yield Finding(path, f"The argument “{piece.name}” does not fit into a text.", hint)


def _plain_keys(where: Path, value: Json) -> Iterator[Finding]:
    if isinstance(value, dict):
        for key, item in value.items():
            if names_in(key):
                hint = "Only values are filled in; pass an object as one argument instead."
                yield Finding((*where, key), "A placeholder cannot stand in a name.", hint)
            yield from _plain_keys((*where, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _plain_keys((*where, index), item)


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


def _texts(value: Json, where: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*where, index))


def _fits_text(schema: Json) -> bool:
    declared = schema.get("type") if isinstance(schema, dict) else None
    kinds = set(declared) if isinstance(declared, list) else {declared}
    return not kinds & {"object", "array", "number", "null"}


def _has_steps(path: str) -> bool:
    return bool(path) and any(segment.lower().replace("%2e", ".") in {"", ".", ".."} for segment in path.split("/"))


def _is_local(host: str) -> bool:
    if host.lower() in _ALL_ARE_LOCAL or host.lower().endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_private or address.is_loopback or address.is_link_local


def _bad_proxy(url: str) -> bool:
    try:
        pieces = urlsplit(url)
        return pieces.scheme != "http" or not pieces.hostname or "@" in pieces.netloc or pieces.port == 0
    except ValueError:
        return True
