"""A start holds files, rows and head against each other, says what it found, and records it before anything else."""

import errno
from collections.abc import Sequence

import pytest

from audit.bodies import Recovery, Succession
from audit.disk import LogError
from audit.epochs import EpochKeys, SealKeyFile
from audit.export import Exporter, Row
from audit.head import Head
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.recover import JoinState
from audit.report import Exit
from audit.seal import Sealer
from audit.show import show
from gateway.engine.log_start import end_of, find_log, say_loss, seal_keys, start_log
from gateway.store.inloop import InLoopStore, Medium
from gateway.store.port import Record, Unavailable
from tests.unit.audit.logs import ORIGIN, START_MS, Journal, entropy
from tests.unit.store.kit import admission, cipher, operation

OTHER_ORIGIN = "gw.example/audit/test-2"


async def begun(medium: Medium, journal: Journal, records: int = 3) -> InLoopStore:
    """A store that was used under this log; nothing of it was exported yet."""
    store = InLoopStore(medium, cipher(), wall_ms=journal.tick)
    await store.attach(journal.sealer, journal.frames)
    for _ in range(records):
        await store.admit(admission(operation()))
    return store


async def export(store: InLoopStore, journal: Journal, *, prune: bool = True) -> None:
    exporter = Exporter(journal.directory)
    frames = await store.tail(1000)
    exporter.export([Row(item.segment, item.seq, item.frame) for item in frames])
    exporter.close()
    if prune:
        await store.prune(frames[-1].seq, journal.origin)


def tear(journal: Journal) -> None:
    """Half a frame behind the last whole one."""
    name = segment_name(segments(journal.directory)[-1])
    content = journal.directory.files()[name]
    journal.directory.put(name, content + content[:20])


def damage(journal: Journal) -> None:
    """A bad frame with good ones behind it."""
    name = segment_name(segments(journal.directory)[-1])
    content = bytearray(journal.directory.files()[name])
    content[30] ^= 1
    journal.directory.put(name, bytes(content))


# -- find_log -------------------------------------------------------------------------------------------------------


async def test_a_log_that_never_was_joins_and_has_no_head() -> None:
    journal = Journal()
    store = InLoopStore(Medium(), cipher(), wall_ms=journal.tick)
    found = await find_log(store, journal.directory, ORIGIN, "boot-2")

    assert (found.join.state, found.head, found.earlier) == (JoinState.JOINS, None, None)
    assert (found.recoveries, found.files) == ((), Head.empty(ORIGIN))


@pytest.mark.parametrize("exported", [False, True])
async def test_files_that_are_behind_by_the_store_s_rows_are_normal(exported: bool) -> None:
    journal = Journal()
    store = await begun(Medium(), journal)
    if exported:
        await export(store, journal)
    found = await find_log(store, journal.directory, ORIGIN, "boot-2")

    assert found.join.sound
    assert found.join.missing == (0 if exported else journal.sealer.head.size)
    assert found.head == journal.sealer.head
    assert found.files.size == (journal.sealer.head.size if exported else 0)


async def test_rows_that_are_in_the_files_already_are_counted_once() -> None:
    journal = Journal()
    store = await begun(Medium(), journal)
    await export(store, journal, prune=False)

    assert (await find_log(store, journal.directory, ORIGIN, "boot-2")).join.state is JoinState.JOINS


async def test_files_that_are_ahead_say_that_the_store_was_restored() -> None:
    journal = Journal()
    await export(await begun(Medium(), journal), journal)
    restored = InLoopStore(Medium(), cipher(), wall_ms=journal.tick)
    found = await find_log(restored, journal.directory, ORIGIN, "boot-2")

    assert (found.join.state, found.join.sound) == (JoinState.AHEAD, False)
    assert found.files.size == journal.sealer.head.size


async def test_files_that_lost_what_the_store_forgot_contradict_it() -> None:
    journal = Journal()
    store = await begun(Medium(), journal)
    await export(store, journal)
    await store.admit(admission(operation()))
    found = await find_log(store, MemoryDirectory(), ORIGIN, "boot-2")

    assert (found.join.state, found.join.sound) == (JoinState.CONTRADICTION, False)


async def test_a_torn_end_is_found_again_until_it_is_on_record() -> None:
    journal, medium = Journal(), Medium()
    store = await begun(medium, journal)
    await export(store, journal)
    tear(journal)
    first = await find_log(store, journal.directory, ORIGIN, "boot-2")
    again = await find_log(store, journal.directory, ORIGIN, "boot-2")
    assert len(first.recoveries) == 1
    assert (first.recoveries, first.join.sound) == (again.recoveries, True)
    store.crash()

    store = InLoopStore(medium, cipher(), wall_ms=journal.tick)
    await start_log(store, next_sealer(journal), first.recoveries, now_ms=journal.tick(), quarantine=None)
    assert (await find_log(store, journal.directory, ORIGIN, "boot-2")).recoveries == ()


async def test_damage_in_the_middle_is_no_torn_end() -> None:
    journal = Journal()
    store = await begun(Medium(), journal)
    await export(store, journal)
    damage(journal)

    with pytest.raises(LogError):
        await find_log(store, journal.directory, ORIGIN, "boot-2")


async def test_the_head_and_rows_of_another_log_are_none_of_this_one_s() -> None:
    journal = Journal()
    store = await begun(Medium(), journal)
    found = await find_log(store, MemoryDirectory(), OTHER_ORIGIN, "boot-2")

    assert (found.head, found.earlier) == (None, journal.sealer.head)
    assert (found.join.state, found.files) == (JoinState.JOINS, Head.empty(OTHER_ORIGIN))


# -- what is said of a log that was lost ----------------------------------------------------------------------------


