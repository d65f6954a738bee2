"""Opens what a command is given: a regular file or standard input; a FIFO or device is refused, never waited for."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

STDIN = Path("-")
BYTES_MAX = 64 * 1024 * 1024


@contextmanager
def open_input(path: Path) -> Iterator[BinaryIO]:
    """The file, or standard input for `-`. Raises OSError for whatever is no regular file."""
    if path == STDIN:
        yield sys.stdin.buffer
        return
    # O_NONBLOCK: opening a FIFO that nobody writes to would wait without end.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        # Before it becomes a file object: a folder would be refused there, by the number of its descriptor.
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "a folder, not a file", str(path))
        raise OSError(errno.EINVAL, "not a regular file; `-` reads standard input", str(path))
    with os.fdopen(fd, "rb") as file:
        yield file


def reason_of(error: Exception) -> str:
    """What is wrong with a file whose name was said already, in words without numbers."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def read_input(path: Path) -> str:
    """All of it as text; raise OSError, UnicodeDecodeError."""
    with open_input(path) as file:
        raw = file.read(BYTES_MAX + 1)
    if len(raw) > BYTES_MAX:
        raise OSError(errno.EFBIG, f"larger than {BYTES_MAX} bytes", str(path))
    return raw.decode()
