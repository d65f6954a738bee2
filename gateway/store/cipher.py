"""Encrypts stored requests, results and observations with the data key."""

import base64
import binascii
import hmac
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.store.lock import check_file, open_private
from gateway.store.port import Refused

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
SALT_BYTES: Final = 16
LOT: Final = 2**24
"""Messages under one derived key."""
_FORMAT: Final = b"\x01"
_PURPOSE: Final = b"action-gateway data key 1"
_NONCE_AT: Final = 1 + SALT_BYTES
_BODY_AT: Final = _NONCE_AT + NONCE_BYTES
_KEYS_REMEMBERED: Final = 64


class CannotDecrypt(ValueError):
    """Another key, another row, or changed bytes."""


class DataKeyCipher:
    """AES-256-GCM; form byte, salt, nonce, ciphertext with tag. The context is authenticated with it.

    Random nonces of 96 bits are good for 2^32 messages under one key, and a busy gateway stores that many payloads
    within days. So each process, and each new lot of messages within it, has a key of its own, derived from the data
    key and a random salt that every ciphertext carries.
    """

    def __init__(self, key: bytes, entropy: Callable[[int], bytes]) -> None:
        """`entropy` returns that many unpredictable bytes. Raises ValueError for a key of the wrong length."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a data key has {KEY_BYTES} bytes")
        self._key = key
        self._entropy = entropy
        self._left = 0
        self._salt = b""
        self._derived = lru_cache(maxsize=_KEYS_REMEMBERED)(self._derive)

    def encrypt(self, plaintext: bytes, context: bytes) -> bytes:
        """Ciphertext that only the same data key and context open again."""
        if not self._left:
            self._left, self._salt = LOT, self._entropy(SALT_BYTES)
        self._left -= 1
        nonce = self._entropy(NONCE_BYTES)
        return b"".join((_FORMAT, self._salt, nonce, self._derived(self._salt).encrypt(nonce, plaintext, context)))

    def decrypt(self, ciphertext: bytes, context: bytes) -> bytes:
        """The plaintext. Raises CannotDecrypt."""
        if ciphertext[:1] != _FORMAT:
            raise CannotDecrypt("stored bytes of an unknown form")
        salt, nonce, rest = ciphertext[1:_NONCE_AT], ciphertext[_NONCE_AT:_BODY_AT], ciphertext[_BODY_AT:]
        try:
            return self._derived(salt).decrypt(nonce, rest, context)
        except (InvalidTag, ValueError) as error:
            raise CannotDecrypt("the data key does not open these bytes") from error

    def _derive(self, salt: bytes) -> AESGCM:
        return AESGCM(hmac.digest(self._key, _PURPOSE + salt, "sha256"))


def parse_key(text: str, source: str) -> bytes:
    """A data key as base64 of 32 bytes, from a file or the environment. Raises Refused, without showing the text."""
    try:
        key = base64.b64decode(text.strip().encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        key = b""
    if len(key) != KEY_BYTES:
        raise Refused(f"The data key in {source} is not base64 of {KEY_BYTES} bytes.")
    return key


def load_key(path: Path, from_environment: str | None, variable: str) -> bytes:
    """The data key: from the environment if it is set there, else from a file that only its owner can read.

    Raises Refused if there is none, if it is malformed, or if others can read the file.
    """
    if from_environment is not None:
        return parse_key(from_environment, f"the variable {variable}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(
            f"The data key file {path} cannot be opened ({error.strerror}), and {variable} is not set."
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        check_file(path, os.fstat(descriptor))
        return parse_key(file.read(4096).decode("ascii", "replace"), str(path))


def create_key(path: Path, entropy: Callable[[int], bytes]) -> None:
    """Write a fresh data key to a file that must not exist or be empty. Raises Refused."""
    descriptor = open_private(path)
    with os.fdopen(descriptor, "r+b") as file:
        if file.read(1):
            raise Refused(f"{path} holds a key already; what it encrypted would be lost with it.")
        file.write(base64.b64encode(entropy(KEY_BYTES)) + b"\n")
        file.flush()
        os.fsync(descriptor)
