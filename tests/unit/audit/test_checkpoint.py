from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from audit import history, note
from audit.chain import CompactRange
from audit.checkpoint import (
    CHECKPOINT,
    HISTORY,
    Checkpoint,
    Publisher,
    PublishRefused,
    RolledBack,
    open_checkpoint,
    split_notes,
)
from audit.keyring import KeyProblem, signature_fits
from audit.log import segment_name
from audit.memory import MemoryDirectory
from audit.note import BadNote, NoteKey, NoteSigner, UnknownSigner, open_note
from audit.report import Exit
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, entropy, put_frames, rechain, sign_checkpoint

# The example of golang.org/x/mod/sumdb/note, which other implementations of signed notes share.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_SIGNED = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
GO_SIGNATURE = f"\N{EM DASH} PeterNeumann {GO_SIGNED}\n"


def test_note_of_another_implementation_verifies_and_is_made_alike() -> None:
    note = f"{GO_TEXT}\n{GO_SIGNATURE}"
    assert open_note(note.encode(), [NoteKey.parse(GO_KEY)]) == GO_TEXT
    signer = NoteSigner.parse(GO_PRIVATE)
    assert signer.sign(GO_TEXT) == note
    assert str(signer.key) == GO_KEY
    assert signer.to_line() == GO_PRIVATE


def signer() -> NoteSigner:
    return NoteSigner.generate(ORIGIN, entropy("note"))


def good() -> bytes:
    return sign_checkpoint(signer(), 7, bytes(range(32)))


def test_good_checkpoint_opens() -> None:
    assert open_checkpoint(good(), [signer().key]) == Checkpoint(ORIGIN, 7, bytes(range(32)))


def resigned(text: str) -> bytes:
    return signer().sign(text).encode()


ROOT = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

BAD_CHECKPOINTS = {
    "extra blank line": good().replace(b"\n\n", b"\n\n\n"),
    "carriage returns": good().replace(b"\n", b"\r\n"),
    "no final newline": good()[:-1],
    "text behind": good() + b"x",
    "no signature": good().partition(b"\n\n")[0] + b"\n\n",
    "not UTF-8": b"\xff" + good(),
    "size edited": good().replace(b"\n7\n", b"\n8\n"),
    "leading zero": resigned(f"{ORIGIN}\n07\n{ROOT}\n"),
    "sign": resigned(f"{ORIGIN}\n+7\n{ROOT}\n"),
    "not a number": resigned(f"{ORIGIN}\nseven\n{ROOT}\n"),
    "other digits": resigned(f"{ORIGIN}\n\N{ARABIC-INDIC DIGIT SEVEN}\n{ROOT}\n"),
    "size too large": resigned(f"{ORIGIN}\n{1 << 63}\n{ROOT}\n"),
    "base64 not in its one form": resigned(f"{ORIGIN}\n7\n{ROOT[:-2]}9=\n"),
    "root too short": resigned(f"{ORIGIN}\n7\nAAEC\n"),
    "root not base64": resigned(f"{ORIGIN}\n7\n****\n"),
    "extension line": resigned(f"{ORIGIN}\n7\n{ROOT}\nmore\n"),
    "line missing": resigned(f"{ORIGIN}\n7\n"),
    "no origin": resigned(f"\n7\n{ROOT}\n"),
    "other origin": resigned(f"gw.example/other\n7\n{ROOT}\n"),
    "signature base64 not in its one form": good()[:-3] + b"9=\n",
    "signature line without dash": good().replace("\N{EM DASH} ".encode(), b"- "),
    "too many signatures": good() + good().partition(b"\n\n")[2] * 100,
}


@pytest.mark.parametrize("note", BAD_CHECKPOINTS.values(), ids=BAD_CHECKPOINTS.keys())
def test_checkpoint_in_any_other_form_is_refused(note: bytes) -> None:
    with pytest.raises(BadNote):
        open_checkpoint(note, [signer().key])


