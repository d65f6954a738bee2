"""Evidence: what was found, by whom and when; the only thing an outcome may rest on."""

from dataclasses import dataclass
from enum import StrEnum


class Finding(StrEnum):
    """What a look at the service (or a person) showed about one operation."""

    EXECUTED_OK = "executed_ok"
    EXECUTED_FAILED = "executed_failed"
    IN_PROGRESS = "in_progress"
    ABSENT = "absent"
    """Not there now. Says nothing about later: see `core.reconcile.absence`."""
    FENCED = "fenced"
    """Our own fence occupies the operation's place: it never ran and never will."""
    INCONCLUSIVE = "inconclusive"


class Source(StrEnum):
    """Where a piece of evidence comes from."""

    ATTEMPT = "attempt"
    PROBE = "probe"
    HANDLE = "handle"
    FENCE = "fence"
    CANCEL = "cancel"
    BASELINE = "baseline"
    ATTESTATION = "attestation"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing seen. Never replaced; equal looks in a row are counted instead of repeated."""

    source: Source
    finding: Finding
    at_ms: int
    """When the look began, wall clock, milliseconds since the Unix epoch."""
    detail: str
    """A plain sentence or status, without personal data."""
    attempt: int | None = None
    count: int = 1
    last_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """A completed look that found nothing, kept until absence is conclusive or contradicted."""

    begun_boot_ms: int
    owner: str
    """The process that looked; looks by another process do not count (lifecycle rule "by the present owner")."""
