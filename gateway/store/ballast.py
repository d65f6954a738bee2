"""Room on the disk: nothing new is begun without room to end it, and what is under way always finds some.

A ballast file of real bytes is kept beside the database. New operations are refused while free space is below the
reserve or the ballast is gone; when even an outcome would not fit, the ballast is given up for it. It is made again as
soon as there is space for both, without a restart. On a disk with no space for both a small part of it is kept all the
same: nothing is admitted there, but once that disk is full the gateway can still be started, and settle what it has.
"""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from gateway.store.items import Admit, Alter, Item, Observe
from gateway.store.lock import open_private

BALLAST_NAME: Final = "ballast"
_BATCH_BYTES: Final = 256 * 1024
"""What a batch writes besides its payloads, generously."""
LEAST_BYTES: Final = 1024 * 1024
"""A start, and some outcomes; kept where there is no space for the whole ballast."""
_COPIES: Final = 3
"""Bytes are written to the log of the database and later to the database, in whole pages."""
_BLOCK: Final = b"".join(sha256(at.to_bytes(4, "big")).digest() for at in range(2048))
"""Neither zeros nor compressible: a file system could store those in no space at all."""

NO_ROOM: Final = "The disk is nearly full; nothing new is begun until there is space for its outcome."


class Disk(Protocol):
    """Tells how much can still be written."""

    def free_bytes(self) -> int:
        """Free for an ordinary user, now."""
        ...


class FolderDisk:
    """The file system that a folder lies on."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def free_bytes(self) -> int:
        """Asked anew each time: others write there, too."""
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize


class Ballast:
    """The ballast file and the reserve. Used by the writer; unless it is `held`, asking for room may write the file."""

    def __init__(self, folder: Path, disk: Disk, *, size_bytes: int, reserve_bytes: int) -> None:
        """Takes the ballast if there is space for it beside the reserve, else what a start will need."""
        self._path = folder / BALLAST_NAME
        self._disk = disk
        self._size = size_bytes
        self._reserve = reserve_bytes
        self._kept = self._path.stat().st_size if self._path.is_file() else 0
        if not self.held and not self._take():
            self._take_some()
        if self._kept and disk.free_bytes() < _BATCH_BYTES:
            # A start writes, too: it must be possible on a full disk, for the sake of what is under way.
            self.release()

    @property
    def held(self) -> bool:
        """The whole of it is there; else nothing new is admitted."""
        return self._kept == self._size

    def room(self, items: Sequence[Item]) -> str | None:
        """Make way for a batch if need be; say why nothing new may be admitted with it, or None."""
        free = self._disk.free_bytes()
        if self._kept and free < need_bytes(items):
            self.release()
            return NO_ROOM
        if not any(item.admits for item in items) or (free >= self._reserve and (self.held or self._take())):
            return None
        if not self._kept:
            self._take_some()
        return NO_ROOM

    def shortage(self) -> str | None:
        """Why nothing new would be admitted just now, or None. Changes nothing; may be asked from another thread."""
        missing = self._size - self._kept
        return NO_ROOM if self._disk.free_bytes() < self._reserve + missing else None

    def release(self) -> None:
        """Give the bytes up; the empty file stays."""
        descriptor = open_private(self._path)
        try:
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
        self._kept = 0

    def _take(self) -> bool:
        if self._disk.free_bytes() + self._kept < self._size + self._reserve:
            return False
        return self._fill_to(self._size)

    def _take_some(self) -> None:
        """With that much again left over, or it would be given up for the very next batch."""
        if not self._kept and self._disk.free_bytes() >= 4 * LEAST_BYTES:
            self._fill_to(min(LEAST_BYTES, self._size))

    def _fill_to(self, size: int) -> bool:
        self._kept = 0
        descriptor = open_private(self._path)
        try:
            _fill(descriptor, size)
        except OSError:
            # Somebody else took the space meanwhile: give back what we have.
            os.ftruncate(descriptor, 0)
            return False
        finally:
            os.close(descriptor)
        self._kept = size
        return True


class Boundless:
    """No disk to run out of: databases in memory."""

    def room(self, items: Sequence[Item]) -> str | None:
        """Always."""
        return None


def need_bytes(items: Sequence[Item]) -> int:
    """At most so much will the batch write."""
    need = 0
    for item in items:
        need += sum(len(draft.body) for draft in item.drafts)
        if isinstance(item, Admit):
            need += sum(map(len, item.admission.payloads.values())) + len(item.admission.definition)
        elif isinstance(item, Alter):
            need += sum(map(len, item.change.payloads.values()))
        elif isinstance(item, Observe):
            need += len(item.body)
    return _BATCH_BYTES + _COPIES * need


def _fill(descriptor: int, size: int) -> None:
    os.ftruncate(descriptor, 0)
    at = 0
    while at < size:
        at += os.pwrite(descriptor, _BLOCK[: size - at], at)
    os.fsync(descriptor)
