"""What an auditor may bring to a verification: receipts, a key, several processes; and a log without its beginning."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.ahead import nothing_ahead, reading_ahead
from audit.bodies import ERASED_SEGMENTS, Erasure, SegmentOpen
from audit.chain import ZERO_HASH
from audit.checkpoint import CHECKPOINT
from audit.claims import AnchorSource
from audit.cli import app
from audit.contents import Contents
from audit.disk import DiskDirectory
from audit.epochs import EpochLimits
from audit.keyfiles import write_key
from audit.keyring import RecipientKey, Role
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.receipts import BadReceipts, Expected, Receipt, read_receipts
from audit.record import Kind
from audit.report import Exit, Report
from audit.seal import SegmentLimits
from audit.show import show
from audit.verify import Extra, VerifyOptions, verify
from audit.whole import whole_segment
from tests.unit.audit.logs import (
    ORIGIN,
    Journal,
    entries_of,
    entropy,
    put_frames,
    rechain,
    refile,
    sealed_journal,
    sign_checkpoint,
)
from tests.unit.audit.test_tamper import (
    CASES,
    bodies_swapped,
    cut_to,
    data_index,
    deleted,
    drop_own_checkpoints,
    edited,
    reorder,
    share_moved,
    unsealed,
)


def check(journal: Journal, extra: Extra, *, anchored: bool = False) -> Report:
    return verify(
        journal.directory,
        policy=journal.policy,
        anchors=journal.anchors() if anchored else (),
        now_ms=journal.now_ms + 1000,
        options=VerifyOptions(accept_unanchored=True),
        extra=extra,
    )


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def receipts_of(journal: Journal) -> list[Receipt]:
    return [Receipt(ORIGIN, entry.header.seq, entry.leaf) for entry in entries_of(journal.directory)]


def test_receipts_that_fit_are_counted() -> None:
    journal = sealed_journal()
    foreign = Receipt("gw.example/other", 3, bytes(32))
    report = check(journal, Extra(receipts=[*receipts_of(journal), foreign]))
    assert (report.exit, report.receipts_checked) == (Exit.OK, journal.sealer.head.size)
    assert any(line.startswith("receipts") for line in report.to_lines())


def test_11_a_receipt_catches_a_cut_of_the_unsealed_tail() -> None:
    journal = sealed_journal()
    last = receipts_of(journal)[-1]
    cut_to(lambda entries: len(entries) - 2)(journal)
    assert check(journal, Extra()).exit is Exit.OK
    report = check(journal, Extra(receipts=[last]))
    assert (report.exit, codes(report)) == (Exit.TAMPERED, {"receipt_rollback"})


def test_a_receipt_catches_a_rewrite_of_the_unsealed_tail() -> None:
    journal = sealed_journal()
    receipts = receipts_of(journal)
    entries = entries_of(journal.directory)
    at = data_index(entries, -1)
    entries[at] = replace(entries[at], body=entries[at].body[::-1])
    put_frames(journal.directory, rechain(entries, seal_key=journal.seal_key))
    drop_own_checkpoints(journal)
    assert check(journal, Extra()).exit is Exit.OK
    report = check(journal, Extra(receipts=receipts[at : at + 1]))
    assert (report.exit, codes(report)) == (Exit.TAMPERED, {"receipt"})
    assert report.findings[0].seq == at


def test_receipts_of_other_logs_alone_prove_nothing() -> None:
    report = check(sealed_journal(), Extra(receipts=[Receipt("gw.example/other", 3, bytes(32))]))
    assert (report.exit, codes(report)) == (Exit.NOT_PROVEN, {"no_receipt"})


def test_receipts_are_read_and_anything_else_is_refused() -> None:
    leaf = "ab" * 32
    good = json.dumps({"origin": ORIGIN, "seq": 1, "leaf": leaf})
    assert (
        read_receipts(f"{good}\n\n" + json.dumps({"receipt": json.loads(good), "more": 1}))
        == [Receipt(ORIGIN, 1, bytes.fromhex(leaf))] * 2
    )
    for bad in ("x", "[]", "3", "{}", good.replace("1", "-1"), good.replace("1", "true"), good.replace("ab", "a", 1)):
        with pytest.raises(BadReceipts, match="line 2"):
            read_receipts(f"{good}\n{bad}")
    assert Expected([Receipt("o", 1, ZERO_HASH)] * 2, "o").given == 1


def test_the_auditors_key_opens_every_record() -> None:
    journal = sealed_journal()
    for key in (journal.auditor, journal.recovery):
        report = check(journal, Extra(key=key))
        assert (report.exit, report.contents_checked) == (Exit.OK, 32)
    stranger = RecipientKey.generate(Role.AUDITOR, "stranger", entropy("stranger"))
    report = check(journal, Extra(key=stranger))
    assert (report.exit, codes(report), report.contents_checked) == (Exit.NOT_PROVEN, {"key_unusable"}, 0)


@pytest.mark.parametrize(
    ("tamper", "code"),
    [
        (reorder(edited, repaired=True), "tag"),
        (reorder(deleted, repaired=True), "commit"),
        (reorder(bodies_swapped, repaired=True), "tag"),
        (reorder(lambda entries: edited(unsealed(entries)), repaired=True), "tag"),
        (share_moved, "share"),
    ],
)
def test_the_key_alone_sees_a_repaired_edit(tamper: Callable[[Journal], None], code: str) -> None:
    journal = sealed_journal()
    tamper(journal)
    drop_own_checkpoints(journal)
    # Sealed again by whoever stole the seal key: only the contents can tell.
    put_frames(journal.directory, rechain(entries_of(journal.directory), seal_key=journal.seal_key))
    report = check(journal, Extra(key=journal.auditor))
    assert report.exit is Exit.TAMPERED
    assert code in codes(report)


def test_one_damaged_record_does_not_condemn_the_rest() -> None:
    journal = sealed_journal()
    entries = entries_of(journal.directory)
    first = entries[data_index(entries, 1)]
    refile(journal.directory, lambda data: data.replace(first.body, bytes(len(first.body))))
    report = check(journal, Extra(key=journal.auditor))
    assert (codes(report), report.contents_checked) == ({"damaged"}, 31)


def on_disk(journal: Journal, root: Path) -> DiskDirectory:
    for name, data in journal.directory.files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return DiskDirectory(root)


def test_segments_read_whole_give_the_same_report(tmp_path: Path) -> None:
    """Without a pool: starting processes for each case would cost minutes, and the joining is what matters."""
    tampers = {name: tamper for name, tamper, *_ in CASES}
    for number, (name, tamper) in enumerate(tampers.items()):
        journal = sealed_journal()
        receipts = receipts_of(journal)[::3]
        tamper(journal)
        directory = on_disk(journal, tmp_path / str(number))
        for key in (None, journal.auditor):
            single, joined = (_report(journal, directory, Extra(receipts, key), ahead=ahead) for ahead in (False, True))
            assert joined.to_json() == single.to_json(), name


def _report(journal: Journal, directory: DiskDirectory, extra: Extra, *, ahead: bool) -> Report:
    """A verification; `ahead` joins segments read whole, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        if ahead:
            patch.setattr("audit.verify.reading_ahead", _reading_here)
        return verify(
            directory,
            policy=journal.policy,
            anchors=journal.anchors(),
            now_ms=journal.now_ms + 1000,
            extra=extra,
        )


