"""Gives a restored store back what only its audit log knows: names that were used, and that something may have left.

Outcomes are not taken from the log: the service is asked again. What is taken is what could make a second effect:
operations that the store does not know keep their keys and arguments for themselves, and operations that the store
believes to be unsent, while the log says that they were begun, go into doubt. Everything may be done twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from audit.disk import Directory
from audit.keyring import RecipientKey
from audit.log import LogContradiction
from audit.show import BadDocument, show
from gateway.core.events import Cancelled, Restored
from gateway.engine.journal import Journal
from gateway.engine.recovery import Reviver, seems_unsent
from gateway.model.operation import FINAL, Executed, Operation, Outcome, State
from gateway.store.port import LostOperation, Record, Refused

BATCH = 500
RECOVERY = "recovery"
"""Who cancels again, on record, what the log says was cancelled."""
CREATED = "admitted"


@dataclass(slots=True)
class Logged:
    """What a log tells of one operation. `names` are the fields of its admission, None if the log begins after it."""

    records: int = 0
    attempts: int = 0
    state: str = ""
    executed: str | None = None
    names: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Knowledge:
    """What the logs tell of every operation, and the keys that were revoked."""

    operations: dict[str, Logged] = field(default_factory=dict)
    revoked: dict[str, int] = field(default_factory=dict)
    """Time of revocation by key id."""


@dataclass(frozen=True, slots=True)
class Reimported:
    """What was done: lost operations whose names are kept, operations put in doubt or cancelled again, keys revoked."""

    buried: int = 0
    doubted: int = 0
    cancelled: int = 0
    revoked: int = 0


def read_logs(directories: Iterable[Directory], key: RecipientKey) -> Knowledge:
    """Read logs with an auditor's key, oldest first. Raises Refused in words for an operator; KeyProblem."""
    known = Knowledge()
    for directory in directories:
        try:
            for shown in show(directory, key):
                _learn(known, shown.content)
        except (LogContradiction, BadDocument) as error:
            raise Refused(f"The audit log cannot be read to its end: {error}. Nothing was taken from it.") from error
    return known


def _learn(known: Knowledge, record: Mapping[str, Any]) -> None:
    if record.get("ev") == "key_revoked" and isinstance(record.get("key_id"), str):
        known.revoked[record["key_id"]] = record["at"]
    name = record.get("op")
    if name is None:
        return
    logged = known.operations.setdefault(name, Logged())
    logged.records = record["op_n"] + 1
    logged.state = record.get("state", logged.state)
    if record["ev"] == CREATED:
        logged.names = record
    elif record["ev"] == "attempt":
        logged.attempts = max(logged.attempts, record["attempt"])
    elif record["ev"] == "outcome":
        logged.executed = record["executed"]


class Reimport:
    """Applies what was read to an open store without an engine."""

    def __init__(self, journal: Journal, reviver: Reviver) -> None:
        """The journal makes every change durable and puts it on record."""
        self._journal = journal
        self._reviver = reviver

    async def apply(self, known: Knowledge | None) -> Reimported:
        """Take over what the logs know; without a log, nothing that seems to be unsent is believed to be so."""
        if known is None:
            doubted, cancelled = await self._doubt(None)
            return Reimported(doubted=doubted, cancelled=cancelled)
        buried = await self._bury(known.operations)
        doubted, cancelled = await self._doubt(known.operations)
        return Reimported(buried, doubted, cancelled, await self._revoke(known.revoked))

    async def _bury(self, logged: Mapping[str, Logged]) -> int:
        lost = [_lost(name, item.names, item) for name, item in logged.items() if item.names is not None]
        buried = 0
        for start in range(0, len(lost), BATCH):
            batch = lost[start : start + BATCH]
            at = self._journal.now().wall_ms
            buried += await self._journal.store.bury(batch, (Record("operations_lost", {"at": at}),))
        return buried

    async def _doubt(self, logged: Mapping[str, Logged] | None) -> tuple[int, int]:
        doubted = cancelled = 0
        for operation in await self._journal.store.unsettled():
            if operation.state is not State.READY:
                continue
            live = await self._reviver.revive(operation)
            if not seems_unsent(live):
                continue
            item = None if logged is None else logged.get(operation.id, Logged())
            if item is not None and item.state == State.CANCELLED:
                await self._journal.apply_surely(live, Cancelled(actor=RECOVERY))
                cancelled += 1
            elif item is None or _went_on(item, operation):
                await self._journal.apply_surely(live, Restored())
                doubted += 1
        return doubted, cancelled

    async def _revoke(self, revoked: Mapping[str, int]) -> int:
        done = 0
        for key_id, at_ms in revoked.items():
            record = Record("key_revoked", {"at": self._journal.now().wall_ms, "key_id": key_id, "by": RECOVERY})
            done += await self._journal.store.revoke_key(key_id, at_ms, (record,))
        return done


def _went_on(item: Logged, operation: Operation) -> bool:
    """Whether the log tells of attempts that the stored image does not have, or of an end."""
    return item.attempts > len(operation.attempts) or item.state in FINAL


def _lost(name: str, names: Mapping[str, Any], item: Logged) -> LostOperation:
    settled = item.state in FINAL
    outcome = Outcome.SUCCESS if item.state == State.SUCCEEDED else Outcome.ERROR
    return LostOperation(
        operation_id=name,
        caller=names["caller"],
        action=names["action"],
        fingerprint=names["fingerprint"],
        key=names.get("key"),
        outcome=outcome.value if settled else None,
        executed=not settled or item.executed != Executed.NO,
    )
