"""What can be shown of a log to a stranger, and what is refused in words that say why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from audit.discloser import CannotDisclose, Signed, disclose, newest_signed
from audit.disclosure import render
from audit.disclosure_check import check_disclosure
from audit.disk import DiskDirectory
from audit.generate import generate
from audit.keyfiles import read_recipient_key
from audit.keyring import RecipientKey, Role, WrongKey
from audit.log import LogContradiction, segment_name, segments
from audit.report import Exit
from audit.seal import SegmentLimits
from audit.trust import TrustPolicy
from tests.unit.audit.logs import entropy
from tests.unit.audit.operations import Diary, checked, disclosed, interleaved, text_of, verdicts
from tests.unit.audit.test_tamper import flip_ciphertext


def refusal(diary: Diary, op: str, key: RecipientKey | None = None) -> CannotDisclose:
    with pytest.raises(CannotDisclose) as caught:
        disclosed(diary, op, key=key)
    return caught.value


def test_unknown_running_and_uncovered_operations_are_told_apart() -> None:
    diary = interleaved()
    assert "no record of operation nowhere" in str(refusal(diary, "nowhere"))
    assert "not final yet; its last record so far is 'step'" in str(refusal(diary, "op-c"))
    diary.step("op-c", final=True)
    diary.seal()
    diary.export()
    uncovered = refusal(diary, "op-c")
    assert ("no checkpoint covers all of operation op-c" in str(uncovered), uncovered.exit) == (True, Exit.NOT_PROVEN)
    diary.publish()
    assert len(disclosed(diary, "op-c")) == 5


def test_without_any_checkpoint_nothing_can_be_shown() -> None:
    diary = Diary()
    diary.step("o", final=True)
    diary.seal()
    diary.export()
    assert "no usable checkpoint" in str(refusal(diary, "o"))


def test_key_that_opens_nothing_or_a_part_is_told() -> None:
    diary = interleaved()
    stranger = RecipientKey.generate(Role.AUDITOR, "stranger", entropy("stranger"))
    refused = refusal(diary, "op-b", stranger)
    assert ("this key opens no segment" in str(refused), refused.exit) == (True, Exit.NOT_PROVEN)
    newcomer = RecipientKey.generate(Role.AUDITOR, "newcomer", entropy("newcomer"))
    first = diary.auditor
    diary.auditor = newcomer
    diary.boot()
    diary.step("op-c", final=True)
    diary.finish()
    refused = refusal(diary, "op-c", newcomer)
    assert "records 0 to 3 of operation op-c are missing" in str(refused)
    assert "not sealed to this key" in str(refused)
    assert "not final" in str(refusal(diary, "op-c", first))
    assert len(disclosed(diary, "op-c", key=diary.recovery)) == 5


def test_records_in_dropped_or_missing_segments_are_missing() -> None:
    diary = interleaved()
    firsts = segments(diary.directory)
    diary.directory.remove(segment_name(firsts[0]))
    refused = refusal(diary, "op-b")
    assert ("of operation op-b are missing" in str(refused), refused.exit) == (True, Exit.INCOMPLETE)
    diary = interleaved()
    diary.directory.remove(segment_name(firsts[1]))
    refused = refusal(diary, "op-b")
    assert ("are missing from the log" in str(refused), refused.exit) == (True, Exit.INCOMPLETE)


def test_operation_behind_a_dropped_beginning_can_be_shown() -> None:
    diary = interleaved()
    diary.boot()
    diary.step("late", final=True)
    diary.finish()
    for first in segments(diary.directory)[:2]:
        diary.directory.remove(segment_name(first))
    assert verdicts(diary, text_of("late", disclosed(diary, "late"))) == Exit.OK


def test_records_behind_the_end_are_shown_if_covered_and_left_out_if_not() -> None:
    diary = interleaved()
    diary.step("op-b", ev="evidence")
    diary.seal()
    diary.export()
    words: list[str] = []
    records = disclose(diary.directory, diary.auditor, "op-b", newest_signed(diary.directory), skipped=words.append)
    assert (len(records), "1 records that followed the operation's end" in words[-1]) == (5, True)
    diary.publish()
    text = text_of("op-b", disclosed(diary, "op-b"))
    assert verdicts(diary, text) == Exit.OK
    report = checked(text, diary.policy, diary.now_ms)
    assert (len(report.records), report.later) == (6, 1)
    assert "there may be more of those" in "\n".join(report.to_lines())


def test_log_that_contradicts_its_checkpoint_is_not_disclosed() -> None:
    diary = interleaved()
    signed = newest_signed(diary.directory)
    assert signed is not None
    lying = Signed(replace(signed.checkpoint, root=bytes(32)), signed.note)
    with pytest.raises(LogContradiction, match="made for others than these"):
        disclose(diary.directory, diary.auditor, "op-b", lying)
    beyond = Signed(replace(signed.checkpoint, size=signed.checkpoint.size + 1), signed.note)
    with pytest.raises(LogContradiction, match="the log was cut"):
        disclose(diary.directory, diary.auditor, "op-b", beyond)
    foreign = Signed(replace(signed.checkpoint, origin="elsewhere"), signed.note)
    with pytest.raises(LogContradiction, match="its checkpoint that of elsewhere"):
        disclose(diary.directory, diary.auditor, "op-b", foreign)


def test_record_that_does_not_open_stops_the_disclosure() -> None:
    diary = interleaved()
    flip_ciphertext(diary)
    with pytest.raises((LogContradiction, WrongKey)):
        disclosed(diary, "op-b")


def test_id_with_escapes_and_records_with_escapes_are_found() -> None:
    diary = Diary(limits=SegmentLimits())
    for op in ('quo"te', "é", "tab\t"):
        diary.step(op, final=True)
    raw = b'{"op":"\\u006f","op_n":0,"op_prev":null,"op_final":true}'
    diary.frames += diary.sealer.record(raw, diary.tick())
    diary.finish()
    for op in ('quo"te', "é", "tab\t", "o"):
        text = text_of(op, disclosed(diary, op))
        assert verdicts(diary, text) == Exit.OK
        assert checked(text, diary.policy, diary.now_ms).op == op


def test_pieces_join_to_the_file_and_a_broken_disk_is_unreadable() -> None:
    diary = interleaved()
    pieces: Sequence[str] = list(render("op-b", disclosed(diary, "op-b")))
    assert len(pieces) == 7

    class Broken:
        def readline(self, _limit: int) -> bytes:
            raise OSError(5, "broken")

    report = check_disclosure(Broken(), diary.policy, 0)  # type: ignore[arg-type]  # only what is used of a file
    assert report.exit is Exit.UNREADABLE


def test_operation_of_a_generated_log_can_be_shown(tmp_path: Path) -> None:
    made = generate(tmp_path / "made", 60)
    directory = DiskDirectory(made.log)
    records = disclose(directory, read_recipient_key(made.key), "op-3", newest_signed(directory))
    policy = TrustPolicy.parse(made.trust.read_text())
    assert checked(text_of("op-3", records), policy, made.end_ms).exit is Exit.OK
    assert [record.proof.index for record in records] == list(range(32, 42))