class _reading_here:  # noqa: N801 - stands in for a function
    def __init__(
        self, directory: DiskDirectory, sizes: list[tuple[int, int]], key: RecipientKey | None, jobs: int
    ) -> None:
        self.read = {}
        for first, size in sizes:
            try:
                self.read[first] = whole_segment(directory, first, size, key)
            except OSError:
                continue

    def __enter__(self) -> object:
        return self.read.get

    def __exit__(self, *_: object) -> None:
        return None


def test_processes_read_ahead_for_real(tmp_path: Path) -> None:
    journal = sealed_journal()
    directory = on_disk(journal, tmp_path)
    options = VerifyOptions(accept_unanchored=True)
    reports: list[dict[str, Any]] = []
    told: list[int] = []
    for jobs in (1, 2):
        passed: list[int] = []
        extra = Extra(key=journal.auditor, jobs=jobs, started=told.append, progress=passed.append)
        reports.append(
            verify(directory, policy=journal.policy, now_ms=journal.now_ms, options=options, extra=extra).to_json()
        )
        assert sum(passed) == reports[-1]["bytes"] == told[-1]
    assert reports[0] == reports[1]
    assert reports[0]["verdict"]["exit"] == 0
    sizes = [(first, directory.size(segment_name(first))) for first in segments(directory)]
    with reading_ahead(directory, sizes, None, 2) as take:
        # One left out is dropped, an unknown one is nobody's.
        assert [take(sizes[1][0]) is not None, take(10_000)] == [True, None]
    assert nothing_ahead(0) is None


