"""The ways to tamper with a log, each with the exit code it must give, without and with an anchor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from audit.bodies import Recovery, SegmentOpen
from audit.chain import CompactRange
from audit.checkpoint import CHECKPOINT, HISTORY
from audit.claims import AnchorSource
from audit.keyring import SealKey
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.record import FLAG_DAY, Entry, Kind, encode_frame, parse
from audit.report import Exit, Finding, Report
from audit.seal import DAY_MS
from audit.trust import TrustPolicy
from audit.verify import VerifyOptions, verify
from tests.unit.audit.logs import (
    Journal,
    entries_of,
    entropy,
    put_frames,
    rechain,
    refile,
    sealed_journal,
    sign_checkpoint,
)

STRICT = VerifyOptions(unsealed_max=5)


def data_index(entries: list[Entry], number: int) -> int:
    """Index of the n-th data entry."""
    return [index for index, entry in enumerate(entries) if entry.header.kind == Kind.DATA][number]


def flip(offset: int, bit: int = 1) -> Callable[[bytes], bytes]:
    return lambda data: data[:offset] + bytes([data[offset] ^ bit]) + data[offset + 1 :]


def place(journal: Journal, number: int) -> tuple[int, int, Entry]:
    """Segment, offset in its file, and entry of the n-th data entry."""
    for first in segments(journal.directory):
        buffer = journal.directory.files()[segment_name(first)]
        for entry in parse(buffer).entries(buffer):
            if entry.header.kind == Kind.DATA:
                if number == 0:
                    return first, entry.offset, entry
                number -= 1
    raise LookupError(number)


def flip_ciphertext(journal: Journal) -> None:
    segment, offset, _ = place(journal, 7)
    refile(journal.directory, flip(offset + 110), segment)


def flip_time(journal: Journal) -> None:
    segment, offset, _ = place(journal, 7)
    refile(journal.directory, flip(offset + 5 + 19), segment)


def flip_trailer(journal: Journal) -> None:
    segment, offset, entry = place(journal, 7)
    refile(journal.directory, flip(offset + entry.end - entry.offset - 3), segment)


def length_plus(change: int) -> Callable[[Journal], None]:
    def tamper(journal: Journal) -> None:
        segment, offset, entry = place(journal, 7)
        length = (entry.end - entry.offset - 4 + change).to_bytes(4, "big")
        refile(journal.directory, lambda data: data[:offset] + length + data[offset + 4 :], segment)

    return tamper


def reorder(change: Callable[[list[Entry]], list[Entry]], *, repaired: bool) -> Callable[[Journal], None]:
    """Edit the list of entries; repaired: fix everything that needs no key."""

    def tamper(journal: Journal) -> None:
        entries = change(entries_of(journal.directory))
        if repaired:
            put_frames(journal.directory, rechain(entries))
            return
        segment, frames = 0, []
        for entry in entries:
            segment = entry.header.seq if entry.header.kind == Kind.SEGMENT_OPEN else segment
            frames.append(encode_frame(entry.header, entry.body, segment))
        put_frames(journal.directory, frames)

    return tamper


def edited(entries: list[Entry]) -> list[Entry]:
    index = data_index(entries, 7)
    entry = entries[index]
    return [*entries[:index], replace(entry, body=bytes(16) + entry.body[16:]), *entries[index + 1 :]]


def deleted(entries: list[Entry]) -> list[Entry]:
    index = data_index(entries, 7)
    return [*entries[:index], *entries[index + 1 :]]


def swapped(entries: list[Entry]) -> list[Entry]:
    first, second = data_index(entries, 7), data_index(entries, 8)
    entries[first], entries[second] = entries[second], entries[first]
    return entries


def doubled(entries: list[Entry]) -> list[Entry]:
    index = data_index(entries, 7)
    return [*entries[: index + 1], entries[index], *entries[index + 1 :]]


def bodies_swapped(entries: list[Entry]) -> list[Entry]:
    first, second = data_index(entries, 7), data_index(entries, 8)
    entries[first], entries[second] = (
        replace(entries[first], body=entries[second].body),
        replace(entries[second], body=entries[first].body),
    )
    return entries


def unsealed(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.header.kind != Kind.SEAL]


def cut_to(
    keep: Callable[[list[Entry]], int],
) -> Callable[[Journal], None]:
    """Cut the end off, whole files included, as restoring an old copy would."""

    def tamper(journal: Journal) -> None:
        entries = entries_of(journal.directory)
        size = keep(entries)
        put_frames(journal.directory, rechain(entries[:size], seal_key=journal.seal_key))
        drop_own_checkpoints(journal)

    return tamper


def drop_own_checkpoints(journal: Journal) -> None:
    for name in {CHECKPOINT, HISTORY} & set(journal.directory.files()):
        journal.directory.remove(name)


def seal_ends(entries: list[Entry]) -> list[int]:
    return [index + 1 for index, entry in enumerate(entries) if entry.header.kind == Kind.SEAL]


def foreign_segment(journal: Journal) -> None:
    other = sealed_journal_of("gw.example/audit/other")
    name = segment_name(segments(journal.directory)[1])
    twin = segment_name(segments(other.directory)[1])
    journal.directory.put(name, other.directory.files()[twin])


def foreign_record(journal: Journal) -> None:
    other = sealed_journal_of("gw.example/audit/other")
    entries, others = entries_of(journal.directory), entries_of(other.directory)
    index = data_index(entries, 7)
    entries[index] = others[index]
    put_frames(journal.directory, rechain(entries))


def sealed_journal_of(origin: str) -> Journal:
    journal = Journal(origin, seed=origin)
    for _ in range(4):
        journal.records(5)
        journal.seal()
    journal.export()
    return journal


def remove_segment(index: int) -> Callable[[Journal], None]:
    def tamper(journal: Journal) -> None:
        journal.directory.remove(segment_name(segments(journal.directory)[index]))

    return tamper


def same_segment_twice(journal: Journal) -> None:
    first = segments(journal.directory)[1]
    data = journal.directory.files()[segment_name(first)]
    journal.directory.put(segment_name(first + 1), data)


def resealed_with(epoch: int) -> Callable[[Journal], None]:
    """Old entries edited and every seal signed again with another epoch's key, certified by the log key."""

    def tamper(journal: Journal) -> None:
        key = SealKey.issue(journal.signer.signer, journal.origin, entropy("later"), epoch)
        put_frames(journal.directory, rechain(edited(entries_of(journal.directory)), seal_key=key))

    return tamper


