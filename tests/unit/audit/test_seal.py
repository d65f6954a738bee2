from __future__ import annotations

import pytest

from audit.bodies import (
    CloseReason,
    Erasure,
    PreviousEnd,
    Recovery,
    Seal,
    SegmentClose,
    SegmentOpen,
    read_body,
    seal_message,
)
from audit.chain import ZERO_HASH, CompactRange
from audit.fields import Malformed
from audit.head import Head
from audit.keyring import (
    Ratchet,
    RecipientKey,
    Role,
    SealKey,
    WrongKey,
    commit_to,
    open_record,
    open_secret,
    signature_fits,
)
from audit.log import segments
from audit.record import FLAG_DAY, MAX_PLAINTEXT_BYTES, Entry, EntryTooLarge, Frame, Kind, parse
from audit.report import Exit
from audit.seal import DAY_MS, Sealer, SealerNotOpen, SegmentLimits
from audit.show import show
from tests.unit.audit.logs import ORIGIN, START_MS, Journal, entropy


def entry_of(frame: Frame) -> Entry:
    return parse(frame.data).entry(frame.data, 0)


def kinds(frames: list[Frame]) -> list[Kind]:
    return [Kind(frame.kind) for frame in frames]


def test_start_opens_a_segment_and_seals_it_at_once() -> None:
    journal = Journal()
    assert kinds(journal.frames) == [Kind.SEGMENT_OPEN, Kind.SEAL]
    opened = read_body(Kind.SEGMENT_OPEN, entry_of(journal.frames[0]).body)
    assert isinstance(opened, SegmentOpen)
    assert (opened.origin, opened.number, opened.previous_end) == (ORIGIN, 0, PreviousEnd.NONE)
    assert [share.label for share in opened.shares] == ["auditor", "recovery"]


def test_entries_are_chained_and_counted_across_segments_and_restarts() -> None:
    journal = Journal()
    journal.records(30)
    journal.close()
    journal.boot()
    journal.records(2)
    tree, prev = CompactRange(), ZERO_HASH
    for seq, frame in enumerate(journal.frames):
        entry = entry_of(frame)
        assert (entry.header.seq, entry.header.prev) == (seq, prev)
        if frame.kind == Kind.SEAL:
            assert (Seal.from_bytes(entry.body).size, Seal.from_bytes(entry.body).root) == (seq, tree.root())
        tree.append(frame.leaf)
        prev = frame.leaf
    assert journal.sealer.head.root() == tree.root()
    assert journal.sealer.head.leaf == prev


@pytest.mark.parametrize("holder", ["auditor", "recovery"])
def test_every_recipient_can_read_every_record(holder: str) -> None:
    journal = Journal()
    journal.records(15)
    key: RecipientKey = getattr(journal, holder)
    ratchet, read = None, []
    for frame in journal.frames:
        entry = entry_of(frame)
        if frame.kind == Kind.SEGMENT_OPEN:
            ratchet = Ratchet.from_secret(open_secret(key, SegmentOpen.from_bytes(entry.body), frame.seq))
        elif frame.kind == Kind.DATA:
            assert ratchet is not None
            record_key, ratchet = ratchet.peek()
            read.append(open_record(record_key, entry.header, entry.body))
    assert len(read) == 15
    assert all(text.startswith(b'{"op":') for text in read)


def test_a_record_key_opens_only_its_own_record() -> None:
    journal = Journal()
    journal.records(2)
    opened, _, first, second = (entry_of(frame) for frame in journal.frames)
    secret = open_secret(journal.auditor, SegmentOpen.from_bytes(opened.body), 0)
    record_key, after = Ratchet.from_secret(secret).peek()
    with pytest.raises(WrongKey, match="committed"):
        open_record(record_key, second.header, second.body)
    with pytest.raises(WrongKey, match="decrypt"):
        open_record(record_key, first.header._replace(t_ms=0), first.body)
    with pytest.raises(WrongKey, match="decrypt"):
        open_record(record_key, second.header._replace(commit=commit_to(record_key)), second.body)
    assert after.peek()[0] != record_key


def test_a_share_moved_to_another_place_does_not_open() -> None:
    journal, other = Journal(), Journal("gw.example/audit/other")
    opened = SegmentOpen.from_bytes(entry_of(journal.frames[0]).body)
    moved = SegmentOpen.from_bytes(entry_of(other.frames[0]).body)
    with pytest.raises(WrongKey):
        open_secret(journal.auditor, opened, 5)
    assert moved.shares[0].key_id == opened.shares[0].key_id
    with pytest.raises(WrongKey):
        open_secret(
            journal.auditor, SegmentOpen.from_bytes(entry_of(journal.frames[0]).body.replace(b"test-1", b"test-2")), 0
        )


