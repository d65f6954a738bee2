"""The exact request of one attempt, checked character by character before anything touches the network.

Every part is checked here although the library checks most of it too: which characters a library lets through has
changed between its versions (CVE-2023-49081, CVE-2023-49082).
"""

import functools
import re
import urllib.parse
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from yarl import URL

from adapters.contract import HttpExchange, HttpTarget, Secret
from adapters.http.refusals import Refused

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_URL = re.compile(r"[\x21\x24-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e|]+")
"""Visible ASCII without `"`, `#`, `<`, `>`, `\\`, `^`, backtick, braces: none may stand raw in a request line."""
_AUTHORITY = re.compile(r"[^:]+://[^/?]*")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")

_OWNED = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that decide about framing, routing or the connection. They are ours: a second opinion is smuggling, and any
1xx answer, not only 100, releases a body that waits for `Expect: 100-continue`."""
_DEFAULT_PORT = {"http": 80, "https": 443}
_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
_BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Without a body these state no length; every other method states that it is zero."""
_FORBIDDEN_METHODS = frozenset({"CONNECT", "TRACE"})


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that passed every check, credential joined. Its credential makes it unfit for any repr."""

    url: URL = field(repr=False)
    """The origin only: path and query are in the message, and in no exception of the library."""
    message: bytes = field(repr=False)
    """Head and body, which leave in one write. One write is what makes "nothing is buffered any more" mean "everything
    was handed to the operating system"; and what is written as it stands here has exactly this length."""
    proxy: URL | None = field(repr=False)


def prepare(exchange: HttpExchange, *, keep_alive: bool) -> Prepared:
    """Check and assemble; raises `Refused` with a sentence that quotes nothing of the input."""
    method, body, target = exchange.method, exchange.body, exchange.target
    if not _METHOD.fullmatch(method) or method in _FORBIDDEN_METHODS:
        raise Refused("the request's method is not allowed")
    path = _path_of(exchange.url, target)
    headers = [("Connection", "keep-alive" if keep_alive else "close")]
    names = {"connection"}
    for name, value in exchange.headers:
        names.add(_known_name(name))
        if not _VALUE.fullmatch(value):
            raise Refused("a request header's value holds characters that are not allowed")
        headers.append((name, value))
    _add_defaults(headers, names, needs_type=bool(body) or method in _BODY_METHODS)
    if exchange.secret is not None:
        path = _join(exchange.secret, path, headers, names)
    if body or method not in _BODILESS_METHODS:
        headers.append(("Content-Length", str(len(body))))
    url, host = _known_home(target.origin)
    proxy = _proxy(target.proxy)
    if proxy is not None and url.scheme == "http":
        path = f"http://{host}{path}"
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"
    return Prepared(url=url, message=head.encode("ascii") + body, proxy=proxy)


def _add_defaults(headers: list[tuple[str, str]], names: set[str], *, needs_type: bool) -> None:
    """Name every header that the library would add by itself, so that the request is ours to the last byte."""
    if "accept-encoding" not in names:
        headers.append(("Accept-Encoding", "identity"))
    if "accept" not in names:
        headers.append(("Accept", "*/*"))
    if "user-agent" not in names:
        headers.append(("User-Agent", "action-gateway"))
    if needs_type and "content-type" not in names:
        headers.append(("Content-Type", "application/octet-stream"))


@functools.lru_cache(maxsize=4096)
def _known_name(name: str) -> str:
    """A header's name in lower case, if an exchange may set it. Names come from the catalog and repeat."""
    if not _TOKEN.fullmatch(name):
        raise Refused("a request header's name holds characters that are not allowed")
    lowered = name.lower()
    if lowered in _OWNED:
        raise Refused("a request header is one that only the gateway itself sets")
    return lowered


def _path_of(text: str, target: HttpTarget) -> str:
    """Path and query as they stand in a URL within the target's origin, beginning with a slash."""
    if not _URL.fullmatch(text):
        raise Refused("the request's URL holds characters that are not allowed")
    wanted = _known_origin(target.origin)
    rest = text.removeprefix(target.origin)
    if len(rest) == len(text) or rest[:1] not in {"", "/", "?"}:
        if origin_of(text) != wanted:
            raise Refused("the request's URL lies outside the service's origin")
        rest = _AUTHORITY.sub("", text, count=1)
    return rest if rest.startswith("/") else f"/{rest}"


def origin_of(text: str) -> tuple[str, str, int]:
    """Scheme, host and port of an absolute URL; raises `Refused` for anything unusual, such as user information."""
    if not _URL.fullmatch(text):
        raise Refused("the target's origin holds characters that are not allowed")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError:
        raise Refused("the target's origin cannot be read") from None
    scheme, host = parts.scheme, parts.hostname
    if scheme not in _DEFAULT_PORT or not host or not text.lower().startswith(f"{scheme}://"):
        raise Refused("the target's origin is no http or https origin")
    if "@" in parts.netloc:
        raise Refused("the target's origin carries user information")
    if not _plain_host(host, bracketed="[" in parts.netloc):
        raise Refused("the target's host is not spelled plainly")
    return scheme, host, _DEFAULT_PORT[scheme] if port is None else port


_known_origin = functools.lru_cache(maxsize=4096)(origin_of)
"""Origins come from the catalog and repeat; whole URLs do not and are not kept."""


@functools.lru_cache(maxsize=4096)
def _known_home(origin: str) -> tuple[URL, str]:
    """An origin that passed `origin_of`, as the library takes it, and as the Host header names it."""
    url = URL(origin, encoded=True)
    return url, url.host_port_subcomponent or ""


def _plain_host(host: str, *, bracketed: bool) -> bool:
    """Whether the host reads the same to every parser: a name, a dotted quad, or an IPv6 address in brackets.

    Hexadecimal, octal, short and single-number forms of an IPv4 address are none of these: resolvers accept them, so a
    rule that compares text would not see which address they mean.
    """
    try:
        if bracketed:
            IPv6Address(host)
            return "%" not in host
        if not _HOST.fullmatch(host) or ".." in host:
            return False
        if _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
            IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _join(secret: Secret, path: str, headers: list[tuple[str, str]], names: set[str]) -> str:
    """Add the credential as the last step; returns the path. What is wrong with it is said without quoting it."""
    if not _TOKEN.fullmatch(secret.name) or not secret.value or not _VALUE.fullmatch(secret.value):
        raise Refused("the credential holds characters that cannot be sent")
    if secret.kind == "query":
        separator = "&" if "?" in path else "?"
        quoted = urllib.parse.quote(secret.value, safe="")
        return f"{path}{separator}{urllib.parse.quote(secret.name, safe='')}={quoted}"
    if secret.kind not in {"bearer", "header", "basic"}:
        raise Refused("the credential is of a kind that HTTP cannot carry")
    if secret.name.lower() in names or secret.name.lower() in _OWNED:
        raise Refused("the credential's header is already set by the request")
    headers.append((secret.name, secret.value))
    return path


@functools.lru_cache(maxsize=64)
def _proxy(text: str | None) -> URL | None:
    if text is None:
        return None
    try:
        url = URL(text)
    except ValueError:
        raise Refused("the proxy's URL cannot be read") from None
    if url.scheme not in _DEFAULT_PORT or not url.host:
        raise Refused("the proxy's URL is no http or https URL")
    return url
