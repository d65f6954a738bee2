"""The vectors that FORMAT.md points to: the code must reproduce every byte that is not random."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import audit
from audit.bodies import (
    AnchorResult,
    Erasure,
    KeyChange,
    Recovery,
    Seal,
    SegmentOpen,
    Succession,
    certificate_message,
    read_body,
    seal_message,
)
from audit.chain import EMPTY_ROOT, ZERO_HASH, CompactRange
from audit.checkpoint import Checkpoint, open_checkpoint
from audit.keyring import (
    Ratchet,
    Recipient,
    RecipientKey,
    SealKey,
    commit_to,
    commitment,
    open_record,
    open_secret,
    share_info,
    signature_fits,
)
from audit.log import segment_name
from audit.memory import MemoryDirectory
from audit.note import NoteKey, NoteSigner
from audit.record import Entry, Kind, encode_frame, pad, parse, unpad
from audit.report import Exit
from audit.trust import TrustPolicy
from audit.verify import VerifyOptions, verify

FOLDER = Path(audit.__file__).parent
VECTORS: dict[str, Any] = json.loads((FOLDER / "vectors.json").read_text(encoding="utf-8"))


def entry_of(item: dict[str, Any]) -> Entry:
    data = bytes.fromhex(item["frame"])
    parsed = parse(data)
    assert (parsed.fault, len(parsed.leaves)) == (None, 1)
    return parsed.entry(data, 0)


def test_frames_leaves_links_and_roots() -> None:
    tree, prev = CompactRange(), ZERO_HASH
    for seq, (item, root) in enumerate(zip(VECTORS["entries"], VECTORS["roots"], strict=True)):
        entry = entry_of(item)
        assert (entry.header.seq, entry.header.kind, entry.header.prev) == (seq, item["kind"], prev)
        assert entry.leaf.hex() == item["leaf"]
        assert encode_frame(entry.header, entry.body, item["segment"]).data.hex() == item["frame"]
        tree.append(entry.leaf)
        prev = entry.leaf
        assert tree.root().hex() == root
    assert EMPTY_ROOT.hex() == VECTORS["empty_root"]


@pytest.mark.parametrize("holder", [0, 1])
def test_secret_ratchet_and_records(holder: int) -> None:
    key = RecipientKey.parse(VECTORS["recipients"][holder]["private"])
    segments = iter(VECTORS["segments"])
    ratchet = None
    for item in VECTORS["entries"]:
        entry = entry_of(item)
        if item["kind"] == Kind.SEGMENT_OPEN:
            expected = next(segments)
            opened = SegmentOpen.from_bytes(entry.body)
            secret = open_secret(key, opened, expected["first_seq"])
            assert secret.hex() == expected["secret"]
            assert commitment(secret).hex() == expected["commitment"]
            assert opened.recipients_digest().hex() == expected["recipients_digest"]
            info = share_info(VECTORS["origin"], expected["first_seq"], opened.recipients_digest())
            assert info.hex() == expected["share_info"]
            ratchet = Ratchet.from_secret(secret)
            assert ratchet._chain.hex() == expected["chain_key_0"]
        elif item["kind"] == Kind.DATA:
            assert ratchet is not None
            record_key, ratchet = ratchet.peek()
            assert record_key.hex() == item["record_key"]
            assert commit_to(record_key) == entry.header.commit
            assert open_record(record_key, entry.header, entry.body).hex() == item["plaintext"]


def test_seals_and_certificate() -> None:
    given = VECTORS["seal_key"]
    signer = NoteSigner.parse(VECTORS["log_key"]["private"])
    public = bytes.fromhex(given["public"])
    message = certificate_message(VECTORS["origin"], given["epoch"], public)
    assert message.hex() == given["certified_message"]
    assert signer.signer.sign(message).hex() == given["certificate"]
    key = SealKey(
        VECTORS["origin"], given["epoch"], bytes.fromhex(given["private"]), bytes.fromhex(given["certificate"])
    )
    assert key.public == public
    assert str(signer.key) == VECTORS["log_key"]["vkey"]
    seals = [item for item in VECTORS["entries"] if item["kind"] == Kind.SEAL]
    assert len(seals) == 4
    for item in seals:
        entry = entry_of(item)
        seal = Seal.from_bytes(entry.body)
        signed = seal_message(VECTORS["origin"], entry.header.to_bytes(), seal.unsigned())
        assert signed.hex() == item["signed_message"]
        assert signature_fits(public, seal.signature, signed)
        assert seal.root.hex() == VECTORS["roots"][seal.size - 1]


def test_recipients_and_checkpoint() -> None:
    for item in VECTORS["recipients"]:
        key = RecipientKey.parse(item["private"])
        assert str(key.recipient) == item["public"]
        assert Recipient.parse(item["public"]).key_id.hex() == item["key_id"]
    checkpoint = open_checkpoint(VECTORS["checkpoint"].encode(), [NoteKey.parse(VECTORS["log_key"]["vkey"])])
    size = len(VECTORS["entries"])
    assert checkpoint == Checkpoint(VECTORS["origin"], size, bytes.fromhex(VECTORS["roots"][-1]))
    assert NoteSigner.parse(VECTORS["log_key"]["private"]).sign(checkpoint.to_text()) == VECTORS["checkpoint"]


def test_bodies_of_kinds_without_an_entry_above() -> None:
    made = {Kind.ERASURE: Erasure, Kind.KEY_CHANGE: KeyChange, Kind.ANCHOR_RESULT: AnchorResult}
    for item in VECTORS["other_bodies"]:
        raw = bytes.fromhex(item["hex"])
        body = read_body(item["kind"], raw)
        assert body.to_bytes() == raw
        kind = made.get(item["kind"], Succession if "origin" in item["fields"] else Recovery)
        if item["kind"] == Kind.HEARTBEAT:
            continue
        assert isinstance(body, kind)
        for name, value in item["fields"].items():
            found = getattr(body, name)
            assert (found.hex() if isinstance(found, bytes) else found) == value


def test_padding() -> None:
    for item in VECTORS["padding"]:
        plaintext, padded = bytes.fromhex(item["plaintext"]), bytes.fromhex(item["padded"])
        assert pad(plaintext) == padded
        assert unpad(padded) == plaintext


def test_the_vectors_make_a_log_that_verifies() -> None:
    directory = MemoryDirectory()
    files: dict[int, bytes] = {}
    for item in VECTORS["entries"]:
        files[item["segment"]] = files.get(item["segment"], b"") + bytes.fromhex(item["frame"])
    for segment, data in files.items():
        directory.put(segment_name(segment), data)
    policy = TrustPolicy((NoteKey.parse(VECTORS["log_key"]["vkey"]),))
    options = VerifyOptions(accept_unanchored=True)
    report = verify(directory, policy=policy, now_ms=1_750_000_001_000, options=options)
    assert report.exit is Exit.OK, report.to_lines()


def test_format_page_names_the_vectors_as_they_are() -> None:
    page = (FOLDER / "FORMAT.md").read_text(encoding="utf-8")
    assert sha256((FOLDER / "vectors.json").read_bytes()).hexdigest() in page