def test_a_key_that_is_no_recipient_is_told_who_is() -> None:
    journal = Journal()
    stranger = RecipientKey.generate(Role.AUDITOR, "stranger", entropy("stranger"))
    with pytest.raises(WrongKey, match=r"not sealed to stranger .* auditor \("):
        open_secret(stranger, SegmentOpen.from_bytes(entry_of(journal.frames[0]).body), 0)


def test_a_seal_is_signed_by_the_epoch_key_over_header_and_root() -> None:
    journal = Journal()
    entry = entry_of(journal.frames[1])
    seal = Seal.from_bytes(entry.body)
    message = seal_message(ORIGIN, entry.header.to_bytes(), seal.unsigned())
    assert signature_fits(journal.seal_key.public, seal.signature, message)
    later = seal_message(ORIGIN, entry.header._replace(t_ms=1).to_bytes(), seal.unsigned())
    assert not signature_fits(journal.seal_key.public, seal.signature, later)


def test_nothing_unsealed_means_no_seal() -> None:
    journal = Journal()
    assert journal.sealer.unsealed == 0
    assert journal.sealer.seal(journal.tick()) == []
    journal.records(1)
    assert journal.sealer.unsealed == 1
    assert kinds(journal.sealer.seal(journal.tick())) == [Kind.SEAL]
    assert journal.sealer.seal(journal.tick()) == []


def test_heartbeat_is_sealed() -> None:
    journal = Journal()
    assert kinds(journal.sealer.heartbeat(journal.tick())) == [Kind.HEARTBEAT, Kind.SEAL]


@pytest.mark.parametrize(
    "limits",
    [SegmentLimits(entries_max=4), SegmentLimits(bytes_max=600), SegmentLimits(age_max_ms=200)],
    ids=["entries", "bytes", "age"],
)
def test_a_full_segment_is_closed_and_the_record_opens_the_next(limits: SegmentLimits) -> None:
    journal = Journal(limits=limits)
    found: list[Frame] = []
    while Kind.SEGMENT_CLOSE not in kinds(found):
        found = journal.sealer.record(b"{}", journal.tick())
    assert kinds(found) == [Kind.SEGMENT_CLOSE, Kind.SEGMENT_OPEN, Kind.DATA]
    assert found[0].segment == 0
    assert found[1].segment == found[1].seq == found[2].segment
    close = SegmentClose.from_bytes(entry_of(found[0]).body)
    assert (close.entries, close.reason) == (found[0].seq, CloseReason.LIMIT)
    opened = SegmentOpen.from_bytes(entry_of(found[1]).body)
    assert (opened.number, opened.previous_end) == (1, PreviousEnd.CLEAN)


@pytest.mark.parametrize("step", ["heartbeat", "note"])
def test_a_segment_that_is_too_old_ends_even_if_nothing_is_recorded(step: str) -> None:
    journal = Journal(limits=SegmentLimits())
    journal.now_ms += SegmentLimits().age_max_ms
    body = Erasure(1, 0, 1, bytes(32), "officer")
    sealer, t_ms = journal.sealer, journal.tick()
    frames = sealer.heartbeat(t_ms) if step == "heartbeat" else sealer.note(body, Kind.ERASURE, t_ms)
    journal.frames += frames
    assert kinds(frames)[:2] == [Kind.SEGMENT_CLOSE, Kind.SEGMENT_OPEN]
    journal.records(2)
    journal.close()
    journal.export()
    assert len(segments(journal.directory)) == 2
    journal.publish()
    assert journal.verify().exit is Exit.OK
    assert len(list(show(journal.directory, journal.auditor))) == 2


def test_the_limits_of_a_segment_are_those_of_the_format() -> None:
    assert SegmentLimits() == SegmentLimits(entries_max=65_536, bytes_max=64 * 1024 * 1024, age_max_ms=86_400_000)


def test_no_segment_grows_beyond_65536_entries_or_64_mib() -> None:
    journal = Journal(limits=SegmentLimits())
    made = [len(journal.sealer.record(b"{}", journal.now_ms)) for _ in range(65_536)]
    assert (sum(made), made.index(3)) == (65_538, 65_534)
    journal = Journal(limits=SegmentLimits())
    large = b'{"x":"' + bytes(65_000).replace(b"\0", b"x") + b'"}'
    size = 0
    while len(frames := journal.sealer.record(large, journal.now_ms)) == 1:
        size += len(frames[0].data)
    assert 64 * 1024 * 1024 - 2 * len(frames[0].data) - 65_536 < size < 64 * 1024 * 1024 + 65_536


