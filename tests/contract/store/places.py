"""Where a store under contract lives, and what its tests say to it again and again."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from gateway.core.identity import Ruling, Verdict
from gateway.model.operation import Operation
from gateway.store.inloop import InLoopStore, Medium
from gateway.store.threaded import Limits, Ports, SqlStore
from tests.unit.store.kit import (
    ORIGIN,
    START_MS,
    PlainHead,
    PlainSealer,
    admission,
    attach,
    check_tail,
    cipher,
    ended,
)


class Trip:
    """Raises once at the named place, when armed."""

    def __init__(self, name: str = "", error: BaseException | None = None) -> None:
        self.name = name
        self.error: BaseException | None = error
        self.seen: list[str] = []

    def arm(self, name: str, error: BaseException) -> None:
        self.name, self.error = name, error

    def hit(self, name: str) -> None:
        self.seen.append(name)
        if name == self.name and self.error is not None:
            error, self.error = self.error, None
            raise error


class FakeDisk:
    def __init__(self) -> None:
        self.free = 1 << 40

    def free_bytes(self) -> int:
        return self.free


class Place(ABC):
    """Where one test's store lives; opens it as often as the test likes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gateway.db"
        self.points = Trip()
        self.disk = FakeDisk()
        self.cipher = cipher()
        self._opened = AsyncExitStack()

    async def open(self, *, attached: bool = True, origin: str = ORIGIN) -> Any:
        store = await self._open()
        self._opened.push_async_callback(store.close)
        if attached:
            head = await store.head()
            known = None if head is None else PlainHead.from_bytes(head)
            await attach(store, PlainSealer(known if known and known.origin == origin else PlainHead(origin)))
        return store

    @abstractmethod
    async def _open(self) -> Any: ...

    @abstractmethod
    async def dead(self, store: Any) -> None:
        """Wait until the store has met its end."""

    async def close(self) -> None:
        await self._opened.aclose()


class ThreadedPlace(Place):
    def monotonic_s(self) -> float:
        return 0.0

    async def _open(self) -> SqlStore:
        ports = Ports(self.cipher, lambda: START_MS, self.monotonic_s, self.points, self.disk)
        return await SqlStore.open(f"sqlite:///{self.path}", ports, Limits(ballast_bytes=4096, reserve_bytes=8192))

    async def dead(self, store: Any) -> None:
        await store.wait_failed()
        await store.close()


class SlowPlace(ThreadedPlace):
    """Whatever is timed takes a second, so that all batches but the first are made on the writer's thread."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.seconds = 0.0

    def monotonic_s(self) -> float:
        self.seconds += 1.0
        return self.seconds


class InLoopPlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.medium = Medium(self.path)

    async def _open(self) -> InLoopStore:
        def room(_items: Sequence[Any]) -> str | None:
            return None if self.disk.free > 8192 else "The disk is nearly full."

        return InLoopStore(self.medium, self.cipher, wall_ms=lambda: START_MS, points=self.points, room=room)

    async def dead(self, store: Any) -> None:
        while not (store.crashed or store.failed):
            await asyncio.sleep(0)
        await store.close()


class MemoryPlace(InLoopPlace):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.medium = Medium()


PLACES: dict[str, Callable[[Path], Place]] = {
    "sqlite": ThreadedPlace,
    "sqlite, slow": SlowPlace,
    "in-loop": InLoopPlace,
    "memory": MemoryPlace,
}


async def admit(store: Any, of: Operation, **more: Any) -> Verdict:
    admitted = await store.admit(admission(of, **more))
    verdict: Verdict = admitted.verdict
    assert (admitted.receipt is not None) == (verdict.ruling is Ruling.CREATE)
    return verdict


async def end(store: Any, of: Operation, **more: Any) -> Operation:
    wanted = ended(of, **more)
    assert (await store.change(wanted)).won
    return wanted.operation


async def bodies(store: Any) -> list[dict[str, Any]]:
    return check_tail(await store.tail(10_000), await store.head())


async def kinds(store: Any) -> list[str]:
    return [frame.frame.split(b'"')[3].decode() for frame in await store.tail(10_000)]
