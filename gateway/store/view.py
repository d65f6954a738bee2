"""What one batch sees: the stored operations it may touch or meet, and on top of them what its own items have changed.

Rivals inside the same batch are found like those on disk, because every ruling updates what the next one sees.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.core.identity import Rivals, Tombstone
from gateway.core.ids import format_id, parse_id
from gateway.model.operation import FINAL, Executed, Operation
from gateway.store import statements
from gateway.store.codec import OPERATION_COLUMNS, chain_of, decode, short_hash
from gateway.store.sql import Link, Row

_VERSION_AT = [column.name for column in OPERATION_COLUMNS].index("version")
_STATE_AT = [column.name for column in OPERATION_COLUMNS].index("state")
_DELIVERED_AT = [column.name for column in OPERATION_COLUMNS].index("delivered")


RECENT_MAX: Final = 2048
"""Operations to remember: those under way, and those just ended, of which a delivery will be told."""


def tombstone_of(row: Row) -> Tombstone:
    """The tombstone of a row selected as `statements.TOMBSTONE_COLUMNS`."""
    return Tombstone(format_id(bytes(row[3])), row[4], row[5], lost=bool(row[6]))


class Known:
    """One operation as the batch sees it. The row is decoded only if someone asks for the operation.

    After the commit it may serve the next batch, with its image for what is stored.
    """

    __slots__ = (
        "_image",
        "_row",
        "delivered",
        "id",
        "last_seq",
        "op_n",
        "op_prev",
        "origin",
        "stored_state",
        "stored_version",
        "touched",
    )

    def __init__(self, operation_id: bytes, row: Row | None, image: Operation | None) -> None:
        self.id = operation_id
        self._row = row
        self._image = image
        self.delivered = row is not None and bool(row[_DELIVERED_AT])
        self.touched = row is None
        """The image differs from what is stored."""
        self.stored_version: int | None = None
        """None: not stored yet."""
        self.stored_state: str | None = None
        self.op_n, self.op_prev, self.last_seq, self.origin = (0, None, None, None) if row is None else chain_of(row)
        if row is not None:
            self.stored_version = row[_VERSION_AT]
            self.stored_state = row[_STATE_AT]

    @property
    def version(self) -> int:
        """Of the newest image."""
        if self._image is not None:
            return self._image.version
        return self._row[_VERSION_AT]  # type: ignore[index,no-any-return]  # without an image there is a row

    @property
    def operation(self) -> Operation:
        """The newest image, with what is known of its delivery."""
        if self._image is None:
            self._image = decode(self._row)  # type: ignore[arg-type]  # without an image there is a row
        if self.delivered and not self._image.delivered:
            return self._image.but(delivered=True)
        return self._image

    def become(self, image: Operation) -> None:
        """Take a new image. Its maker may not have heard of a delivery."""
        self.delivered = self.delivered or (self._image is not None and self._image.delivered)
        self._image = image
        self.touched = True

    def committed(self) -> None:
        """What was newest is what is stored."""
        if self.touched:
            image = self._image = self.operation
            self.stored_version, self.stored_state = image.version, str(image.state)
            self.touched = False


@dataclass(slots=True)
class Wants:
    """What the items of a batch must know before they are ruled on."""

    ids: set[bytes] = field(default_factory=set)
    keys: set[bytes] = field(default_factory=set)
    fingerprints: set[bytes] = field(default_factory=set)
    conflicts: set[bytes] = field(default_factory=set)
    echoes: set[bytes] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)
    key_ids: set[str] = field(default_factory=set)
    credentials: set[str] = field(default_factory=set)
    subjects: set[bytes] = field(default_factory=set)
    graves: set[bytes] = field(default_factory=set)
    """Ids to look for among operations and tombstones."""


class Lost:
    """Operations that a restored store lost and nobody has given up: nearly always none, so they are kept in memory."""

    def __init__(self, stones: Iterable[tuple[Tombstone, str]]) -> None:
        self._stones = {(caller, stone.fingerprint): stone for stone, caller in stones}

    def copy(self) -> "Lost":
        """For one batch, whose transaction may fail."""
        return Lost((stone, caller) for (caller, _), stone in self._stones.items())

    def add(self, stone: Tombstone, caller: str) -> None:
        """One more."""
        self._stones[caller, stone.fingerprint] = stone

    def of(self, caller: str, fingerprint: str) -> Tombstone | None:
        """The one with these arguments of this caller."""
        return self._stones.get((caller, fingerprint))

    def is_known(self, operation_id: str) -> bool:
        """Whether an id names one of them."""
        return any(stone.operation_id == operation_id for stone in self._stones.values())

    def give_up(self, operation_id: str) -> None:
        """A person replaces it."""
        self._stones = {names: stone for names, stone in self._stones.items() if stone.operation_id != operation_id}


class Memory:
    """What the writer knows of the tables without asking. True as long as nobody else writes to them."""

    def __init__(self, link: Link) -> None:
        self._recent: dict[bytes, Known] = {}
        self.lost = Lost((tombstone_of(row), row[1]) for row in link.fetch(statements.LOST_OPERATIONS))
        self.definitions: set[str] = set()
        """Digests known to be stored; there is one per version of an action."""
        self.tombstones = bool(link.fetch(statements.ANY_TOMBSTONE))
        """Whether any tombstone bears a key: without retention there is none, and none is looked for."""

    def recent(self, operation_id: bytes) -> Known | None:
        """An operation of a batch not long ago, exactly as it is stored; whoever changes it commits or forgets."""
        return self._recent.get(operation_id)

    def remember(self, operations: Iterable[Known]) -> None:
        """These were just committed; most are asked for again within moments, to be ended."""
        recent = self._recent
        for known in operations:
            known.committed()
            recent.pop(known.id, None)
            recent[known.id] = known
        while len(recent) > RECENT_MAX:
            del recent[next(iter(recent))]

    def forget(self, operation_ids: Iterable[bytes]) -> None:
        """Nothing more is expected of these."""
        for operation_id in operation_ids:
            self._recent.pop(operation_id, None)

    def forget_recent(self) -> None:
        """A batch may have changed what it did not commit."""
        self._recent.clear()


class View:
    """Loaded once per batch, by one query per kind of want; kept true by the rulings."""

    def __init__(self, link: Link, wants: Wants, memory: Memory) -> None:
        self._link = link
        self._memory = memory
        self.lost = memory.lost.copy()
        self._known: dict[bytes, Known] = {}
        self._by_key: dict[tuple[bytes, str, str], Known | Tombstone] = {}
        self._by_fingerprint: dict[tuple[str, str], Known] = {}
        self._by_conflict: dict[str, Known] = {}
        self._echoes: dict[tuple[str, str], Known] = {}
        self._graves = {bytes(row[0]) for row in link.look_up(statements.TOMBSTONE_IDS, wants.graves)}
        self._load(wants)
        self.revocable = {row[0] for row in link.look_up(statements.REVOCABLE_KEYS, wants.key_ids)}
        self.credentials = {row[0] for row in link.look_up(statements.CREDENTIAL_NAMES, wants.credentials)}
        self.subjects = {bytes(row[0]): bytes(row[1]) for row in link.look_up(statements.SUBJECT_TAGS, wants.subjects)}
        """Tags of subject keys by handle."""
        self.definitions = {
            row[0] for row in link.look_up(statements.DEFINITION_DIGESTS, wants.digests - memory.definitions)
        }
        self.definitions |= memory.definitions

    def _load(self, wants: Wants) -> None:
        link = self._link
        strangers = []
        for operation_id in wants.ids | wants.graves:
            recent = self._memory.recent(operation_id)
            if recent is None:
                strangers.append(operation_id)
            else:
                self._known[operation_id] = recent
        self.adopt(link.look_up(statements.BY_IDS, strangers))
        for known in self.adopt(link.look_up(statements.BY_KEYS, wants.keys)):
            self._index_key(known)
        for row in link.look_up(statements.TOMBSTONES, wants.keys if self._memory.tombstones else ()):
            self._by_key[bytes(row[0]), row[1], row[2]] = tombstone_of(row)
        for known in self.adopt(link.look_up(statements.LIVE_FINGERPRINTS, wants.fingerprints)):
            self._by_fingerprint[known.operation.caller, known.operation.fingerprint] = known
        for known in self.adopt(link.look_up(statements.LIVE_CONFLICTS, wants.conflicts)):
            self._by_conflict[known.operation.conflict_key or ""] = known
        for known in self.adopt(link.look_up(statements.ECHOES, wants.echoes)):
            self._index_echo(known)

    def adopt(self, rows: Iterable[Row]) -> list[Known]:
        """The operations of stored rows, each known once however often it was found."""
        found = []
        for row in rows:
            operation_id = bytes(row[0])
            known = self._known.get(operation_id)
            if known is None:
                known = self._memory.recent(operation_id) or Known(operation_id, row, None)
                self._known[operation_id] = known
            found.append(known)
        return found

    def get(self, operation_id: bytes) -> Known | None:
        """An operation that was asked for by id, or created by this batch."""
        return self._known.get(operation_id)

    def fetch(self, statement: Any, values: dict[str, Any]) -> list[Known]:
        """Operations found by a query of an item's own."""
        return self.adopt(self._link.fetch(statement, values))

    def everything(self) -> Iterable[Known]:
        """All operations met so far."""
        return self._known.values()

    def rivals(self, candidate: Operation, *, besides: Known | None = None, mark: str | None = None) -> Rivals:
        """Earlier operations that this one may be a repeat of; `besides` is about to be superseded by it.

        `mark` is the other name under which the log may know the candidate's arguments.
        """
        names = candidate.caller, candidate.fingerprint
        key = None
        if candidate.key is not None:
            key = self._by_key.get((short_hash(candidate.key), candidate.caller, candidate.action))
        live = self._by_fingerprint.get(names)
        conflict = None if candidate.conflict_key is None else self._by_conflict.get(candidate.conflict_key)
        echo = self._echoes.get(names)
        return Rivals(
            same_key=key.operation if isinstance(key, Known) else key,
            same_fingerprint=None if live is None or live is besides else live.operation,
            same_conflict_key=None if conflict is None or conflict is besides else conflict.operation,
            lost=self.lost.of(*names) or (None if mark is None else self.lost.of(candidate.caller, mark)),
            last_final=None if echo is None else echo.operation,
        )

    def is_stored(self, operation_id: bytes) -> bool:
        """Whether an operation of that id is stored, or was retired."""
        return operation_id in self._known or operation_id in self._graves

    def bury(self, stone: Tombstone, caller: str, action: str, key: str | None) -> bytes | None:
        """A tombstone for what is not stored; the hash of its key, unless something newer bears that already."""
        self._graves.add(parse_id(stone.operation_id))
        if stone.lost:
            self.lost.add(stone, caller)
        name = b"" if key is None else short_hash(key)
        if key is None or (name, caller, action) in self._by_key:
            return None
        self._by_key[name, caller, action] = stone
        return name

    def create(self, operation_id: bytes, operation: Operation) -> Known:
        """A new operation, which the items after it can meet."""
        known = self._known[operation_id] = Known(operation_id, None, operation)
        self._index_key(known)
        self._index_live(known)
        self._index_echo(known)
        return known

    def change(self, known: Known, image: Operation) -> None:
        """A new image, with its consequences for the rulings to come."""
        known.become(image)
        self._index_live(known)
        self._index_echo(known)

    def _index_key(self, known: Known) -> None:
        operation = known.operation
        if operation.key is not None:
            self._by_key[short_hash(operation.key), operation.caller, operation.action] = known

    def _index_live(self, known: Known) -> None:
        operation = known.operation
        names = operation.caller, operation.fingerprint
        if operation.state in FINAL or operation.superseded:
            if self._by_fingerprint.get(names) is known:
                del self._by_fingerprint[names]
            if operation.conflict_key is not None and self._by_conflict.get(operation.conflict_key) is known:
                del self._by_conflict[operation.conflict_key]
            return
        self._by_fingerprint[names] = known
        if operation.conflict_key is not None:
            self._by_conflict[operation.conflict_key] = known

    def _index_echo(self, known: Known) -> None:
        """Mirrors the index predicate `ECHO`, for images that are not stored yet."""
        operation = known.operation
        if (
            operation.final_ms is None
            or operation.executed is Executed.NO
            or operation.effect == "read"
            or operation.superseded
        ):
            return
        names = operation.caller, operation.fingerprint
        other = self._echoes.get(names)
        if other is None or (other.operation.final_ms or 0) <= operation.final_ms:
            self._echoes[names] = known
