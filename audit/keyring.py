"""Keys: recipients and their sealed shares, the record ratchet, the seal key and its certificate."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from hashlib import sha256
from typing import Self

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from audit.bodies import NO_SIGNATURE, SIGNATURE_BYTES, SegmentOpen, certificate_message, recipients_digest
from audit.fields import text, uint
from audit.kem import KEM_X25519, KEMS, PRIVATE_BYTES, CannotOpen
from audit.record import Header, unpad

SECRET_BYTES = 32

Entropy = Callable[[int], bytes]


class KeyProblem(ValueError):
    """A key that cannot be read or does not fit; the message never holds private parts."""


class WrongKey(KeyProblem):
    """A well-formed key that does not open what it was tried on."""


class Role(IntEnum):
    """What a recipient is for; both kinds can read everything."""

    AUDITOR = 1
    RECOVERY = 2


def check_label(label: str) -> str:
    """A name that may stand in a key line; raise KeyProblem if it may not."""
    if not 0 < len(label.encode()) <= 255 or "+" in label or not label.isprintable() or any(map(str.isspace, label)):
        raise KeyProblem(f"the name {label!r} must be printable, without spaces and without '+'")
    return label


def encode_key(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def decode_key(value: str) -> bytes:
    """Standard base64 with nothing tolerated; raise KeyProblem otherwise."""
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise KeyProblem("a key that is not base64") from error
    if encode_key(raw) != value:
        raise KeyProblem("a key whose base64 is not in its shortest form")
    return raw


@dataclass(frozen=True, slots=True)
class Recipient:
    """Someone who may read the log: role, name, public key, and by which of `audit.kem` secrets are sealed to it."""

    role: Role
    label: str
    public: bytes
    kem: int = KEM_X25519

    @property
    def key_id(self) -> bytes:
        return sha256(b"agw/recipient/1\x00" + uint(self.kem, 2) + self.public).digest()

    def identity(self) -> bytes:
        """What the recipient list is hashed from; the same bytes as in a segment-open share."""
        return uint(self.role, 1) + uint(self.kem, 2) + text(self.label, 1) + self.key_id

    def wrap(self, secret: bytes, info: bytes) -> bytes:
        """Seal a segment secret to this recipient (HPKE base mode, single shot); `info` binds it to its place."""
        return KEMS[self.kem].seal(secret, self.public, info)

    def __str__(self) -> str:
        raw = encode_key(uint(self.kem, 2) + self.public)
        return f"agl1-recipient+{self.role.name.lower()}+{self.label}+{self.key_id[:4].hex()}+{raw}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read the line that `str` makes; raise KeyProblem."""
        role, label, short_id, (kem, raw) = _split_recipient(line, "agl1-recipient")
        if len(raw) != KEMS[kem].public_bytes:
            raise KeyProblem(f"recipient {label}: a public key of the wrong length")
        recipient = cls(role, label, raw, kem)
        if recipient.key_id[:4].hex() != short_id:
            raise KeyProblem(f"recipient {label}: the key does not match its short id; was the line cut or edited?")
        return recipient


