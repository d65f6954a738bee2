"""Tells a host that a command is no longer wanted: on record before the first byte, and what the host says as well."""

from typing import Final

import structlog

from adapters.contract import Hooks, Observation
from gateway.core.events import CancelObserved
from gateway.core.template import Rendered
from gateway.core.transitions import IllegalMoveError
from gateway.engine.journal import Journal, Lost
from gateway.engine.live import Live
from gateway.engine.looks import BODY_MAX_BYTES
from gateway.engine.outbound import SIGNAL, Outbound
from gateway.model.operation import Kind, Standing

log = structlog.get_logger(__name__)

CANCEL: Final = "CANCEL"
_HAD_BEGUN: Final = frozenset({"running", "exited", "lost", "unverifiable"})
"""What a host says of an attempt that its fence came too late for."""


class Cancelling:
    """Carries out cancels whose begin is durable."""

    def __init__(self, journal: Journal, outbound: Outbound) -> None:
        """Both are the engine's own."""
        self._journal = journal
        self._outbound = outbound

    async def carry_out(self, live: Live, signal: str) -> None:
        """Send the cancel that was begun last and keep what it showed, whoever owns the operation by now."""
        number = next(
            (item.number for item in reversed(live.operation.attempts) if _is_under_way(item.kind, item.standing)), None
        )
        if number is None:
            return  # settled in the meantime, by the command's own end
        request = Rendered(CANCEL, live.action.service.base_url, ((SIGNAL, signal),), b"")
        seen = await self._outbound.send(
            live.action,
            request,
            Hooks(before_send=self._refusal),
            is_read=False,
            body_max_bytes=BODY_MAX_BYTES,
            about=live,
        )
        event = CancelObserved(number, seen, _fenced(seen))
        while True:
            try:
                await self._journal.apply_surely(live, event)
            except Lost:
                continue
            except IllegalMoveError as illegal:
                log.warning("observation_kept_aside", operation_id=live.id, reason=illegal.reason)
                await self._journal.keep_aside(live, number, seen)
            return

    def _refusal(self) -> str | None:
        return None if self._journal.store.failed is None else "the store's state is unknown, so nothing may be sent"


def _is_under_way(kind: Kind, standing: Standing) -> bool:
    return kind is Kind.CANCEL and standing is Standing.OPEN


def _fenced(seen: Observation) -> bool | None:
    """Whether the host closed the door in time; None where its answer does not say."""
    phase = seen.header("Phase") if seen.answered else None
    if phase == "fenced":
        return True
    return False if phase in _HAD_BEGUN else None
