"""A log directory in memory with a crash model: what was not synced may be gone, whole or in part."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from audit.disk import LogLocked, folder_of

Hook = Callable[[str, str, int], int | None]
"""Called before each step with (operation, name, bytes); may raise OSError, or say how many bytes `append` takes.

Operations: append, sync, truncate, open, rename, unlink, sync_folder, read.
"""

Choose = Callable[[int], int]
"""Given n, pick a number from 0 to n: how much of what was not synced survives."""


@dataclass(slots=True)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


class MemoryDirectory:
    """Behaves like a folder on disk, but forgets on `after_power_loss` what was never synced."""

    def __init__(self, hook: Hook | None = None) -> None:
        self.hook = hook
        self._now: dict[str, _Inode] = {}
        self._durable: dict[str, _Inode] = {}
        self._locked = False

    def names(self, folder: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self._now if folder_of(name) == folder)

    def size(self, name: str) -> int:
        return len(self._inode(name).content)

    def read(self, name: str, offset: int, length: int) -> bytes:
        self.step("read", name, length)
        return bytes(self._inode(name).content[offset : offset + length])

    def open(self, name: str, *, fresh: bool = False) -> MemoryFile:
        self.step("open", name)
        inode = self._now.setdefault(name, _Inode())
        if fresh:
            inode.content.clear()
        return MemoryFile(self, name, inode)

    def rename(self, old: str, new: str) -> None:
        self.step("rename", new)
        self._now[new] = self._inode(old)
        del self._now[old]

    def unlink(self, name: str) -> None:
        self.step("unlink", name)
        self._inode(name)
        del self._now[name]

    def sync_folder(self, folder: str) -> None:
        self.step("sync_folder", folder)
        kept = {name: inode for name, inode in self._durable.items() if folder_of(name) != folder}
        self._durable = kept | {name: inode for name, inode in self._now.items() if folder_of(name) == folder}

    def lock(self) -> None:
        if self._locked:
            raise LogLocked("another writer holds the directory")
        self._locked = True

    def unlock(self) -> None:
        self._locked = False

    def put(self, name: str, content: bytes) -> None:
        """Set a file's content at once and durably, as a test or an attacker would."""
        self._now[name] = self._durable[name] = _Inode(bytearray(content), content)

    def remove(self, name: str) -> None:
        """Take a file away at once and durably, as a test or an attacker would."""
        del self._now[name]
        self._durable.pop(name, None)

    def files(self) -> dict[str, bytes]:
        """Every file with its present content."""
        return {name: bytes(inode.content) for name, inode in self._now.items()}

    def after_kill(self) -> MemoryDirectory:
        """What the next process finds when only the process died: all bytes are there, synced or not; no lock."""
        twin = MemoryDirectory()
        copies = {
            id(inode): _Inode(bytearray(inode.content), inode.durable)
            for inode in (*self._now.values(), *self._durable.values())
        }
        twin._now = {name: copies[id(inode)] for name, inode in self._now.items()}
        twin._durable = {name: copies[id(inode)] for name, inode in self._durable.items()}
        return twin

    def after_power_loss(self, choose: Choose) -> MemoryDirectory:
        """The directory after a loss of power; `choose` decides how much of what was not synced made it to the disk."""
        entries = self._now if choose(1) else self._durable

        def survive(inode: _Inode) -> bytes:
            content = bytes(inode.content)
            if not content.startswith(inode.durable):
                # Shortened or rewritten without a sync: either state may be found.
                return content if choose(1) else inode.durable
            return content[: len(inode.durable) + choose(len(content) - len(inode.durable))]

        return self._restored(entries, survive)

    def step(self, operation: str, name: str, length: int = 0) -> int:
        """Let the hook fail or shorten this step; return how many bytes it may take."""
        allowed = self.hook(operation, name, length) if self.hook else None
        return length if allowed is None else min(allowed, length)

    def _inode(self, name: str) -> _Inode:
        try:
            return self._now[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", name) from None

    @staticmethod
    def _restored(entries: dict[str, _Inode], survive: Callable[[_Inode], bytes]) -> MemoryDirectory:
        twin = MemoryDirectory()
        for name, inode in entries.items():
            twin.put(name, survive(inode))
        return twin


class MemoryFile:
    """An open file of a MemoryDirectory."""

    __slots__ = ("_directory", "_inode", "_name")

    def __init__(self, directory: MemoryDirectory, name: str, inode: _Inode) -> None:
        self._directory = directory
        self._name = name
        self._inode = inode

    def append(self, data: bytes) -> int:
        taken = self._directory.step("append", self._name, len(data))
        self._inode.content += data[:taken]
        return taken

    def sync(self) -> None:
        self._directory.step("sync", self._name)
        self._inode.durable = bytes(self._inode.content)

    def truncate(self, size: int) -> None:
        self._directory.step("truncate", self._name, size)
        del self._inode.content[size:]

    def reserve(self, start: int, end: int) -> None:
        self._directory.step("reserve", self._name, end - start)

    def size(self) -> int:
        return len(self._inode.content)

    def close(self) -> None:
        pass
