"""What hosts were seen to have ended before this start, read from what the store holds of settled operations.

Only what a host's own record of an attempt said counts: not a fence, a status command's word or a person's.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Protocol

from adapters.contract import HostEnd
from gateway.core.command import STATUS
from gateway.engine.revive import Revival
from gateway.model.action import Action, Host, Marker
from gateway.model.evidence import Finding, Source
from gateway.model.operation import Executed, Operation, State
from gateway.model.step import ENDED
from gateway.store.port import Filter, Page

LOOK_BACK: Final = 10_000
"""Of the newest settled operations of all kinds so many are looked at: a start must not take longer with its years."""
ENOUGH: Final = 32
"""For each host."""
_PAGE: Final = 500
_SETTLED: Final = (State.SUCCEEDED.value, State.FAILED.value)
_CARRIED_OUT: Final = frozenset({Finding.EXECUTED_OK, Finding.EXECUTED_FAILED})


class Listing(Protocol):
    """The part of a store that is read here."""

    async def list(self, wanted: Filter) -> Page:
        """One page of operations, newest first."""
        ...


async def ends_on_hosts(store: Listing, revival: Revival, hosts: Collection[str]) -> Sequence[HostEnd]:
    """The newest ends on these hosts, at least `ENOUGH` of each where so many are found."""
    ends: list[HostEnd] = []
    found = dict.fromkeys(hosts, 0)
    cursor: str | None = None
    for _ in range(LOOK_BACK // _PAGE):
        page = await store.list(Filter(states=_SETTLED, cursor=cursor, limit=_PAGE))
        for operation in page.operations:
            if operation.target_service in found:
                new = list(ends_of(operation, await revival.action(operation)))
                found[operation.target_service] += len(new)
                ends += new
        cursor = page.cursor
        if cursor is None or min(found.values(), default=ENOUGH) >= ENOUGH:
            break
    return ends


def ends_of(operation: Operation, action: Action) -> Iterator[HostEnd]:
    """What the host's record said to have ended of a settled operation; nothing where evidence contradicts it."""
    host = action.service.host
    if host is None or host.store_id is None or action.marker is not Marker.RUNNER or operation.contradicted:
        return
    if action.steps:
        for step in operation.steps:
            if step.state in ENDED:
                yield _end(operation, host, host.store_id, f"{operation.id}.{step.name}", step.marker)
    elif operation.executed is Executed.YES:
        attempt = _attempt_that_ended(operation, action)
        if attempt is not None:
            yield _end(operation, host, host.store_id, operation.id, attempt)


def _attempt_that_ended(operation: Operation, action: Action) -> int | None:
    """Which of the sends the host's record is of, counted from 1; None if that is not certain."""
    sends = [item.number for item in operation.sends]
    if operation.basis == "probe" and action.reconcile is not None and action.reconcile.request.method == STATUS:
        # A look asks for the newest one, and none is sent once it is settled.
        return len(sends) or None
    if operation.basis == "answer":
        # An answer may be that of an earlier one, come late.
        for item in reversed(operation.evidence):
            if item.source is Source.ATTEMPT and item.finding in _CARRIED_OUT and item.attempt in sends:
                return sends.index(item.attempt) + 1
    return None


def _end(operation: Operation, host: Host, store_id: str, name: str, attempt: int) -> HostEnd:
    return HostEnd(
        address=host.address,
        port=host.port,
        store_id=store_id,
        operation=name,
        attempt=attempt,
        issued_ms=operation.begun_ms or operation.created_ms,
        seen_ms=operation.final_ms or operation.created_ms,
    )
