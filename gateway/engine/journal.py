"""The one door through which an operation changes: decide purely, make it durable, then let others know.

Nothing is acted upon before the transaction that holds it is on disk. A compare-and-set that loses means that somebody
else moved the operation: the loser takes over the stored image and acts no more on its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from adapters.contract import Observation
from gateway.core.draft import Step
from gateway.core.events import Begin, Event, Fact
from gateway.core.lifecycle import step
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.hub import Hub
from gateway.engine.live import Live
from gateway.engine.log_results import LogResults
from gateway.engine.subjects import Subjects
from gateway.model.action import Action, Effect
from gateway.model.operation import Now, Operation
from gateway.model.problem import present
from gateway.store.port import Admission, Admitted, Change, PayloadKind, Record, Store, StoreUnknown, Unavailable

log = structlog.get_logger(__name__)

OUTCOME_RETRY_SECONDS = 3600.0
"""How long an outcome that the store refuses is offered again: it exists nowhere else."""

DIGESTS = ("fingerprint", "request", "body_sha256")
"""Fields of records that are plain digests of what a caller sent or a service answered."""

Finisher = Callable[[Step], tuple[Step, Mapping[PayloadKind, bytes]]]
"""Adds what travels with a step: the result to store, and marks on the operation that are not its state."""


class Lost(Exception):
    """Somebody else changed the operation first. `Live` holds the stored image now; decide again or stop."""


class Journal:
    """Applies events. One per process; every part of the engine that changes operations shares it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        hub: Hub,
        owner: str,
        *,
        subjects: Subjects | None = None,
        results: LogResults | None = None,
    ) -> None:
        """`owner` names this run of the process; leases and looks carry it.

        Without `subjects` no action may mark personal arguments; without `results` none is kept beside the log.
        """
        self._results = results
        self._subjects = subjects
        self.store = store
        self.owner = owner
        self._clock = clock
        self._chance = chance
        self._hub = hub

    def now(self) -> Now:
        """One reading of every clock."""
        clock = self._clock
        return Now(clock.wall_ms(), clock.boot_ms(), clock.boot_id, self.owner, self._chance.jitter())

    async def admit(self, live: Live, admission: Admission, *, begin: Begin | None) -> Admitted:
        """Offer a new operation to the store, already begun if a place to send from is held.

        Sets the live image to what was stored. Raises Unavailable, StoreUnknown.
        """
        operation, records = live.operation, list(admission.records)
        if begin is not None:
            begun = step(live.action, operation, begin, self.now())
            # One transaction, one version: the image before it never existed for anybody else.
            operation = begun.operation.but(version=operation.version)
            records += self._records(live.action, operation, begun.facts)
        admitted = await self.store.admit(replace(admission, operation=operation, records=tuple(records)))
        if admitted.receipt is not None:
            live.operation = operation
            live.receipt = admitted.receipt
            self._hub.changed(operation)
        return admitted

    async def apply(self, live: Live, event: Event, *, finish: Finisher | None = None) -> Operation:
        """Apply one event and make it durable. Raises IllegalMoveError, Lost, Unavailable, StoreUnknown."""
        async with live.lock:
            taken = step(live.action, live.operation, event, self.now())
            payloads: Mapping[PayloadKind, bytes] = {}
            if finish is not None:
                taken, payloads = finish(taken)
            records = self._records(live.action, taken.operation, taken.facts)
            result = payloads.get(PayloadKind.RESULT)
            if result is not None and self._results is not None and self._results.wants(result):
                records = await self._results.name(live, records, result)
            change = Change(
                operation=taken.operation,
                expect_version=live.operation.version,
                records=records,
                payloads=payloads,
                seal_now=taken.operation.final and live.action.effect is Effect.IRREVERSIBLE,
            )
            changed = await self.store.change(change)
            if not changed.won:
                if changed.current is not None:
                    live.operation = changed.current
                raise Lost(live.id)
            live.operation = taken.operation
            live.receipt = changed.receipt or live.receipt
            live.result = payloads.get(PayloadKind.RESULT, live.result)
        self._tell(taken)
        return taken.operation

    async def apply_surely(self, live: Live, event: Event, *, finish: Finisher | None = None) -> Operation:
        """Like `apply`, for what was observed: it is offered again while the store refuses, for it is nowhere else."""
        try:
            return await self.apply(live, event, finish=finish)
        except Unavailable:
            log.warning("refused_by_store", operation_id=live.id)
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(Unavailable),
            wait=wait_exponential(multiplier=0.05, max=2.0),
            stop=stop_after_delay(OUTCOME_RETRY_SECONDS),
            sleep=self._clock.sleep,
            reraise=True,
        ):
            with attempt:
                return await self.apply(live, event, finish=finish)
        raise StoreUnknown("an observation could not be stored")

    async def keep_aside(self, live: Live, number: int, seen: Observation) -> None:
        """Append an observation without changing the operation: needs no fence and can lose no race."""
        body = {
            "attempt": number,
            "phase": seen.phase.value,
            "nothing_left": seen.nothing_left,
            "status": seen.status,
            "summary": seen.summary,
            "at": seen.ended_ms,
        }
        record = Record("observation_kept_aside", self.body(live.operation, body), live.id)
        await self.store.observe(live.id, body, (record,))

    def _tell(self, taken: Step) -> None:
        operation = taken.operation
        for name in taken.alerts:
            log.warning("alert", alert=name, operation_id=operation.id, action=operation.action)
            self._hub.alert(name, operation, f"{operation.action} is {operation.state.value}")
        self._hub.changed(operation)

    def _records(self, action: Action, operation: Operation, facts: tuple[Fact, ...]) -> tuple[Record, ...]:
        records = tuple([Record(fact.event, self.body(operation, fact.fields), operation.id) for fact in facts])
        return records if action.subject is None else tuple([self._discreet(record) for record in records])

    def _discreet(self, record: Record) -> Record:
        """The record without a digest that somebody could find again by guessing a person's data."""
        subjects = present(self._subjects, "who marks personal arguments has keys for people")
        hidden = {name: subjects.mark(record.body[name]) for name in DIGESTS if name in record.body}
        return replace(record, body={**record.body, **hidden}) if hidden else record

    def body(self, operation: Operation, fields: Mapping[str, object]) -> dict[str, object]:
        """The body of an audit record: who, what and where beside the fact itself; never a credential or a payload."""
        return {
            "at": self._clock.wall_ms(),
            "caller": operation.caller,
            "owner": operation.owner,
            "action": operation.action,
            "definition": operation.definition,
            "service": operation.target_service,
            "state": operation.state.value,
            **{name: value for name, value in fields.items() if value is not None},
        }
