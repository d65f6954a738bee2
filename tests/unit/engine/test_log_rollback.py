"""Only a checkpoint that a log's own key signed tells at a start that the log was rolled back or forked."""

import errno

import pytest

from audit.checkpoint import CHECKPOINT, HISTORY, Publisher, newest_signed
from audit.head import Head
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from gateway.engine.log_rollback import contradiction, is_rollback
from tests.unit.audit.logs import ORIGIN, Journal, entropy, sign_checkpoint

OTHER = NoteSigner.generate(ORIGIN, entropy("another"))


def grown(*, exported: bool = True) -> Journal:
    """A log over several segments with a checkpoint of its middle and, unless its last part waits, of its end."""
    journal = Journal()
    journal.records(20)
    journal.seal()
    journal.export()
    journal.publish()
    journal.records(20)
    if exported:
        journal.export()
        journal.publish()
    return journal


def judged(journal: Journal, *places: MemoryDirectory, head: Head | None = None) -> str | None:
    named = [(f"anchor {number}", place) for number, place in enumerate(places)]
    now = journal.sealer.head if head is None else head
    return contradiction(journal.directory, now, journal.rows(), [journal.signer.key], named)


def holding(note: bytes) -> MemoryDirectory:
    place = MemoryDirectory()
    place.put(CHECKPOINT, note)
    place.put(HISTORY, note + b"\n")
    return place


def signed(journal: Journal, size: int, root: bytes) -> MemoryDirectory:
    return holding(sign_checkpoint(journal.signer, size, root))


def test_a_checkpoint_of_the_end_or_of_an_earlier_part_agrees() -> None:
    journal = grown()
    assert judged(journal, journal.anchor, journal.directory) is None
    behind = grown(exported=False)
    assert judged(behind, behind.anchor) is None
    assert judged(behind, MemoryDirectory()) is None


def test_a_checkpoint_of_what_only_the_store_has_agrees_and_another_root_of_it_does_not() -> None:
    """The disk of the files may lose what it had, and the store have it still."""
    journal = grown(exported=False)
    size, root = journal.sealer.head.size, journal.sealer.head.root()
    journal.records(1)
    assert judged(journal, signed(journal, size, root)) is None
    assert is_rollback(judged(journal, signed(journal, size, b"\1" * 32)))


def test_a_checkpoint_of_more_entries_says_that_the_log_was_rolled_back() -> None:
    newer = grown()
    older = grown(exported=False)
    older.frames = []
    size = newer.sealer.head.size
    cut = older.directory
    reason = contradiction(
        cut, Head.empty(ORIGIN), (), [older.signer.key], [("anchor a", MemoryDirectory()), ("anchor b", newer.anchor)]
    )
    assert is_rollback(reason)
    assert reason is not None
    assert f"anchor b holds a checkpoint of {size} entries, this log has 0" in reason
    assert not is_rollback("the files hold 5 entries, the store knows of 3")
    assert not is_rollback(None)


@pytest.mark.parametrize("part", ["end", "middle", "first segment"])
def test_a_checkpoint_of_other_entries_says_that_the_log_was_forked(part: str) -> None:
    journal = grown()
    size = {"end": journal.sealer.head.size, "middle": journal.sealer.head.size - 5, "first segment": 7}[part]
    reason = judged(journal, signed(journal, size, b"\1" * 32))
    assert is_rollback(reason)
    assert reason is not None
    assert f"{size} entries, made of others" in reason


def test_a_place_that_cannot_be_read_or_trusted_is_passed_over_and_the_next_one_asked() -> None:
    journal = grown()
    away, ahead = MemoryDirectory(), signed(journal, 1000, b"\1" * 32)
    away.put(CHECKPOINT, b"")

    def failing(operation: str, _name: str, _length: int) -> None:
        if operation == "read":
            raise OSError(errno.EIO, "Input/output error")

    away.hook = failing
    torn = holding(b"half a no")
    assert judged(journal, away, torn) is None
    assert is_rollback(judged(journal, away, torn, ahead))


def test_what_another_log_or_another_key_signed_says_nothing_of_this_one() -> None:
    journal = grown()
    foreign = NoteSigner.generate("gw.test/other", entropy("foreign"))
    other_log = holding(sign_checkpoint(foreign, 1000, b"\1" * 32, origin="gw.test/other"))
    other_key = holding(sign_checkpoint(OTHER, 1000, b"\1" * 32))
    forged = holding(sign_checkpoint(journal.signer, 1000, b"\1" * 32).replace(b"\n1000\n", b"\n2000\n"))
    assert judged(journal, other_log, other_key, forged) is None


@pytest.mark.parametrize("torn", [b"", b"gw.test/half"])
def test_a_folder_from_before_a_change_of_keys_is_found_out_by_what_the_old_key_signed_last(torn: bytes) -> None:
    journal = grown()
    place = MemoryDirectory()
    early = [sign_checkpoint(journal.signer, size, b"\1" * 32) for size in (1, 500)]
    later = [sign_checkpoint(OTHER, size, b"\2" * 32) for size in range(501, 2500)]
    place.put(CHECKPOINT, later[-1])
    place.put(HISTORY, b"".join(note + b"\n" for note in (*early, *later)) + torn)
    newest = newest_signed(place, ORIGIN, [journal.signer.key])
    assert newest is not None
    assert newest.size == 500
    assert is_rollback(judged(journal, place))
    assert newest_signed(place, ORIGIN, [OTHER.key]) is not None
    place.put(HISTORY, b"".join(note + b"\n" for note in later))
    assert newest_signed(place, ORIGIN, [journal.signer.key]) is None


def test_a_checkpoint_of_what_retention_dropped_cannot_be_compared() -> None:
    journal = grown()
    early = signed(journal, 3, b"\1" * 32)
    assert is_rollback(judged(journal, early))
    journal.directory.remove(segment_name(segments(journal.directory)[0]))
    assert judged(journal, early) is None


def test_a_log_that_goes_on_agrees_with_all_that_was_signed_before() -> None:
    journal = grown()
    for _ in range(3):
        journal.boot()
        journal.records(3)
        assert judged(journal, journal.anchor, journal.directory) is None
        journal.export()
        Publisher(journal.directory, journal.signer, [journal.anchor]).publish()
        assert judged(journal, journal.anchor, journal.directory) is None
