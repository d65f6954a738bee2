"""Waits for the segment that a live writer is about to make behind a full one."""

from __future__ import annotations

from audit.claims import SETTLE_MS, SETTLE_TRIES, Settle
from audit.disk import Directory
from audit.log import segments

SUCCESSOR_AWAITED_MS = 60_000
"""So long after a segment was closed as full, the next one may still not have reached the disk."""


def successor_appears(directory: Directory, last: int, *, age_ms: int | None, settle: Settle) -> bool:
    """Whether a segment is there behind the last one listed; what is in it is the next verification's business.

    It is looked for as long as the close is young, so that no slow disk makes a writer at work look like a lost file,
    and no longer, so that a lost file is called one in the end.

    Args:
        directory: the log's folder.
        last: first seq of the last segment that was listed.
        age_ms: how old the close was before anything was read; None if its time is rounded and tells nothing.
        settle: waits SETTLE_MS.
    """
    young_ms = 0 if age_ms is None else min(SUCCESSOR_AWAITED_MS, SUCCESSOR_AWAITED_MS - age_ms)
    for _ in range(max(SETTLE_TRIES, young_ms // SETTLE_MS)):
        if segments(directory)[-1] > last:
            return True
        settle()
    return False
