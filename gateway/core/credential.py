"""What a credential may look like, what it becomes on the wire, and which of its parts must never come back."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from adapters.contract import Secret
from gateway.core.privatekey import NoKey, split_key, telling_parts
from gateway.core.redact import SHORT_BYTES
from gateway.core.template import origin_of
from gateway.model.problem import Code, FieldError, Problem

VALUE_BYTES_MAX: Final = 8192
VALUE_BYTES_MIN: Final = 4
"""Anything shorter is no secret, and masking it would blank out ordinary words."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_CARRIER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_VISIBLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_OWNED: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Headers that decide about framing or routing. The transport refuses them too; here the operator hears it at once."""


class CredentialKind(StrEnum):
    """How the value travels."""

    BEARER = "bearer"
    """`Authorization: Bearer VALUE`."""
    HEADER = "header"
    """`NAME: VALUE`."""
    BASIC = "basic"
    """`Authorization: Basic …` of `user:password` (RFC 7617, UTF-8)."""
    QUERY = "query"
    """`?NAME=VALUE`. Lands in the logs of every proxy on its way: the last choice."""
    SSH_KEY = "ssh_key"
    """A private key, and below it perhaps a certificate: it signs the login at a host and never travels."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A checked credential, bound to the one origin that it may be sent to."""

    name: str
    kind: CredentialKind
    origin: str
    """`scheme://host[:port]`, lower case."""
    carrier: str
    """Header or parameter that carries the value; empty for a key."""
    value: str = field(repr=False)

    def secret(self) -> Secret:
        """What the transport joins to a request."""
        text = self.value
        if self.kind is CredentialKind.BEARER:
            text = f"Bearer {text}"
        elif self.kind is CredentialKind.BASIC:
            text = f"Basic {_pair(text)}"
        return Secret(self.kind.value, self.carrier, text)

    def parts(self) -> Iterator[bytes]:
        """Every value that gives the credential away: what was set, what goes over the wire, and telling pieces."""
        if self.kind is CredentialKind.SSH_KEY:
            yield from telling_parts(self.value)
            return
        yield self.value.encode()
        if self.kind is CredentialKind.BASIC:
            user, _, password = self.value.partition(":")
            yield _pair(self.value).encode()
            # Some services take a key as the user name and leave the password empty.
            yield (password or user).encode()
        elif self.kind is CredentialKind.HEADER:
            yield from (piece for piece in self.value.encode().split() if len(piece) >= SHORT_BYTES)


def check(name: str, kind: str, value: str | bytes, *, origin: str, header_name: str | None = None) -> Credential:
    """A credential from what an operator gave; one line end after the value is taken off, as `echo` leaves it.

    Raises `Problem(invalid_input)` with a pointer and a hint. No text repeats the value.
    """
    if not _NAME.fullmatch(name):
        raise _refuse("name", "This is not a usable name.", "Use up to 100 letters, digits and any of . _ - in it.")
    try:
        form = CredentialKind(kind)
    except ValueError:
        raise _refuse("kind", "There is no such kind.", "Use bearer, header, basic, query or ssh_key.") from None
    bound = _origin(origin)
    if bound.startswith("ssh://") is not (form is CredentialKind.SSH_KEY):
        hint = "An ssh_key goes to ssh://host[:port], every other kind to http or https."
        raise _refuse("kind", "This kind does not go to that origin.", hint)
    return Credential(name, form, bound, _carrier(form, header_name), _value(form, value))


def _origin(text: str) -> str:
    try:
        origin = origin_of(text)
    except ValueError:
        origin = ""
    if not origin or text.removesuffix("/").lower() not in {origin, f"{origin}:80", f"{origin}:443", f"{origin}:22"}:
        raise _refuse(
            "origin", "This is not an origin.", "Give scheme, host and perhaps a port: https://api.example.com"
        )
    return origin


def _carrier(kind: CredentialKind, header_name: str | None) -> str:
    if kind is CredentialKind.SSH_KEY:
        if header_name is not None:
            raise _refuse("header_name", "A key travels in no header.", "Leave it out.")
        return ""
    if kind in {CredentialKind.BEARER, CredentialKind.BASIC}:
        if header_name is not None and header_name.lower() != "authorization":
            raise _refuse(
                "header_name", "This kind travels in Authorization.", "Use kind `header` for a header of another name."
            )
        return "Authorization"
    if header_name is None or not _CARRIER.fullmatch(header_name):
        raise _refuse(
            "header_name", "This kind needs the name of a header or parameter.", "Give it, for example X-Api-Key."
        )
    if kind is CredentialKind.HEADER and header_name.lower() in _OWNED:
        raise _refuse("header_name", "This header belongs to the connection.", "Use the header that the service names.")
    return header_name


def _value(kind: CredentialKind, given: str | bytes) -> str:
    try:
        value = given.decode("utf-8") if isinstance(given, bytes) else given
    except UnicodeDecodeError:
        raise _refuse(
            "value", "The value is not UTF-8 text.", "Give the value as text, not as a file of bytes."
        ) from None
    if kind is CredentialKind.SSH_KEY:
        return _private_key(value)
    value = value.removesuffix("\n").removesuffix("\r")
    if _CONTROL.search(value):
        raise _refuse("value", "The value holds control characters.", "Give one line; a final line end is taken off.")
    if not VALUE_BYTES_MIN <= len(value.encode()) <= VALUE_BYTES_MAX:
        raise _refuse(
            "value", "The value is too short or too long.", f"Give {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes."
        )
    if kind is CredentialKind.BASIC:
        user, colon, password = value.partition(":")
        if not colon or len((password or user).encode()) < VALUE_BYTES_MIN:
            raise _refuse("value", "This is not a user and a password.", "Give them as user:password.")
    elif not _VISIBLE.fullmatch(value) or (kind is CredentialKind.BEARER and " " in value):
        raise _refuse(
            "value",
            "The value holds characters that cannot travel.",
            "Give the bare token, without `Bearer` before it.",
        )
    return value


def _private_key(text: str) -> str:
    if len(text.encode(errors="replace")) > VALUE_BYTES_MAX:
        raise _refuse("value", "The value is too long.", f"Give at most {VALUE_BYTES_MAX} bytes.")
    try:
        key, certificate = split_key(text)
    except NoKey as unfit:
        raise _refuse("value", unfit.detail, unfit.hint) from None
    return f"{key}{certificate}\n" if certificate else key


def _pair(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _refuse(pointer: str, detail: str, guidance: str) -> Problem:
    return Problem(
        Code.INVALID_INPUT,
        "The credential cannot be stored like that.",
        guidance,
        errors=(FieldError(f"/{pointer}", detail, guidance),),
    )
