"""What a batch is going to write, collected while it is ruled on and written only afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.model.operation import Receipt
from gateway.store.codec import raw_id
from gateway.store.port import Cipher, PayloadKind, Rekeying, SealedFrame
from gateway.store.records import Draft
from gateway.store.sql import Row
from gateway.store.view import Known, Lost


def payload_context(operation_id: str, kind: PayloadKind) -> bytes:
    """Binds a payload's ciphertext to its row: moved to another one it cannot be read."""
    return f"payload/{operation_id}/{kind}".encode()


def observation_context(operation_id: str) -> bytes:
    """Binds an observation's ciphertext to its operation."""
    return f"observation/{operation_id}".encode()


@dataclass(slots=True)
class Line:
    """One record to seal: for which item, and in whose chain."""

    item: int
    draft: Draft
    chain: Known | None
    answers: bool
    """Its place in the log is the item's receipt."""


@dataclass(slots=True)
class Effects:
    """Rows by kind of statement, records in the order of their items."""

    item: int = 0
    """The item that is being ruled on."""
    lines: list[Line] = field(default_factory=list)
    receipts: dict[int, Receipt] = field(default_factory=dict)
    frames: list[SealedFrame] = field(default_factory=list)
    seal: bool = False
    heartbeat: bool = False
    close: bool = False
    operations: dict[bytes, Known] = field(default_factory=dict)
    """Those with a new image or a longer chain."""
    payloads: dict[tuple[bytes, PayloadKind], tuple[str, bytes]] = field(default_factory=dict)
    """Id as text and clear body by row: a later one takes the place of an earlier."""
    observations: list[tuple[str, bytes]] = field(default_factory=list)
    """Id as text and clear body."""
    definitions: dict[str, bytes] = field(default_factory=dict)
    delivered: list[bytes] = field(default_factory=list)
    retired: list[Known] = field(default_factory=list)
    tombstones: list[tuple[Any, ...]] = field(default_factory=list)
    """Of operations that are not stored."""
    lost: Lost | None = None
    """What is lost once this is committed."""
    given_up: list[bytes] = field(default_factory=list)
    """Lost operations that a person has replaced."""
    meta: dict[str, bytes | None] = field(default_factory=dict)
    keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    revoked: dict[str, int] = field(default_factory=dict)
    credentials: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    subjects: dict[bytes, Row] = field(default_factory=dict)
    """New subject keys by handle."""
    erased: dict[bytes, tuple[bytes, str]] = field(default_factory=dict)
    """Tag, and who asked, by the handle of a subject key that goes."""
    rekey: Rekeying | None = None
    """Makes the frames with which the log goes on under another key, and what is to be kept of that."""
    pruned: list[tuple[str | None, int]] = field(default_factory=list)

    def record(self, draft: Draft, chain: Known | None, *, answers: bool) -> None:
        """A record of the item that is being ruled on; `chain` is its operation, where that is stored."""
        self.lines.append(Line(self.item, draft, chain, answers))
        if chain is not None:
            self.operations[chain.id] = chain

    def image(self, known: Known) -> None:
        """The operation has a new image."""
        self.operations[known.id] = known

    def payload(self, known: Known, kind: PayloadKind, body: bytes) -> None:
        """Bytes beside an operation."""
        self.payloads[known.id, kind] = known.operation.id, body

    def encrypt(self, cipher: Cipher) -> tuple[list[Row], list[Row]]:
        """Rows of payloads and observations: after the rulings, for winners only, and before anything is sealed."""
        encrypt = cipher.encrypt
        return [
            (raw, str(kind), encrypt(body, payload_context(text, kind)))
            for (raw, kind), (text, body) in self.payloads.items()
        ], [(raw_id(text), encrypt(body, observation_context(text))) for text, body in self.observations]

    @property
    def empty(self) -> bool:
        """Nothing to seal and nothing to write."""
        return not (self.sealing or self.frames or self._rows())

    @property
    def sealing(self) -> bool:
        """The sealer has something to do."""
        return bool(self.lines or self.erased or self.rekey or self.seal or self.heartbeat or self.close)

    def _rows(self) -> Sequence[Sequence[Any] | Mapping[Any, Any]]:
        every: tuple[Sequence[Any] | Mapping[Any, Any], ...] = (
            self.operations,
            self.payloads,
            self.observations,
            self.definitions,
            self.delivered,
            self.retired,
            self.tombstones,
            self.given_up,
            self.meta,
            self.keys,
            self.revoked,
            self.credentials,
            self.subjects,
            self.erased,
            self.pruned,
        )
        return [rows for rows in every if rows]
