"""Processes that a test did not start itself, and what became of them."""

import os
import select


def ends(process: int) -> bool:
    """Whether a process, whoever's child it is, is gone or about to go."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 10)[0])
    finally:
        os.close(watched)
