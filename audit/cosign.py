"""Cosignatures of witnesses: c2sp.org/tlog-cosignature v1 with Ed25519 keys (type 0x04)."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.keyring import Entropy, KeyProblem, check_label, decode_key, encode_key, signature_fits
from audit.note import BadNote, split_signature

COSIGNATURE = b"\x04"
_TIME_MAX = 1 << 63
_DASH = "\N{EM DASH} "


def _message(text: str, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


@dataclass(frozen=True, slots=True)
class CosignerKey:
    """Public half of a witness's key, written as a vkey."""

    name: str
    public: bytes

    @property
    def key_id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + COSIGNATURE + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode_key(COSIGNATURE + self.public)}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a vkey; raise KeyProblem."""
        parts = line.strip().split("+", 2)
        if len(parts) != 3:
            raise KeyProblem("not a witness key: expected NAME+ID+KEY")
        raw = decode_key(parts[2])
        if raw[:1] != COSIGNATURE or len(raw) != 33:
            raise KeyProblem(f"witness key {parts[0]}: not an Ed25519 cosignature key (type 4)")
        key = cls(check_label(parts[0]), raw[1:])
        if key.key_id.hex() != parts[1]:
            raise KeyProblem(f"witness key {parts[0]}: the id does not match the key; was the line cut or edited?")
        return key


@dataclass(frozen=True, slots=True)
class Cosigner:
    """Private half of a witness's key."""

    name: str
    private: bytes = field(repr=False)

    @classmethod
    def generate(cls, name: str, entropy: Entropy) -> Self:
        return cls(check_label(name), entropy(32))

    @property
    def key(self) -> CosignerKey:
        private = Ed25519PrivateKey.from_private_bytes(self.private)
        return CosignerKey(self.name, private.public_key().public_bytes_raw())

    def cosign(self, text: str, time_s: int) -> str:
        """The signature line, with its newline, over a checkpoint's text; `time_s` is Unix time in seconds."""
        signature = Ed25519PrivateKey.from_private_bytes(self.private).sign(_message(text, time_s))
        raw = self.key.key_id + time_s.to_bytes(8, "big") + signature
        return f"{_DASH}{self.name} {base64.b64encode(raw).decode()}\n"

    def to_line(self) -> str:
        return f"PRIVATE+KEY+{self.name}+{self.key.key_id.hex()}+{encode_key(COSIGNATURE + self.private)}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a private key; raise KeyProblem."""
        parts = line.strip().split("+", 4)
        if len(parts) != 5 or parts[:2] != ["PRIVATE", "KEY"]:
            raise KeyProblem("not a private witness key: expected PRIVATE+KEY+NAME+ID+KEY")
        raw = decode_key(parts[4])
        if raw[:1] != COSIGNATURE or len(raw) != 33:
            raise KeyProblem(f"private key {parts[2]}: not an Ed25519 cosignature key (type 4)")
        cosigner = cls(check_label(parts[2]), raw[1:])
        if cosigner.key.key_id.hex() != parts[3]:
            raise KeyProblem(f"private key {parts[2]}: the id does not match the key; was the file cut or edited?")
        return cosigner


def cosigned_at(line: str, text: str, key: CosignerKey) -> int | None:
    """Unix seconds at which this key cosigned the text by this signature line; None if it is no such signature.

    Raises:
        BadNote: the line is not a signature line at all.
    """
    name, raw = split_signature(line)
    if (name, raw[:4]) != (key.name, key.key_id) or len(raw) != 76:
        return None
    time_s = int.from_bytes(raw[4:12], "big")
    if time_s >= _TIME_MAX or not signature_fits(key.public, raw[12:], _message(text, time_s)):
        return None
    return time_s


def signature_lines(note: str) -> Iterator[str]:
    """The signature lines of a note, without newlines; raise BadNote if it has none."""
    _, separator, lines = note.rpartition("\n\n")
    if not separator or not lines.endswith("\n"):
        raise BadNote("no signature lines behind a blank line")
    yield from lines[:-1].split("\n")
