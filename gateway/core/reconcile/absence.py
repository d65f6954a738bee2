"""When "not there" becomes "never happened and never will".

A request held up on its way can take effect after a look that found nothing. So absence is conclusive only where the
action declares how: by a fence (see `core.fences`), or by a settle time counted from the moment at which no further
byte of any attempt could leave. A time-out is not that moment: bytes keep leaving until the socket is closed hard.
"""

from dataclasses import dataclass
from math import ceil

from gateway.model.action import Reconcile, Settle
from gateway.model.evidence import Finding, Look, Source
from gateway.model.operation import AMBIGUOUS_STANDINGS, Attempt, Now, Operation

_POSITIVE = frozenset({Finding.EXECUTED_OK, Finding.EXECUTED_FAILED, Finding.IN_PROGRESS})
_SERVICES_WORD = frozenset({Source.ATTEMPT, Source.PROBE, Source.HANDLE})


@dataclass(frozen=True, slots=True)
class AbsenceVerdict:
    """Whether absence is conclusive, the looks to remember, and how long to wait before looking again."""

    conclusive: bool
    looks: tuple[Look, ...]
    wait_seconds: float | None
    """None: nothing will become conclusive at a known moment, so looks grow rarer."""
    reason: str


def known_to_service(operation: Operation) -> bool:
    """Whether the service has ever shown that it knows the operation.

    Then "not there" may mean "done and cleared away" as well as "never ran": a 202 whose record was purged would
    otherwise be taken for an action that was not executed, and be sent again.
    """
    if operation.contradicted or operation.handle is not None or operation.outward_id is not None:
        return True
    return any(item.source in _SERVICES_WORD and item.finding in _POSITIVE for item in operation.evidence)


def weigh(reconcile: Reconcile, operation: Operation, begun_boot_ms: int, now: Now) -> AbsenceVerdict:
    """Weigh one more look that found nothing and began at `begun_boot_ms`."""
    absence = reconcile.absence
    if not isinstance(absence, Settle):
        return _open("absent now; this action declares nothing that would make absence final")
    if known_to_service(operation):
        return _open("absent now, but the service knew it before; its record may have been removed")
    ready_boot_ms = settled_at(operation, absence, now)
    if ready_boot_ms is None:
        return _open("absent now; a connection of an earlier attempt is not known to be closed")
    if begun_boot_ms < ready_boot_ms or begun_boot_ms > now.boot_ms:
        reason = "absent now; a request held up on its way could still arrive"
        wait = max((ready_boot_ms - now.boot_ms) / 1000, 0.001)
        return AbsenceVerdict(conclusive=False, looks=(), wait_seconds=wait, reason=reason)
    return _second_look(reconcile, operation, Look(begun_boot_ms, now.owner), ready_boot_ms)


def _open(reason: str) -> AbsenceVerdict:
    return AbsenceVerdict(conclusive=False, looks=(), wait_seconds=None, reason=reason)


def settled_at(operation: Operation, absence: Settle, now: Now) -> int | None:
    """Boot time from which a look can count: the last hard close plus the settle time; None if one is not known."""
    closes = []
    for attempt in operation.attempts:
        if attempt.standing not in AMBIGUOUS_STANDINGS:
            continue
        if attempt.closed_boot_ms is None or attempt.closed_boot_id != now.boot_id:
            return None
        closes.append(attempt.closed_boot_ms)
    return max(closes, default=0) + ceil(absence.seconds * 1000)


def _second_look(reconcile: Reconcile, operation: Operation, look: Look, ready_boot_ms: int) -> AbsenceVerdict:
    # Only looks by the present owner count: another process's boot clock and sockets are not ours to reason about.
    counted = [seen for seen in operation.looks if seen.owner == look.owner and seen.begun_boot_ms >= ready_boot_ms]
    # Without the least spacing, one look that is reported twice would agree with itself.
    spacing_ms = max(ceil(reconcile.interval_seconds * 1000), 1)
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
        looks=(look,) if not counted else tuple(counted),
        wait_seconds=reconcile.interval_seconds,
        reason="absent after the settle time; a second look must agree",
    )


def stamp_closed(attempts: tuple[Attempt, ...], now: Now) -> tuple[Attempt, ...]:
    """After a restart: whoever held these sockets is dead, so their settle time starts at our start.

    A close that was seen in this same boot stands: the boot clock is the machine's, not the process's.
    """
    return tuple(
        item.but(closed_boot_ms=now.boot_ms, closed_boot_id=now.boot_id)
        if item.standing in AMBIGUOUS_STANDINGS and (item.closed_boot_ms is None or item.closed_boot_id != now.boot_id)
        else item
        for item in attempts
    )
