"""Results too large for a record go beside the log: encrypted, and durable before a record names them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from audit.blobs import MEMBER, BlobRef, write_blob
from audit.disk import Directory, LogError
from audit.patience import Patience
from gateway.core.placeholders import render_text
from gateway.engine.chance import Chance
from gateway.engine.live import Live
from gateway.engine.ports import NoPoints, Points
from gateway.engine.subjects import Subjects
from gateway.model.problem import present
from gateway.store.port import Record

log = structlog.get_logger(__name__)

OUTCOME: Final = "outcome"
"""The event of the record that names a result."""
KEPT: Final = "result_kept"
"""False in the record of an outcome whose result should be beside the log, and is not."""
_PIECE_BYTES: Final = 1 << 20


class LogResults:
    """Keeps what callers were shown, to the byte, where the record of the outcome has no room for it.

    An outcome is worth more than a copy of its result, which the store has as well: where the disk refuses or does not
    answer, the outcome goes on record all the same and says so.
    """

    def __init__(
        self,
        directory: Directory,
        chance: Chance,
        *,
        over_bytes: int,
        subjects: Subjects | None = None,
        points: Points | None = None,
    ) -> None:
        """`directory` is the log's own; results of more than `over_bytes` are kept.

        Without `subjects` no action may mark personal arguments.
        """
        self._directory = directory
        self._chance = chance
        self._over_bytes = over_bytes
        self.alert: Callable[[str, str], None] = lambda _name, _reason: None
        """Gets a name and a sentence when a person should look at it."""
        self._subjects = subjects
        self._points = points or NoPoints()
        self._patience = Patience("the folder of the audit log's blobs")
        self._told: str | None = None

    def wants(self, result: bytes) -> bool:
        """Whether there is anything to do: nearly always not."""
        return len(result) > self._over_bytes

    async def name(self, live: Live, records: tuple[Record, ...], result: bytes) -> tuple[Record, ...]:
        """The records, that of the outcome with the name of its result, which is on disk then.

        Raises Unavailable, StoreUnknown where the key of a person is needed.
        """
        if all(record.event != OUTCOME for record in records):
            return records
        fields = await self._kept(live, result)
        return tuple(
            [
                replace(record, body={**record.body, **fields}) if record.event == OUTCOME else record
                for record in records
            ]
        )

    async def _kept(self, live: Live, result: bytes) -> Mapping[str, Any]:
        # A change that the store refuses is offered again: the same result is not written twice.
        if live.kept is not None and live.kept[0] == result:
            return live.kept[1]
        action = live.action
        if action.subject is None and action.output.personal:
            log.warning(
                "audit_result_not_kept", operation_id=live.id, reason="personal data, and nobody's in particular"
            )
            return {KEPT: False}
        self._points.hit("result.before_write")
        try:
            ref = await asyncio.to_thread(self._patience.call, lambda: self._write(result))
        except (OSError, LogError) as error:
            self._unwell(live, str(error))
            return {KEPT: False}
        self._told = None
        self._points.hit("result.written")
        fields: dict[str, Any] = {MEMBER: [{**ref.to_json(), "what": "result"}]}
        if action.subject is not None:
            subjects = present(self._subjects, "who marks personal arguments has keys for people")
            # With the person's key goes the blob's: deleting one makes the other unreadable.
            fields = await subjects.box(fields, render_text(action.subject, live.variables()), (MEMBER,))
        live.kept = result, fields
        return fields

    def _write(self, result: bytes) -> BlobRef:
        pieces = (result[at : at + _PIECE_BYTES] for at in range(0, len(result), _PIECE_BYTES))
        return write_blob(self._directory, pieces, self._chance.bytes)

    def _unwell(self, live: Live, reason: str) -> None:
        log.error("audit_result_not_kept", operation_id=live.id, reason=reason)
        if self._told != reason:
            self.alert("audit_result_not_kept", f"{reason}; outcomes are on record all the same")
        self._told = reason
