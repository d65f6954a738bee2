"""The reading half of a store: which statement answers what, and what its rows mean."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Select, String, bindparam, select

from gateway.model.operation import Operation, Receipt
from gateway.model.principal import PrincipalKind
from gateway.store import statements
from gateway.store.codec import OPERATION_COLUMNS, decode, raw_id, short_hash
from gateway.store.effects import observation_context, payload_context
from gateway.store.frames import unpack
from gateway.store.items import HEAD
from gateway.store.port import Cipher, Filter, Page, PayloadKind, StoredCredential, StoredKey, StoredSubject, TailFrame
from gateway.store.sql import Row, Statement
from gateway.store.tables import operations
from gateway.store.writer import COUNTS

PAGE_MAX: Final = 500
CHUNKS_MIN: Final = 16
"""Rows of sealed frames to read at a time, at least: each holds those of one batch."""


class Reads(ABC):
    """Every reading call of the port, on top of one way to run a query."""

    _cipher: Cipher
    _pruned: tuple[str | None, int]

    @abstractmethod
    async def _fetch(self, statement: Statement, values: Mapping[str, Any]) -> Sequence[Row]:
        """All rows. Raises Unavailable, StoreUnknown."""

    @abstractmethod
    async def _decrypt(self, work: Callable[[bytes, bytes], bytes], body: bytes, context: bytes) -> bytes:
        """Run `work`, elsewhere if the body is large."""

    async def get(self, operation_id: str) -> Operation | None:
        """One operation, None if there is none of that id."""
        raw = _raw(operation_id)
        if raw is None:
            return None
        return _first(await self._fetch(statements.GET, {"id": raw}))

    async def by_key(self, caller: str, action: str, key: str) -> Operation | None:
        """The operation that the caller gave this key to."""
        names = {"caller": caller, "action": action, "key_hash": short_hash(key)}
        return _first(await self._fetch(statements.BY_KEY, names))

    async def receipt(self, operation_id: str) -> Receipt | None:
        """Where the newest record of the operation lies."""
        raw = _raw(operation_id)
        rows = [] if raw is None else await self._fetch(statements.RECEIPT, {"id": raw})
        for origin, seq, leaf in rows:
            return Receipt(origin, seq, bytes(leaf).hex())
        return None

    async def list(self, wanted: Filter) -> Page:
        """One page, newest first. A cursor that is none of ours raises ValueError."""
        limit = max(1, min(wanted.limit, PAGE_MAX))
        rows = await self._fetch(_listing(wanted, limit + 1), {})
        more = len(rows) > limit
        found = tuple(decode(row) for row in rows[:limit])
        return Page(found, found[-1].id if more else None)

    async def unsettled(self) -> Sequence[Operation]:
        """Every operation not in a final state, oldest first."""
        return [decode(row) for row in await self._fetch(statements.LIST_UNSETTLED, {})]

    async def watched(self) -> Sequence[Operation]:
        """Every unresolved operation, superseded or not, oldest first."""
        return [decode(row) for row in await self._fetch(statements.LIST_WATCHED, {})]

    async def observations(self, operation_id: str) -> Sequence[Mapping[str, Any]]:
        """What was observed of the operation, in the order in which it was stored."""
        raw = _raw(operation_id)
        rows = [] if raw is None else await self._fetch(statements.OBSERVATIONS, {"id": raw})
        context = observation_context(operation_id)
        return [orjson.loads(await self._decrypt(self._cipher.decrypt, bytes(row[0]), context)) for row in rows]

    async def payload(self, operation_id: str, kind: PayloadKind) -> bytes | None:
        """Stored bytes beside the operation, in clear."""
        raw = _raw(operation_id)
        rows = [] if raw is None else await self._fetch(statements.PAYLOAD, {"id": raw, "kind": kind.value})
        for (body,) in rows:
            return await self._decrypt(self._cipher.decrypt, bytes(body), payload_context(operation_id, kind))
        return None

    async def definition(self, digest: str) -> bytes | None:
        """Canonical JSON of a pinned definition."""
        return _bytes(await self._fetch(statements.DEFINITION, {"digest": digest}))

    async def counts(self) -> Mapping[str, int]:
        """Operations per state; states without any may be missing."""
        stored = await self.meta(COUNTS)
        return {} if stored is None else orjson.loads(stored)

    async def keys(self) -> Sequence[StoredKey]:
        """Every key, oldest first, revoked ones included."""
        found = []
        for row in await self._fetch(statements.KEYS, {}):
            key_id, secret, kind, *rest = row
            found.append(StoredKey(key_id, bytes(secret), PrincipalKind(kind), *rest))
        return found

    async def credentials(self) -> Sequence[StoredCredential]:
        """Every vault entry by name; ciphertext."""
        rows = await self._fetch(statements.CREDENTIALS, {})
        return [StoredCredential(row[0], bytes(row[1]), orjson.loads(row[2]), row[3]) for row in rows]

    async def subject(self, handle: bytes) -> StoredSubject | None:
        """A person's key."""
        return _subject(await self._fetch(statements.SUBJECT, {"handle": handle}))

    async def subject_of_tag(self, tag: bytes) -> StoredSubject | None:
        """The key that a record names."""
        return _subject(await self._fetch(statements.SUBJECT_OF_TAG, {"tag": tag}))

    async def meta(self, name: str) -> bytes | None:
        """A named value."""
        return _bytes(await self._fetch(statements.META, {"name": name}))

    async def head(self) -> bytes | None:
        """The log's position as last stored."""
        return await self.meta(HEAD)

    async def tail(self, limit: int, *, origin: str | None = None) -> Sequence[TailFrame]:
        """Frames not yet pruned, of one log or of all, oldest log first, in order of seq."""
        pruned_origin, pruned_seq = self._pruned
        statement = statements.TAIL if origin is None else statements.TAIL_OF
        names = {"pruned_origin": pruned_origin, "pruned_seq": pruned_seq} | (
            {} if origin is None else {"origin": origin}
        )
        found: list[TailFrame] = []
        number, seq, seen, wanted = -1, -1, 0, min(limit, CHUNKS_MIN)
        while True:
            page = {"after_number": number, "after_seq": seq, "limit": wanted}
            rows = await self._fetch(statement, names | page)
            for row in rows:
                number, first, segment, frames, of, floor = row
                # Counted on by frames: a prune that cuts this row meanwhile gives what is left of it a later number.
                for seq, frame in unpack(first, bytes(frames)):
                    if seq > floor:
                        found.append(TailFrame(segment, seq, frame, of))
            if len(rows) < wanted or len(found) >= limit:
                return found[:limit]
            # How many frames a row holds is seen only on reading: as many more as it would take of those seen so far.
            seen += len(rows)
            wanted = max(CHUNKS_MIN, (limit - len(found)) * seen // len(found))


def _raw(operation_id: str) -> bytes | None:
    """What is no operation id names no operation."""
    try:
        return raw_id(operation_id)
    except ValueError:
        return None


def _first(rows: Sequence[Row]) -> Operation | None:
    return decode(rows[0]) if rows else None


def _subject(rows: Sequence[Row]) -> StoredSubject | None:
    return StoredSubject(*(bytes(value) for value in rows[0])) if rows else None


def _bytes(rows: Sequence[Row]) -> bytes | None:
    return bytes(rows[0][0]) if rows else None


def _listing(wanted: Filter, limit: int) -> Statement:
    column = operations.c
    query: Select[Any] = select(*OPERATION_COLUMNS).order_by(column.id.desc())
    equal = {
        column.caller: wanted.caller,
        column.outcome: wanted.outcome,
        column.action: wanted.action,
        column.run: wanted.run,
    }
    for name, value in equal.items():
        if value is not None:
            query = query.where(name == value)
    if wanted.key is not None:
        # Asked apart: few operations have the key, but left to itself SQLite walks all of the caller's, newest first.
        named = select(column.id).where(column.key_hash == short_hash(wanted.key))
        query = query.where(column.id.in_(named))
    if wanted.states:
        # A list of parameters, because a list as one parameter is only written out when SQLAlchemy runs the query.
        query = query.where(column.state.in_([bindparam(None, state, String) for state in wanted.states]))
    if wanted.since_ms is not None:
        query = query.where(column.created_ms >= wanted.since_ms)
    if wanted.cursor is not None:
        query = query.where(column.id < raw_id(wanted.cursor))
    return Statement(query.limit(limit))
