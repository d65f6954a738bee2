"""Room on the disk that is kept for a file ahead of need: a disk that fills up then stops no record half way."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of linux/falloc.h: the file stays as long as it is, so no reader meets what is kept for it."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def keep_room(descriptor: int, start: int, length: int) -> None:
    """Have the disk keep room for that part of an open file, wherever the file ends.

    Where the system or the file system cannot (NFS, say), nothing happens. Until it is written, what is kept reads as
    nothing, also after a loss of power; shortening the file to its own length gives it back.

    Raises:
        OSError: there is no such room; ENOSPC, or EDQUOT for a quota.
    """
    call = _fallocate()
    while call is not None and call(descriptor, _KEEP_SIZE, start, length):
        failure = ctypes.get_errno()
        if failure in _FULL:
            raise OSError(failure, os.strerror(failure))
        if failure != errno.EINTR:
            # Whatever else it is: the writing itself will meet it, if it is worth meeting.
            return


@cache
def _fallocate() -> Any:  # noqa: ANN401 - a function of the C library
    """Python's own `os.posix_fallocate` would make the file longer, with zeros behind its last entry."""
    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        call.restype = ctypes.c_int
    return call
