"""The log's files follow the store: nothing is forgotten before it is safe, and a sick disk refuses what is new."""

import asyncio
import errno
from dataclasses import dataclass, field

import pytest

from audit.checkpoint import CHECKPOINT, Publisher
from audit.export import Exporter
from audit.log import segment_name, segments
from audit.memory import Hook
from gateway.engine import log_keeper
from gateway.engine.log_keeper import Anchoring, Cadence, LogKeeper
from gateway.store.inloop import InLoopStore, Medium
from gateway.store.port import Record, StoreUnknown
from tests.unit.audit.logs import Journal, entries_of
from tests.unit.engine.keeping import HandClock
from tests.unit.engine.workshop import Points
from tests.unit.store.kit import cipher


@dataclass
class Room:
    """A store with a real log, its files in memory, and the keeper between them."""

    log: Journal = field(default_factory=Journal)
    clock: HandClock = field(default_factory=HandClock)
    points: Points = field(default_factory=Points)
    told: list[str] = field(default_factory=list)
    store: InLoopStore = field(init=False)
    keeper: LogKeeper = field(init=False)

    async def open(self) -> "Room":
        self.store = InLoopStore(Medium(), cipher(), wall_ms=self.log.tick, points=self.points)
        await self.store.attach(self.log.sealer, self.log.frames)
        self.keeper = LogKeeper(
            self.store,
            Exporter(self.log.directory),
            Publisher(self.log.directory, self.log.signer, [self.log.anchor]),
            origin=self.log.origin,
            clock=self.clock,
            cadence=Cadence(1.0, 60.0, export_seconds=0.0),
            points=self.points,
            alert=lambda name, _reason: self.told.append(name),
            anchoring=Anchoring(("folder a",)),
        )
        return self

    async def note(self, count: int = 3) -> None:
        for number in range(count):
            await self.store.note((Record("noted", {"number": number}),))

    async def waiting(self) -> int:
        return len(await self.store.tail(10_000))

    @property
    def in_files(self) -> int:
        return len(entries_of(self.log.directory))


@pytest.fixture
async def room() -> Room:
    return await Room().open()


def failing(step: str) -> Hook:
    def fail(now: str, _name: str, _size: int) -> None:
        if now == step:
            raise OSError(errno.ENOSPC, "No space left on device")

    return fail


async def test_everything_that_waits_goes_to_the_files_and_is_forgotten_then(room: Room) -> None:
    await room.note(5)
    waited = await room.waiting()

    assert await room.keeper.export_all() == waited == room.in_files
    assert (await room.waiting(), room.keeper.lag_frames, room.keeper.refusal()) == (0, 0, None)
    assert await room.keeper.export_all() == 0


async def test_more_than_one_batch_goes_in_order(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_keeper, "BATCH_FRAMES", 3)
    await room.note(7)
    waited = await room.waiting()

    assert await room.keeper.export_all() == waited
    assert [entry.header.seq for entry in entries_of(room.log.directory)] == list(range(waited))


@pytest.mark.parametrize("step", ["append", "sync"])
async def test_a_frame_is_forgotten_only_after_its_file_was_synced(step: str, room: Room) -> None:
    await room.note()
    waited = await room.waiting()
    room.log.directory.hook = failing(step)
    assert await room.keeper.export_all() == 0
    assert (await room.waiting(), room.keeper.lag_frames) == (waited, waited)
    room.log.directory.hook = None

    assert await room.keeper.export_all() == waited == room.in_files
    assert await room.waiting() == 0


async def test_a_stop_between_sync_and_forgetting_writes_nothing_twice(room: Room) -> None:
    await room.note()
    waited = await room.waiting()

    def stop() -> None:
        raise KeyboardInterrupt

    room.points.planned["export.before_prune"] = stop
    with pytest.raises(KeyboardInterrupt):
        await room.keeper.export_all()
    assert (await room.waiting(), room.in_files) == (waited, waited)
    await room.keeper.export_all()

    assert (await room.waiting(), room.in_files) == (0, waited)


