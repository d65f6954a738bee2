"""The writing half of a store: turns each call of the port into an item for the writer."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import orjson

from gateway.model.operation import Receipt
from gateway.model.problem import ensure
from gateway.store.codec import raw_id
from gateway.store.items import (
    Admit,
    Alter,
    Attach,
    Deliver,
    Item,
    Note,
    Observe,
    Prune,
    PutCredential,
    PutKey,
    PutMeta,
    Rekey,
    RemoveCredential,
    RevokeKey,
    Seal,
)
from gateway.store.items_retention import Bury, Retire
from gateway.store.items_subjects import EraseSubject, PutSubject
from gateway.store.port import (
    Admission,
    Admitted,
    Change,
    Changed,
    LostOperation,
    Record,
    Rekeying,
    SealedFrame,
    Sealer,
    StoredCredential,
    StoredKey,
    StoredSubject,
)
from gateway.store.records import drafts

BY_BYTES_MAX: Final = 255
"""The log's field for who asked for an erasure has a length of one byte."""


class Writes(ABC):
    """Every writing call of the port, on top of one way to submit an item.

    What can be wrong with a call is found here, where it hurts its caller alone: in the batch it would hurt everybody.
    """

    _pruned: tuple[str | None, int] = (None, -1)
    """Frames up to here are as good as gone, though the transaction that deletes them may be yet to come."""

    @abstractmethod
    async def _submit(self, item: Item) -> Any:
        """Hand to the writer and wait for its reply. Raises Unavailable, StoreUnknown."""

    @abstractmethod
    def _ride(self, item: Item) -> None:
        """Add to the next transaction, whenever it comes; nobody waits."""

    async def attach(self, sealer: Sealer, frames: Sequence[SealedFrame]) -> None:
        """Take a started sealer and store the frames of its start."""
        await self._submit(Attach(sealer, tuple(frames)))

    async def admit(self, admission: Admission) -> Admitted:
        """Rule on a new operation and store it if it is new."""
        raw_id(admission.operation.id)
        reply: Admitted = await self._submit(Admit(admission, drafts=drafts(admission.records)))
        return reply

    async def change(self, change: Change) -> Changed:
        """Compare-and-set one operation."""
        ensure(change.operation.version == change.expect_version + 1, "every change raises the version by one")
        reply: Changed = await self._submit(Alter(change, drafts=drafts(change.records)))
        return reply

    async def observe(self, operation_id: str, body: Mapping[str, Any], records: Sequence[Record]) -> Receipt | None:
        """Append an observation; None if the operation is not stored (any more)."""
        raw_id(operation_id)
        item = Observe(operation_id, orjson.dumps(body), drafts=drafts(records))
        reply: Receipt | None = await self._submit(item)
        return reply

    async def mark_delivered(self, operation_id: str) -> None:
        """The final document was written out; rides in the next transaction."""
        raw_id(operation_id)
        self._ride(Deliver(operation_id))

    async def note(self, records: Sequence[Record]) -> Receipt | None:
        """Records of no operation."""
        reply: Receipt | None = await self._submit(Note(drafts=drafts(records)))
        return reply

    async def seal(self) -> None:
        """Sign what is unsealed."""
        await self._submit(Seal())

    async def close_log(self) -> None:
        """End the log, signed; the store lives on without it."""
        await self._submit(Seal(close=True))

    async def heartbeat(self) -> None:
        """Let the log say that nothing happened."""
        await self._submit(Seal(heartbeat=True))

    async def put_key(self, key: StoredKey, records: Sequence[Record]) -> None:
        """Store a key, or replace the one of that id."""
        row = asdict(key) | {"kind": key.kind.value}
        await self._submit(PutKey(row, drafts=drafts(records)))

    async def revoke_key(self, key_id: str, at_ms: int, records: Sequence[Record]) -> bool:
        """False, and no record, if there is no such key or it was revoked before."""
        reply: bool = await self._submit(RevokeKey(key_id, at_ms, drafts=drafts(records)))
        return reply

    async def put_credential(self, credential: StoredCredential, records: Sequence[Record]) -> None:
        """Store a vault entry, or replace the one of that name."""
        row = {
            "name": credential.name,
            "ciphertext": credential.ciphertext,
            "describes": orjson.dumps(dict(credential.describes)),
            "changed_ms": credential.changed_ms,
        }
        await self._submit(PutCredential(row, drafts=drafts(records)))

    async def remove_credential(self, name: str, records: Sequence[Record]) -> bool:
        """False, and no record, if there is none of that name."""
        reply: bool = await self._submit(RemoveCredential(name, drafts=drafts(records)))
        return reply

    async def put_subject(self, subject: StoredSubject, records: Sequence[Record]) -> bool:
        """False, and no record, if that person has a key already."""
        reply: bool = await self._submit(PutSubject(subject, drafts=drafts(records)))
        return reply

    async def erase_subject(self, handle: bytes, by: str, records: Sequence[Record]) -> bytes | None:
        """The tag of the key that is gone; None, and no record, if there was none."""
        ensure(records, "an erasure goes with a record of it")
        ensure(len(by.encode()) <= BY_BYTES_MAX, "who asked fits its field of the entry")
        reply: bytes | None = await self._submit(EraseSubject(handle, by, drafts=drafts(records)))
        return reply

    async def rekey(self, work: Rekeying, records: Sequence[Record]) -> bool:
        """Let the log go on under another key; False, and no record, if another change is in the same transaction."""
        ensure(records, "a change of keys goes with a record of it")
        reply: bool = await self._submit(Rekey(work, drafts=drafts(records)))
        return reply

    async def put_meta(self, name: str, value: bytes | None, records: Sequence[Record]) -> None:
        """Store a named value; None removes it. The store's own names are left alone."""
        ensure(not name.startswith(("audit.", "store.")), "names of the store's own are not set from outside")
        await self._submit(PutMeta(name, value, drafts=drafts(records)))

    async def prune(self, through_seq: int, origin: str | None = None) -> None:
        """Forget exported frames; rides in the next transaction."""
        self._ride(Prune(origin, through_seq))
        self._pruned = origin, through_seq

    async def bury(self, lost: Sequence[LostOperation], records: Sequence[Record]) -> int:
        """Leave a tombstone for each operation that is not stored; how many."""
        reply: int = await self._submit(Bury(tuple(lost), drafts=drafts(records)))
        return reply

    async def retire(self, before_ms: int, limit: int) -> int:
        """Replace old final operations by tombstones; how many."""
        reply: int = await self._submit(Retire(before_ms, limit))
        return reply
