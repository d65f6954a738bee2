"""Group commit: what is put together, what waits, where it runs, and who is told."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gateway.store import points, schema, sqlite, thread
from gateway.store.items import BULKY_BYTES, Item, Note, Observe, PutMeta, Seal
from gateway.store.items_retention import Bury, Retire
from gateway.store.port import Busy, StoreUnknown
from gateway.store.thread import FELT_S, GATHER_MAX_S, QUIET_TURNS, TURNS_MAX, WriterThread
from gateway.store.writer import Writer
from tests.unit.store.kit import START_MS, cipher, new_id


class Held:
    """A driver that holds every commit until the test lets it go on, while `held`."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self.driver = driver
        self.here = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.held = False
        self.fails: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def commit(self) -> None:
        if self.held:
            self.here.release()
            self.go.acquire()
        if self.fails is not None:
            raise self.fails
        self.driver.commit()


class Places:
    """On which thread each batch was ruled on."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def hit(self, name: str) -> None:
        if name == points.RULED:
            self.threads.append(threading.get_ident())


class Ticking:
    """A clock on which every reading is a step later."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Bench:
    def __init__(self, path: Path, batch_max: int) -> None:
        self.path = path
        self.driver = Held(sqlite.open_writer(path))
        schema.prepare(self.driver.driver)
        self.places = Places()
        self.clock = Ticking()
        link = sqlite.link_to(self.driver)  # type: ignore[arg-type]  # as good as a connection
        self.writer = Writer(link, cipher(), wall_ms=lambda: START_MS, room=lambda _items: None, listener=self.places)
        self.calm = True
        self.thread = WriterThread(self.writer, self.clock, batch_max, calm=lambda: self.calm)

    @property
    def batches(self) -> int:
        return len(self.places.threads)

    @property
    def on_loop(self) -> list[bool]:
        return [ident == threading.get_ident() for ident in self.places.threads]

    def submit(self, item: Item | None = None) -> "asyncio.Future[Any]":
        return asyncio.ensure_future(self.thread.submit(written() if item is None else item))

    async def hold(self, submissions: int = 1) -> list["asyncio.Future[Any]"]:
        """Submissions, the first of which is being committed."""
        self.driver.held = True
        waiting = [self.submit() for _ in range(submissions)]
        await asyncio.to_thread(self.driver.here.acquire)
        return waiting

    def let_go(self) -> None:
        self.driver.held = False
        self.driver.go.release()

    async def behind_a_commit(self, submissions: int) -> None:
        """Submit one item, and more while its batch is being committed."""
        waiting = await self.hold()
        waiting += [self.submit() for _ in range(submissions)]
        await turns(1)
        self.let_go()
        await asyncio.gather(*waiting)


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


_names = count(1)


def written() -> Item:
    """An item that writes something, and needs no log."""
    return PutMeta(f"name-{next(_names)}", b"value")


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def bench(batch_max: int = 256) -> Bench:
        made.append(Bench(tmp_path / f"{len(made)}.db", batch_max))
        return made[-1]

    yield bench
    for one in made:
        await one.thread.stop()
        one.writer.close()


@pytest.fixture
async def bench(make: Callable[..., Bench]) -> Bench:
    return make()


async def test_whatever_waits_goes_into_one_transaction(bench: Bench) -> None:
    await bench.behind_a_commit(40)
    assert bench.batches == 2


async def test_batches_are_capped(make: Callable[..., Bench]) -> None:
    bench = make(batch_max=10)
    await bench.behind_a_commit(40)
    assert bench.batches == 5


async def test_who_is_told_together_comes_back_into_one_transaction(bench: Bench) -> None:
    async def twice(turns_later: int) -> None:
        await bench.thread.submit(written())
        await turns(turns_later)
        await bench.thread.submit(written())

    first = await bench.hold()
    others = [asyncio.ensure_future(twice(at * (QUIET_TURNS - 1))) for at in range(1, 5)]
    await turns(1)
    bench.let_go()
    await asyncio.gather(*first, *others)
    assert bench.batches == 3


async def test_an_endless_stream_is_written_all_the_same(bench: Bench) -> None:
    waiting = await bench.hold()
    waiting += [bench.submit() for _ in range(3)]
    await turns(1)
    bench.let_go()
    while bench.batches < 2:
        await turns(1)
    for _ in range(TURNS_MAX * 2):
        waiting.append(bench.submit())
        await turns(1)
    while bench.batches < 3:
        await turns(1)
    await asyncio.gather(*waiting)


async def test_a_submission_beside_which_nobody_waits_is_written_at_once(bench: Bench) -> None:
    for number in range(1, 4):
        alone = bench.submit()
        await turns(1)
        assert bench.batches == number
        await alone


async def test_a_signature_goes_with_what_comes_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "COMPANY_S", 3600.0)
    waiting = [bench.submit(Seal())]
    await turns(QUIET_TURNS * 2)
    assert bench.batches == 0
    waiting.append(bench.submit())
    await asyncio.gather(*waiting)
    assert bench.batches == 1


async def test_a_signature_asked_for_during_a_commit_waits_for_the_batch_after_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "COMPANY_S", 3600.0)
    waiting = [*await bench.hold(), bench.submit(Seal())]
    await turns(1)
    bench.let_go()
    await waiting[0]
    await turns(QUIET_TURNS * 2)
    assert bench.batches == 1
    waiting.append(bench.submit())
    await asyncio.gather(*waiting)
    assert bench.batches == 2


async def test_a_signature_that_nothing_follows_is_made_all_the_same(bench: Bench) -> None:
    await bench.submit(Seal())
    await bench.submit(Seal(heartbeat=True))
    assert bench.batches == 2


