"""One batch, one transaction: rule on every item, seal the winners' records, write, commit, reply.

The order is the point. First every compare-and-set and every admission is ruled on, reading only. Then the records of
the winners are sealed, and only theirs: the log never tells of a change that did not happen. Then everything is written
and committed at once. A failure before the sealer was used changes nothing and is reported as `Unavailable`; after any
later one nobody knows what is on disk, so the writer is finished.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.model.operation import Receipt
from gateway.model.problem import BrokenInvariantError, ensure
from gateway.store import points, statements
from gateway.store.codec import encode, encode_image, outcome_of, short_hash
from gateway.store.effects import Effects
from gateway.store.frames import Chunk, behind, pack
from gateway.store.items import HEAD, Attach, Item, Promise
from gateway.store.points import Points
from gateway.store.port import Busy, Cipher, Sealer, StoreUnknown, Unavailable
from gateway.store.records import complete
from gateway.store.sql import Link, Row
from gateway.store.view import Known, Memory, View, Wants

BATCH_MAX: Final = 256
"""Items per transaction: a larger one makes everybody in it wait longer than the sync it saves."""

COUNTS: Final = "store.counts"
"""Name under which the number of operations per state is kept: counting a million rows takes too long."""

NO_LOG: Final = "The audit log is not open; nothing was changed."


@dataclass(frozen=True, slots=True)
class _Rows:
    images: dict[bytes, tuple[Any, ...]]
    """Of each operation that has a new image: the whole of a new one, else what can change."""
    payloads: list[Row]
    observations: list[Row]


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch that is ruled on and, if it `writes`, waits in an open transaction for the commit."""

    promises: list[Promise | None]
    refusals: dict[int, Unavailable]
    effects: Effects
    counts: dict[str, int]
    writes: bool


