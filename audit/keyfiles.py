"""Key files: one private key in a file that only its owner may read, made once and never overwritten."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from audit.disk import plain_refusal
from audit.keyring import KeyProblem, RecipientKey, SealKey
from audit.note import NoteSigner

_BYTES_MAX = 16 * 1024


def write_key(path: Path, line: str) -> None:
    """Write a private key to a new file with mode 0600; raise FileExistsError rather than overwrite one."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        # Half a key in place would block the next try and look like a key.
        path.unlink()
        raise


def read_key_line(path: Path) -> str:
    """The one line of a key file; raise KeyProblem if others could read it too, OSError if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise plain_refusal(error, path) from error
    with os.fdopen(fd, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise KeyProblem(f"{path} is not a regular file")
        if stat.S_IMODE(mode) & 0o077:
            raise KeyProblem(f"{path} may be read by others (mode {stat.S_IMODE(mode):04o}): chmod 600 it")
        raw = file.read(_BYTES_MAX)
    lines = [line for line in raw.decode(errors="replace").splitlines() if line and not line.startswith("#")]
    if len(lines) != 1:
        raise KeyProblem(f"{path} should hold one key on one line")
    return lines[0]


def read_recipient_key(path: Path) -> RecipientKey:
    return RecipientKey.parse(read_key_line(path))


def read_log_key(path: Path) -> NoteSigner:
    return NoteSigner.parse(read_key_line(path))


def read_seal_key(path: Path) -> SealKey:
    return SealKey.parse(read_key_line(path))
