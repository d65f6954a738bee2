"""Epochs of seal keys: the hand-over from one to the next, as the format defines it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.bodies import NO_SIGNATURE, Seal, SegmentOpen, seal_message
from audit.chain import ZERO_HASH, CompactRange
from audit.keyring import SealKey
from audit.ledger import Ledger
from audit.record import Entry, Frame, Kind, encode_frame
from audit.report import Exit, Report
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, entropy, put_frames, sealed_journal


def later_key(journal: Journal, epoch: int) -> SealKey:
    return SealKey.issue(journal.signer.signer, ORIGIN, entropy(f"epoch {epoch}"), epoch)


class HandOver:
    """Writes a log again with a new key from one seal on; each part can be done wrong."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.entries = entries_of(journal.directory)
        self.seals = [index for index, entry in enumerate(self.entries) if entry.header.kind == Kind.SEAL]
        self.at = self.seals[3]
        self.successor = later_key(journal, 1)
        self.named = self.successor.public
        self.epoch_after = 1
        self.signer_after = self.successor
        self.certificate = NO_SIGNATURE

    def write(self) -> Report:
        frames: list[Frame] = []
        tree, prev, segment = CompactRange(), ZERO_HASH, 0
        for seq, entry in enumerate(self.entries):
            if entry.header.kind == Kind.SEGMENT_OPEN:
                segment = seq
            frame = encode_frame(entry.header._replace(prev=prev), self._body(seq, entry, prev, tree), segment)
            frames.append(frame)
            tree.append(frame.leaf)
            prev = frame.leaf
        put_frames(self.journal.directory, frames)
        for name in ("checkpoint", "checkpoints.log"):
            self.journal.directory.remove(name)
        return self.journal.verify(anchored=False)

    def _body(self, seq: int, entry: Entry, prev: bytes, tree: CompactRange) -> bytes:
        after = seq > self.at
        if entry.header.kind == Kind.SEGMENT_OPEN:
            opened = replace(SegmentOpen.from_bytes(entry.body), range_hashes=tree.hashes)
            if after:
                opened = replace(opened, epoch=self.epoch_after, epoch_key=self.signer_after.public)
                opened = replace(opened, epoch_certificate=self.certificate)
            return opened.to_bytes()
        if entry.header.kind != Kind.SEAL:
            return entry.body
        key = self.signer_after if after else self.journal.seal_key
        next_key = self.named if seq == self.at else ZERO_HASH
        seal = Seal(self.epoch_after if after else 0, tree.size, tree.root(), next_key)
        message = seal_message(ORIGIN, entry.header._replace(prev=prev).to_bytes(), seal.unsigned())
        signature = Ed25519PrivateKey.from_private_bytes(key.private).sign(message)
        return replace(seal, signature=signature).to_bytes()


@pytest.fixture
def hand_over() -> HandOver:
    return HandOver(sealed_journal())


def test_key_named_by_the_last_seal_of_its_predecessor_is_followed(hand_over: HandOver) -> None:
    report = hand_over.write()
    assert [finding.code for finding in report.findings] == ["no_anchor"], report.to_lines()
    assert (report.first_epoch, report.last_epoch) == (0, 1)


def test_seals_by_a_key_that_nobody_named_are_tampering(hand_over: HandOver) -> None:
    hand_over.named = ZERO_HASH
    assert hand_over.write().exit is Exit.TAMPERED


def test_seals_by_another_key_than_the_one_named_are_tampering(hand_over: HandOver) -> None:
    hand_over.signer_after = later_key(hand_over.journal, 7)
    assert hand_over.write().exit is Exit.TAMPERED


def test_skipped_epoch_is_tampering(hand_over: HandOver) -> None:
    hand_over.epoch_after = 2
    assert hand_over.write().exit is Exit.TAMPERED


def test_going_on_with_the_old_key_after_a_hand_over_is_tampering(hand_over: HandOver) -> None:
    hand_over.epoch_after = 0
    hand_over.signer_after = hand_over.journal.seal_key
    assert hand_over.write().exit is Exit.TAMPERED


def test_key_lost_with_its_machine_may_be_replaced_by_one_that_the_log_key_certifies() -> None:
    journal = Journal()
    journal.records(4)
    journal.seal_key = later_key(journal, 1)
    journal.boot()
    journal.records(4)
    journal.close()
    journal.export()
    report = journal.verify(anchored=False)
    assert [finding.code for finding in report.findings] == ["no_anchor"], report.to_lines()
    journal.seal_key = later_key(journal, 0)
    journal.boot()
    journal.export()
    assert "epoch" in {finding.code for finding in journal.verify(anchored=False).findings}


def test_a_clock_that_went_back_is_a_note_and_no_fault() -> None:
    journal = Journal()
    journal.records(2)
    journal.now_ms -= 50_000
    journal.records(2)
    journal.close()
    journal.export()
    report = journal.verify(anchored=False)
    assert [finding.code for finding in report.findings] == ["no_anchor"]
    assert any("clock went back" in note for note in report.notes)


def test_nothing_may_stand_before_an_opening() -> None:
    assert Ledger(Report(), ()).must_be_clear()