class Writer:
    """Owns the writing connection and the sealer. One batch at a time: `prepare`, `commit` if it writes, `replies`.

    The three may run on different threads, one after the other: only the commit waits for the disk.
    """

    def __init__(
        self,
        link: Link,
        cipher: Cipher,
        *,
        wall_ms: Callable[[], int],
        room: Callable[[Sequence[Item]], str | None],
        listener: Points,
    ) -> None:
        """`room` says why nothing new may be admitted just now, or None; it is asked before each batch."""
        self._link = link
        self._cipher = cipher
        self._wall_ms = wall_ms
        self._room = room
        self._hit = listener.hit
        self._sealer: Sealer | None = None
        self._before: Sealer | None = None
        self._origins: dict[str, int] = {row[1]: row[0] for row in link.fetch(statements.ORIGINS)}
        self._counts = self._load_counts()
        self._memory = Memory(link)
        self._touched = False

    @property
    def sealer(self) -> Sealer | None:
        """The attached log."""
        return self._sealer

    def close(self) -> None:
        """Let go of the connection."""
        self._link.close()

    def prepare(self, items: Sequence[Item]) -> "Pending":
        """Everything up to the commit: rule, seal, run the statements.

        Raises Unavailable: nothing was written, nothing was sealed, the writer lives; Busy, a kind of it, at once.
        StoreUnknown: it is finished.
        """
        self._touched = False
        self._before = self._sealer
        try:
            self._attach(items)
            return self._prepare(items)
        except Busy:
            self._sealer = self._before
            raise
        except BaseException as error:
            self._forget(error)
            if self._touched or isinstance(error, BrokenInvariantError):
                raise _unknown(error) from error
            self._undo(error)
            raise Unavailable(f"The store could not take it ({_said(error)}); nothing was changed.") from error

    def commit(self) -> None:
        """Make what was prepared durable. Raises StoreUnknown: nobody knows whether it is."""
        try:
            self._link.commit()
        except BaseException as error:
            self._forget(error)
            raise _unknown(error) from error

    def replies(self, pending: "Pending") -> list[Any]:
        """What each item is told, after the commit if there was one to make. Raises StoreUnknown."""
        try:
            return self._reply(pending)
        except BaseException as error:
            self._forget(error)
            raise _unknown(error) from error

    def _forget(self, error: BaseException) -> None:
        """What a batch changed in memory holds no longer; an end of the process is not handled but goes its way."""
        self._sealer = self._before
        self._memory.forget_recent()
        if not isinstance(error, Exception):
            raise error

    def _undo(self, error: BaseException) -> None:
        try:
            self._link.rollback()
        except Exception as again:  # noqa: BLE001 - whatever it is, the fate of the transaction is unknown
            raise StoreUnknown(f"a transaction could be neither made nor undone: {_said(again)}") from error

    def _attach(self, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Attach):
                ensure(self._sealer is None, "a store has one log")
                self._sealer = item.sealer

    def _prepare(self, items: Sequence[Item]) -> "Pending":
        no_room = self._room(items)
        self._hit(points.BEGIN)
        self._link.begin()
        effects = Effects()
        promises, refusals = self._rule(items, effects, no_room)
        rows = self._encode(effects)
        self._hit(points.RULED)
        if effects.empty:
            self._link.rollback()
            return Pending(promises, refusals, effects, self._counts, writes=False)
        self._touched = True
        self._seal(effects)
        self._hit(points.SEALED)
        counts = self._write(effects, rows)
        self._hit(points.WRITTEN)
        return Pending(promises, refusals, effects, counts, writes=True)

    def _reply(self, pending: "Pending") -> list[Any]:
        effects = pending.effects
        if pending.writes:
            self._counts = pending.counts
            self._remember(effects)
            if effects.close:
                self._sealer = None
            self._hit(points.COMMITTED)
        replies = [
            pending.refusals[at] if promise is None else promise(effects.receipts.get(at))
            for at, promise in enumerate(pending.promises)
        ]
        self._hit(points.REPLYING)
        return replies

    def _rule(
        self, items: Sequence[Item], effects: Effects, no_room: str | None
    ) -> tuple[list[Promise | None], dict[int, Unavailable]]:
        refusals: dict[int, Unavailable] = {}
        wants = Wants()
        for at, item in enumerate(items):
            if item.drafts and self._sealer is None:
                refusals[at] = Unavailable(NO_LOG, audit=True)
            elif no_room is not None and item.admits:
                refusals[at] = Unavailable(no_room, audit=True)
            else:
                item.needs(wants)
        view = View(self._link, wants, self._memory)
        promises: list[Promise | None] = []
        for at, item in enumerate(items):
            effects.item = at
            promises.append(None if at in refusals else item.rule(view, effects))
        self._memory.definitions |= view.definitions
        effects.lost = view.lost
        return promises, refusals

    def _remember(self, effects: Effects) -> None:
        memory = self._memory
        memory.lost = effects.lost or memory.lost
        memory.definitions.update(effects.definitions)
        memory.tombstones = memory.tombstones or bool(effects.tombstones or effects.retired)
        memory.forget(effects.delivered)
        memory.remember(effects.operations.values())
        memory.forget(known.id for known in effects.retired)

    def _encode(self, effects: Effects) -> _Rows:
        """Whatever may fail over a single value fails here, before anything is sealed."""
        payloads, observations = effects.encrypt(self._cipher)
        images = {
            known.id: (encode if known.stored_version is None else encode_image)(known.operation)
            for known in effects.operations.values()
            if known.touched
        }
        return _Rows(images, payloads, observations)

    def _seal(self, effects: Effects) -> None:
        sealer = self._sealer
        if sealer is None:
            return
        now = self._wall_ms()
        origin = sealer.origin
        number = self._origin_number(origin)
        for line in effects.lines:
            chain = line.chain
            frames = sealer.record(
                complete(line.draft, None if chain is None else chain.op_n, None if chain is None else chain.op_prev),
                now,
            )
            effects.frames.extend(frames)
            frame = frames[-1]
            if chain is not None:
                chain.op_n += 1
                chain.op_prev, chain.last_seq, chain.origin = frame.leaf, frame.seq, number
            if line.answers:
                effects.receipts[line.item] = Receipt(origin, frame.seq, frame.leaf.hex())
        for tag, by in effects.erased.values():
            effects.frames.extend(sealer.erase_subject(tag, by, now))
        if effects.rekey is not None:
            frames, kept = effects.rekey(now)
            effects.frames.extend(frames)
            effects.meta.update(kept)
        if effects.heartbeat:
            effects.frames.extend(sealer.heartbeat(now))
        if effects.seal:
            effects.frames.extend(sealer.seal(now))
        if effects.close:
            effects.frames.extend(sealer.close(now))

    def _write(self, effects: Effects, rows: _Rows) -> dict[str, int]:
        write, touch = self._link.write, self._link.touch
        new, changed, longer = self._by_statement(effects, rows.images)
        # Changes first: they free the names that new operations may take.
        ensure(
            write(statements.UPDATE_OPERATION, changed) == len(changed),
            "every change meets the version it was ruled on",
        )
        write(statements.UPDATE_CHAIN, longer)
        write(statements.INSERT_OPERATION, new)
        write(statements.UPSERT_PAYLOAD, rows.payloads)
        write(statements.INSERT_OBSERVATION, rows.observations)
        write(statements.INSERT_DEFINITION, list(effects.definitions.items()))
        touch(statements.MARK_DELIVERED, effects.delivered)
        self._write_names(effects)
        self._retire(effects.retired)
        write(statements.INSERT_TOMBSTONE, effects.tombstones)
        touch(statements.GIVE_UP, effects.given_up)
        self._write_log(effects)
        counts = self._counted(effects)
        meta = dict(effects.meta)
        if counts != self._counts:
            meta[COUNTS] = orjson.dumps(counts)
        if effects.frames and self._sealer is not None:
            meta[HEAD] = self._sealer.head.to_bytes()
        write(statements.UPSERT_META, [(name, value) for name, value in meta.items() if value is not None])
        touch(statements.DELETE_META, [name for name, value in meta.items() if value is None])
        return counts

    def _by_statement(
        self, effects: Effects, images: dict[bytes, tuple[Any, ...]]
    ) -> tuple[list[Row], list[Row], list[Row]]:
        new: list[Row] = []
        changed: list[Row] = []
        longer: list[Row] = []
        for known in effects.operations.values():
            chain = known.op_n, known.op_prev, known.last_seq, known.origin
            if known.stored_version is None:
                new.append((*images[known.id], *chain))
            elif known.touched:
                changed.append((*images[known.id], *chain, known.id, known.stored_version))
            else:
                longer.append((*chain, known.id))
        return new, changed, longer

    def _write_names(self, effects: Effects) -> None:
        write, touch = self._link.write, self._link.touch
        write(statements.UPSERT_KEY, [tuple(row.values()) for row in effects.keys.values()])
        for name, at in effects.revoked.items():
            self._link.run(statements.REVOKE_KEY, {"key_id_": name, "revoked_ms": at})
        credentials = [tuple(row.values()) for row in effects.credentials.values() if row is not None]
        write(statements.UPSERT_CREDENTIAL, credentials)
        touch(statements.DELETE_CREDENTIAL, [name for name, row in effects.credentials.items() if row is None])

        # Before the new ones: a person may come back in the batch of their erasure.
        touch(statements.DELETE_SUBJECTS, list(effects.erased))
        write(statements.INSERT_SUBJECT, list(effects.subjects.values()))

    def _retire(self, retired: Sequence[Known]) -> None:
        touch = self._link.touch
        names = [known.id for known in retired]
        self._link.write(statements.INSERT_TOMBSTONE, [_tombstone(known) for known in retired])
        touch(statements.DELETE_PAYLOADS, names)
        touch(statements.DELETE_OBSERVATIONS, names)
        touch(statements.DELETE_OPERATIONS, names)

    def _origin_number(self, origin: str) -> int:
        """Rows name the log by a small number; a log that is new here gets the next."""
        return self._origins.get(origin) or max(self._origins.values(), default=0) + 1

    def _write_log(self, effects: Effects) -> None:
        if effects.frames and self._sealer is not None:
            origin = self._sealer.origin
            number = self._origin_number(origin)
            if origin not in self._origins:
                self._link.write(statements.INSERT_ORIGIN, [(number, origin)])
                # No need to wait for the commit: if it fails, this writer writes nothing more.
                self._origins[origin] = number
            self._link.write(statements.INSERT_FRAMES, [(number, *chunk) for chunk in pack(effects.frames)])
        for named, seq in effects.pruned:
            number = max(self._origins.values(), default=0) if named is None else self._origins.get(named, 0)
            self._prune(number, seq)

    def _prune(self, number: int, seq: int) -> None:
        names = {"origin_": number, "seq_": seq}
        self._link.run(statements.DELETE_FRAMES, names)
        cut = self._link.fetch(statements.CUT_FRAMES, names)
        if cut:
            self._link.run(statements.DELETE_CUT, names)
            self._link.write(statements.INSERT_FRAMES, [(number, *behind(Chunk(*row), seq)) for row in cut])

    def _counted(self, effects: Effects) -> dict[str, int]:
        counts = dict(self._counts)
        for known in effects.operations.values():
            if known.stored_state is not None:
                counts[known.stored_state] -= 1
            state = str(known.operation.state)
            counts[state] = counts.get(state, 0) + 1
        for known in effects.retired:
            counts[str(known.operation.state)] -= 1
        return counts

    def _load_counts(self) -> dict[str, int]:
        rows = self._link.fetch(statements.META, {"name": COUNTS})
        return dict(orjson.loads(rows[0][0])) if rows else {}


def _unknown(error: BaseException) -> StoreUnknown:
    return StoreUnknown(f"a transaction failed: {_said(error)}")


def _said(error: BaseException) -> str:
    """What kind of failure it was. The text is left out: a driver's message may quote values."""
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


def _tombstone(known: Known) -> tuple[Any, ...]:
    operation = known.operation
    return (
        known.id,
        operation.caller,
        operation.action,
        None if operation.key is None else short_hash(operation.key),
        operation.fingerprint,
        outcome_of(operation),
        False,
    )
