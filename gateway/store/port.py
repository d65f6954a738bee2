"""What the engine may ask of a store, and what it may rely on.

Durability: a call that writes returns only after its transaction is on disk (SQLite WAL with synchronous FULL, or a
PostgreSQL commit), audit records included. Ordering: writes of one operation are applied in the order in which they
were submitted; a change that expects another version than the stored one is not applied and says so. Repeats: no
writing call is ever repeated by the store. Cancellation: a cancelled wait cancels nothing; the write goes on.

Failure has two faces. `Unavailable`: refused before the first write, nothing changed, the store lives. `StoreUnknown`:
a transaction failed in any other way; what is on disk is unknown, the store is finished, and the process must end so
that the next start reads what is there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from gateway.core.identity import Verdict
from gateway.model.operation import Operation, Receipt
from gateway.model.principal import PrincipalKind


class Unavailable(Exception):
    """Nothing was written. `audit` tells whether the audit log (rather than the store) could not take it."""

    def __init__(self, reason: str, *, audit: bool = False) -> None:
        """`reason` is a plain sentence for people."""
        super().__init__(reason)
        self.reason = reason
        self.audit = audit


class Busy(Unavailable):
    """Another process holds the right to write just now."""


class Refused(Exception):
    """The store will not open: in use, readable by others, made by a newer version. The text is for people."""


class StoreUnknown(Exception):
    """The transaction's fate is unknown; the store takes nothing more."""


class PayloadKind(StrEnum):
    """Stored bytes beside an operation, encrypted with the data key."""

    ARGUMENTS = "arguments"
    """Canonical JSON of the arguments as submitted."""
    REQUEST = "request"
    """The exact request, credential left out: the same bytes for every attempt."""
    RESULT = "result"
    """Shaped, redacted JSON of the result."""


@dataclass(frozen=True, slots=True)
class Record:
    """One audit record to be. The writer adds `op`, `op_n`, `op_prev` when `operation_id` is set, and seals it.

    `body` is JSON-ready and holds no credential and no payload.
    """

    event: str
    body: Mapping[str, Any]
    operation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """A new operation, perhaps already begun (admit and begin are one transaction when nothing holds it).

    If `operation.supersedes` names an operation, that one must be unresolved and not superseded yet, else the ruling is
    `wrong_state`. It is marked superseded, with its version raised, in the same transaction, and thereby leaves the
    unique indexes; records of both operations may go along.
    """

    operation: Operation
    records: tuple[Record, ...]
    payloads: Mapping[PayloadKind, bytes]
    definition: bytes
    """Canonical JSON of the pinned definition, stored under `operation.definition`."""
    repeat_window_ms: int
    is_read: bool
    seal_now: bool = False
    """Close this transaction with a signed seal (irreversible actions admitted and begun at once)."""
    mark: str | None = None
    """What the log carries for the fingerprint where the arguments are personal: a lost operation is known by it."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The ruling; `receipt` only when the operation was created. Refused candidates leave no trace."""

    verdict: Verdict
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A new image of an existing operation, applied only if the stored version is `expect_version`.

    The image's version must be one higher. The state of a final operation cannot be changed.
    """

    operation: Operation
    expect_version: int
    records: tuple[Record, ...]
    payloads: Mapping[PayloadKind, bytes] = field(default_factory=dict)
    seal_now: bool = False
    """Close this transaction with a signed seal (irreversible actions)."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Whether the compare-and-set won. A loser must not act; `current` is what is stored."""

    won: bool
    receipt: Receipt | None = None
    current: Operation | None = None


@dataclass(frozen=True, slots=True)
class LostOperation:
    """What the audit log knows of an operation that a restored store does not: names that must not be used again."""

    operation_id: str
    caller: str
    action: str
    fingerprint: str
    key: str | None = None
    outcome: str | None = None
    """None: it was not settled when the log ended."""
    executed: bool = True
    """Whether it may have been executed; then its arguments alone are refused, too, without a person."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key as stored: its public prefix id and the SHA-256 of its secret part."""

    key_id: str
    secret_sha256: bytes
    kind: PrincipalKind
    name: str
    owner: str
    created_ms: int
    expires_ms: int | None = None
    revoked_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """A vault entry: ciphertext only. `describes` holds kind and non-secret names, for lists."""

    name: str
    ciphertext: bytes
    describes: Mapping[str, str]
    changed_ms: int


