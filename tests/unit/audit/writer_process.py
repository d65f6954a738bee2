"""A writer in a process of its own, for tests that kill it or take its disk away; prints a line for each receipt.

Arguments: folder of the log, operation to die at, how many of them to let pass, largest file in bytes (0: no limit).
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

from audit.disk import DiskDirectory, DiskFile
from audit.export import ExportFailed
from audit.keyring import RecipientKey, Role, SealKey
from audit.note import NoteSigner
from audit.seal import SegmentLimits
from audit.writer import LogWriter
from tests.unit.audit.logs import ORIGIN, START_MS, entropy

OPERATIONS = 8
LIMITS = SegmentLimits(entries_max=9)

_draw = entropy("writer process")
SIGNER = NoteSigner.generate(ORIGIN, _draw)
AUDITOR = RecipientKey.generate(Role.AUDITOR, "auditor", _draw)
SEAL_KEY = SealKey.issue(SIGNER.signer, ORIGIN, _draw)


class Fuse:
    """Ends the process without a word at the n-th operation of a kind."""

    def __init__(self, operation: str, passes: int) -> None:
        self._operation = operation
        self._passes = passes

    def burn(self, operation: str) -> None:
        if operation != self._operation:
            return
        if self._passes == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._passes -= 1


class MortalFile(DiskFile):
    """A file whose writer dies at a step; before an append, half of the bytes still reach the file."""

    __slots__ = ("_fuse",)

    def __init__(self, file: DiskFile, fuse: Fuse) -> None:
        super().__init__(file._fd)
        self._fuse = fuse

    def append(self, data: bytes) -> int:
        self._fuse.burn("append")
        if self._fuse._operation == "half" and self._fuse._passes == 0:
            super().append(data[: len(data) // 2])
        self._fuse.burn("half")
        return super().append(data)

    def sync(self) -> None:
        self._fuse.burn("sync")
        super().sync()
        self._fuse.burn("synced")


class MortalDirectory(DiskDirectory):
    """A real folder whose writer dies at a step."""

    def __init__(self, path: Path, fuse: Fuse) -> None:
        super().__init__(path)
        self._fuse = fuse

    def open(self, name: str, *, fresh: bool = False) -> DiskFile:
        self._fuse.burn("open")
        return MortalFile(super().open(name, fresh=fresh), self._fuse)

    def rename(self, old: str, new: str) -> None:
        self._fuse.burn("rename")
        super().rename(old, new)

    def sync_folder(self, folder: str) -> None:
        self._fuse.burn("sync_folder")
        super().sync_folder(folder)


def open_writer(directory: DiskDirectory, boot_id: str, t_ms: int) -> LogWriter:
    """A writer on the log of these tests."""
    return LogWriter.open(
        directory,
        origin=ORIGIN,
        recipients=[AUDITOR.recipient],
        seal_key=SEAL_KEY,
        entropy=os.urandom,
        writer_id="writer-1",
        boot_id=boot_id,
        t_ms=t_ms,
        limits=LIMITS,
    )


def say(line: str) -> None:
    """Tell the test at once: whatever is not told before the end is lost with the process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def document(operation: int, event: str) -> bytes:
    return json.dumps({"op": f"op-{operation}", "ev": event, "text": "x" * 200}).encode()


def work(writer: LogWriter, soft: int) -> None:
    """Intent and outcome of some operations. What the disk refuses is offered again once there is room."""
    for operation in range(OPERATIONS):
        for event in ("intent", "outcome"):
            try:
                receipt = writer.append(document(operation, event), START_MS, seal=event == "outcome")
            except ExportFailed:
                say("refused")
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, soft))
                writer.seal(START_MS)
                continue
            say(f"{operation} {event} {receipt.seq} {receipt.leaf.hex()}")


def main(folder: str, operation: str, passes: str, largest: str) -> None:
    """Write until the end, or until something happens."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = open_writer(MortalDirectory(Path(folder), Fuse(operation, int(passes))), "boot-1", START_MS)
    if int(largest):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(largest), hard))
    work(writer, hard)
    writer.close(START_MS)
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