def test_unknown_signer_is_told_from_a_bad_signature() -> None:
    stranger = NoteSigner.generate(ORIGIN, entropy("stranger"))
    with pytest.raises(UnknownSigner):
        open_checkpoint(good(), [stranger.key])
    # An unknown signature beside a good one is no harm; a bad one by a known key is.
    both = good() + stranger.sign(Checkpoint(ORIGIN, 7, bytes(range(32))).to_text()).encode().partition(b"\n\n")[2]
    assert open_checkpoint(both, [signer().key]).size == 7
    bad = good() + stranger.sign(Checkpoint(ORIGIN, 8, bytes(32)).to_text()).encode().partition(b"\n\n")[2]
    with pytest.raises(BadNote, match="does not fit"):
        open_checkpoint(bad, [signer().key, stranger.key])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        GO_KEY[:-1],
        GO_KEY.replace("c74f20a3", "c74f20a4"),
        GO_KEY.replace("+AR", "+BR"),
        GO_KEY.replace("Peter", "Pe ter"),
    ],
)
def test_damaged_verifier_key_is_refused(line: str) -> None:
    with pytest.raises(KeyProblem):
        NoteKey.parse(line)


def test_publisher_signs_what_the_files_show_and_serves_the_anchors() -> None:
    journal = Journal()
    journal.records(20)
    journal.export()
    publisher = Publisher(journal.directory, journal.signer, [journal.anchor])
    first = publisher.publish()
    assert first is not None
    assert first.checkpoint == Checkpoint(ORIGIN, journal.sealer.head.size, journal.sealer.head.root())
    assert publisher.publish() is None
    journal.records(20)
    journal.export()
    second = publisher.publish()
    assert second is not None
    for place in (journal.directory, journal.anchor):
        assert place.files()[CHECKPOINT].decode() == second.note
        assert [note.decode() for note in split_notes(place.files()[HISTORY])] == [first.note, second.note]
    assert journal.verify().exit is Exit.OK
    assert journal.verify().checkpoints == 3


def test_publisher_stops_at_the_size_asked_for() -> None:
    journal = Journal()
    journal.records(20)
    journal.export()
    publisher = Publisher(journal.directory, journal.signer)
    first = publisher.publish(5)
    assert first is not None
    assert first.checkpoint.size == 5
    tree = CompactRange()
    tree.extend([entry.leaf for entry in entries_of(journal.directory)][:5])
    assert first.checkpoint.root == tree.root()
    assert publisher.publish(5) is None
    again = publisher.publish()
    assert again is not None
    assert again.checkpoint.size == journal.sealer.head.size


@pytest.mark.parametrize("where", ["own", "anchor"])
def test_publisher_refuses_a_smaller_tree(where: str) -> None:
    journal = Journal()
    journal.records(20)
    journal.export()
    journal.publish()
    put_frames(journal.directory, rechain(entries_of(journal.directory)[:9]))
    if where == "anchor":
        journal.directory.remove(CHECKPOINT)
    with pytest.raises(PublishRefused, match="cut or rolled back"):
        journal.publish()
    put_frames(journal.directory, [])
    with pytest.raises(PublishRefused, match="not the files"):
        journal.publish()


def test_publisher_refuses_another_history() -> None:
    journal = Journal()
    journal.records(5)
    journal.export()
    journal.publish()
    other = Journal(seed="other")
    other.records(30)
    other.export()
    for name, data in other.directory.files().items():
        journal.directory.put(name, data)
    with pytest.raises(PublishRefused, match="differ"):
        journal.publish()


def test_publisher_refuses_when_a_checkpoint_cannot_be_trusted() -> None:
    journal = Journal()
    journal.export()
    journal.anchor.put(CHECKPOINT, sign_checkpoint(NoteSigner.generate(ORIGIN, entropy("x")), 1, bytes(32)))
    with pytest.raises(PublishRefused, match="cannot be trusted"):
        journal.publish()