@dataclass(frozen=True, slots=True)
class StoredSubject:
    """One person's key at rest: `handle` finds it, `tag` stands in the log, `wrapped` is the key, itself encrypted.

    The shape of `audit.subjects.Subject`.
    """

    handle: bytes
    tag: bytes
    wrapped: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which operations to list; all given parts must hold. Newest first, `cursor` from the page before."""

    caller: str | None = None
    key: str | None = None
    states: tuple[str, ...] = ()
    outcome: str | None = None
    action: str | None = None
    run: str | None = None
    since_ms: int | None = None
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Page:
    """One page of operations and the cursor of the next, None at the end."""

    operations: tuple[Operation, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class TailFrame:
    """A sealed frame that the exporter has not yet confirmed in the segment files."""

    segment: int
    seq: int
    frame: bytes
    origin: str = ""
    """The log it belongs to; after a new start of the log, frames of the one before may still wait."""


class SealedFrame(Protocol):
    """What a sealer makes: the shape of `audit.seal.Frame`."""

    @property
    def seq(self) -> int: ...
    @property
    def leaf(self) -> bytes: ...
    @property
    def segment(self) -> int: ...
    @property
    def data(self) -> bytes: ...


class SealerHead(Protocol):
    """The log's position, stored in the same transaction as the records it covers: the shape of `audit.head.Head`."""

    def to_bytes(self) -> bytes: ...


class Sealer(Protocol):
    """The audit log as the writer sees it; `app` fills it with `audit.seal.Sealer`.

    Called by the writer only. After a transaction that used it failed, it is never used again: the ratchet is not
    rewound, the next start opens a new segment.
    """

    @property
    def head(self) -> SealerHead: ...
    @property
    def origin(self) -> str: ...
    def record(self, plaintext: bytes, t_ms: int) -> Sequence[SealedFrame]:
        """The record's frame comes last; frames of a rotation may come before it."""
        ...

    def erase_subject(self, tag: bytes, by: str, t_ms: int) -> Sequence[SealedFrame]:
        """Say that what is boxed under that tag so far cannot be read any more, and who asked for it."""
        ...

    def seal(self, t_ms: int) -> Sequence[SealedFrame]: ...
    def heartbeat(self, t_ms: int) -> Sequence[SealedFrame]: ...
    def close(self, t_ms: int) -> Sequence[SealedFrame]: ...


Rekeying = Callable[[int], tuple[Sequence[SealedFrame], Mapping[str, bytes]]]
"""Given the time in milliseconds, has the attached sealer go on under another log key: its frames, and named values
that are stored with them. Called by the writer; what it raises ends the store."""


class Cipher(Protocol):
    """Encrypts what is stored with the data key; `context` binds the ciphertext to its row."""

    def encrypt(self, plaintext: bytes, context: bytes) -> bytes: ...
    def decrypt(self, ciphertext: bytes, context: bytes) -> bytes: ...


