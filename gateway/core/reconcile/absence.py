"""When "not there" becomes "never happened and never will".

A request held up on its way can take effect after a look that found nothing. So absence is conclusive only where the
action declares how: by a fence (see `core.lifecycle`), or by a settle time counted from the moment at which no further
byte of any attempt could leave. A time-out is not that moment: bytes keep leaving until the socket is closed hard.
"""

from dataclasses import dataclass, replace

from gateway.model.action import Reconcile, Settle
from gateway.model.evidence import Look
from gateway.model.operation import AMBIGUOUS_STANDINGS, Attempt, Now, Operation


@dataclass(frozen=True, slots=True)
class AbsenceVerdict:
    """Whether absence is conclusive, the looks to remember, and how long to wait before looking again."""

    conclusive: bool
    looks: tuple[Look, ...]
    wait_seconds: float
    reason: str


def weigh(reconcile: Reconcile, operation: Operation, begun_boot_ms: int, now: Now) -> AbsenceVerdict:
    """Weigh one more look that found nothing and began at `begun_boot_ms`."""
    absence = reconcile.absence
    if not isinstance(absence, Settle):
        return AbsenceVerdict(
            conclusive=False,
            looks=(),
            wait_seconds=reconcile.interval_seconds,
            reason="absent now; this action declares nothing that would make absence final",
        )
    ready_boot_ms = settled_at(operation, absence, now)
    if ready_boot_ms is None:
        return AbsenceVerdict(
            conclusive=False,
            looks=(),
            wait_seconds=reconcile.interval_seconds,
            reason="absent now; a connection of an earlier attempt is not known to be closed",
        )
    if begun_boot_ms < ready_boot_ms:
        wait = max((ready_boot_ms - now.boot_ms) / 1000, 0.0)
        return AbsenceVerdict(
            conclusive=False,
            looks=(),
            wait_seconds=max(wait, 0.001),
            reason="absent now; a request held up on its way could still arrive",
        )
    return _second_look(reconcile, operation, Look(begun_boot_ms, now.owner), ready_boot_ms)


def settled_at(operation: Operation, absence: Settle, now: Now) -> int | None:
    """Boot time from which a look can count: the last hard close plus the settle time; None if one is not known."""
    closes = []
    for attempt in operation.attempts:
        if attempt.standing not in AMBIGUOUS_STANDINGS:
            continue
        if attempt.closed_boot_ms is None or attempt.closed_boot_id != now.boot_id:
            return None
        closes.append(attempt.closed_boot_ms)
    return max(closes, default=0) + int(absence.seconds * 1000)


def _second_look(reconcile: Reconcile, operation: Operation, look: Look, ready_boot_ms: int) -> AbsenceVerdict:
    # Only looks by the present owner count: another process's boot clock and sockets are not ours to reason about.
    counted = [seen for seen in operation.looks if seen.owner == look.owner and seen.begun_boot_ms >= ready_boot_ms]
    spacing_ms = int(reconcile.interval_seconds * 1000)
    for seen in counted:
        if look.begun_boot_ms - seen.begun_boot_ms >= spacing_ms:
            return AbsenceVerdict(
                conclusive=True,
                looks=(*counted, look),
                wait_seconds=0.0,
                reason="two looks after the settle time agree: it never happened and no copy is on its way",
            )
    return AbsenceVerdict(
        conclusive=False,
        looks=(*counted, look) if not counted else tuple(counted),
        wait_seconds=reconcile.interval_seconds,
        reason="absent after the settle time; a second look must agree",
    )


def stamp_closed(attempts: tuple[Attempt, ...], now: Now) -> tuple[Attempt, ...]:
    """After a restart: whoever held these sockets is dead, so their settle time starts at our start."""
    return tuple(
        replace(item, closed_boot_ms=now.boot_ms, closed_boot_id=now.boot_id)
        if item.standing in AMBIGUOUS_STANDINGS
        else item
        for item in attempts
    )
