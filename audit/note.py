"""Signed notes as c2sp.org/signed-note defines them, with Ed25519 keys (type 0x01)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.keyring import Entropy, KeyProblem, check_label, decode_key, encode_key, signature_fits

ED25519 = b"\x01"
SIGNATURES_MAX = 100
_DASH = "\N{EM DASH} "


class BadNote(ValueError):
    """Text that is not a well-formed note, or a note whose signature by a known key is wrong."""


class UnknownSigner(BadNote):
    """A well-formed note without a signature by any key that is trusted."""


class BadSignature(BadNote):
    """A well-formed note with a signature by a known key that does not fit."""


def _key_id(name: str, public: bytes) -> bytes:
    return sha256(name.encode() + b"\n" + ED25519 + public).digest()[:4]


@dataclass(frozen=True, slots=True)
class NoteKey:
    """Public half: `name+id+key`, called vkey. For a log the name is its origin.

    A log key that was replaced, or that replaced one, speaks for part of the log only: for trees of `since` to `until`
    entries (None: no end).
    """

    name: str
    public: bytes
    since: int = 0
    until: int | None = None

    def signs_tree(self, size: int) -> bool:
        """Whether the key may sign a checkpoint of that many entries. At a change of keys, both may."""
        return self.since <= size and (self.until is None or size <= self.until)

    def certifies_at(self, seq: int) -> bool:
        """Whether the key may vouch for the seal key of a segment that begins with entry `seq`."""
        return self.since <= seq and (self.until is None or seq < self.until)

    @property
    def key_id(self) -> bytes:
        return _key_id(self.name, self.public)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the vkey: how an entry about a change of keys names it."""
        return sha256(str(self).encode()).digest()

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode_key(ED25519 + self.public)}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a vkey; raise KeyProblem."""
        parts = line.strip().split("+", 2)
        if len(parts) != 3:
            raise KeyProblem("not a verifier key: expected NAME+ID+KEY")
        raw = decode_key(parts[2])
        if raw[:1] != ED25519 or len(raw) != 33:
            raise KeyProblem(f"verifier key {parts[0]}: not an Ed25519 key")
        key = cls(check_label(parts[0]), raw[1:])
        if key.key_id.hex() != parts[1]:
            raise KeyProblem(f"verifier key {parts[0]}: the id does not match the key; was the line cut or edited?")
        return key


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """Private half; for a log this is the log key, which signs checkpoints and certifies seal keys."""

    name: str
    private: bytes = field(repr=False)

    @classmethod
    def generate(cls, name: str, entropy: Entropy) -> Self:
        return cls(check_label(name), entropy(32))

    @property
    def signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.private)

    @property
    def key(self) -> NoteKey:
        return NoteKey(self.name, self.signer.public_key().public_bytes_raw())

    def sign(self, text: str) -> str:
        """The whole note: text, blank line, one signature line. Raise BadNote if the text cannot be a note's."""
        _check_text(text)
        signature = self.key.key_id + self.signer.sign(text.encode())
        return f"{text}\n{_DASH}{self.name} {base64.b64encode(signature).decode()}\n"

    def to_line(self) -> str:
        return f"PRIVATE+KEY+{self.name}+{self.key.key_id.hex()}+{encode_key(ED25519 + self.private)}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a private note key; raise KeyProblem."""
        parts = line.strip().split("+", 4)
        if len(parts) != 5 or parts[:2] != ["PRIVATE", "KEY"]:
            raise KeyProblem("not a private note key: expected PRIVATE+KEY+NAME+ID+KEY")
        raw = decode_key(parts[4])
        if raw[:1] != ED25519 or len(raw) != 33:
            raise KeyProblem(f"private key {parts[2]}: not an Ed25519 key")
        signer = cls(check_label(parts[2]), raw[1:])
        if signer.key.key_id.hex() != parts[3]:
            raise KeyProblem(f"private key {parts[2]}: the id does not match the key; was the file cut or edited?")
        return signer


def _check_text(text: str) -> None:
    if not text.endswith("\n") or any(ord(char) < 0x20 and char != "\n" for char in text):
        raise BadNote("a note's text ends in a newline and has no other control characters")


def open_note(note: bytes, keys: Iterable[NoteKey]) -> str:
    """The text of a note signed by at least one of the keys; raises as `open_signed` does."""
    return open_signed(note, keys)[0]


def open_signed(note: bytes, keys: Iterable[NoteKey]) -> tuple[str, tuple[NoteKey, ...]]:
    """The text of a note, and which of the keys signed it: at least one.

    Raises:
        UnknownSigner: none of its signatures is by a known key.
        BadNote: malformed, or a signature by a known key does not fit.
    """
    try:
        whole = note.decode()
    except UnicodeDecodeError as error:
        raise BadNote("a note that is not UTF-8") from error
    text, separator, lines = whole.rpartition("\n\n")
    text += "\n"
    if not separator or not lines.endswith("\n"):
        raise BadNote("no signature lines behind a blank line")
    _check_text(text)
    known = {(key.name, key.key_id): key for key in keys}
    signed_by: dict[tuple[str, bytes], NoteKey] = {}
    signatures = lines[:-1].split("\n")
    if len(signatures) > SIGNATURES_MAX:
        raise BadNote("too many signatures")
    for line in signatures:
        name, raw = split_signature(line)
        key = known.get((name, raw[:4]))
        if key is None:
            continue
        if not signature_fits(key.public, raw[4:], text.encode()):
            raise BadSignature(f"the signature by {name} does not fit the text")
        signed_by[name, raw[:4]] = key
    if not signed_by:
        raise UnknownSigner("no signature by a trusted key")
    return text, tuple(signed_by.values())


def split_signature(line: str) -> tuple[str, bytes]:
    """Name, and key id with signature, of a note's signature line without its newline; raise BadNote."""
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space:
        raise BadNote("a signature line that is not one")
    try:
        raw = base64.b64decode(encoded, validate=True)
        check_label(name)
    except (binascii.Error, ValueError) as error:
        raise BadNote("a signature line with a bad name or bad base64") from error
    if len(raw) < 5 or base64.b64encode(raw).decode() != encoded:
        raise BadNote("a signature whose base64 is not in its one form")
    return name, raw