@pytest.mark.parametrize("kind", [Kind.SEGMENT_OPEN, Kind.SEAL, Kind.SEGMENT_CLOSE, Kind.DATA])
def test_a_segment_with_anything_odd_is_left_to_the_verifier(kind: Kind) -> None:
    journal = sealed_journal()
    first = segments(journal.directory)[1]
    data = journal.directory.files()[segment_name(first)]
    assert whole_segment(journal.directory, first, len(data), journal.auditor) is not None
    assert whole_segment(journal.directory, first, len(data) - 1, None) is None
    entries = [entry for entry in entries_of(journal.directory) if entry.header.seq >= first]
    odd = next(entry for entry in entries if entry.header.kind == kind)
    journal.directory.put(segment_name(first), data[: odd.offset + 100] + b"\xff" + data[odd.offset + 101 :])
    assert whole_segment(journal.directory, first, len(data), None) is None


def pruned(count: int, *, recorded: bool = True, published: bool = True) -> Journal:
    """A log whose first `count` segments were dropped by retention, with evolving keys."""
    journal = Journal(epochs=EpochLimits(entries_max=6))
    for _ in range(5):
        journal.records(6)
        journal.seal()
        journal.export()
    firsts = segments(journal.directory)
    if recorded:
        body = Erasure(ERASED_SEGMENTS, 0, firsts[count], ZERO_HASH, "retention")
        journal.frames += journal.sealer.note(body, Kind.ERASURE, journal.tick())
    journal.seal()
    journal.export()
    if published:
        journal.publish()
    for first in firsts[:count]:
        journal.directory.remove(segment_name(first))
    return journal


@pytest.mark.parametrize("count", [1, 3])
def test_a_dropped_beginning_is_attested_by_a_checkpoint(count: int) -> None:
    journal = pruned(count)
    report = journal.verify()
    first = segments(journal.directory)[0]
    assert report.exit is Exit.OK, report.to_lines()
    assert (report.pruned_size, report.first_seq, report.key_pinned) == (first, first, True)
    assert f"pruned prefix 0 - {first - 1} attested by checkpoint, content not present" in report.notes


def test_two_signed_roots_of_one_size_are_a_fork_even_where_the_entries_were_dropped() -> None:
    journal = pruned(3)
    sources = list(journal.anchors())
    for label, size in (("one", 4), ("other", 4)):
        told = MemoryDirectory()
        told.put(CHECKPOINT, sign_checkpoint(journal.signer, size, label.encode().ljust(32)))
        sources.append(AnchorSource(label, told, CHECKPOINT))
    alone = verify(journal.directory, policy=journal.policy, anchors=sources[:2], now_ms=journal.now_ms)
    assert alone.exit is Exit.OK, alone.to_lines()
    report = verify(journal.directory, policy=journal.policy, anchors=sources, now_ms=journal.now_ms)
    assert report.exit is Exit.TAMPERED, report.to_lines()
    assert {finding.code for finding in report.findings} == {"fork"}


def test_a_beginning_that_is_gone_without_a_record_or_a_checkpoint_is_a_gap() -> None:
    assert "missing" in codes(unrecorded := pruned(2, recorded=False).verify())
    assert unrecorded.exit is Exit.INCOMPLETE
    alone = pruned(2, published=False)
    report = alone.verify(anchored=False, options=VerifyOptions(accept_unanchored=True))
    assert report.exit is Exit.INCOMPLETE
    assert not report.key_pinned
    more = pruned(2)
    more.directory.remove(segment_name(segments(more.directory)[0]))
    assert more.verify().exit is Exit.INCOMPLETE