def seal_of_another_root(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key, lie_at=seal_ends(entries)[2] - 1))


def append(junk: bytes) -> Callable[[Journal], None]:
    def tamper(journal: Journal) -> None:
        refile(journal.directory, lambda data: data + junk, segments(journal.directory)[-1])

    return tamper


def two_of_one_size(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    tree = CompactRange()
    tree.extend([frame.leaf for frame in rechain(edited(entries))][:20])
    journal.directory.put(CHECKPOINT, sign_checkpoint(journal.signer, 20, tree.root()))


def empty_checkpoint(journal: Journal) -> None:
    journal.directory.put(CHECKPOINT, b"")


IN_OWN_CHECKPOINTS = {two_of_one_size, empty_checkpoint}
"""What a tamperer who takes the log's own checkpoints away would undo."""


def newer_version(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    index = data_index(entries, -1)
    entries[index] = replace(entries[index], header=entries[index].header._replace(version=2))
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))


def newer_kind(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    index = data_index(entries, -1)
    entries[index] = replace(entries[index], header=entries[index].header._replace(kind=10))
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))


def fork(journal: Journal) -> None:
    """A second writer goes on from an older head; its entries replace those of the first."""
    entries = entries_of(journal.directory)
    last = segments(journal.directory)[-2]
    kept = entries[: last + 2]
    rest = entries[last + 2 :]
    other = [replace(entry, body=entry.body[::-1]) if entry.header.kind == Kind.DATA else entry for entry in rest]
    put_frames(journal.directory, rechain([*kept, *other]))


