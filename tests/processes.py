"""Processes that a test did not start itself, and what became of them."""

import os
import select
from pathlib import Path


def ends(process: int) -> bool:
    """Whether a process, whoever's child it is, is gone or about to go."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 40)[0])
    finally:
        os.close(watched)


def processes_of(folder: Path) -> list[int]:
    """The processes whose environment names a folder: what was started there, however far it has been handed on."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in environment:
                found.append(int(entry.name))
    return found
