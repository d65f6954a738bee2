"""Drops the oldest segments of a log that is being written, once the log itself says so under a signed checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from audit.blobs import BLOBS, blob_names, drop_blobs
from audit.bodies import ERASED_SEGMENTS, Erasure
from audit.chain import ZERO_HASH
from audit.disk import Directory, DiskDirectory, LogError
from audit.log import segments
from audit.note import NoteKey
from audit.patience import Patience
from audit.record import Kind
from audit.retention import covered_size, drop_segments, first_kept, opened_ms
from gateway.engine.anchoring import NotedSealer
from gateway.engine.clock import Clock

log = structlog.get_logger(__name__)

DAY_MS: Final = 86_400_000
BLOB_MARGIN_MS: Final = DAY_MS
"""A blob is finished before its record is made. Within a day it is, or the outcome that names it was given up."""
PATIENCE_SECONDS: Final = 60.0
BY: Final = "audit.keep_days"


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where a log lies, and who may still ask for its beginning."""

    directory: DiskDirectory
    keys: Sequence[NoteKey]
    """Those that sign its checkpoints."""
    anchors: Sequence[Directory] = ()
    witnessed: Callable[[], int | None] = lambda: None
    """The smallest size that a witness holds; None if none does."""


class LogRetention:
    """The three steps of one round, in this order; each may be repeated, and a crash between them does no harm.

    `plan` and `drop` work on files and may wait for a disk; they are for another thread. `announce` is not.
    """

    def __init__(self, shelf: Shelf, notes: NotedSealer, clock: Clock, *, keep_days: float) -> None:
        """Entries are kept for `keep_days` at least, whole segments at a time."""
        self._shelf = shelf
        self._notes = notes
        self._clock = clock
        self._keep_ms = int(keep_days * DAY_MS)
        self._patience = Patience("the disk of the audit log", PATIENCE_SECONDS)
        self._announced = 0

    def plan(self) -> int:
        """The first seq that is to stay; 0 if there is nothing to drop. Raises LogError, OSError."""
        return self._patience.call(self._plan)

    def announce(self, end: int) -> None:
        """Have the log say, with its next seal, that the entries before `end` are dropped."""
        if end > self._announced:
            self._announced = end
            self._notes.note(Erasure(ERASED_SEGMENTS, 0, end, ZERO_HASH, BY), Kind.ERASURE)

    def drop(self, end: int) -> None:
        """Delete the files before `end`, and the blobs that only they named.

        Raises NotDroppable while the announcement is not in the files under a checkpoint; LogError, OSError.
        """
        self._patience.call(lambda: self._drop(end))

    def _plan(self) -> int:
        shelf = self._shelf
        held = shelf.witnessed()
        covered = covered_size([shelf.directory, *shelf.anchors], shelf.keys)
        before_ms = self._clock.wall_ms() - self._keep_ms
        end = first_kept(shelf.directory, before_ms=before_ms, covered=covered if held is None else min(covered, held))
        firsts = segments(shelf.directory)
        return end if firsts and end > firsts[0] else 0

    def _drop(self, end: int) -> None:
        directory = self._shelf.directory
        dropped = drop_segments(directory, end, attested=covered_size([directory], self._shelf.keys))
        blobs = drop_blobs(directory, self._old_blobs(end))
        log.info("audit_segments_dropped", segments=len(dropped), first_seq=end, blobs=blobs)

    def _old_blobs(self, end: int) -> list[str]:
        """Those whose record is gone for certain. Which blobs a record names, only an auditor's key can tell.

        A record that stays is no older than the segment that now comes first, and a blob is finished before its record.
        """
        oldest_ms = min(opened_ms(self._shelf.directory, end), self._clock.wall_ms() - self._keep_ms)
        folder = self._shelf.directory.path / BLOBS
        before_ms = oldest_ms - BLOB_MARGIN_MS
        return [name for name in blob_names(self._shelf.directory) if _made_ms(folder / name) < before_ms]


def _made_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def tried(work: Callable[[], int | None]) -> int | LogError | OSError:
    """What the work gives, or the failure that people should hear of."""
    try:
        return work() or 0
    except (LogError, OSError) as failed:
        return failed
