"""Boxes and blobs of FORMAT.md, read with plain primitives from the frozen vectors, and made again by the package."""

from __future__ import annotations

import base64
import hmac
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import audit
from audit.blobs import BlobRef, read_blob, write_blob
from audit.boxes import Unboxer
from audit.memory import MemoryDirectory
from audit.subjects import PersonalKey, SubjectFile

VECTORS: dict[str, Any] = json.loads((Path(audit.__file__).parent / "vectors-personal.json").read_text())
PERSONAL: dict[str, Any] = VECTORS["personal"]


def test_a_box_opens_with_plain_primitives() -> None:
    key, box = bytes.fromhex(PERSONAL["subject_key"]), PERSONAL["box"]
    tag = sha256(b"agw/subject/1\0" + key).digest()
    raw = base64.b64decode(box["data"])
    padded = AESGCM(key).decrypt(raw[:12], raw[12:], b"agw/box/1\0" + tag + b"name")
    plain, _, zeros = padded.rpartition(b"\x80")
    assert json.loads(plain) == PERSONAL["value"]
    assert (len(padded) % 64, any(zeros)) == (0, False)
    assert tag.hex() == box["$box"] == PERSONAL["tag"]


def test_handle_mark_and_wrapped_key_follow_from_the_secret() -> None:
    secret = base64.b64decode(PERSONAL["line"].split("+", 2)[2])

    def part(purpose: bytes) -> bytes:
        return hmac.digest(secret, b"agw/personal/1\0" + purpose, "sha256")

    assert hmac.digest(part(b"handle"), PERSONAL["subject"].encode(), "sha256").hex() == PERSONAL["handle"]
    assert hmac.digest(part(b"mark"), PERSONAL["mark_of"].encode(), "sha256").hex() == PERSONAL["mark"]
    wrapped = base64.b64decode(PERSONAL["file"].strip().split("+", 4)[4])
    tag = bytes.fromhex(PERSONAL["tag"])
    assert AESGCM(part(b"wrap")).decrypt(wrapped[:12], wrapped[12:], tag).hex() == PERSONAL["subject_key"]


def test_the_package_reads_the_vectors() -> None:
    key, directory = PersonalKey.parse(PERSONAL["line"]), MemoryDirectory()
    directory.put("subjects", PERSONAL["file"].encode())
    unboxer = Unboxer((), key, SubjectFile(directory, "subjects", key.origin))
    assert unboxer.open({"name": PERSONAL["box"]}) == {"name": PERSONAL["value"]}
    assert (key.handle(PERSONAL["subject"]).hex(), key.mark(b"ada@example.org").hex()) == (
        PERSONAL["handle"],
        PERSONAL["mark"],
    )


@pytest.mark.parametrize("vector", VECTORS["blobs"], ids=[vector["plaintext"] for vector in VECTORS["blobs"]])
def test_a_blob_is_made_of_the_chunks_that_the_page_describes(vector: dict[str, Any]) -> None:
    ref = BlobRef.from_json(vector["reference"])
    data = bytes(index % 251 for index in range(ref.size))
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)] or [b""]
    file = b""
    for index, piece in enumerate(pieces):
        nonce = index.to_bytes(11, "big") + bytes([index == len(pieces) - 1])
        file += AESGCM(ref.key).encrypt(nonce, piece, b"agw/blob/1")
    assert (len(file), file[:32].hex(), file[-32:].hex()) == (vector["bytes"], vector["first"], vector["last"])
    assert sha256(file).hexdigest() == ref.name
    directory = MemoryDirectory()
    keys = iter([ref.key, bytes(16)])
    assert write_blob(directory, [data], lambda _length: next(keys)) == ref
    assert directory.files()[ref.path] == file
    assert b"".join(read_blob(directory, ref)) == data