class Store(Protocol):
    """The one store of a gateway. Writing calls go through one writer; reading calls never wait for it.

    Start-up: open the store, read `head()` and `tail()`, build the sealer from that head, start it, and `attach` it
    with the frames that its start made. They and the new head are the first transaction. Until then every call that
    carries records is refused as `Unavailable` (audit), before anything is written; calls without records are taken.
    """

    async def head(self) -> bytes | None:
        """The log's position as last stored; None if there never was a log."""
        ...

    async def attach(self, sealer: Sealer, frames: Sequence[SealedFrame]) -> None:
        """Take a started sealer and store the frames of its start. Once per store. Raises Unavailable, StoreUnknown."""
        ...

    async def admit(self, admission: Admission) -> Admitted:
        """Rule on a new operation and, if it is new, store it with its records, payloads and definition.

        Raises Unavailable, StoreUnknown.
        """
        ...

    async def change(self, change: Change) -> Changed:
        """Compare-and-set one operation, with its records. Raises Unavailable, StoreUnknown."""
        ...

    async def observe(self, operation_id: str, body: Mapping[str, Any], records: Sequence[Record]) -> Receipt | None:
        """Append an observation whatever the operation's version: what was seen is kept, the owner judges it."""
        ...

    async def mark_delivered(self, operation_id: str) -> None:
        """The final document was written out to its caller. Rides in the next transaction; nobody waits for it."""
        ...

    async def note(self, records: Sequence[Record]) -> Receipt | None:
        """Audit records that belong to no operation (start, keys, credentials, alerts, refusals)."""
        ...

    async def seal(self) -> None:
        """Sign what is unsealed, if anything is."""
        ...

    async def close_log(self) -> None:
        """End the log, signed. Afterwards records are refused as before `attach`; the rest goes on, to be exported."""
        ...

    async def heartbeat(self) -> None:
        """Let the log say, signed, that nothing happened."""
        ...

    async def get(self, operation_id: str) -> Operation | None: ...
    async def receipt(self, operation_id: str) -> Receipt | None:
        """Where the newest record of the operation lies."""
        ...

    async def by_key(self, caller: str, action: str, key: str) -> Operation | None: ...
    async def list(self, wanted: Filter) -> Page: ...
    async def unsettled(self) -> Sequence[Operation]:
        """Every operation not in a final state, oldest first; found through a partial index."""
        ...

    async def watched(self) -> Sequence[Operation]: ...
    async def observations(self, operation_id: str) -> Sequence[Mapping[str, Any]]: ...
    async def payload(self, operation_id: str, kind: PayloadKind) -> bytes | None: ...
    async def definition(self, digest: str) -> bytes | None: ...
    async def counts(self) -> Mapping[str, int]:
        """Operations per state."""
        ...

    async def put_key(self, key: StoredKey, records: Sequence[Record]) -> None: ...
    async def revoke_key(self, key_id: str, at_ms: int, records: Sequence[Record]) -> bool: ...
    async def keys(self) -> Sequence[StoredKey]: ...
    async def put_credential(self, credential: StoredCredential, records: Sequence[Record]) -> None: ...
    async def remove_credential(self, name: str, records: Sequence[Record]) -> bool: ...
    async def credentials(self) -> Sequence[StoredCredential]: ...

    async def put_subject(self, subject: StoredSubject, records: Sequence[Record]) -> bool:
        """Keep a person's key; False if that person has one already."""
        ...

    async def erase_subject(self, handle: bytes, by: str, records: Sequence[Record]) -> bytes | None:
        """Delete a person's key and have the log say so, sealed, in the same transaction. Its tag, None if none.

        `by` has at most 255 bytes; `records` is not empty: without a log nothing may be erased silently.
        """
        ...

    async def rekey(self, work: Rekeying, records: Sequence[Record]) -> bool:
        """Let the log go on under another key, in one transaction with what `work` wants kept.

        `records` is not empty, and comes under the old key. False if another change came first: nothing was done.
        """
        ...

    async def subject(self, handle: bytes) -> StoredSubject | None: ...
    async def subject_of_tag(self, tag: bytes) -> StoredSubject | None: ...

    async def meta(self, name: str) -> bytes | None: ...
    async def put_meta(self, name: str, value: bytes | None, records: Sequence[Record]) -> None: ...

    async def tail(self, limit: int, *, origin: str | None = None) -> Sequence[TailFrame]:
        """Frames not yet pruned, in order of seq; what `prune` was called for last is no longer among them.

        Of one log, or of all, the oldest log first: whoever exports a log names it, since frames of an earlier one may
        wait for ever.
        """
        ...

    async def prune(self, through_seq: int, origin: str | None = None) -> None:
        """Forget frames that are safely in the segment files; of the newest log unless `origin` names another.

        Rides in the next transaction.
        """
        ...

    async def bury(self, lost: Sequence[LostOperation], records: Sequence[Record]) -> int:
        """Leave a tombstone for each that is not stored; returns how many, with the records if there were any."""
        ...

    async def retire(self, before_ms: int, limit: int) -> int:
        """Replace final operations older than that by tombstones; returns how many."""
        ...

    async def close(self) -> None:
        """Finish what was submitted, close the segment, and release the files."""
        ...

    def room(self) -> str | None:
        """Why nothing new would be admitted just now, or None. Changes nothing."""
        ...

    @property
    def failed(self) -> str | None:
        """Why the store is finished, or None while it lives."""
        ...
