"""The bodies of clear entries (kinds 2 to 9) as FORMAT.md lays them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Self, TypeVar

from audit.chain import HASH_BYTES, ZERO_HASH
from audit.fields import FieldReader, Malformed, blob, exact, text, uint
from audit.record import Kind

EnumT = TypeVar("EnumT", bound=IntEnum)

SIGNATURE_BYTES = 64
NO_SIGNATURE = bytes(SIGNATURE_BYTES)
SUITE_1 = 1
"""HKDF-SHA-512 and HMAC-SHA-512 for the ratchet, AES-256-GCM for records, Ed25519 for seals."""


class PreviousEnd(IntEnum):
    """How the segment before this one ended, as its successor found it."""

    NONE = 0
    CLEAN = 1
    UNCLEAN = 2


class CloseReason(IntEnum):
    LIMIT = 1
    STOP = 2
    KEYS = 3
    """The readers or the log key change."""


@dataclass(frozen=True, slots=True)
class Share:
    """One recipient's copy of the segment secret. `role`: 1 auditor, 2 recovery. `key_id` is 32 bytes."""

    role: int
    kem: int
    label: str
    key_id: bytes
    sealed: bytes

    def identity(self) -> bytes:
        """The share without its secret part: what the recipient list is hashed from."""
        return uint(self.role, 1) + uint(self.kem, 2) + text(self.label, 1) + exact(self.key_id, HASH_BYTES)

    def to_bytes(self) -> bytes:
        return self.identity() + blob(self.sealed, 2)

    @classmethod
    def read(cls, fields: FieldReader) -> Self:
        return cls(fields.uint(1), fields.uint(2), fields.text(1), fields.take(HASH_BYTES), fields.blob(2))


def recipients_digest(identities: list[bytes]) -> bytes:
    """SHA-256 over the count and the identities in order: who may read a segment."""
    return sha256(uint(len(identities), 1) + b"".join(identities)).digest()


@dataclass(frozen=True, slots=True)
class SegmentOpen:
    """Kind 2: first entry of a segment; enough to check and to read the segment by itself."""

    origin: str
    number: int
    writer_id: str
    boot_id: str
    previous_end: PreviousEnd
    epoch: int
    epoch_key: bytes
    epoch_certificate: bytes
    commitment: bytes
    shares: tuple[Share, ...]
    range_hashes: tuple[bytes, ...]
    suite: int = SUITE_1

    def to_bytes(self) -> bytes:
        head = text(self.origin, 2) + uint(self.number, 8) + text(self.writer_id, 1) + text(self.boot_id, 1)
        keys = uint(self.epoch, 4) + exact(self.epoch_key, 32) + exact(self.epoch_certificate, SIGNATURE_BYTES)
        secret = uint(self.suite, 2) + exact(self.commitment, HASH_BYTES)
        shares = uint(len(self.shares), 1) + b"".join(share.to_bytes() for share in self.shares)
        peaks = uint(len(self.range_hashes), 1) + b"".join(exact(peak, HASH_BYTES) for peak in self.range_hashes)
        return head + uint(self.previous_end, 1) + keys + secret + shares + peaks

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        fields = FieldReader(body)
        origin, number, writer_id, boot_id = fields.text(2), fields.uint(8), fields.text(1), fields.text(1)
        previous_end = _enum(PreviousEnd, fields.uint(1))
        epoch, epoch_key, certificate = fields.uint(4), fields.take(32), fields.take(SIGNATURE_BYTES)
        suite, commitment = fields.uint(2), fields.take(HASH_BYTES)
        shares = tuple(Share.read(fields) for _ in range(fields.uint(1)))
        peaks = tuple(fields.take(HASH_BYTES) for _ in range(fields.uint(1)))
        fields.end()
        who = (origin, number, writer_id, boot_id)
        return cls(*who, previous_end, epoch, epoch_key, certificate, commitment, shares, peaks, suite)

    def recipients_digest(self) -> bytes:
        return recipients_digest([share.identity() for share in self.shares])


@dataclass(frozen=True, slots=True)
class Seal:
    """Kind 3: the epoch key's signature over the tree of the `size` leaves before it (and over its own header)."""

    epoch: int
    size: int
    root: bytes
    next_key: bytes = ZERO_HASH
    signature: bytes = NO_SIGNATURE

    def unsigned(self) -> bytes:
        return uint(self.epoch, 4) + uint(self.size, 8) + exact(self.root, HASH_BYTES) + exact(self.next_key, 32)

    def to_bytes(self) -> bytes:
        return self.unsigned() + exact(self.signature, SIGNATURE_BYTES)

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        fields = FieldReader(body)
        seal = cls(fields.uint(4), fields.uint(8), fields.take(32), fields.take(32), fields.take(SIGNATURE_BYTES))
        fields.end()
        return seal


def seal_message(origin: str, header: bytes, unsigned: bytes) -> bytes:
    """What a seal signs: the log, the seal's own header (place, time, link), and its body without the signature."""
    return b"agw/seal/1\x00" + text(origin, 2) + header + unsigned


def certificate_message(origin: str, epoch: int, epoch_key: bytes) -> bytes:
    """What the log key signs to say: this key seals this log in this epoch."""
    return b"agw/epoch/1\x00" + text(origin, 2) + uint(epoch, 4) + epoch_key


@dataclass(frozen=True, slots=True)
class SegmentClose:
    """Kind 4: a clean end. Only one seal may follow in the same segment."""

    number: int
    first_seq: int
    entries: int
    reason: CloseReason

    def to_bytes(self) -> bytes:
        return uint(self.number, 8) + uint(self.first_seq, 8) + uint(self.entries, 8) + uint(self.reason, 1)

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        fields = FieldReader(body)
        close = cls(fields.uint(8), fields.uint(8), fields.uint(8), _enum(CloseReason, fields.uint(1)))
        fields.end()
        return close


