"""A private key as `ssh-keygen` writes it: is it whole and without a passphrase, and what in it gives it away?"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from gateway.core.redact import SHORT_BYTES

_BEGIN: Final = "-----BEGIN OPENSSH PRIVATE KEY-----"
_END: Final = "-----END OPENSSH PRIVATE KEY-----"
_MAGIC: Final = b"openssh-key-v1\0"
_CERTIFICATE: Final = re.compile(r"[a-z0-9@.-]+-cert-v01@openssh\.com [A-Za-z0-9+/]+={0,3}(?: [\x21-\x7e]+)*")


class NoKey(ValueError):
    """The text cannot be used as a key; sentence and hint show nothing of it."""

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.detail, self.hint = detail, hint


def split_key(text: str) -> tuple[str, str | None]:
    """The private key, and the certificate that may stand below it on a line of its own. Raises `NoKey`."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines or lines[0] != _BEGIN or _END not in lines:
        if "PRIVATE KEY-----" in text:
            hint = "Convert it with `ssh-keygen -p -N '' -f FILE`."
            raise NoKey("This is a private key, but not in the form of OpenSSH.", hint)
        raise NoKey("This is no private key.", "Give the file that ssh-keygen made, the one without .pub.")
    end = lines.index(_END)
    _check_private("".join(lines[1:end]))
    rest = [line for line in lines[end + 1 :] if line]
    if len(rest) > 1 or (rest and _CERTIFICATE.fullmatch(rest[0]) is None):
        raise NoKey("What follows the key is no certificate.", "Give the key, and below it one line of -cert.pub.")
    return "\n".join([*lines[: end + 1], ""]), rest[0] if rest else None


def telling_parts(text: str) -> Iterator[bytes]:
    """Every piece of a key that must never be shown: its lines, all of them joined, and what they encode."""
    lines = text.strip().splitlines()
    inner = [line.strip() for line in lines[1 : lines.index(_END)]] if _END in lines else lines
    yield text.strip().encode()
    yield "".join(inner).encode()
    yield from (line.encode() for line in inner if len(line) >= 2 * SHORT_BYTES)
    try:
        yield _sections("".join(inner))[-1]
    except (IndexError, ValueError):
        return


def _check_private(encoded: str) -> None:
    try:
        cipher, *_, private = _sections(encoded)
    except ValueError:
        raise NoKey("The private key is not whole.", "Copy it again, from the first line to the last.") from None
    if cipher != b"none" or not private:
        hint = "A gateway has nobody who types one: make a key of its own with `ssh-keygen -t ed25519 -N ''`."
        raise NoKey("The private key is protected by a passphrase.", hint)


def _sections(encoded: str) -> tuple[bytes, ...]:
    """Cipher, key derivation, its options, public key and private part (OpenSSH's PROTOCOL.key). Raises ValueError."""
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if not data.startswith(_MAGIC):
        raise ValueError("another format")
    at, found = len(_MAGIC), []
    for index in range(5):
        if index == 3:
            if data[at : at + 4] != b"\0\0\0\1":
                raise ValueError("not one key")
            at += 4
        size = int.from_bytes(data[at : at + 4])
        if len(data) < at + 4 + size:
            raise ValueError("cut short")
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    if at != len(data):
        raise ValueError("more than a key")
    return tuple(found)
