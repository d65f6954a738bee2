"""Background work is held, named, heard when it dies, and ended in order."""

import asyncio
import gc

from gateway.engine.tasks import Tasks


async def die() -> None:
    raise ValueError("planted")


async def test_a_task_that_dies_is_heard_at_once_with_its_name() -> None:
    heard: list[tuple[str, str]] = []
    tasks = Tasks(lambda name, error: heard.append((name, repr(error))))
    task = tasks.start(die(), "mine")
    await asyncio.wait([task])
    await asyncio.sleep(0)

    assert heard == [("mine", "ValueError('planted')")]
    assert len(tasks) == 0


async def test_a_task_that_nobody_else_holds_goes_on() -> None:
    done = asyncio.Event()
    go_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await go_on
        done.set()

    tasks = Tasks(lambda _name, _error: None)
    tasks.start(work(), "held")
    await asyncio.sleep(0)
    gc.collect()
    assert len(tasks) == 1
    go_on.set_result(None)
    await tasks.settle(5)

    assert done.is_set()


async def test_whoever_asked_for_work_may_go_away_and_the_work_goes_on() -> None:
    tasks, go_on, done = Tasks(lambda _name, _error: None), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        done.set()

    async def ask() -> None:
        tasks.start(work(), "goes on")
        await asyncio.Event().wait()

    asker = asyncio.ensure_future(ask())
    await asyncio.sleep(0)
    asker.cancel()
    await asyncio.wait([asker])
    go_on.set()
    await tasks.settle(5)

    assert done.is_set()


async def test_settling_cancels_nothing_and_finishing_cancels_what_is_late() -> None:
    tasks, forever, soon = Tasks(lambda _name, _error: None), asyncio.Event(), asyncio.Event()
    late = tasks.start(forever.wait(), "late")
    in_time = tasks.start(soon.wait(), "in time")
    await tasks.settle(0)
    assert not late.done()
    soon.set()
    await asyncio.sleep(0)
    assert await tasks.finish(0) == 1

    assert (late.cancelled(), in_time.result()) == (True, True)
    assert await tasks.finish(0) == 0


async def test_finishing_waits_until_what_it_cancelled_has_put_its_things_away() -> None:
    tasks, put_away = Tasks(lambda _name, _error: None), list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            put_away.append("all")

    tasks.start(work(), "tidy")
    await asyncio.sleep(0)
    await tasks.finish(0)

    assert put_away == ["all"]


async def test_a_cancelled_task_is_no_failure() -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: heard.append(str(context)))
    tasks = Tasks(lambda name, _error: heard.append(name))
    tasks.start(asyncio.Event().wait(), "waits").cancel()
    await tasks.settle(5)
    await asyncio.sleep(0)

    assert heard == []
