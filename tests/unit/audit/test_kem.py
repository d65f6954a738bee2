"""Secrets sealed to hybrid keys: as the page and frozen vectors have them, beside readers of the old kind."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import audit
from audit.bodies import SegmentOpen
from audit.kem import HYBRID, KEM_HYBRID, KEM_X25519, KEMS, X25519, CannotOpen
from audit.keyring import KeyProblem, Recipient, RecipientKey, Role, WrongKey, open_secret, share_info
from audit.log import read_open
from audit.report import Exit
from audit.seal import Sealer
from audit.show import show
from audit.verify import Extra, verify
from tests.unit.audit.logs import ORIGIN, Journal, entropy

VECTORS: dict[str, Any] = json.loads((Path(audit.__file__).parent / "vectors-hybrid.json").read_text(encoding="utf-8"))


def by_the_page(sealed: bytes, seed: bytes, info: bytes) -> bytes:
    """Open a hybrid share with nothing but ML-KEM, X25519, hashes and AES-GCM: FORMAT.md, section 6, and RFC 9180."""
    expanded = hashlib.shake_256(seed).digest(96)
    mlkem, curve = MLKEM768PrivateKey.from_seed_bytes(expanded[:64]), X25519PrivateKey.from_private_bytes(expanded[64:])
    enc, ciphertext = sealed[:1120], sealed[1120:]
    secret = mlkem.decapsulate(enc[:1088])
    shared = curve.exchange(X25519PublicKey.from_public_bytes(enc[1088:]))
    mixed = secret + shared + enc[1088:] + curve.public_key().public_bytes_raw() + bytes.fromhex("5c2e2f2f5e5c")
    kem_secret = hashlib.sha3_256(mixed).digest()
    suite = b"HPKE" + bytes.fromhex("647a00010002")

    def extract(salt: bytes, label: bytes, value: bytes) -> bytes:
        return hmac.digest(salt, b"HPKE-v1" + suite + label + value, "sha256")

    def expand(key: bytes, label: bytes, context: bytes, length: int) -> bytes:
        return hmac.digest(key, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + context + b"\x01", "sha256")[
            :length
        ]

    context = b"\x00" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    key = extract(kem_secret, b"secret", b"")
    nonce = expand(key, b"base_nonce", context, 12)
    return AESGCM(expand(key, b"key", context, 32)).decrypt(nonce, ciphertext, b"")


def test_frozen_vectors_open() -> None:
    given = VECTORS["share"]
    key = RecipientKey.parse(VECTORS["recipient"]["private"])
    assert str(key.recipient) == VECTORS["recipient"]["public"]
    assert key.recipient.key_id.hex() == VECTORS["recipient"]["key_id"]
    assert key.recipient.identity().hex() == VECTORS["recipient"]["identity"]
    sealed, info = bytes.fromhex(given["sealed"]), bytes.fromhex(given["info"])
    assert key.unwrap(sealed, info).hex() == given["secret"]
    assert by_the_page(sealed, key.private, info).hex() == given["secret"]


def test_seed_makes_the_published_public_key() -> None:
    """The first test vector of draft-connolly-cfrg-xwing-kem, by the beginning of its public key."""
    seed = bytes.fromhex("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26")
    assert HYBRID.public_of(seed).hex().startswith("e2236b35a8c24b39b10aa1323a96a919a2ced88400633a7b07131713fc14b2b5")


def test_page_says_how_a_new_share_opens() -> None:
    key = RecipientKey.generate(Role.AUDITOR, "later", entropy("hybrid"), KEM_HYBRID)
    info = share_info(ORIGIN, 7, bytes(32))
    assert by_the_page(key.recipient.wrap(b"s" * 32, info), key.private, info) == b"s" * 32


@pytest.mark.parametrize("kem", [X25519, HYBRID])
def test_share_opens_for_its_key_and_place_only(kem: Any) -> None:
    private, other = entropy("one")(32), entropy("two")(32)
    sealed = kem.seal(b"s" * 32, kem.public_of(private), b"here")
    assert kem.open(sealed, private, b"here") == b"s" * 32
    for bad in (
        (sealed, other, b"here"),
        (sealed, private, b"there"),
        (sealed[:-1], private, b"here"),
        (b"", private, b""),
    ):
        with pytest.raises(CannotOpen):
            kem.open(*bad)
    assert len(kem.public_of(private)) == kem.public_bytes
    assert KEMS[kem.number] is kem


def test_hybrid_keys_survive_their_lines_and_damaged_ones_are_refused() -> None:
    key = RecipientKey.generate(Role.RECOVERY, "vault", entropy("hybrid"), KEM_HYBRID)
    assert RecipientKey.parse(key.to_line()) == key
    assert Recipient.parse(str(key.recipient)) == key.recipient
    assert len(key.private) == 32
    assert key.private.hex() not in repr(key)
    for line in (str(key.recipient)[:-8], key.to_line()[:-8], key.to_line().replace("+ZH", "+ZX", 1)):
        with pytest.raises(KeyProblem):
            (Recipient if line.startswith("agl1") else RecipientKey).parse(line)


def test_old_and_new_readers_read_one_log_and_old_segments_stay_readable() -> None:
    journal = Journal()
    journal.records(4)
    journal.seal()
    hybrid = RecipientKey.generate(Role.AUDITOR, "hybrid", entropy("hybrid"), KEM_HYBRID)
    journal.sealer = Sealer(
        origin=journal.origin,
        recipients=[journal.auditor.recipient, hybrid.recipient, journal.recovery.recipient],
        seal_key=journal.seal_key,
        head=journal.sealer.head,
        entropy=journal.draw,
        writer_id="writer-1",
        boot_id="boot-2",
    )
    second = journal.sealer.head.size
    journal.frames += journal.sealer.start(journal.tick())
    journal.records(3)
    journal.seal()
    journal.export()
    journal.publish()
    assert journal.verify().exit is Exit.OK
    assert len(list(show(journal.directory, journal.auditor))) == 7
    assert len(list(show(journal.directory, hybrid))) == 3
    opened = read_open(journal.directory, second)
    assert [share.kem for share in opened.shares] == [KEM_X25519, KEM_HYBRID, KEM_X25519]
    assert open_secret(hybrid, opened, second) == open_secret(journal.recovery, opened, second)
    assert SegmentOpen.from_bytes(opened.to_bytes()) == opened
    with pytest.raises(WrongKey, match="not sealed to hybrid"):
        open_secret(hybrid, read_open(journal.directory, 0), 0)
    extra = Extra(key=hybrid)
    checked = verify(
        journal.directory, policy=journal.policy, anchors=journal.anchors(), now_ms=journal.now_ms, extra=extra
    )
    assert (checked.contents_checked, checked.exit) == (3, Exit.NOT_PROVEN)
