"""Anchors' answers in the log, and where witnesses and their newest cosignature are found."""

from pathlib import Path

import pytest

from audit.bodies import AnchorResult, read_body
from audit.checkpoint import HISTORY, Checkpoint, Publisher
from audit.cosign import Cosigner
from audit.disk import DiskDirectory
from audit.record import Frame, Kind, parse
from audit.report import Exit
from audit.trust import TrustPolicy, Witness
from gateway.engine.anchoring import (
    DETAIL_BYTES_MAX,
    Answer,
    NotedSealer,
    Taken,
    newest_cosignature_ms,
    witnesses_of,
)
from gateway.settings import AuditSettings, WitnessSettings
from gateway.store.port import Refused
from tests.unit.audit.logs import Journal, entropy

CHECKPOINT = Checkpoint("o", 7, bytes(32))
COSIGNERS = [Cosigner.generate(f"w.test/{name}", entropy(name)) for name in ("a", "b")]


def noted(frames: list[Frame]) -> list[AnchorResult]:
    found = []
    for frame in frames:
        for entry in parse(frame.data).entries(frame.data):
            if entry.header.kind == Kind.ANCHOR_RESULT:
                body = read_body(Kind.ANCHOR_RESULT, entry.body)
                assert isinstance(body, AnchorResult)
                found.append(body)
    return found


def test_an_answer_is_sealed_with_the_next_seal_and_once_until_it_changes() -> None:
    journal = Journal()
    sealer = NotedSealer(journal.sealer)
    taken, refused = Answer("a", Taken.TAKEN, "line"), Answer("a", Taken.REFUSED, "é" * DETAIL_BYTES_MAX)
    entries = []
    for answers in ([taken], [taken], [refused], [refused, Answer("b", Taken.NOT_REACHED)], [taken], []):
        sealer.tell(CHECKPOINT, answers)
        frames = list(sealer.seal(journal.tick()))
        journal.frames += frames
        entries.append([(entry.anchor, entry.result) for entry in noted(frames)])
        if entries[-1]:
            assert sealer.head.sealed_size == sealer.head.size
    journal.export()
    journal.publish()

    assert entries == [[("a", 1)], [], [("a", 2)], [("b", 3)], [("a", 1)], []]
    assert journal.verify().exit is Exit.OK


def test_answers_come_with_a_heartbeat_and_a_close_as_well_and_details_are_bounded() -> None:
    journal = Journal()
    sealer = NotedSealer(journal.sealer)
    sealer.tell(CHECKPOINT, [Answer("a", Taken.REFUSED, "x" * 5000)])
    beat = list(sealer.heartbeat(journal.tick()))
    sealer.tell(CHECKPOINT, [Answer("a", Taken.TAKEN)])
    end = list(sealer.close(journal.tick()))

    assert [len(entry.detail) for entry in noted(beat)] == [DETAIL_BYTES_MAX]
    assert [(entry.size, entry.root) for entry in noted(end)] == [(7, bytes(32))]


def test_records_pass_through_and_head_and_origin_are_the_sealer_s() -> None:
    journal = Journal()
    sealer = NotedSealer(journal.sealer)
    before = sealer.head.size
    frames = sealer.record(b"{}", journal.tick())

    assert len(frames) == 1
    assert sealer.head.size == before + 1
    assert sealer.origin == journal.origin


# -- witnesses ---------------------------------------------------------------------------------------------------------


def test_witnesses_come_from_settings_and_policy_those_without_an_address_are_left_out(tmp_path: Path) -> None:
    policy = tmp_path / "policy"
    one, two = (cosigner.key for cosigner in COSIGNERS)
    silent = Cosigner.generate("w.test/c", entropy("c")).key
    policy.write_text(
        TrustPolicy((Journal().signer.key,), {"second": Witness(two, "http://h:2"), "mute": Witness(silent)}).to_text()
    )
    settings = AuditSettings(witnesses=(WitnessSettings(str(one), "http://h:1"),), witness_policy=str(policy))

    assert witnesses_of(settings) == {"w.test/a": Witness(one, "http://h:1"), "second": Witness(two, "http://h:2")}
    assert witnesses_of(AuditSettings()) == {}


def test_witnesses_that_cannot_be_used_are_refused_in_a_sentence(tmp_path: Path) -> None:
    good = WitnessSettings(str(COSIGNERS[0].key), "http://h:1")
    bad = tmp_path / "bad"
    bad.write_text("nonsense")
    for settings, told in (
        (AuditSettings(witnesses=(good, good)), "counts once only"),
        (AuditSettings(witnesses=(WitnessSettings("x", "http://h"),)), "cannot be asked: not a witness key"),
        (AuditSettings(witness_policy=str(bad)), "cannot be asked: line 1"),
        (AuditSettings(witness_policy=str(tmp_path / "none")), "cannot be read"),
    ):
        with pytest.raises(Refused, match=told):
            witnesses_of(settings)


def test_the_newest_cosignature_is_found_behind_checkpoints_that_have_none(tmp_path: Path) -> None:
    journal, directory = Journal(), DiskDirectory(tmp_path / "log")
    journal.directory = directory  # type: ignore[assignment]  # a real folder in the place of one in memory
    journal.export()
    publisher = Publisher(directory, journal.signer)
    keys = [cosigner.key for cosigner in COSIGNERS]
    assert newest_cosignature_ms(directory, keys) is None
    for time_s in (100, 300, 200):
        journal.records(2)
        journal.export()
        published = publisher.publish()
        assert published is not None
        publisher.add_signatures(COSIGNERS[time_s % 2].cosign(published.checkpoint.to_text(), time_s))
    assert newest_cosignature_ms(directory, keys) == 300_000
    for _ in range(3):
        journal.records(2)
        journal.export()
        publisher.publish()

    assert newest_cosignature_ms(directory, keys) == 300_000
    assert newest_cosignature_ms(directory, keys[1:]) is None
    assert newest_cosignature_ms(DiskDirectory(tmp_path / "none"), keys) is None
    (tmp_path / "log" / HISTORY).write_bytes(b"\xff\n\n\n")
    assert newest_cosignature_ms(directory, keys) is None
