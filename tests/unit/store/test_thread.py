"""Group commit: what is put together, what waits, and who is told."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.store import points, schema, sqlite
from gateway.store.items import Note
from gateway.store.port import StoreUnknown
from gateway.store.thread import GATHER_MAX_S, TURNS_MAX, WriterThread
from gateway.store.writer import Writer
from tests.unit.store.kit import START_MS, cipher


class Gate:
    """Holds the writer at its commit until the test lets it go on."""

    def __init__(self) -> None:
        self.here = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.held = False
        self.batches = 0

    def hit(self, name: str) -> None:
        if name == points.RULED:
            self.batches += 1
            if self.held:
                self.here.release()
                self.go.acquire()


class Pause:
    """Stands in for the event that nobody sets; remembers how long the thread wanted to wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)


class Ticking:
    """A clock on which every reading is a step later."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Bench:
    def __init__(self, writer: Writer, gate: Gate, clock: Ticking, batch_max: int = 256) -> None:
        self.gate = gate
        self.clock = clock
        self.thread = WriterThread(writer, clock, batch_max)
        self.pause = Pause()
        self.thread._pause = self.pause  # type: ignore[assignment]  # the only thing that would take real time

    async def handed_over(self) -> None:
        """Turn the loop until the thread has everything that was submitted."""
        await asyncio.sleep(0)
        while self.thread._fresh:
            await asyncio.sleep(0)

    async def behind_a_commit(self, count: int) -> list[Any]:
        """Submit one item, and `count` more while its batch is being written."""
        self.gate.held = True
        first = asyncio.ensure_future(self.thread.submit(Note()))
        await asyncio.to_thread(self.gate.here.acquire)
        rest = [asyncio.ensure_future(self.thread.submit(Note())) for _ in range(count)]
        await self.handed_over()
        self.gate.held = False
        self.gate.go.release()
        return await asyncio.gather(first, *rest)


@pytest.fixture
async def benches(tmp_path: Path) -> AsyncIterator[Any]:
    made: list[tuple[WriterThread, Writer]] = []

    def make(step: float = 0.01, batch_max: int = 256) -> Bench:
        driver = sqlite.open_writer(tmp_path / f"{len(made)}.db")
        schema.prepare(driver)
        gate = Gate()
        writer = Writer(
            sqlite.link_to(driver), cipher(), wall_ms=lambda: START_MS, room=lambda _items: None, listener=gate
        )
        bench = Bench(writer, gate, Ticking(step), batch_max)
        made.append((bench.thread, writer))
        return bench

    yield make
    for thread, writer in made:
        await thread.stop()
        writer.close()


async def test_whatever_waits_goes_into_one_transaction(benches: Any) -> None:
    bench = benches()
    await bench.behind_a_commit(40)
    assert bench.gate.batches == 2


async def test_what_the_loop_brings_turn_by_turn_is_handed_over_together(benches: Any) -> None:
    bench = benches()
    bench.gate.held = True
    waiting = [asyncio.ensure_future(bench.thread.submit(Note()))]
    await asyncio.to_thread(bench.gate.here.acquire)
    for _ in range(TURNS_MAX - 1):
        waiting.append(asyncio.ensure_future(bench.thread.submit(Note())))
        await asyncio.sleep(0)
        assert bench.thread._queue.empty()
    await bench.handed_over()
    assert bench.thread._queue.qsize() == TURNS_MAX - 1
    bench.gate.held = False
    bench.gate.go.release()
    await asyncio.gather(*waiting)
    assert bench.gate.batches == 2


async def test_an_endless_stream_is_handed_over_all_the_same(benches: Any) -> None:
    bench = benches()
    bench.gate.held = True
    waiting = [asyncio.ensure_future(bench.thread.submit(Note()))]
    await asyncio.to_thread(bench.gate.here.acquire)
    for _ in range(TURNS_MAX + 3):
        waiting.append(asyncio.ensure_future(bench.thread.submit(Note())))
        await asyncio.sleep(0)
    assert not bench.thread._queue.empty()
    bench.gate.held = False
    bench.gate.go.release()
    await asyncio.gather(*waiting)


async def test_a_submission_beside_which_nobody_waits_is_handed_over_at_once(benches: Any) -> None:
    bench = benches()
    bench.gate.held = True
    alone = asyncio.ensure_future(bench.thread.submit(Note()))
    await asyncio.sleep(0)
    assert not bench.thread._fresh
    await asyncio.to_thread(bench.gate.here.acquire)
    bench.gate.held = False
    bench.gate.go.release()
    await alone


async def test_whoever_submits_before_the_end_is_served(benches: Any) -> None:
    bench = benches()
    waiting = [asyncio.ensure_future(bench.thread.submit(Note())) for _ in range(3)]
    await asyncio.sleep(0)
    await bench.thread.stop()
    assert await asyncio.gather(*waiting) == [None] * 3


async def test_who_is_not_handed_over_yet_hears_of_the_end_too(benches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = benches()

    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("gateway.store.thread.take_turn", fail)
    waiting = [asyncio.ensure_future(bench.thread.submit(Note()))]
    await asyncio.to_thread(bench.thread._thread.join)
    waiting.append(asyncio.ensure_future(bench.thread.submit(Note())))
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnknown}


async def test_batches_are_capped(benches: Any) -> None:
    bench = benches(batch_max=10)
    await bench.behind_a_commit(40)
    assert bench.gate.batches == 5


async def test_nothing_is_delayed_when_nothing_waits(benches: Any) -> None:
    bench = benches()
    for _ in range(3):
        await bench.thread.submit(Note())
    assert bench.pause.waits == []


@pytest.mark.parametrize(("sync_s", "wait_s"), [(0.01, 0.001), (1.0, GATHER_MAX_S)])
async def test_a_tenth_of_the_last_sync_is_waited_for_companions(benches: Any, sync_s: float, wait_s: float) -> None:
    bench = benches(step=sync_s)
    await bench.behind_a_commit(5)
    assert bench.pause.waits == pytest.approx([wait_s])


async def test_the_loop_is_woken_once_per_batch(benches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = benches()
    calls: list[Any] = []
    call = bench.thread._call

    def counted(*args: Any) -> None:
        calls.append(args)
        call(*args)

    monkeypatch.setattr(bench.thread, "_call", counted)
    await bench.behind_a_commit(40)
    assert len(calls) == 2


async def test_everybody_hears_of_the_end(benches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = benches(batch_max=2)

    def fail(*_: Any) -> None:
        raise MemoryError

    bench.gate.held = True
    waiting = [asyncio.ensure_future(bench.thread.submit(Note()))]
    await asyncio.to_thread(bench.gate.here.acquire)
    waiting += [asyncio.ensure_future(bench.thread.submit(Note())) for _ in range(5)]
    await bench.handed_over()
    monkeypatch.setattr("gateway.store.thread.take_turn", fail)
    bench.gate.held = False
    bench.gate.go.release()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[0] is None
    assert {type(result) for result in results[1:]} == {StoreUnknown}
    await bench.thread.ended.wait()
    assert "MemoryError" in bench.thread.failed
    with pytest.raises(StoreUnknown):
        await bench.thread.submit(Note())