@dataclass(frozen=True, slots=True)
class RecipientKey:
    """The private half of a recipient; it belongs with the auditor, never beside the log."""

    recipient: Recipient
    private: bytes = field(repr=False)
    handed: Mapping[tuple[str, int], bytes] = field(default_factory=dict, repr=False, compare=False)
    """Secrets of segments (log, first seq) that another reader sealed to this key afterwards; see `audit.reshare`."""

    @classmethod
    def generate(cls, role: Role, label: str, entropy: Entropy, kem: int = KEM_X25519) -> Self:
        return cls.from_private(role, check_label(label), entropy(PRIVATE_BYTES), kem)

    @classmethod
    def from_private(cls, role: Role, label: str, private: bytes, kem: int = KEM_X25519) -> Self:
        return cls(Recipient(role, label, KEMS[kem].public_of(private), kem), private)

    def holding(self, handed: Mapping[tuple[str, int], bytes]) -> Self:
        """This key with secrets that were handed on to it."""
        return replace(self, handed={**self.handed, **handed})

    def may_open(self, opened: SegmentOpen, first_seq: int) -> bool:
        """Whether a segment's secret was sealed to this key, at its opening or later."""
        named = any(share.key_id == self.recipient.key_id for share in opened.shares)
        return named or (opened.origin, first_seq) in self.handed

    def unwrap(self, sealed: bytes, info: bytes) -> bytes:
        """Open a share; raise WrongKey if it was made for another key or another place."""
        try:
            return KEMS[self.recipient.kem].open(sealed, self.private, info)
        except CannotOpen as error:
            raise WrongKey(f"key {self.recipient.label} does not open this share") from error

    def to_line(self) -> str:
        """The private key as one line for a file with mode 0600."""
        who = self.recipient
        raw = encode_key(uint(who.kem, 2) + self.private)
        return f"AGL1-PRIVATE-RECIPIENT+{who.role.name.lower()}+{who.label}+{who.key_id[:4].hex()}+{raw}"

    @classmethod
    def parse(cls, line: str) -> Self:
        role, label, short_id, (kem, raw) = _split_recipient(line, "AGL1-PRIVATE-RECIPIENT")
        if len(raw) != PRIVATE_BYTES:
            raise KeyProblem(f"private key {label}: a key of the wrong length")
        key = cls.from_private(role, label, raw, kem)
        if key.recipient.key_id[:4].hex() != short_id:
            raise KeyProblem(f"private key {label}: the key does not match its short id; was the file cut or edited?")
        return key


def _split_recipient(line: str, prefix: str) -> tuple[Role, str, str, tuple[int, bytes]]:
    parts = line.strip().split("+", 4)
    if len(parts) != 5 or parts[0] != prefix:
        raise KeyProblem(f"not a key line: expected {prefix}+ROLE+NAME+ID+KEY")
    if parts[1].upper() not in Role.__members__:
        raise KeyProblem(f"unknown role {parts[1]!r}; expected auditor or recovery")
    raw = decode_key(parts[4])
    kem = int.from_bytes(raw[:2], "big")
    if len(raw) < 2 or kem not in KEMS:
        known = " and ".join(known.word for known in KEMS.values())
        raise KeyProblem(f"an unknown kind of key; this version knows {known}")
    return Role[parts[1].upper()], check_label(parts[2]), parts[3], (kem, raw[2:])


def share_info(origin: str, first_seq: int, recipients: bytes) -> bytes:
    """HPKE info of a share: log, segment and recipient list, so that a share moved elsewhere does not open."""
    return b"agw/seg/1\x00" + text(origin, 2) + uint(first_seq, 8) + recipients


def handed_info(opened: SegmentOpen, first_seq: int, recipient: Recipient) -> bytes:
    """HPKE info of a secret that is handed on later: log, segment, what it commits to, and for whom."""
    place = text(opened.origin, 2) + uint(first_seq, 8)
    return b"agw/reshare/1\x00" + place + opened.commitment + recipient.key_id


def commitment(secret: bytes) -> bytes:
    return sha256(b"agw/secret/1\x00" + secret).digest()


def open_secret(key: RecipientKey, opened: SegmentOpen, first_seq: int) -> bytes:
    """The segment's secret; raise WrongKey if this key is not a recipient or the share does not fit its place."""
    info = share_info(opened.origin, first_seq, opened.recipients_digest())
    for share in opened.shares:
        if share.key_id == key.recipient.key_id:
            secret = key.unwrap(share.sealed, info)
            if commitment(secret) != opened.commitment:
                raise WrongKey(f"segment {opened.number}: the share opens to a secret other than the one committed to")
            return secret
    handed = key.handed.get((opened.origin, first_seq))
    if handed is not None:
        secret = key.unwrap(handed, handed_info(opened, first_seq, key.recipient))
        if commitment(secret) != opened.commitment:
            raise WrongKey(f"segment {opened.number}: what was handed on is not the secret committed to")
        return secret
    names = ", ".join(f"{share.label} ({share.key_id[:4].hex()})" for share in opened.shares) or "nobody"
    wanted = f"{key.recipient.label} ({key.recipient.key_id[:4].hex()})"
    raise WrongKey(f"segment {opened.number} is not sealed to {wanted}; it is sealed to {names}")