def share_moved(journal: Journal) -> None:
    """One segment's shares put into another segment's opening, links repaired."""
    entries = entries_of(journal.directory)
    openings = [index for index, entry in enumerate(entries) if entry.header.kind == Kind.SEGMENT_OPEN]
    first, second = (SegmentOpen.from_bytes(entries[index].body) for index in openings[:2])
    moved = replace(second, shares=first.shares, commitment=first.commitment)
    entries[openings[1]] = replace(entries[openings[1]], body=moved.to_bytes())
    put_frames(journal.directory, rechain(entries))


def clear_entry_with_nonce(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    index = next(index for index, entry in enumerate(entries) if entry.header.kind == Kind.SEGMENT_CLOSE)
    entries[index] = replace(entries[index], header=entries[index].header._replace(nonce=b"n" * 12))
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))


def edit_behind_the_last_seal(journal: Journal) -> None:
    """The first of the unsealed entries gets another body and a fitting trailer; its successor names the old one."""
    entries = entries_of(journal.directory)
    index = seal_ends(entries)[-1]
    while entries[index].header.kind != Kind.DATA:
        index += 1
    entries[index] = replace(entries[index], body=entries[index].body[::-1])
    segment, frames = 0, []
    for entry in entries:
        segment = entry.header.seq if entry.header.kind == Kind.SEGMENT_OPEN else segment
        frames.append(encode_frame(entry.header, entry.body, segment))
    put_frames(journal.directory, frames)


def body_too_long(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    index = next(index for index, entry in enumerate(entries) if entry.header.kind == Kind.SEGMENT_CLOSE)
    entries[index] = replace(entries[index], body=entries[index].body + b"x")
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))


def record_behind_the_close(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    index = next(index for index, entry in enumerate(entries) if entry.header.kind == Kind.SEGMENT_CLOSE)
    entries.insert(index + 1, entries[data_index(entries, 2)])
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))


def second_seal_behind_the_close(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    index = next(index for index, entry in enumerate(entries) if entry.header.kind == Kind.SEGMENT_CLOSE)
    seal = next(entry for entry in entries if entry.header.kind == Kind.SEAL)
    entries[index + 1 : index + 1] = [seal, seal]
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))


def recovery_in_the_middle(journal: Journal) -> None:
    entries = entries_of(journal.directory)
    index = data_index(entries, 2)
    header = entries[index].header._replace(kind=Kind.RECOVERY, nonce=bytes(12), commit=bytes(32))
    body = Recovery(0, 50, 8, bytes(32), "boot-0", "boot-1").to_bytes()
    entries.insert(index, replace(entries[index], header=header, body=body))
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))


def nothing(_: Journal) -> None:
    """Leave the log as it is."""


def empty_log(journal: Journal) -> None:
    put_frames(journal.directory, [])
    for name in list(journal.directory.files()):
        journal.directory.remove(name)


def empty_file(journal: Journal) -> None:
    empty_log(journal)
    journal.directory.put(segment_name(0), b"")


def zeros_only(journal: Journal) -> None:
    empty_log(journal)
    journal.directory.put(segment_name(0), bytes(4096))


T, I, N, U, OK = Exit.TAMPERED, Exit.INCOMPLETE, Exit.NOT_PROVEN, Exit.UNREADABLE, Exit.OK  # noqa: E741 - a table

