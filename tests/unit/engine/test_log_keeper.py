"""The log's background work: what it waits for, what it never waits for, and what people are told how often."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from audit.checkpoint import CHECKPOINT, Checkpoint, Published, Publisher
from audit.cosign import Cosigner
from audit.epochs import EpochLimits
from audit.export import Exporter
from audit.log import segment_name
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.record import Frame
from gateway.engine.anchoring import Answer, Cosigned, NotedSealer, Taken
from gateway.engine.log_keeper import HEARTBEAT_SECONDS, Anchoring, Cadence, LogKeeper
from gateway.engine.ports import NoPoints
from gateway.store.port import TailFrame
from tests.unit.audit.logs import ORIGIN, Journal, entropy, sign_checkpoint
from tests.unit.engine.keeping import HandClock

COSIGNER = Cosigner.generate("w.test/one", entropy("one"))
SECONDS = 40.0


@dataclass
class Witness:
    """Fills `Cosigners`: answers when it is let, as often as it is asked."""

    newest_ms: int | None = None
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[int] = field(default_factory=list)
    broken: bool = False

    def wants(self, published: Published) -> bool:
        return published.checkpoint.size not in self.asked

    async def ask(self, published: Published) -> Cosigned:
        self.asked.append(published.checkpoint.size)
        await self.may_answer.wait()
        if self.broken:
            raise RuntimeError("planted")
        line = COSIGNER.cosign(published.checkpoint.to_text(), 5)
        return Cosigned(line, (Answer("witness one", Taken.TAKEN, line),))


@dataclass
class Desk:
    """A keeper over a journal in memory, which stands for the store as well."""

    journal: Journal = field(default_factory=lambda: Journal(epochs=EpochLimits(entries_max=10)))
    clock: HandClock = field(default_factory=HandClock)
    witness: Witness = field(default_factory=Witness)
    told: list[tuple[str, str]] = field(default_factory=list)
    beats: int = 0
    seals: int = 0
    rounds: int = 0

    def __post_init__(self) -> None:
        self.exporter = Exporter(self.journal.directory)
        self.sealer = NotedSealer(self.journal.sealer)
        self.keeper = LogKeeper(
            self,  # type: ignore[arg-type]  # the part of a store that the keeper uses
            self.exporter,
            Publisher(self.journal.directory, self.journal.signer, [self.journal.anchor]),
            origin=ORIGIN,
            clock=self.clock,
            cadence=Cadence(1.0, 60.0, export_seconds=0.0),
            points=NoPoints(),
            alert=lambda name, reason: self.told.append((name, reason)),
            anchoring=Anchoring(("folder a",), self.witness, self.sealer, self.journal.epochs),
        )

    # -- the store

    async def tail(self, limit: int, *, origin: str) -> Sequence[TailFrame]:
        self.rounds += 1
        assert origin == ORIGIN
        return [TailFrame(frame.segment, frame.seq, frame.data) for frame in self.journal.frames[:limit]]

    async def prune(self, through_seq: int, _origin: str) -> None:
        self.journal.frames = [frame for frame in self.journal.frames if frame.seq > through_seq]

    async def seal(self) -> None:
        self.seals += 1
        self._add(self.sealer.seal(self.journal.tick()))

    async def heartbeat(self) -> None:
        self.beats += 1
        self._add(self.sealer.heartbeat(self.journal.tick()))

    def _add(self, frames: Sequence[Frame]) -> None:
        self.journal.frames += frames

    # -- the test

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        work = asyncio.ensure_future(self.keeper.run())
        try:
            # Its clocks are read before its first look at the store.
            await self.until(lambda: self.rounds > 0)
            yield
        finally:
            self.keeper.stop()
            await work

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                await asyncio.sleep(0)

    async def some_rounds(self) -> None:
        seen = self.rounds
        await self.until(lambda: self.rounds > seen + 5)

    def note(self, directory: MemoryDirectory | None = None) -> str:
        place = directory or self.journal.directory
        return place.read(CHECKPOINT, 0, place.size(CHECKPOINT)).decode()

    def pass_seconds(self, seconds: float) -> None:
        self.clock.now_ms += int(seconds * 1000)


async def test_an_idle_log_beats_once_an_hour_even_while_its_files_cannot_be_written() -> None:
    desk = Desk()
    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        desk.journal.directory.hook = _full
        for hour in (1, 2):
            desk.pass_seconds(HEARTBEAT_SECONDS)
            await desk.until(lambda hour=hour: desk.beats == hour)  # type: ignore[misc]  # the hour is bound early
            await desk.some_rounds()
        desk.journal.directory.hook = None
        await desk.until(lambda: not desk.journal.frames)

    assert desk.beats == 2
    # Told once, however often it was tried.
    assert [name for name, _ in desk.told if name == "audit_export_failed"] == ["audit_export_failed"]


async def test_nothing_new_is_taken_from_the_failure_of_the_files_until_they_take_something_again() -> None:
    desk = Desk()
    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        assert desk.keeper.refusal() is None
        desk.journal.directory.hook = _full
        desk.journal.records(1)
        await desk.until(lambda: desk.keeper.refusal() is not None)
        refusal = desk.keeper.refusal()
        await desk.some_rounds()
        assert desk.keeper.refusal() == refusal
        desk.journal.directory.hook = None
        await desk.until(lambda: desk.keeper.refusal() is None)

    assert refusal is not None
    assert "No space left on device" in refusal
    assert not desk.keeper.ailing()


async def test_a_checkpoint_covers_only_what_is_in_the_files_for_certain() -> None:
    """Where a call to the files hangs, what it has written so far may be half an entry, or not on the disk."""
    desk = Desk()
    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        durable_size = desk.exporter.durable_size
        desk.journal.records(2)
        frames, desk.journal.frames = desk.journal.frames, []
        data = b"".join(frame.data for frame in frames)
        place = desk.journal.directory.open(segment_name(frames[0].segment))
        place.append(data)
        await desk.keeper.publish()
        place.truncate(place.size() - len(data))

    assert desk.note().splitlines()[1] == str(durable_size)


async def test_a_checkpoint_waits_for_the_witnesses_of_the_one_before_and_nothing_else_does() -> None:
    desk = Desk()
    async with desk.working():
        desk.pass_seconds(60)
        await desk.until(lambda: len(desk.witness.asked) == 1)
        first = desk.note()
        desk.journal.records(3)
        desk.pass_seconds(60)
        seals = desk.seals
        await desk.until(lambda: desk.seals > seals and not desk.journal.frames)
        assert desk.note() == first
        assert desk.note(desk.journal.anchor) == first
        desk.witness.may_answer.set()
        await desk.until(lambda: len(desk.witness.asked) == 2)
        await desk.until(lambda: "w.test/one" in desk.note(desk.journal.anchor))
        history = desk.journal.directory.read("checkpoints.log", 0, 100_000).decode()

    assert f"{first}{COSIGNER.cosign(first.partition(chr(10) * 2)[0] + chr(10), 5)}" in history
    assert desk.note() == desk.note(desk.journal.anchor)
    assert not desk.told


async def test_a_witness_s_fault_of_our_own_making_does_not_end_the_log() -> None:
    desk = Desk()
    desk.witness.broken = True
    desk.witness.may_answer.set()
    async with desk.working():
        desk.pass_seconds(60)
        await desk.until(lambda: len(desk.witness.asked) == 1)
        await desk.some_rounds()
        desk.journal.records(3)
        desk.pass_seconds(60)
        await desk.until(lambda: len(desk.witness.asked) == 2)


async def test_people_are_told_of_an_anchor_once_and_again_after_it_was_well() -> None:
    desk = Desk()
    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        for hook in (_full, _full, None, _full):
            desk.journal.anchor.hook = hook
            desk.journal.records(1)
            await desk.until(lambda: not desk.journal.frames)
            await desk.keeper.publish()

    failures = [reason for name, reason in desk.told if name == "audit_anchor_failed"]
    assert failures == ["folder a: No space left on device"] * 2


async def test_the_old_seal_key_is_dropped_only_after_its_last_seal_is_in_the_files() -> None:
    desk = Desk()
    desk.journal.directory.hook = _full
    async with desk.working():
        desk.journal.records(12)
        desk.pass_seconds(1)
        await desk.until(lambda: desk.seals == 1)
        await desk.some_rounds()
        waiting = desk.journal.keys.read("seal.key", 0, 10_000).decode().splitlines()
        desk.journal.directory.hook = None
        await desk.until(lambda: not desk.journal.frames)
        await desk.some_rounds()
        after = desk.journal.keys.read("seal.key", 0, 10_000).decode().splitlines()

    assert len(waiting) == 2
    assert after == waiting[1:]


def test_the_age_of_the_newest_cosignature_is_counted_from_now() -> None:
    desk = Desk()
    assert desk.keeper.cosigned_age_seconds() == float("inf")
    desk.witness.newest_ms = desk.clock.now_ms - 90_000
    assert desk.keeper.cosigned_age_seconds() == 90.0
    desk.witness.newest_ms = desk.clock.now_ms + 90_000
    assert desk.keeper.cosigned_age_seconds() == 0.0


def _full(_operation: str, _name: str, _length: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_disk_that_is_full_stops_what_is_new_while_what_is_kept_takes_the_outcomes_of_the_rest() -> None:
    desk = Desk()

    def full(operation: str, name: str, _length: int) -> None:
        if operation == "reserve" and name.startswith("segments/"):
            raise OSError(errno.ENOSPC, "No space left on device")

    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        assert desk.keeper.refusal() is None
        # Nothing is asked of the disk while half of what is kept is left.
        desk.journal.directory.hook = full
        desk.journal.records(1)
        await desk.until(lambda: not desk.journal.frames)
        assert desk.keeper.refusal() is None
        desk.journal.records(12)
        await desk.until(lambda: desk.keeper.refusal() is not None)
        await desk.until(lambda: not desk.journal.frames)
        assert desk.keeper.refusal() == "The audit log's disk is nearly full."
        await desk.some_rounds()
        # No record comes any more; that there is room again is seen all the same.
        desk.journal.directory.hook = None
        await desk.until(lambda: desk.keeper.refusal() is None)

    assert [name for name, _ in desk.told] == ["audit_disk_full"]


@pytest.mark.parametrize("size", [1, 1000], ids=["another tree", "more entries"])
async def test_nothing_new_is_taken_while_a_checkpoint_says_that_the_log_is_not_the_one_signed_for(size: int) -> None:
    desk = Desk()
    desk.journal.anchor.put(CHECKPOINT, sign_checkpoint(desk.journal.signer, size, bytes(32)))
    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        assert desk.keeper.refusal() is None
        desk.keeper.hasten()
        await desk.until(lambda: desk.keeper.refusal() is not None)
        refusal = desk.keeper.refusal()
        # The right anchor is back.
        desk.journal.anchor.remove(CHECKPOINT)
        desk.keeper.hasten()
        await desk.until(lambda: desk.keeper.refusal() is None)

    assert refusal is not None
    assert "not the one signed for" in refusal
    assert "`gateway recover`" in refusal
    assert [name for name, _ in desk.told] == ["audit_checkpoint_refused"]


async def test_nothing_new_is_taken_once_a_clone_has_written_into_the_anchor_of_a_log_at_work() -> None:
    desk = Desk()
    desk.witness.may_answer.set()
    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        desk.keeper.hasten()
        await desk.until(lambda: CHECKPOINT in desk.journal.anchor.files())
        assert desk.keeper.refusal() is None
        own = desk.journal.anchor.files()[CHECKPOINT]
        desk.journal.anchor.put(CHECKPOINT, sign_checkpoint(desk.journal.signer, 1000, bytes(32)))
        desk.keeper.hasten()
        await desk.until(lambda: desk.keeper.refusal() is not None)
        refusal = desk.keeper.refusal()
        desk.journal.anchor.put(CHECKPOINT, own)
        desk.keeper.hasten()
        await desk.until(lambda: desk.keeper.refusal() is None)

    assert refusal is not None
    assert "runs elsewhere" in refusal
    assert [name for name, _ in desk.told] == ["audit_checkpoint_refused"]


async def test_a_checkpoint_that_cannot_be_trusted_is_told_and_holds_nothing_up() -> None:
    """Whoever can write to an anchor could stop the gateway otherwise."""
    desk = Desk()
    stranger = NoteSigner.generate(ORIGIN, entropy("stranger"))
    desk.journal.anchor.put(CHECKPOINT, sign_checkpoint(stranger, 1000, bytes(32)))
    async with desk.working():
        await desk.until(lambda: not desk.journal.frames)
        desk.keeper.hasten()
        await desk.until(lambda: bool(desk.told))
        assert desk.keeper.refusal() is None

    assert [name for name, _ in desk.told] == ["audit_checkpoint_refused"]


async def test_nothing_new_is_taken_while_a_witness_has_seen_more_of_the_log_than_there_is() -> None:
    desk = Desk()
    published = Published(Checkpoint(ORIGIN, 5, bytes(32)), "")
    refusal = None
    for contradicts in (False, True):
        refused = Answer("witness one", Taken.REFUSED, "answered 409: 50.", contradicts=contradicts)
        await desk.keeper.cosign(published, Cosigned("", (refused,)))
        refusal = desk.keeper.refusal()
        assert (refusal is not None) is contradicts
    assert refusal is not None
    assert "witness one answered 409: 50. Stop the gateway." in refusal
    assert "`gateway recover --accept-loss`" in refusal
    # That it cannot be reached says nothing else of the log.
    await desk.keeper.cosign(published, Cosigned("", (Answer("witness one", Taken.NOT_REACHED, "away"),)))
    assert desk.keeper.refusal() == refusal
    await desk.keeper.cosign(published, Cosigned("", (Answer("witness one", Taken.TAKEN),)))
    assert desk.keeper.refusal() is None


class Owing:
    """Keys of a log, one of which still owes its last checkpoint."""

    def __init__(self) -> None:
        self.owing = True
        self.settled = 0
        self.at_first: Callable[[], None] = lambda: None

    def settle(self) -> None:
        self.settled += 1
        if self.settled == 1:
            self.at_first()


async def test_a_key_that_owes_its_last_checkpoint_is_asked_in_every_round_until_it_has_signed() -> None:
    desk, keys = Desk(), Owing()
    desk.witness.may_answer.set()
    desk.keeper._anchoring = replace(desk.keeper._anchoring, keys=keys)  # type: ignore[arg-type]  # what is used of it
    desk.journal.records(3)
    async with desk.working():
        await desk.until(lambda: desk.exporter.durable_size > 0)
        assert keys.settled == 0, "not before its time"
        desk.keeper.hasten()
        await desk.until(lambda: keys.settled >= 3)
        keys.owing = False
        settled = keys.settled
        rounds = desk.rounds
        await desk.until(lambda: desk.rounds > rounds + 10)
        assert keys.settled <= settled + 1


async def test_a_checkpoint_that_is_asked_for_while_one_is_made_is_made_next() -> None:
    desk, keys = Desk(), Owing()
    keys.owing = False
    desk.witness.may_answer.set()
    desk.keeper._anchoring = replace(desk.keeper._anchoring, keys=keys)  # type: ignore[arg-type]  # what is used of it
    desk.journal.records(3)
    async with desk.working():
        await desk.until(lambda: desk.exporter.durable_size > 0)
        keys.at_first = desk.keeper.hasten
        desk.keeper.hasten()
        await desk.until(lambda: keys.settled == 2)