_STEP = b"agw/step/1"


class Ratchet:
    """One-time record keys from a segment secret; a used key cannot be computed again from what is left."""

    __slots__ = ("_chain",)

    def __init__(self, chain: bytes) -> None:
        self._chain = chain

    @classmethod
    def from_secret(cls, secret: bytes) -> Self:
        return cls(HKDF(SHA512(), SECRET_BYTES, None, b"agw/chain/1").derive(secret))

    def peek(self) -> tuple[bytes, Ratchet]:
        """The next record key and the ratchet after it; this object stays as it is until it is dropped."""
        step = hmac.digest(self._chain, _STEP, "sha512")
        return step[32:], Ratchet(step[:32])


_COMMIT = b"agw/commit/1"


def commit_to(record_key: bytes) -> bytes:
    """Commitment to a record key: AES-GCM alone would let a second key open the same bytes to another text."""
    return sha256(_COMMIT + record_key).digest()


def open_record(record_key: bytes, header: Header, body: bytes) -> bytes:
    """Decrypt one data entry; raise WrongKey if key, header or body do not belong together."""
    if commit_to(record_key) != header.commit:
        raise WrongKey(f"record {header.seq}: the key differs from the one committed to")
    try:
        return unpad(AESGCM(record_key).decrypt(header.nonce, body, header.to_bytes()))
    except (InvalidTag, ValueError) as error:
        raise WrongKey(f"record {header.seq} does not decrypt: header or body was changed") from error


@dataclass(frozen=True, slots=True)
class SealKey:
    """An epoch's signing key with the log key's certificate for it."""

    origin: str
    epoch: int
    private: bytes = field(repr=False)
    certificate: bytes
    public: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the public half once: it is asked for at every seal."""
        key = Ed25519PrivateKey.from_private_bytes(self.private).public_key()
        object.__setattr__(self, "public", key.public_bytes_raw())

    @classmethod
    def issue(cls, log_key: Ed25519PrivateKey, origin: str, entropy: Entropy, epoch: int = 0) -> Self:
        """Make an epoch key and have the log key vouch for it."""
        private = entropy(32)
        public = Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
        return cls(origin, epoch, private, log_key.sign(certificate_message(origin, epoch, public)))

    @property
    def certified(self) -> bool:
        """Whether the log key vouches for it; otherwise a seal of the epoch before must have named it."""
        return self.certificate != NO_SIGNATURE

    def successor(self, entropy: Entropy) -> SealKey:
        """A key for the next epoch, which a seal of this one must name."""
        return SealKey(self.origin, self.epoch + 1, entropy(32), NO_SIGNATURE)

    def to_line(self) -> str:
        return f"AGL1-PRIVATE-SEAL+{self.origin}+{self.epoch}+{encode_key(self.private + self.certificate)}"

    @classmethod
    def parse(cls, line: str) -> Self:
        parts = line.strip().split("+", 3)
        if len(parts) != 4 or parts[0] != "AGL1-PRIVATE-SEAL" or not parts[2].isdecimal():
            raise KeyProblem("not a seal key: expected AGL1-PRIVATE-SEAL+ORIGIN+EPOCH+KEY")
        raw = decode_key(parts[3])
        if len(raw) != 32 + SIGNATURE_BYTES:
            raise KeyProblem("a seal key of the wrong length")
        return cls(check_label(parts[1]), int(parts[2]), raw[:32], raw[32:])


def signature_fits(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether an Ed25519 signature is right."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def digest_of(recipients: tuple[Recipient, ...]) -> bytes:
    """SHA-256 of a recipient list, as it stands in segment-open and key-change entries."""
    return recipients_digest([recipient.identity() for recipient in recipients])