CASES = [
    ("untouched", nothing, N, OK),
    ("01 bit in ciphertext", flip_ciphertext, T, T),
    ("02 bit in time", flip_time, T, T),
    ("03 bit in trailer", flip_trailer, T, T),
    ("04 length one more", length_plus(1), T, T),
    ("04 length one less", length_plus(-1), T, T),
    ("05 edit, rechained", reorder(edited, repaired=True), T, T),
    ("06 delete", reorder(deleted, repaired=False), T, T),
    ("06 delete, rechained", reorder(deleted, repaired=True), T, T),
    ("07 swap", reorder(swapped, repaired=False), T, T),
    ("07 swap, rechained", reorder(swapped, repaired=True), T, T),
    ("08 duplicate", reorder(doubled, repaired=False), T, T),
    ("08 duplicate, rechained", reorder(doubled, repaired=True), T, T),
    ("09 ciphertexts swapped, rechained", reorder(bodies_swapped, repaired=True), T, T),
    ("10 segment of another origin", foreign_segment, T, T),
    ("10 record of another origin, rechained", foreign_record, T, T),
    ("11 unsealed tail cut", cut_to(lambda entries: len(entries) - 2), N, OK),
    ("12 cut between seals", cut_to(lambda entries: seal_ends(entries)[-3] + 6), I, T),
    ("13 cut at an old seal", cut_to(lambda entries: seal_ends(entries)[2]), N, T),
    ("15 emptied", empty_log, N, T),
    ("15 empty file", empty_file, I, T),
    ("15 zeros", zeros_only, I, T),
    ("16 first segment removed", remove_segment(0), I, I),
    ("16 middle segment removed", remove_segment(1), I, I),
    ("16 last segment removed", remove_segment(-1), I, I),
    ("17 segment twice", same_segment_twice, T, T),
    ("18 seals stripped, rechained", reorder(unsealed, repaired=True), I, T),
    ("20 resealed by a later epoch", resealed_with(1), T, T),
    ("20 resealed by another key of the epoch", resealed_with(0), T, T),
    ("22 seal of another root, signature right", seal_of_another_root, T, T),
    ("23 own checkpoint of equal size, other root", two_of_one_size, T, T),
    ("own checkpoint emptied", empty_checkpoint, T, T),
    ("29 bytes behind zeros", append(bytes(64) + b"x"), T, T),
    ("29 zeros alone", append(bytes(64)), N, OK),
    ("29 trailing garbage", append(b"garbage that is no frame at all"), T, T),
    ("30 forked", fork, T, T),
    ("37 newer version", newer_version, U, U),
    ("37 newer kind", newer_kind, U, U),
    ("39 share moved, rechained", share_moved, T, T),
    ("edit behind the last seal, link not repaired", edit_behind_the_last_seal, T, T),
    ("clear entry with a nonce, resealed", clear_entry_with_nonce, T, T),
    ("clear body too long, resealed", body_too_long, T, T),
    ("record behind a close, resealed", record_behind_the_close, T, T),
    ("second seal behind a close, resealed", second_seal_behind_the_close, T, T),
    ("recovery not behind an opening, resealed", recovery_in_the_middle, T, T),
]