def test_a_pruned_log_forged_behind_its_beginning_is_caught() -> None:
    journal = pruned(2)
    first = segments(journal.directory)[0]
    entries = entries_of(journal.directory)
    opened = SegmentOpen.from_bytes(entries[0].body)
    entries[0] = replace(entries[0], body=replace(opened, epoch_key=bytes(range(32))).to_bytes())
    frames, prev = [], entries[0].header.prev
    from audit.record import encode_frame

    segment = first
    for entry in entries:
        segment = entry.header.seq if entry.header.kind == Kind.SEGMENT_OPEN else segment
        frame = encode_frame(entry.header._replace(prev=prev), entry.body, segment)
        frames.append(frame)
        prev = frame.leaf
    put_frames(journal.directory, frames)
    assert journal.verify().exit is Exit.TAMPERED
    drop_own_checkpoints(journal)
    assert journal.verify(anchored=False).exit is Exit.TAMPERED


def test_33_a_writer_killed_between_intent_and_outcome_leaves_the_intent() -> None:
    journal = sealed_journal(tail=0)
    journal.frames += journal.sealer.record(b'{"op":"op-x","op_n":0,"ev":"intent"}', journal.tick())
    journal.export()
    journal.boot()
    journal.export()
    report = journal.verify()
    assert report.exit is Exit.OK, report.to_lines()
    assert report.restarts[-1].clean is False
    (shown,) = show(journal.directory, journal.auditor, op="op-x")
    assert "op_final" not in shown.content


def test_random_bytes_of_a_large_log() -> None:
    """Each change in a log of a few thousand entries, cut to the segments around it so that it stays quick."""
    journal = Journal(limits=SegmentLimits(entries_max=400), epochs=EpochLimits(entries_max=300))
    for _ in range(30):
        journal.records(100)
        journal.seal()
        journal.export()
    journal.close()
    journal.export()
    journal.publish()
    assert journal.verify().exit is Exit.OK
    chance = random.Random("a byte of a large log")
    files = {name: data for name, data in journal.directory.files().items() if name != "checkpoints.log"}
    for _ in range(60):
        name = chance.choice(sorted(files))
        offset, mask = chance.randrange(len(files[name])), chance.randrange(1, 256)
        data = bytearray(files[name])
        data[offset] ^= mask
        journal.directory.put(name, bytes(data))
        assert journal.verify().exit is not Exit.OK, (name, offset, mask)
        journal.directory.put(name, files[name])


def test_verify_command_takes_receipts_key_and_jobs(tmp_path: Path) -> None:
    journal = sealed_journal()
    on_disk(journal, tmp_path / "log")
    trust, receipts, key = tmp_path / "trust", tmp_path / "receipts", tmp_path / "key"
    trust.write_text(journal.policy.to_text())
    write_key(key, journal.auditor.to_line())
    lines = [{"origin": ORIGIN, "seq": given.seq, "leaf": given.leaf.hex()} for given in receipts_of(journal)]
    receipts.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    command = ["verify", str(tmp_path / "log"), "--trust", str(trust), "--accept-unanchored", "--jobs", "1"]
    done = CliRunner().invoke(app, [*command, "--receipts", str(receipts), "--key", str(key), "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert (report["receipts_checked"], report["contents_checked"]) == (len(lines), 32)
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for arguments in (["--receipts", str(trust)], ["--receipts", str(empty)], ["--key", str(trust)], ["--jobs", "0"]):
        assert CliRunner().invoke(app, [*command, *arguments]).exit_code == 2


def test_parts_can_be_used_alone() -> None:
    journal = sealed_journal()
    contents = Contents(journal.auditor)
    entries = entries_of(journal.directory)
    assert contents.check(entries[data_index(entries, 0) :][:1]) == []
    assert contents.enter(SegmentOpen.from_bytes(entries[0].body), 0) is None
    assert contents.check([entries[data_index(entries, 1)]])[0].code == "commit"
    contents.leave()
    assert contents.check([entries[data_index(entries, 1)]]) == []
