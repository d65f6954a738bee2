"""The ways to seal a secret to a reader's public key: HPKE (RFC 9180) over X25519, or over ML-KEM-768 with X25519."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import shake_256
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, MLKEM768X25519PublicKey, Suite

KEM_X25519 = 0x0020
"""DHKEM(X25519, HKDF-SHA256) by its RFC 9180 number."""
KEM_HYBRID = 0x647A
"""ML-KEM-768 with X25519 (X-Wing): whoever records a log today must break both to read it later."""
PRIVATE_BYTES = 32
_MLKEM_PUBLIC_BYTES = 1184
_MLKEM_SEED_BYTES = 64


class CannotOpen(ValueError):
    """What was sealed was made for another key or another place, or was changed."""


@dataclass(frozen=True, slots=True)
class Kem:
    """One way of sealing; every private key is a seed of 32 bytes. Used with HKDF-SHA256 and AES-256-GCM."""

    number: int
    word: str
    public_bytes: int
    kem: KEM
    # The library gives each way key classes of its own, without a type that they share.
    read_private: Callable[[bytes], Any]
    read_public: Callable[[bytes], Any]
    public_of: Callable[[bytes], bytes]

    def seal(self, secret: bytes, public: bytes, info: bytes) -> bytes:
        """Base mode, single shot, no AAD; `info` binds it to its place. Raise ValueError on a bad public key."""
        return self._suite().encrypt(secret, self.read_public(public), info)

    def open(self, sealed: bytes, private: bytes, info: bytes) -> bytes:
        """Undo `seal`; raise CannotOpen."""
        try:
            return self._suite().decrypt(sealed, self.read_private(private), info)
        except (InvalidTag, ValueError) as error:
            raise CannotOpen("the key does not open this") from error

    def _suite(self) -> Suite:
        return Suite(self.kem, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def _x25519_public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _hybrid_parts(seed: bytes) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    expanded = shake_256(seed).digest(_MLKEM_SEED_BYTES + 32)
    mlkem = MLKEM768PrivateKey.from_seed_bytes(expanded[:_MLKEM_SEED_BYTES])
    return mlkem, X25519PrivateKey.from_private_bytes(expanded[_MLKEM_SEED_BYTES:])


def _hybrid_public(seed: bytes) -> bytes:
    mlkem, curve = _hybrid_parts(seed)
    return mlkem.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()


def _read_hybrid_public(raw: bytes) -> MLKEM768X25519PublicKey:
    mlkem = MLKEM768PublicKey.from_public_bytes(raw[:_MLKEM_PUBLIC_BYTES])
    return MLKEM768X25519PublicKey(mlkem, X25519PublicKey.from_public_bytes(raw[_MLKEM_PUBLIC_BYTES:]))


X25519 = Kem(
    KEM_X25519,
    "X25519",
    32,
    KEM.X25519,
    X25519PrivateKey.from_private_bytes,
    X25519PublicKey.from_public_bytes,
    _x25519_public,
)
HYBRID = Kem(
    KEM_HYBRID,
    "ML-KEM-768 with X25519",
    _MLKEM_PUBLIC_BYTES + 32,
    KEM.MLKEM768_X25519,
    lambda seed: MLKEM768X25519PrivateKey(*_hybrid_parts(seed)),
    _read_hybrid_public,
    _hybrid_public,
)
KEMS = {kem.number: kem for kem in (X25519, HYBRID)}