def test_the_longest_known_end_of_a_lost_log_is_stated() -> None:
    journal = Journal()
    short = journal.sealer.head
    journal.records(5)
    long = journal.sealer.head

    for heads in ([short, long], [long, short], [None, long], [long, Head.empty(ORIGIN)]):
        assert say_loss(*heads) == (Succession(ORIGIN, long.size, long.root(), long.leaf),)
    assert say_loss() == say_loss(None) == say_loss(None, Head.empty(ORIGIN)) == ()


async def test_where_an_earlier_log_ends_is_said_only_if_its_files_can_be_read_and_are_its_own() -> None:
    journal = Journal()
    await export(await begun(Medium(), journal), journal)
    end = end_of(journal.directory, ORIGIN)
    assert end is not None
    assert (end.size, end.leaf) == (journal.sealer.head.size, journal.sealer.head.leaf)

    assert end_of(journal.directory, OTHER_ORIGIN) is None
    journal.directory.hook = _unreadable
    assert end_of(journal.directory, ORIGIN) is None


def _unreadable(step: str, _name: str, _size: int) -> None:
    if step == "read":
        raise OSError(errno.EIO, "Input/output error")


# -- seal keys ------------------------------------------------------------------------------------------------------

SIGNER = NoteSigner.generate(ORIGIN, entropy("log key"))


def sealer_with(epochs: EpochKeys, head: Head | None) -> Sealer:
    return Sealer(
        origin=ORIGIN,
        recipients=[Journal().auditor.recipient],
        seal_key=epochs,
        head=head,
        entropy=entropy("sealer"),
        writer_id="writer",
        boot_id="boot",
    )


def sealed(epochs: EpochKeys, head: Head | None = None) -> Head:
    """Open the log with these keys and seal something."""
    sealer = sealer_with(epochs, head)
    sealer.start(1)
    sealer.record(b'{"ev":"x"}', 2)
    sealer.seal(3)
    return sealer.head


def test_a_new_log_gets_its_first_key_and_nothing_was_lost() -> None:
    store = SealKeyFile(MemoryDirectory(), "seal.key")
    epochs, lost = seal_keys(store, SIGNER, None, entropy("keys"))

    assert (lost, [key.epoch for key in store.load(ORIGIN)]) == (False, [0])
    assert sealed(epochs).epoch == 0


def test_the_key_that_is_there_is_the_one_that_goes_on() -> None:
    store = SealKeyFile(MemoryDirectory(), "seal.key")
    epochs, _ = seal_keys(store, SIGNER, None, entropy("keys"))
    head = sealed(epochs)
    before = store.load(ORIGIN)
    again, lost = seal_keys(store, SIGNER, head, entropy("other keys"))

    assert (lost, store.load(ORIGIN)) == (False, before)
    assert sealed(again, head).size > head.size


def test_a_key_that_is_gone_is_replaced_in_the_next_epoch_and_that_is_said() -> None:
    epochs, _ = seal_keys(SealKeyFile(MemoryDirectory(), "seal.key"), SIGNER, None, entropy("keys"))
    head = sealed(epochs)
    empty = SealKeyFile(MemoryDirectory(), "seal.key")
    replaced, lost = seal_keys(empty, SIGNER, head, entropy("other keys"))

    assert (lost, [key.epoch for key in empty.load(ORIGIN)]) == (True, [head.epoch + 1])
    assert sealed(replaced, head).epoch == head.epoch + 1


# -- start_log ------------------------------------------------------------------------------------------------------


def next_sealer(journal: Journal) -> Sealer:
    """A sealer over what is stored, not started yet."""
    return Sealer(
        origin=journal.origin,
        recipients=[journal.auditor.recipient],
        seal_key=journal.seal_key,
        head=journal.sealer.head,
        entropy=journal.draw,
        writer_id="writer-2",
        boot_id="boot-2",
    )


async def started(
    *, quarantine: str | None = None, lost: bool = False, recoveries: Sequence[Recovery | Succession] = ()
) -> tuple[InLoopStore, Journal]:
    journal = Journal()
    medium = Medium()
    store = await begun(medium, journal)
    store.crash()
    store = InLoopStore(medium, cipher(), wall_ms=journal.tick)
    with pytest.raises(Unavailable):
        await store.note((Record("too early", {}),))
    await start_log(
        store, next_sealer(journal), recoveries, now_ms=journal.tick(), quarantine=quarantine, seal_key_lost=lost
    )
    return store, journal


@pytest.mark.parametrize("quarantine", [None, "the files are ahead"])
async def test_the_start_is_the_first_record_and_says_whether_writes_are_held(quarantine: str | None) -> None:
    store, journal = await started(quarantine=quarantine)
    await store.note((Record("later", {}),))
    await export(store, journal)
    first, second = [shown.content for shown in show(journal.directory, journal.auditor)][-2:]

    assert (first["ev"], first["origin"], first["quarantine"]) == ("started", ORIGIN, quarantine)
    assert START_MS < first["at"] < journal.now_ms
    assert "seal_key" not in first
    assert second["ev"] == "later"


async def test_a_lost_seal_key_stands_in_the_record_of_the_start() -> None:
    store, journal = await started(lost=True)
    await export(store, journal)

    assert [shown.content for shown in show(journal.directory, journal.auditor)][-1]["seal_key"] == "lost"


async def test_a_start_opens_a_segment_of_its_own_and_the_log_verifies_over_it() -> None:
    store, journal = await started()
    await store.close_log()
    await export(store, journal)
    report = journal.verify(anchored=False)

    assert len(segments(journal.directory)) == 2
    # No anchor vouches for it; that is all that is missing.
    assert (report.exit, len(report.restarts)) == (Exit.NOT_PROVEN, 1)
    assert report.data_records == 4