@dataclass(frozen=True, slots=True)
class Recovery:
    """Kind 5, cause 1: torn bytes were found behind the last whole frame of a segment, set aside, and cut off."""

    segment: int
    old_size: int
    cut_offset: int
    torn_sha256: bytes
    old_boot_id: str = ""
    new_boot_id: str = ""

    def to_bytes(self) -> bytes:
        place = uint(self.segment, 8) + uint(self.old_size, 8) + uint(self.cut_offset, 8)
        return uint(1, 1) + place + exact(self.torn_sha256, 32) + text(self.old_boot_id, 1) + text(self.new_boot_id, 1)

    @property
    def torn_bytes(self) -> int:
        return self.old_size - self.cut_offset


@dataclass(frozen=True, slots=True)
class Succession:
    """Kind 5, cause 2: this log continues another whose end was lost. `size`, `root`, `leaf`: its last known head."""

    origin: str
    size: int
    root: bytes
    leaf: bytes

    def to_bytes(self) -> bytes:
        return uint(2, 1) + text(self.origin, 2) + uint(self.size, 8) + exact(self.root, 32) + exact(self.leaf, 32)


def read_recovery(body: bytes) -> Recovery | Succession:
    fields = FieldReader(body)
    cause = fields.uint(1)
    entry: Recovery | Succession
    if cause == 1:
        place = fields.uint(8), fields.uint(8), fields.uint(8)
        entry = Recovery(*place, fields.take(32), fields.text(1), fields.text(1))
        if entry.cut_offset >= entry.old_size:
            raise Malformed("a cut that is not before the old end")
    elif cause == 2:
        entry = Succession(fields.text(2), fields.uint(8), fields.take(32), fields.take(32))
    else:
        raise Malformed(f"unknown cause of recovery {cause}")
    fields.end()
    return entry


ERASED_SUBJECT = 1
ERASED_SEGMENTS = 2


@dataclass(frozen=True, slots=True)
class Erasure:
    """Kind 6: content is gone on purpose. `what`: 1 one subject's personal fields, 2 whole segments past retention."""

    what: int
    first_seq: int
    end_seq: int
    subject_tag: bytes
    by: str

    def to_bytes(self) -> bytes:
        span = uint(self.what, 1) + uint(self.first_seq, 8) + uint(self.end_seq, 8)
        return span + exact(self.subject_tag, 32) + text(self.by, 1)

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        fields = FieldReader(body)
        entry = cls(fields.uint(1), fields.uint(8), fields.uint(8), fields.take(32), fields.text(1))
        fields.end()
        if entry.what not in {ERASED_SUBJECT, ERASED_SEGMENTS}:
            raise Malformed(f"unknown erasure {entry.what}")
        return entry


RECIPIENTS = 1
LOG_KEY = 2


@dataclass(frozen=True, slots=True)
class KeyChange:
    """Kind 7: keys were exchanged. `what`: 1 recipients (digests of the lists), 2 log key (SHA-256 of the vkeys)."""

    what: int
    old_digest: bytes
    new_digest: bytes
    by: str

    def to_bytes(self) -> bytes:
        return uint(self.what, 1) + exact(self.old_digest, 32) + exact(self.new_digest, 32) + text(self.by, 1)

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        fields = FieldReader(body)
        entry = cls(fields.uint(1), fields.take(32), fields.take(32), fields.text(1))
        fields.end()
        if entry.what not in {RECIPIENTS, LOG_KEY}:
            raise Malformed(f"unknown key change {entry.what}")
        return entry


@dataclass(frozen=True, slots=True)
class AnchorResult:
    """Kind 8: what became of one checkpoint at one anchor. `result`: 1 taken, 2 refused, 3 not reached."""

    result: int
    size: int
    root: bytes
    anchor: str
    detail: bytes

    def to_bytes(self) -> bytes:
        head = uint(self.result, 1) + uint(self.size, 8) + exact(self.root, 32)
        return head + text(self.anchor, 2) + blob(self.detail, 2)

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        fields = FieldReader(body)
        entry = cls(fields.uint(1), fields.uint(8), fields.take(32), fields.text(2), fields.blob(2))
        fields.end()
        if entry.result not in {1, 2, 3}:
            raise Malformed(f"unknown anchor result {entry.result}")
        return entry


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Kind 9: nothing happened; an empty body, so that silence is sealed too."""

    def to_bytes(self) -> bytes:
        return b""

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        FieldReader(body).end()
        return cls()


Body = SegmentOpen | Seal | SegmentClose | Recovery | Succession | Erasure | KeyChange | AnchorResult | Heartbeat

_READERS: dict[Kind, Callable[[bytes], Body]] = {
    Kind.SEGMENT_OPEN: SegmentOpen.from_bytes,
    Kind.SEAL: Seal.from_bytes,
    Kind.SEGMENT_CLOSE: SegmentClose.from_bytes,
    Kind.RECOVERY: read_recovery,
    Kind.ERASURE: Erasure.from_bytes,
    Kind.KEY_CHANGE: KeyChange.from_bytes,
    Kind.ANCHOR_RESULT: AnchorResult.from_bytes,
    Kind.HEARTBEAT: Heartbeat.from_bytes,
}


def read_body(kind: int, body: bytes) -> Body:
    """The body of a clear entry as an object; raise Malformed if its bytes break the format, KeyError for kind 1."""
    return _READERS[Kind(kind)](body)


def _enum(kind: type[EnumT], value: int) -> EnumT:
    try:
        return kind(value)
    except ValueError as error:
        raise Malformed(f"unknown {kind.__name__} {value}") from error
