"""From a request template and its variables to the exact request: one method, URL, header list and body."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import orjson

from gateway.core.command import render_command
from gateway.core.ids import outward
from gateway.core.placeholders import ABSENT, Name, as_text, names_in, parts, refuse, render_text, render_value
from gateway.core.strictjson import Json, canonical
from gateway.model.action import Action, Bind, BindPlace, Precondition, RequestTemplate
from gateway.model.problem import Code, Problem, ensure

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110 section 5.6.2, token."""

HEADERS_RESERVED: Final = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect", "keep-alive",
        "proxy-connection", "proxy-authorization", "authorization", "cookie", "accept-encoding", "http2-settings",
    }
)  # fmt: skip
"""Framing, routing and credentials belong to the gateway, never to a definition."""

METHODS_WITHOUT_BODY: Final = frozenset({"GET", "HEAD"})

_PORTS = {"http": 80, "https": 443, "ssh": 22}
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SEPARATORS = re.compile(r"[/\\]")
_PLAIN = frozenset("/\\%")
_URL = re.compile(r"[A-Za-z0-9._~:/\[\]@!$&'()*+,;=%-]+")
"""What RFC 3986 allows before a query; anything else would be rewritten by somebody on the way."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A request, final: hashed, stored and sent as it is, for every attempt of its operation."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def render_request(
    template: RequestTemplate,
    variables: Mapping[str, Json],
    *,
    base_url: str,
    bind: Bind | None = None,
    precondition: Precondition | None = None,
) -> Rendered:
    """Fill a request template.

    `bind` adds the operation's outward value where the action declares it; leave it out for look-ups and fences.
    Raises `Problem` before anything can be sent: `invalid_input` with a pointer to the argument that does not fit,
    `target_refused` if the result would leave the shape that the template declares.
    """
    if base_url.startswith("ssh://"):
        # A host is told a verb and words; where they go stands in its definition alone.
        return Rendered(template.method, base_url, (), render_command(template, variables))
    place = BindPlace.NONE if bind is None else bind.place
    slot = None if bind is None else (bind, outward(variables["operation_id"], bind.format))
    body = _body(template, variables, slot if place is BindPlace.BODY else None)
    query = list(_query(template, variables))
    if slot and place is BindPlace.QUERY:
        query.append((_bind_name(slot[0]), slot[1]))
    url = _url(template, variables, base_url, query)
    headers = list(_headers(template, variables))
    if precondition is not None:
        headers.append(_precondition(precondition, variables))
    if slot and place is BindPlace.HEADER:
        headers.append((_bind_name(slot[0]), slot[1]))
    if body and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "application/json"))
    _check_headers(headers)
    return Rendered(template.method, url, tuple(headers), body)


def declared_url(action: Action) -> str:
    """Where an action's requests go, as far as its definition says: with the names of what is filled in, and no query.

    It stands for the URL where that would show a person's data.
    """
    base = action.service.base_url
    return base if base.startswith("ssh://") else f"{base.rstrip('/')}{action.request.path}"


def origin_of(url: str) -> str:
    """`scheme://host[:port]` in lower case, without a port that is the scheme's own. Raises `ValueError`.

    Only `ssh://` addresses name a user, who is no part of the origin.
    """
    pieces = urlsplit(url)
    host, port = pieces.hostname, pieces.port
    if pieces.scheme not in _PORTS or not host or (pieces.scheme != "ssh" and "@" in pieces.netloc):
        raise ValueError("not an http, https or ssh URL of a host")
    if pieces.password is not None:
        raise ValueError("an address with a password")
    shown = f"[{host}]" if ":" in host else host
    if port is None or port == _PORTS[pieces.scheme]:
        return f"{pieces.scheme}://{shown}"
    return f"{pieces.scheme}://{shown}:{port}"


known_origin: Final = lru_cache(maxsize=1024)(origin_of)
"""For base URLs, which come from the catalog and repeat; whole URLs do not and are not kept."""


def _url(template: RequestTemplate, variables: Mapping[str, Json], base_url: str, query: list[tuple[str, str]]) -> str:
    base = base_url.rstrip("/")
    path = "".join(_path_piece(part, template, variables) for part in parts(template.path))
    # quote, not quote_plus: "+" means a space only to form decoders.
    pairs = "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in query)
    if path == template.path:
        # Nothing was filled in, so the same few addresses come again and again.
        _check_known_shape(base, path)
    else:
        _check_shape(base + path, base, template.path)
    return f"{base}{path}?{pairs}" if pairs else base + path


def _path_piece(part: str | Name, template: RequestTemplate, variables: Mapping[str, Json]) -> str:
    if isinstance(part, str):
        return part
    name = part.name
    if name not in variables:
        raise refuse(name, "This argument is part of the address of the request.", "Give a value for it.")
    text = as_text(name, variables[name])
    # An opaque value may hold separators, so its pieces are looked at too, as a server sees them that decodes first.
    if any(piece in {"", ".", ".."} for seen in (text, unquote(text)) for piece in _SEPARATORS.split(seen)):
        raise refuse(name, "Neither an empty name nor '.' or '..' can stand in a path.", "Give the name of the thing.")
    if _CONTROL.search(text):
        raise refuse(name, "The value holds control characters.", "Remove them.")
    if name not in template.opaque and not _PLAIN.isdisjoint(text):
        raise refuse(name, "The value holds '/', '\\' or '%', which cannot stand in this path.", "Give a plain name.")
    return quote(text, safe="")


def _check_shape(url: str, base: str, path: str) -> None:
    """Read the finished URL, still without its query, again as a server would.

    Same origin, no step up or aside, and as many segments as base and template declare.
    """
    try:
        kept = path.startswith("/") and _URL.fullmatch(url) is not None and origin_of(url) == known_origin(base)
        segments = urlsplit(url).path.split("/")
        declared = urlsplit(base).path + path
    except ValueError:
        kept, segments, declared = False, [], ""
    steps = any(unquote(segment) in {".", ".."} for segment in segments)
    if not kept or steps or len(segments) != declared.count("/") + 1:
        raise Problem(
            Code.TARGET_REFUSED,
            "The finished address would not have the shape that the action declares.",
            "Give plain names as arguments; an address cannot be steered by them.",
        )


@lru_cache(maxsize=1024)
def _check_known_shape(base: str, path: str) -> None:
    _check_shape(base + path, base, path)


def _query(template: RequestTemplate, variables: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for name, value in template.query:
        filled = render_value(value, variables)
        for item in filled if isinstance(filled, list) else [filled]:
            # RFC 6570 section 2.3: null is undefined, and an undefined value leaves no trace.
            if item is not ABSENT and item is not None:
                yield name, _scalar(item, value)


def _headers(template: RequestTemplate, variables: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for name, value in template.headers:
        filled = render_value(value, variables)
        if filled is ABSENT or filled is None:
            continue
        text = _scalar(filled, value)
        if _HEADER_VALUE.fullmatch(text) is None:
            raise _unfit_header(value)
        yield name, text


def _precondition(precondition: Precondition, variables: Mapping[str, Json]) -> tuple[str, str]:
    # Unlike other headers it is never left out: without it the conditional write would be an unconditional one.
    text = render_text(precondition.template, variables)
    if not text or _HEADER_VALUE.fullmatch(text) is None:
        raise _unfit_header(precondition.template)
    return precondition.header, text


def _unfit_header(template: Json) -> Problem:
    name = next(iter(sorted(names_in(template))), "")
    detail = "A header takes visible ASCII characters only, without line breaks or spaces at its ends."
    return refuse(name, detail, "Give a plain ASCII value on one line.")


def _scalar(value: Json, template: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return canonical(value).decode()
    name = next(iter(sorted(names_in(template))), "")
    raise refuse(name, "An object or a list cannot stand here.", "Give a string, a number or a boolean.")


def _body(template: RequestTemplate, variables: Mapping[str, Json], bound: tuple[Bind, str] | None) -> bytes:
    filled = ABSENT if template.body is None else render_value(template.body, variables)
    if bound is not None:
        bind, value = bound
        filled = _with_value({} if filled is ABSENT else filled, _bind_name(bind).split("."), value)
    return b"" if filled is ABSENT else orjson.dumps(filled)


def _with_value(body: Json, steps: list[str], value: str) -> dict[str, Json]:
    """The body with the outward value at a dotted place; it replaces whatever an argument put there.

    A copy along the way: parts of the body may be the caller's own argument, which is hashed and stored elsewhere.
    """
    if not isinstance(body, dict):
        raise Problem(
            Code.INVALID_INPUT,
            "The body that the arguments make has no place for the operation's id.",
            "Give an object where the action expects one.",
        )
    step, *rest = steps
    return body | {step: _with_value(body.get(step, {}), rest, value) if rest else value}


def _bind_name(bind: Bind) -> str:
    ensure(bind.name, "a bind in a header, body or query has a name")
    return bind.name or ""


def _check_headers(headers: list[tuple[str, str]]) -> None:
    lowered = {_check_name(name) for name, _ in headers}
    for _, value in headers:
        ensure(_HEADER_VALUE.fullmatch(value) is not None, "a header value is visible ASCII")
    ensure(len(lowered) == len(headers), "no header is set twice")


@lru_cache(maxsize=1024)
def _check_name(name: str) -> str:
    """The name in lower case. Names come from definitions, so they are few."""
    lowered = name.lower()
    ensure(HEADER_NAME.fullmatch(name), "a header name is a token")
    ensure(lowered not in HEADERS_RESERVED, "a definition sets no header of the gateway's own")
    return lowered