# -- a clone of the log that is written elsewhere and signs into the same anchor ---------------------------------------


def with_a_clone() -> tuple[Journal, Journal]:
    """Two logs that go on from one copied folder, each with randomness of its own, and share an anchor."""
    ours, clone = Journal(), Journal()
    ours.records(5)
    ours.export()
    ours.publish()
    for name, data in ours.directory.files().items():
        clone.directory.put(name, data)
    clone.sealer, clone.anchor = ours.sealer, ours.anchor
    clone.draw = entropy("a machine started twice")
    clone.frames = []
    return ours, clone


def go_on(journal: Journal, records: int) -> None:
    journal.boot()
    journal.records(records)
    journal.export()


@pytest.mark.parametrize("theirs", [8, 1], ids=["more than here", "less than here"])
def test_a_publisher_at_work_sees_that_a_clone_wrote_into_its_anchor(theirs: int) -> None:
    ours, clone = with_a_clone()
    go_on(ours, 3)
    publisher = Publisher(ours.directory, ours.signer, [ours.anchor])
    assert publisher.publish() is not None
    assert publisher.publish() is None
    go_on(clone, theirs)
    # The clone had agreed with the anchor before ours wrote there.
    there = Publisher(clone.directory, clone.signer, [MemoryDirectory()]).publish()
    assert there is not None
    ours.anchor.put(CHECKPOINT, there.note.encode())
    own = ours.directory.files()
    # Also with nothing new to sign, and again as long as it is there.
    for _ in range(2):
        with pytest.raises(RolledBack, match="rolled back" if theirs == 8 else "differ"):
            publisher.publish(ours.sealer.head.size)
    go_on(ours, 9)
    with pytest.raises(RolledBack, match="differ"):
        publisher.publish(ours.sealer.head.size)
    assert ours.anchor.files()[CHECKPOINT].decode() == there.note
    assert ours.directory.files()[CHECKPOINT] == own[CHECKPOINT]


def test_a_clone_that_changed_its_key_is_known_by_what_the_old_one_signed() -> None:
    ours, clone = with_a_clone()
    publisher = Publisher(ours.directory, ours.signer, [ours.anchor])
    publisher.publish()
    fresh = NoteSigner.generate(ORIGIN, entropy("fresh"))
    go_on(clone, 30)
    last = sign_checkpoint(clone.signer, clone.sealer.head.size, clone.sealer.head.root())
    newest = sign_checkpoint(fresh, clone.sealer.head.size + 1, bytes(32))
    ours.anchor.put(CHECKPOINT, newest)
    # Whoever can write to an anchor can put a stranger's checkpoint there: that is told, and holds nothing up.
    with pytest.raises(PublishRefused, match="cannot be trusted") as refused:
        publisher.publish()
    assert not isinstance(refused.value, RolledBack)
    ours.anchor.put(HISTORY, ours.anchor.files()[HISTORY] + last + b"\n" + newest + b"\n")
    with pytest.raises(RolledBack, match=f"a checkpoint of {clone.sealer.head.size} exists"):
        publisher.publish()


def test_an_anchor_that_was_put_back_to_an_earlier_checkpoint_of_this_log_is_served_on() -> None:
    journal = Journal()
    journal.export()
    publisher = Publisher(journal.directory, journal.signer, [journal.anchor])
    first = publisher.publish()
    go_on(journal, 3)
    second = publisher.publish()
    assert first is not None
    assert second is not None
    journal.anchor.put(CHECKPOINT, first.note.encode())
    go_on(journal, 3)
    third = publisher.publish()
    assert third is not None
    assert journal.anchor.files()[CHECKPOINT].decode() == third.note
    # Files that cannot be compared with it any more, in the middle of the work, are told rather than signed over.
    journal.anchor.put(CHECKPOINT, first.note.encode())
    name = segment_name(first.checkpoint.size)
    damaged = bytearray(journal.directory.files()[name])
    damaged[40] ^= 1
    journal.directory.put(name, bytes(damaged))
    with pytest.raises(PublishRefused, match="compared"):
        publisher.publish()