async def test_a_signature_that_waits_is_made_before_the_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "COMPANY_S", 3600.0)
    waiting = [*await bench.hold(), bench.submit(Seal())]
    await turns(1)
    bench.let_go()
    await bench.thread.stop()
    await asyncio.gather(*waiting)
    assert bench.batches == 2


async def test_a_signature_that_waits_in_peace_is_made_before_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "COMPANY_S", 3600.0)
    waiting = bench.submit(Seal())
    await turns(1)
    await bench.thread.stop()
    await waiting
    assert bench.batches == 1


@pytest.mark.parametrize(("commit_s", "wait_s"), [(0.012, 0.0012), (1.0, GATHER_MAX_S)])
async def test_on_a_slow_disk_a_tenth_of_the_last_commit_is_waited_for_companions(
    bench: Bench, commit_s: float, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    waits: list[float] = []

    def at_once(delay: float, call: Callable[[], None]) -> None:
        waits.append(delay)
        loop.call_soon(call)

    bench.clock.step = commit_s
    waiting = await bench.hold()
    waiting += [bench.submit() for _ in range(5)]
    await turns(1)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_later", at_once)
        bench.let_go()
        await asyncio.gather(*waiting)
    assert waits == pytest.approx([wait_s])
    assert bench.batches == 2


async def test_the_loop_is_woken_once_per_batch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    wake, woken = loop.call_soon_threadsafe, []

    def counted(call: Any, *args: Any, **more: Any) -> Any:
        if call == bench.thread._done:
            woken.append(call)
        return wake(call, *args, **more)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    await bench.behind_a_commit(40)
    assert len(woken) == 2


async def test_only_the_commit_leaves_the_loop(bench: Bench) -> None:
    await bench.behind_a_commit(5)
    assert bench.on_loop == [True, True]


@pytest.mark.parametrize(
    "item",
    [Observe(new_id(), b"x" * (BULKY_BYTES + 1)), Retire(START_MS, 100), Bury(())],
    ids=["many bytes", "many rows", "many names"],
)
async def test_what_the_loop_would_feel_is_made_on_the_thread(bench: Bench, item: Item) -> None:
    await bench.submit(item)
    await bench.submit(Observe(new_id(), b"x" * BULKY_BYTES))
    assert bench.on_loop == [False, True]


async def test_while_room_must_be_made_on_the_disk_batches_are_made_on_the_thread(bench: Bench) -> None:
    bench.calm = False
    await bench.submit()
    bench.calm = True
    await bench.submit()
    assert bench.on_loop == [False, True]


async def test_after_a_batch_that_was_felt_the_next_is_made_on_the_thread(bench: Bench) -> None:
    bench.clock.step = FELT_S * 2
    await bench.submit()
    bench.clock.step = 0.0
    await bench.submit()
    await bench.submit()
    assert bench.on_loop == [True, False, True]


async def test_another_process_that_writes_is_waited_for_without_the_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "PATIENCE_S", 60.0)
    other = sqlite3.connect(bench.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = [bench.submit()]
    await turns(1)
    # The loop goes on: it takes more.
    waiting.append(bench.submit())
    await turns(10)
    assert bench.batches == 0
    other.close()
    await asyncio.gather(*waiting)
    assert bench.on_loop == [False, True]


async def test_who_never_lets_go_is_named_and_nothing_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "PATIENCE_S", 0.0)
    other = sqlite3.connect(bench.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    bench.thread.ride(written())
    with pytest.raises(Busy, match="Another process holds the right to write"):
        await bench.submit()
    other.close()
    await bench.submit()
    assert bench.thread.failed is None
    with closing(sqlite3.connect(bench.path)) as other:
        rows = other.execute("SELECT count(*) FROM meta WHERE name LIKE 'name-%'").fetchall()
    assert rows == [(2,)]  # the one that rode along, and the last


async def test_what_writes_nothing_is_answered_without_a_commit(bench: Bench) -> None:
    bench.driver.fails = MemoryError()
    assert await bench.submit(Observe(new_id(), b"{}")) is None
    bench.driver.fails = None


async def test_whoever_submits_before_the_end_is_served(bench: Bench) -> None:
    waiting = [bench.submit() for _ in range(3)]
    await turns(1)
    await bench.thread.stop()
    assert await asyncio.gather(*waiting) == [None] * 3


@pytest.mark.parametrize("where", ["begin_turn", "commit_turn", "end_turn"])
async def test_everybody_hears_of_the_end(
    make: Callable[..., Bench], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, part = make(batch_max=2), getattr(thread, where)

    def fail_behind_the_first(*given: Any) -> Any:
        if bench.batches > 1 or (where == "begin_turn" and bench.batches):
            raise MemoryError
        return part(*given)

    monkeypatch.setattr(thread, where, fail_behind_the_first)
    waiting = await bench.hold()
    waiting += [bench.submit() for _ in range(5)]
    await turns(1)
    bench.let_go()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[0] is None
    assert {type(result) for result in results[1:]} == {StoreUnknown}
    await bench.thread.ended.wait()
    assert "MemoryError" in (bench.thread.failed or "")
    with pytest.raises(StoreUnknown):
        await bench.submit(Note())


async def test_a_commit_that_fails_is_the_end_for_those_who_wait_behind_it_too(bench: Bench) -> None:
    waiting = await bench.hold()
    waiting += [bench.submit() for _ in range(3)]
    await turns(1)
    bench.driver.fails = sqlite3.OperationalError("disk I/O error")
    bench.let_go()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnknown}
    bench.driver.fails = None
