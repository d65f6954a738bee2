"""The clock and the dice of this machine, for the commands alone: everything else in the package is handed both."""

from __future__ import annotations

import secrets
import time

from audit.claims import SETTLE_MS


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def now_s() -> int:
    """Unix time in seconds."""
    return int(time.time())


def settle() -> None:
    """Wait a moment, for a log that is being written."""
    time.sleep(SETTLE_MS / 1000)


def entropy(length: int) -> bytes:
    """Bytes that nobody can guess."""
    return secrets.token_bytes(length)


def boot_id() -> str:
    """A name for this process that no other has."""
    return secrets.token_hex(8)