def test_anchor_that_fails_is_named_and_served_later() -> None:
    journal = Journal()
    journal.export()
    broken = MemoryDirectory()

    def hook(operation: str, _name: str, _length: int) -> None:
        if operation == "open":
            raise OSError(errno.EROFS, "Read-only file system")

    publisher = Publisher(journal.directory, journal.signer, [broken, journal.anchor])
    broken.hook = hook
    first = publisher.publish()
    assert first is not None
    assert first.failed == ((0, "Read-only file system"),)
    assert CHECKPOINT in journal.anchor.files()
    broken.hook = None
    again = publisher.publish()
    assert again is not None
    assert again.failed == ()
    assert broken.files()[CHECKPOINT] == journal.anchor.files()[CHECKPOINT]
    assert publisher.publish() is None


def test_nothing_is_published_of_an_empty_log() -> None:
    journal = Journal()
    assert Publisher(journal.directory, journal.signer).publish() is None


def test_crash_at_every_step_of_publishing_restarts_clean() -> None:
    steps: list[str] = []
    counted = ready_to_publish()
    counted.directory.hook = lambda operation, name, _length: steps.append(f"{operation} {name}")
    counted.publish()
    for crash_at in range(len(steps)):
        for survives in (0, 1, 2):
            journal = ready_to_publish()
            left = crash_at

            def crash(operation: str, _name: str, length: int) -> int | None:
                nonlocal left
                left -= 1
                if left == -1 and operation == "append":
                    return length // 2
                if left < 0:
                    raise OSError(errno.EIO, "crash")
                return None

            journal.directory.hook = crash
            with pytest.raises(OSError, match="crash"):
                journal.publish()
            journal.directory = journal.directory.after_power_loss(lambda most, part=survives: most * part // 2)  # type: ignore[misc]  # bound now
            assert journal.verify(anchored=False).exit in {Exit.NOT_PROVEN, Exit.INCOMPLETE}
            journal.publish()
            report = journal.verify()
            assert report.exit is Exit.OK, (steps[crash_at], report.to_lines())
            assert report.anchored_size == journal.sealer.head.size


def ready_to_publish() -> Journal:
    journal = Journal()
    journal.records(3)
    journal.export()
    journal.publish()
    journal.records(3)
    journal.seal()
    journal.export()
    return journal


def test_a_history_is_read_backwards_whatever_a_crash_left_at_its_end() -> None:
    journal = ready_to_publish()
    journal.publish()
    notes = list(split_notes(journal.directory.files()[HISTORY]))
    assert len(notes) == 2
    assert list(history.backwards(journal.directory)) == notes[::-1]
    whole = journal.directory.files()[HISTORY]
    for cut in range(len(notes[0])):
        journal.directory.put(HISTORY, whole + notes[0][:cut])
        assert list(history.backwards(journal.directory)) == notes[::-1], cut
    journal.directory.put(HISTORY, notes[0][:-1])
    assert list(history.backwards(journal.directory)) == []
    assert list(history.backwards(MemoryDirectory())) == []


def test_torn_history_is_incomplete() -> None:
    journal = ready_to_publish()
    data = journal.directory.files()[HISTORY]
    for cut in range(1, len(data)):
        journal.directory.put(HISTORY, data[:cut])
        assert journal.verify(anchored=False).exit is Exit.INCOMPLETE
    journal.directory.put(HISTORY, data)
    assert journal.verify(anchored=False).exit is Exit.NOT_PROVEN


def test_signature_of_a_checkpoint_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []

    def counting(public: bytes, signature: bytes, message: bytes) -> bool:
        checked.append(public)
        return signature_fits(public, signature, message)

    monkeypatch.setattr(note, "signature_fits", counting)
    key = replace(signer().key, since=7, until=7)
    assert open_checkpoint(good(), [key]).size == 7
    assert checked == [key.public]
