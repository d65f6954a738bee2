"""The data folder: private to its owner, and open in one process at a time."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from gateway.store.port import Refused

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
LOCK_NAME: Final = "lock"
_NOTE_BYTES: Final = 200


class DataFolder:
    """Held from `open` to `close`, or to the end of the process, whatever ends it: the kernel drops the lock."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def open(cls, path: Path, wall_ms: Callable[[], int]) -> Self:
        """Make or check the folder and take its lock. Raises Refused, in words for an operator."""
        check_folder(path)
        lock = path / LOCK_NAME
        descriptor = open_private(lock)
        try:
            # flock belongs to this opening of the file: a second one is refused even within the process, and closing
            # some other descriptor of the same file does not free it, as it would with POSIX record locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, _NOTE_BYTES, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise Refused(
                f"{path} is in use by another gateway ({holder or 'which left no note'}). Stop that one first: a folder"
                " is open in one process at a time."
            ) from error
        try:
            os.ftruncate(descriptor, 0)
            since = datetime.fromtimestamp(wall_ms() / 1000, UTC).isoformat(timespec="seconds")
            os.pwrite(descriptor, f"pid {os.getpid()}, since {since}\n".encode(), 0)
        except OSError:
            # The note is for people; a full disk must not keep a gateway from starting, it has outcomes to write.
            os.ftruncate(descriptor, 0)
        return cls(path, descriptor)

    def close(self) -> None:
        """Let others open the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def check_folder(path: Path) -> None:
    """Make the folder with mode 0700, or make sure that nobody else can look into it. Raises Refused."""
    try:
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise Refused(f"The data folder {path} cannot be made or read: {error.strerror}.") from error
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(f"The data folder {path} is not a folder (or a link to one); name the folder itself.")
    _check_owner(path, status, FOLDER_MODE)


def open_private(path: Path) -> int:
    """A descriptor of a file that only its owner can use, made if missing. Raises Refused."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, FILE_MODE)
    except OSError as error:
        raise Refused(f"{path} cannot be opened: {why_not(error)}") from error
    try:
        check_file(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def why_not(error: OSError) -> str:
    """Why a private file could not be opened, and what helps, as the end of a sentence."""
    cure = {
        errno.ELOOP: " Links are not followed here.",
        errno.EROFS: " The gateway writes there: make its disk writable.",
        errno.EACCES: " It has to belong to whoever runs the gateway.",
    }
    return f"{error.strerror}.{cure.get(error.errno or 0, '')}"


def check_file(path: Path, status: os.stat_result) -> None:
    """Raises Refused unless this is a plain file that only its owner can use."""
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path} is not a plain file.")
    _check_owner(path, status, FILE_MODE)


def _check_owner(path: Path, status: os.stat_result, mode: int) -> None:
    if status.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to user id {status.st_uid}, the gateway runs as {os.geteuid()}.")
    wider = stat.S_IMODE(status.st_mode) & ~mode
    if wider:
        raise Refused(
            f"{path} can be used by others (mode {stat.S_IMODE(status.st_mode):04o}). Say: chmod {mode:04o} {path}"
        )