def test_close_ends_in_a_seal_and_only_start_goes_on() -> None:
    journal = Journal()
    found = journal.sealer.close(journal.tick())
    assert kinds(found) == [Kind.SEGMENT_CLOSE, Kind.SEAL]
    with pytest.raises(SealerNotOpen):
        journal.sealer.record(b"{}", 1)
    for call in (journal.sealer.seal, journal.sealer.heartbeat, journal.sealer.close):
        with pytest.raises(SealerNotOpen):
            call(1)
    opened = SegmentOpen.from_bytes(entry_of(journal.sealer.start(journal.tick())[0]).body)
    assert opened.previous_end is PreviousEnd.CLEAN


def test_restart_without_close_is_stated_and_uses_a_fresh_secret() -> None:
    journal = Journal()
    first = SegmentOpen.from_bytes(entry_of(journal.frames[0]).body)
    journal.records(1)
    journal.frames = []
    journal.boot()
    second = SegmentOpen.from_bytes(entry_of(journal.frames[0]).body)
    assert second.previous_end is PreviousEnd.UNCLEAN
    assert second.commitment != first.commitment
    assert second.boot_id == "boot-2"


def test_recovery_is_recorded_and_sealed_at_start() -> None:
    journal = Journal()
    found = journal.sealer.start(journal.tick(), recovery=[Recovery(0, 20, 10, bytes(32), "boot-0", "boot-1")])
    assert kinds(found) == [Kind.SEGMENT_OPEN, Kind.RECOVERY, Kind.SEAL]


def broken_entropy(_length: int) -> bytes:
    raise OSError("no entropy")


@pytest.mark.parametrize("method", ["record", "rotate", "start"])
def test_state_is_unchanged_after_a_raised_error(method: str) -> None:
    journal = Journal(limits=SegmentLimits(entries_max=3 if method == "rotate" else 100))
    journal.records(1)
    sealer, before = journal.sealer, journal.sealer.head
    working = sealer._entropy
    sealer._entropy = broken_entropy
    with pytest.raises(OSError, match="no entropy"):
        sealer.start(journal.tick()) if method == "start" else sealer.record(b"{}", journal.tick())
    sealer._entropy = working
    assert sealer.head == before
    journal.records(20)
    journal.seal()
    journal.export()
    assert journal.verify(anchored=False).exit.name == "NOT_PROVEN"


def test_a_record_that_is_too_large_changes_nothing() -> None:
    journal = Journal()
    before = journal.sealer.head
    with pytest.raises(EntryTooLarge):
        journal.sealer.record(b"x" * (MAX_PLAINTEXT_BYTES + 1), journal.tick())
    assert journal.sealer.head == before
    assert len(journal.sealer.record(b"x" * MAX_PLAINTEXT_BYTES, journal.tick())) == 1


def test_coarse_time_shows_the_day_only() -> None:
    journal = Journal()
    sealer = Sealer(
        origin=ORIGIN,
        recipients=[journal.auditor.recipient],
        seal_key=journal.seal_key,
        head=None,
        entropy=journal.draw,
        writer_id="w",
        boot_id="b",
        coarse_time=True,
    )
    for frame in [*sealer.start(START_MS + 5), *sealer.record(b"{}", START_MS + 7)]:
        header = entry_of(frame).header
        assert header.flags == FLAG_DAY
        assert header.t_ms == START_MS - START_MS % DAY_MS


def test_head_survives_being_stored() -> None:
    journal = Journal()
    journal.records(20)
    head = journal.sealer.head
    assert Head.from_bytes(head.to_bytes()) == head
    for bad in (b"", b"\x09" + head.to_bytes()[1:], head.to_bytes() + b"x", head.to_bytes()[:-1]):
        with pytest.raises(Malformed):
            Head.from_bytes(bad)


def test_setting_up_with_foreign_parts_is_refused() -> None:
    journal = Journal()
    foreign = SealKey.issue(journal.signer.signer, "gw.example/other", journal.draw)
    parts = {"head": None, "entropy": journal.draw, "writer_id": "w", "boot_id": "b"}
    recipients = [journal.auditor.recipient]
    with pytest.raises(ValueError, match="belong"):
        Sealer(origin=ORIGIN, recipients=recipients, seal_key=foreign, **parts)  # type: ignore[arg-type]  # one dict for three calls
    with pytest.raises(ValueError, match="belong"):
        Sealer(
            origin=ORIGIN,
            recipients=recipients,
            seal_key=journal.seal_key,
            **(parts | {"head": Head.empty("gw.example/other")}),  # type: ignore[arg-type]  # as above
        )
    with pytest.raises(ValueError, match="without recipients"):
        Sealer(origin=ORIGIN, recipients=[], seal_key=journal.seal_key, **parts)  # type: ignore[arg-type]  # as above


def test_a_segment_cannot_be_let_grow_to_a_size_that_no_reader_takes() -> None:
    with pytest.raises(ValueError, match="67108864 bytes at the latest"):
        SegmentLimits(bytes_max=(1 << 26) + 1)
