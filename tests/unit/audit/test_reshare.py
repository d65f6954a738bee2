"""A reader who came later reads old segments if an older reader handed their secrets on, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.kem import KEM_HYBRID, KEM_X25519
from audit.keyring import RecipientKey, Role, WrongKey, handed_info
from audit.log import read_open, segments
from audit.report import Exit
from audit.reshare import check_handed, holding, read_reshare, render_reshare, reshare
from audit.show import show
from audit.tlog_proof import BadForm
from audit.verify import Extra, verify
from tests.unit.audit.logs import Journal, entropy, sealed_journal
from tests.unit.audit.operations import Diary, checked, disclosed, interleaved, text_of


def later(kem: int = KEM_X25519, label: str = "later") -> RecipientKey:
    return RecipientKey.generate(Role.AUDITOR, label, entropy(label), kem)


@pytest.mark.parametrize("kem", [KEM_X25519, KEM_HYBRID])
def test_secrets_handed_on_open_every_old_segment(kem: int) -> None:
    journal, newcomer = sealed_journal(), later(kem)
    with pytest.raises(WrongKey):
        list(show(journal.directory, newcomer))
    text = "".join(render_reshare(reshare(journal.directory, journal.auditor, newcomer.recipient)))
    key = holding(newcomer, [read_reshare(text)])
    assert check_handed(journal.directory, key) == len(segments(journal.directory))
    assert list(show(journal.directory, key)) == list(show(journal.directory, journal.auditor))
    report = verify(
        journal.directory,
        policy=journal.policy,
        anchors=journal.anchors(),
        now_ms=journal.now_ms,
        extra=Extra(key=key),
    )
    assert (report.exit, report.contents_checked) == (Exit.OK, 32)


def test_reader_with_secrets_handed_on_can_disclose() -> None:
    diary = interleaved()
    newcomer = later()
    key = holding(newcomer, [reshare(diary.directory, diary.recovery, newcomer.recipient)])
    text = text_of("op-b", disclosed(diary, "op-b", key=key))
    assert checked(text, diary.policy, diary.now_ms).exit is Exit.OK


def test_only_segments_that_the_reader_lacks_and_the_giver_has_are_handed_on() -> None:
    diary = Diary()
    diary.step("o")
    first, newcomer = diary.auditor, later()
    diary.auditor = newcomer
    diary.boot()
    diary.step("o")
    diary.finish()
    made = reshare(diary.directory, diary.recovery, newcomer.recipient)
    assert list(made.sealed) == [0]
    words: list[str] = []
    stranger = later(label="third")
    made = reshare(diary.directory, first, stranger.recipient, skipped=words.append)
    assert (list(made.sealed), len(words)) == ([0], 1)
    with pytest.raises(WrongKey, match="nothing that later could hand on to recovery"):
        reshare(diary.directory, newcomer, diary.recovery.recipient)


def test_false_secret_is_refused_on_use() -> None:
    journal, newcomer = sealed_journal(), later()
    made = reshare(journal.directory, journal.auditor, newcomer.recipient)
    opened = read_open(journal.directory, 0)
    false = newcomer.recipient.wrap(bytes(32), handed_info(opened, 0, newcomer.recipient))
    key = holding(newcomer, [replace(made, sealed={**made.sealed, 0: false})])
    with pytest.raises(WrongKey, match="not the secret committed to"):
        check_handed(journal.directory, key)
    words: list[str] = []
    assert all(
        record.seq >= segments(journal.directory)[1] for record in show(journal.directory, key, skipped=words.append)
    )
    assert "not the secret committed to" in words[0]


def test_secret_moved_to_another_segment_log_or_reader_does_not_open() -> None:
    journal, newcomer = sealed_journal(), later()
    made = reshare(journal.directory, journal.auditor, newcomer.recipient)
    one, two, *_ = made.sealed
    swapped = replace(made, sealed={**made.sealed, one: made.sealed[two]})
    with pytest.raises(WrongKey, match="does not open"):
        check_handed(journal.directory, holding(newcomer, [swapped]))
    with pytest.raises(WrongKey, match="belongs to this log"):
        check_handed(Journal(origin="elsewhere").directory, holding(newcomer, [made]))
    with pytest.raises(WrongKey, match="handed on to later, not to other"):
        holding(later(label="other"), [made])


def test_file_has_one_form() -> None:
    journal, newcomer = sealed_journal(), later()
    made = reshare(journal.directory, journal.auditor, newcomer.recipient)
    text = "".join(render_reshare(made))
    assert read_reshare(text) == made
    assert newcomer.private.hex() not in text
    lines = text.split("\n")
    bad = [
        "",
        text[:-1],
        text + "x",
        text + "\n",
        text.replace("agl1-reshare@v1", "agl1-reshare@v2"),
        text.replace("origin ", "log "),
        text.replace("from agl1", "from x"),
        "\n".join([*lines[:4], "x", *lines[5:]]),
        "\n".join([*lines[:5], lines[6], lines[5], *lines[7:]]),
        "\n".join([*lines[:5], *lines[6:]]),
        "\n".join([*lines[:5], lines[5][:-1], *lines[6:]]),
        "\n".join([*lines[:5], "segment 0 ", *lines[6:]]),
        text.replace("segment 0 ", "segment 00 "),
    ]
    for changed in bad:
        with pytest.raises(BadForm):
            read_reshare(changed)


def test_wrong_share_of_the_giver_stops_him() -> None:
    journal, newcomer = sealed_journal(), later()
    broken = replace(journal.auditor, private=bytes(32))
    with pytest.raises(WrongKey, match="does not open"):
        reshare(journal.directory, broken, newcomer.recipient)
