"""The key that opens the vault: from the environment, or from a file that nobody but its owner can read."""

import base64
import binascii
import os
from pathlib import Path
from typing import Final

from gateway.engine.chance import Chance
from gateway.store.lock import check_file, open_private, why_not
from gateway.store.port import Refused

VARIABLE: Final = "GATEWAY_VAULT_KEY"
KEY_BYTES: Final = 32
_READ_MAX: Final = 4096


def load_vault_key(path: Path, from_environment: str | None) -> bytes:
    """The key, 32 bytes: `from_environment` (base64) if it is set, else what the file holds.

    Raises `store.port.Refused` with a sentence for an operator if there is none, if it is malformed, or if anybody else
    could read the file. No sentence repeats anything of the key.
    """
    if from_environment is not None:
        return _parse(from_environment.encode("utf-8", "replace"), f"the variable {VARIABLE}")
    try:
        # A link could lead to a file that others can write; a pipe would make the start wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refused(f"There is no vault key: {path} does not exist and {VARIABLE} is not set.") from None
    except OSError as error:
        raise Refused(f"The vault key in {path} cannot be opened: {why_not(error)}") from error
    try:
        check_file(path, os.fstat(descriptor))
        text = os.read(descriptor, _READ_MAX)
    finally:
        os.close(descriptor)
    return _parse(text, str(path))


def create_vault_key(path: Path, chance: Chance) -> None:
    """Write a fresh key to a file with mode 0600, durably. Raises `store.port.Refused` if one is there already."""
    descriptor = open_private(path)
    with os.fdopen(descriptor, "r+b") as file:
        if file.read(1):
            raise Refused(f"{path} holds a vault key already; credentials set under it would be lost with it.")
        file.write(base64.b64encode(chance.bytes(KEY_BYTES)) + b"\n")
        file.flush()
        os.fsync(descriptor)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _parse(text: bytes, source: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise Refused(f"The vault key in {source} is not base64 of {KEY_BYTES} bytes.")
    return key
