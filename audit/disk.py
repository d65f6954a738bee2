"""The directory of one log: the small port through which files are touched, and its implementation on a real disk."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Protocol

from audit.room import keep_room


class LogError(Exception):
    """Something about the log's files that stops the writer or the reader."""


class LogLocked(LogError):
    """Another process writes this log."""


class AppendFile(Protocol):
    """A file open for appending. After an error of `sync` nothing written since the last good one may be trusted."""

    def append(self, data: bytes) -> int:
        """Write at the end; may take fewer bytes than given and says how many. Raises OSError."""
        ...

    def sync(self) -> None:
        """Return only when everything appended survives a loss of power. Raises OSError."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to that size; its own size gives back what `reserve` keeps behind it. Raises OSError."""
        ...

    def reserve(self, start: int, end: int) -> None:
        """Have the disk keep room for these bytes of the file, as far as it can; it does not grow. Raises OSError."""
        ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Directory(Protocol):
    """Files below one folder, named by relative paths with forward slashes. All methods raise OSError."""

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted; empty if there is no such folder."""
        ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""
        ...

    def open(self, name: str, *, fresh: bool = False) -> AppendFile:
        """Open for appending, made if missing; `fresh` empties it first."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Put `old` in the place of `new` in one step."""
        ...

    def unlink(self, name: str) -> None:
        """Take a file's name away. Raises FileNotFoundError if there is none."""
        ...

    def sync_folder(self, folder: str) -> None:
        """Return only when names made, changed or taken away in the folder survive a loss of power."""
        ...

    def lock(self) -> None:
        """Become the only writer, until `unlock` or the end of the process. Raises LogLocked."""
        ...

    def unlock(self) -> None: ...


def log_folder(root: Path, origin: str) -> Path:
    """Folder of the log of that origin below a folder of logs; raise ValueError if the origin cannot be a path."""
    parts = origin.split("/")
    if any(part in {"", ".", ".."} or "\x00" in part for part in parts):
        raise ValueError(f"the origin {origin!r} cannot be a folder: it needs plain parts between slashes")
    return root.joinpath(*parts)


class DiskFile:
    """A file on disk, reached by its descriptor alone once it is open."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def append(self, data: bytes) -> int:
        return os.write(self._fd, data)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def reserve(self, start: int, end: int) -> None:
        keep_room(self._fd, start, end - start)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DiskDirectory:
    """A real folder. Reading makes nothing; writing makes folders with mode 0700 and files with mode 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # A text: paths are joined for every batch of entries, and as objects that takes longer than opening the file.
        self._base = f"{path}{os.sep}"
        self._lock_fd = -1

    @property
    def path(self) -> Path:
        return self._path

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._path / folder).iterdir())
        except FileNotFoundError:
            return []

    def size(self, name: str) -> int:
        fd = self._open_to_read(name)
        try:
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    def read(self, name: str, offset: int, length: int) -> bytes:
        fd = self._open_to_read(name)
        try:
            pieces: list[bytes] = []
            while length > 0 and (piece := os.pread(fd, length, offset)):
                pieces.append(piece)
                offset += len(piece)
                length -= len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        finally:
            os.close(fd)

    def open(self, name: str, *, fresh: bool = False) -> DiskFile:
        path = self._path / name
        self._make(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            fd = os.open(path, flags | (os.O_TRUNC if fresh else 0), 0o600)
        except OSError as error:
            raise plain_refusal(error, path) from error
        return DiskFile(_regular(fd, path))

    def rename(self, old: str, new: str) -> None:
        (self._path / old).replace(self._path / new)

    def unlink(self, name: str) -> None:
        (self._path / name).unlink()

    def sync_folder(self, folder: str) -> None:
        _sync_folder(self._path / folder)

    def lock(self) -> None:
        self._make(self._path)
        fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # flock belongs to the open file: a POSIX record lock would be given twice to one process, and lost when
            # any descriptor of the file is closed.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise LogLocked(f"{self._path} is being written by another process") from error
        self._lock_fd = fd

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _open_to_read(self, name: str) -> int:
        path = self._base + name
        # O_NONBLOCK: a FIFO in the place of a file must be an error, not a wait without end.
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise plain_refusal(error, path) from error
        return _regular(fd, path)

    def _make(self, folder: Path) -> None:
        if folder.is_dir():
            return
        missing = [folder, *(parent for parent in folder.parents if not parent.exists())]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(path.parent)


def plain_refusal(error: OSError, path: str | Path) -> OSError:
    """The error of an opening, in words that fit: a link that is not followed is no loop of links."""
    if error.errno == errno.ELOOP and Path(path).is_symlink():
        return OSError(errno.ELOOP, "a symbolic link, not followed", str(path))
    return error


def _regular(fd: int, path: str | Path) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return fd


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(directory: Directory, name: str, data: bytes) -> None:
    """Put a whole file in place in one step: a crash leaves the old one or the new one, never a part."""
    temporary = f"{name}.tmp"
    file = directory.open(temporary, fresh=True)
    try:
        append_all(file, data)
        file.sync()
    finally:
        file.close()
    directory.rename(temporary, name)
    directory.sync_folder(folder_of(name))


def append_all(file: AppendFile, data: bytes) -> None:
    """Append every byte; a device that takes nothing counts as full."""
    view = memoryview(data)
    while view:
        taken = file.append(bytes(view))
        if taken <= 0:
            raise OSError(errno.ENOSPC, "nothing more was written")
        view = view[taken:]


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]