@pytest.mark.parametrize(("tamper", "alone", "anchored"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_tampering_gives_its_exit_code(tamper: Callable[[Journal], None], alone: Exit, anchored: Exit) -> None:
    journal = sealed_journal()
    tamper(journal)
    with_anchor = journal.verify(options=STRICT)
    assert with_anchor.exit == anchored, with_anchor.to_lines()
    if tamper not in IN_OWN_CHECKPOINTS:
        # Whoever can change the log can take away the checkpoints beside it: the seals must do without.
        drop_own_checkpoints(journal)
    without = journal.verify(anchored=False, options=STRICT)
    assert without.exit == alone, without.to_lines()


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def test_damage_is_located_and_explained() -> None:
    journal = sealed_journal()
    segment, offset, entry = place(journal, 7)
    flip_ciphertext(journal)
    report = journal.verify()
    finding = report.findings[0]
    assert (finding.code, finding.seq, finding.segment, finding.offset) == (
        "damaged",
        entry.header.seq,
        segment,
        offset,
    )
    assert finding.hint is not None
    assert "one bit differs" in finding.hint
    # Everything behind it still fits the signed roots: the damage is this one entry.
    assert codes(report) == ["damaged"]
    trailer = sealed_journal()
    flip_trailer(trailer)
    assert "only the trailer" in (trailer.verify().findings[0].hint or "")


def test_all_findings_come_in_one_pass() -> None:
    journal = sealed_journal()
    for number in (2, 7, 12):
        segment, at = find_data(journal, number)
        refile(journal.directory, flip(at + 110), segment)
    assert codes(journal.verify()).count("damaged") == 3


def find_data(journal: Journal, number: int) -> tuple[int, int]:
    """Place of the n-th data entry in a log that may hold damaged ones: by the untouched twin's layout."""
    segment, offset, _ = place(sealed_journal(), number)
    return segment, offset


def test_findings_are_capped_but_counted() -> None:
    report = Report()
    for number in range(150):
        report.add(Finding("torn", Exit.INCOMPLETE, f"{number}"))
    report.add(Finding("damaged", Exit.TAMPERED, "the worst comes last"))
    assert (len(report.findings), report.findings_total, report.exit) == (100, 151, Exit.TAMPERED)


def test_log_forged_with_own_keys_is_caught_by_the_pinned_key() -> None:
    journal = sealed_journal()
    forged = Journal(seed="attacker")
    forged.records(20)
    forged.close()
    forged.export()
    forged.publish()
    assert {"foreign_checkpoint", "uncertified"} <= set(codes(forged.verify(policy=journal.policy)))
    assert forged.verify(policy=journal.policy).exit == Exit.TAMPERED
    # With a policy for another log nothing is pinned, however well the forgery fits together.
    stranger = TrustPolicy((NoteSigner.generate("gw.example/audit/else", entropy("else")).key,))
    report = forged.verify(policy=stranger)
    assert (report.exit, report.key_pinned) == (Exit.NOT_PROVEN, False)


def test_without_a_policy_nothing_is_proven() -> None:
    journal = sealed_journal()
    report = verify(journal.directory, policy=None, anchors=journal.anchors(), now_ms=journal.now_ms)
    assert report.exit == Exit.NOT_PROVEN
    assert {"no_key", "bad_anchor"} <= set(codes(report))


def test_restoring_the_whole_old_directory_is_caught_by_the_anchor() -> None:
    journal = Journal()
    journal.records(10)
    journal.close()
    journal.export()
    journal.publish()
    yesterday = journal.directory.files()
    journal.boot()
    journal.records(10)
    journal.close()
    journal.export()
    journal.publish()
    restored = MemoryDirectory()
    for name, data in yesterday.items():
        restored.put(name, data)
    journal.directory = restored
    assert journal.verify().exit == Exit.TAMPERED
    assert "rollback" in codes(journal.verify())
    assert journal.verify(anchored=False).exit == Exit.NOT_PROVEN


def test_two_anchors_of_one_size_with_different_roots_are_both_shown() -> None:
    journal = sealed_journal()
    tree = CompactRange()
    tree.extend([entry.leaf for entry in entries_of(journal.directory)][:9])
    other = MemoryDirectory()
    other.put(CHECKPOINT, sign_checkpoint(journal.signer, 9, bytes(32)))
    journal.anchor.put(CHECKPOINT, sign_checkpoint(journal.signer, 9, tree.root()))
    sources = [*journal.anchors(), AnchorSource("other", other, CHECKPOINT)]
    report = verify(journal.directory, policy=journal.policy, anchors=sources, now_ms=journal.now_ms)
    assert report.exit == Exit.TAMPERED
    finding = next(finding for finding in report.findings if finding.code == "anchor_root")
    assert (finding.expected, finding.found) == (bytes(32).hex(), tree.root().hex())


def test_stale_or_missing_anchor_is_not_proven_unless_accepted() -> None:
    journal = sealed_journal()
    tomorrow = journal.now_ms + 25 * 3_600_000
    assert journal.verify(now_ms=tomorrow).exit == Exit.NOT_PROVEN
    week = VerifyOptions(anchor_age_max_ms=7 * 24 * 3_600_000)
    assert journal.verify(now_ms=tomorrow, options=week).exit == Exit.OK
    accepted = journal.verify(anchored=False, options=VerifyOptions(accept_unanchored=True))
    assert accepted.exit == Exit.OK
    assert accepted.unanchored_accepted
    assert any("accepted" in line for line in accepted.to_lines())
    # Accepting a missing anchor never accepts a missing key or an empty log.
    stranger = TrustPolicy((NoteSigner.generate("gw.example/audit/else", entropy("else")).key,))
    options = VerifyOptions(accept_unanchored=True)
    assert journal.verify(anchored=False, policy=stranger, options=options).exit == Exit.NOT_PROVEN
    empty_log(journal)
    assert journal.verify(anchored=False, options=options).exit == Exit.NOT_PROVEN


def test_seals_missing_for_a_minute_are_a_gap() -> None:
    journal = Journal()
    journal.records(2)
    journal.now_ms += 61_000
    journal.records(1)
    journal.export()
    assert "unsealed" in codes(journal.verify(anchored=False))


def test_a_log_without_any_seal_is_a_gap_under_every_limit() -> None:
    journal = sealed_journal()
    reorder(unsealed, repaired=True)(journal)
    drop_own_checkpoints(journal)
    assert journal.verify(anchored=False).exit == Exit.INCOMPLETE


def test_unclean_restart_is_reported_with_what_was_unsealed() -> None:
    report = sealed_journal().verify()
    assert len(report.restarts) == 1
    assert not report.restarts[0].clean
    journal = Journal()
    journal.records(3)
    journal.boot()
    journal.frames += journal.sealer.start(journal.tick(), recovery=[Recovery(0, 50, 8, bytes(32), "boot-1", "boot-2")])
    journal.export()
    restarts = journal.verify(anchored=False).restarts
    assert [restart.clean for restart in restarts] == [False, False]
    assert restarts[0].unsealed_ms == 300
    assert restarts[1].torn_bytes == 42


def test_priority_of_exit_codes() -> None:
    order = [Exit.TAMPERED, Exit.INCOMPLETE, Exit.UNREADABLE, Exit.NOT_PROVEN]
    for index, worse in enumerate(order):
        for better in order[index:]:
            report = Report()
            report.add(Finding("b", better, ""))
            report.add(Finding("a", worse, ""))
            assert report.exit == worse


def test_report_names_are_stable() -> None:
    data = sealed_journal().verify().to_json()
    assert data["report"] == "agl1-verify-1"
    assert data["verdict"] == {"exit": 0, "word": "OK", "sentence": data["verdict"]["sentence"]}
    assert set(data) == {
        "report", "verdict", "anchored_size", "origin", "segments", "bytes", "first_seq", "end_seq", "entries",
        "data_records", "first_t_ms", "last_t_ms", "coarse_time", "root", "seals", "sealed_size",
        "first_epoch", "last_epoch",
        "key_pinned", "checkpoints", "anchors", "unanchored_accepted", "tail_entries", "unsealed_entries",
        "unsealed_since_ms", "tail_age_ms",
        "pruned_size", "receipts_checked", "contents_checked", "witnesses_asked", "blobs", "blob_bytes", "blobs_named",
        "restarts", "notes", "findings", "findings_total",
    }  # fmt: skip


def test_coarse_time_raises_no_alarm_at_midnight() -> None:
    journal = Journal(coarse_time=True)
    midnight = journal.now_ms - journal.now_ms % DAY_MS + DAY_MS
    journal.now_ms = midnight - 1500
    journal.records(4)
    journal.seal()
    journal.records(8)
    journal.now_ms = midnight + 10
    journal.records(1)
    journal.export()
    journal.publish()
    report = journal.verify(now_ms=midnight + DAY_MS + 3_600_000)
    assert report.coarse_time
    assert report.exit is Exit.OK, report.to_lines()


def test_an_entry_that_says_its_time_is_rounded_makes_no_anchor_younger() -> None:
    """Behind the last seal whoever can append writes what they like, flags included."""
    journal = sealed_journal(tail=1)
    entries = entries_of(journal.directory)
    entries[-1] = replace(entries[-1], header=entries[-1].header._replace(flags=FLAG_DAY))
    put_frames(journal.directory, rechain(entries))
    stale = journal.verify(now_ms=journal.now_ms + 25 * 3_600_000)
    assert stale.coarse_time
    assert (stale.exit, [finding.code for finding in stale.findings]) == (Exit.NOT_PROVEN, ["no_anchor"])


def test_many_damaged_entries_are_each_named() -> None:
    journal = sealed_journal()
    places = [place(journal, number)[:2] for number in range(2, 30)]
    for segment, offset in places:
        refile(journal.directory, flip(offset + 110), segment)
    report = journal.verify()
    assert report.exit is Exit.TAMPERED
    assert report.findings_total >= 6
