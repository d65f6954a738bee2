"""A process that ends without warning, and a disk that ends before the process."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from gateway.model.operation import Operation
from gateway.store.port import Filter
from gateway.store.threaded import Limits, Ports, SqlStore
from tests.unit.store.child import UNKNOWN
from tests.unit.store.kit import START_MS, admission, attach, check_tail, cipher, operation

ROOT = Path(__file__).parents[3]


async def start(folder: Path, *more: str) -> asyncio.subprocess.Process:
    url = f"sqlite:///{folder}/gateway.db"
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.unit.store.child", url, *more, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )


async def read(child: asyncio.subprocess.Process, lines: int | None = None) -> list[tuple[str, str]]:
    assert child.stdout is not None
    told: list[tuple[str, str]] = []
    while lines is None or len(told) < lines:
        line = (await child.stdout.readline()).decode()
        if not line.endswith("\n"):
            break
        word, name = line.split()
        told.append((word, name))
    return told


async def check(folder: Path, told: list[tuple[str, str]]) -> None:
    """Everything confirmed is there, nothing is there by half, and the log joins up; then go on working."""
    ports = Ports(cipher(), lambda: START_MS, lambda: 0.0)
    store = await SqlStore.open(f"sqlite:///{folder}/gateway.db", ports, Limits(ballast_bytes=4096, reserve_bytes=0))
    try:
        await check_store(store, told)
    finally:
        await store.close()


async def check_store(store: SqlStore, told: list[tuple[str, str]]) -> None:
    bodies = check_tail(await store.tail(1_000_000), await store.head())
    records: dict[str, list[str]] = {}
    for body in bodies:
        records.setdefault(body["op"], []).append(body["ev"])
    stored: dict[str, Operation] = {}
    cursor = None
    while True:
        page = await store.list(Filter(limit=500, cursor=cursor))
        stored |= {one.id: one for one in page.operations}
        cursor = page.cursor
        if cursor is None:
            break
    assert {name for _, name in told} <= set(stored)
    assert all(stored[name].final for word, name in told if word == "ended")
    assert {name: ["admitted", "ended"] if one.final else ["admitted"] for name, one in stored.items()} == records
    assert sum((await store.counts()).values()) == len(stored)
    await attach(store)
    assert (await store.admit(admission(operation(created_ms=START_MS + 1)))).receipt is not None
    check_tail(await store.tail(1_000_000), await store.head())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.parametrize("lines", [1, 150, 400])
async def test_process_killed_under_load_leaves_a_store_and_a_log_that_agree(folder: Path, lines: int) -> None:
    child = await start(folder)
    told = await read(child, lines)
    child.send_signal(signal.SIGKILL)
    told += await read(child)
    assert await child.wait() == -signal.SIGKILL
    assert len(told) >= lines
    await check(folder, told)


async def test_disk_that_ends_midway_ends_the_store_and_loses_nothing_confirmed(folder: Path) -> None:
    child = await start(folder, str(600 * 1024))
    told = await read(child)
    assert await child.wait() == UNKNOWN
    assert len(told) > 10
    await check(folder, told)