async def test_people_are_told_of_a_full_disk_once_and_again_after_it_was_well(room: Room) -> None:
    for _ in range(2):
        room.log.directory.hook = failing("append")
        await room.note()
        for _ in range(3):
            await room.keeper.export_all()
        room.log.directory.hook = None
        await room.keeper.export_all()

    assert room.told == ["audit_export_failed"] * 2


async def test_files_that_fail_refuse_new_operations_until_they_take_something_again(room: Room) -> None:
    room.log.directory.hook = failing("append")
    await room.note(3)
    assert room.keeper.refusal() is None
    await room.keeper.export_all()
    assert "No space left" in (room.keeper.refusal() or "")
    room.log.directory.hook = None
    await room.keeper.export_all()

    assert room.keeper.refusal() is None


@pytest.mark.parametrize(("spare", "refuses"), [(0, True), (1, False)])
async def test_files_that_are_too_slow_refuse_only_while_too_much_waits(
    spare: int, refuses: bool, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.note(5)
    monkeypatch.setattr(log_keeper, "LAG_FRAMES_MAX", await room.waiting() + spare)
    refusals: list[str | None] = []
    room.points.planned["export.before_write"] = lambda: refusals.append(room.keeper.refusal())
    await room.keeper.export_all()

    assert [refusal is not None for refusal in refusals] == [refuses]
    assert room.keeper.refusal() is None


async def test_files_that_contradict_the_store_refuse_at_once_and_nothing_is_forgotten(room: Room) -> None:
    await room.note()
    await room.keeper.export_all()
    await room.note()
    waited = await room.waiting()
    # Somebody else wrote into our files.
    name = segment_name(segments(room.log.directory)[-1])
    room.log.directory.put(name, room.log.directory.files()[name][:-10])
    await room.keeper.export_all()

    assert await room.waiting() == waited
    assert room.told == ["audit_log_contradiction"]
    assert room.keeper.refusal() is not None


@pytest.mark.parametrize("anchor", [False, True])
async def test_a_checkpoint_that_cannot_be_published_is_told_and_ends_nothing(anchor: bool, room: Room) -> None:
    await room.note()
    await room.store.seal()
    await room.keeper.export_all()
    place = room.log.anchor if anchor else room.log.directory
    place.hook = failing("append")
    await room.keeper.publish()
    await room.keeper.publish()
    assert len(room.told) == 1
    place.hook = None
    await room.note()
    await room.store.seal()
    await room.keeper.export_all()
    await room.keeper.publish()

    assert CHECKPOINT in room.log.anchor.files()


async def test_at_the_end_everything_is_in_the_files_and_under_a_checkpoint(room: Room) -> None:
    await room.note()
    await room.store.close_log()
    await room.keeper.drain()

    assert await room.waiting() == 0
    assert CHECKPOINT in room.log.anchor.files()
    assert room.log.verify().exit == 0


async def test_it_works_until_it_is_stopped(room: Room) -> None:
    await room.note()
    running = asyncio.ensure_future(room.keeper.run())
    async with asyncio.timeout(40):
        while await room.waiting():
            await asyncio.sleep(0)
        assert not running.done()
        room.keeper.stop()
        await running

    assert room.in_files


async def test_a_store_that_is_lost_ends_the_loop_with_its_reason(room: Room) -> None:
    def lose() -> None:
        raise OSError("planted")

    room.points.planned["store.committed"] = lose
    with pytest.raises(StoreUnknown):
        await room.note()

    with pytest.raises(StoreUnknown):
        async with asyncio.timeout(40):
            await room.keeper.run()


async def test_a_seal_that_the_store_refuses_is_made_up_for_and_ends_nothing(room: Room) -> None:
    await room.note()
    await room.store.close_log()
    running = asyncio.ensure_future(room.keeper.run())
    async with asyncio.timeout(40):
        while await room.waiting():
            await asyncio.sleep(0)
        room.clock.now_ms += 3_700_000
        for _ in range(200):
            await asyncio.sleep(0)
        assert not running.done()
        room.keeper.stop()
        await running
