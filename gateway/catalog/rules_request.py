"""Are addresses, paths and headers well formed?"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from gateway.catalog.finding import Finding, Subject
from gateway.catalog.mistake import did_you_mean
from gateway.catalog.rules_names import fits_text, unknown_names
from gateway.catalog.schema import ServiceForm
from gateway.catalog.schema_lookup import RequestForm
from gateway.catalog.yamltext import Path
from gateway.core.placeholders import ALWAYS_PRESENT, RESERVED, names_in, parts
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
    local = is_local(host)
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
            yield from unknown_names((*path, part), getattr(form, part), subject)
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
        elif not fits_text(subject.arguments.get(name)):
            yield Finding(where, f"The argument “{name}” does not fit into a path.", "Use text or a whole number.")
    for index, name in enumerate(form.opaque):
        if name not in used:
            yield Finding(
                (*path, "opaque", index),
                f"“{name}” is no placeholder of the path.",
                did_you_mean(name, used) or "Remove it.",
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


def _has_steps(path: str) -> bool:
    return bool(path) and any(segment.lower().replace("%2e", ".") in {"", ".", ".."} for segment in path.split("/"))


def is_local(host: str) -> bool:
    """Whether a name or address is one of this machine or of a private network."""
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
