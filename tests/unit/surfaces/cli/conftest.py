"""A gateway, its service and a fault proxy in a thread of their own, and the program run in this one."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fixtures.proxy.server import FaultProxy
from fixtures.service.server import DeployService
from gateway.app import App
from gateway.surfaces.cli.main import run
from tests.canary import Canaries
from tests.unit.surfaces.door import Door, Home, open_door

T = TypeVar("T")
SECONDS = 40.0


@dataclass(slots=True)
class Hall:
    """What runs in the other thread. `ask` has work done there."""

    home: Home
    loop: asyncio.AbstractEventLoop
    door: Door = field(init=False)
    service: DeployService = field(init=False)
    proxy: FaultProxy = field(init=False)

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def now(self, call: Callable[[], T]) -> T:
        """A plain call, on that loop."""

        async def work() -> T:
            return call()

        return self.ask(work())

    async def door_knows(self, name: str) -> None:
        """Wait until the gateway has a key of that name: it works on after its caller's connection has ended."""
        async with asyncio.timeout(SECONDS / 2):
            while all(line.name != name for line in self.door.running.office.keys.list()):
                await asyncio.sleep(0)

    def fault(self, name: str, **more: Any) -> None:
        self.now(lambda: self.service.faults.add(name, **more))

    async def open(self, stack: AsyncExitStack, ledger: Path) -> None:
        self.service = await stack.enter_async_context(DeployService(ledger))
        self.door = await stack.enter_async_context(open_door(self.home, self.service))
        self.proxy = await stack.enter_async_context(FaultProxy(self.door.netloc))

    @property
    def sent(self) -> int:
        """Writes that reached the service."""
        return sum(entry.method == "POST" for entry in self.service.ledger.entries)


@pytest.fixture(scope="module")
def hall(first_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    folder = tmp_path_factory.mktemp("hall")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = Hall(first_home.copy_to(folder / "home"), loop)
    stack = AsyncExitStack()
    try:
        made.ask(made.open(stack, folder / "ledger"))
        yield made
        made.ask(stack.aclose())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()
    assert b"Traceback" not in b"\n".join(made.home.heard)


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def _is_logged(line: str) -> bool:
    """By the gateway in the hall: it lives in the same process, and says what it has to say when it likes."""
    return line.startswith('{"time":') and '"logger":"' in line


@dataclass(slots=True)
class Program:
    """The `gateway` program with an environment."""

    environment: dict[str, str]
    capture: pytest.CaptureFixture[str]
    heard: list[str] = field(default_factory=list)

    def __call__(self, *arguments: str, **environment: str) -> Said:
        self.capture.readouterr()
        code = run(App({**self.environment, **environment}), arguments)
        out, err = self.capture.readouterr()
        self.heard += [out, err]
        err = "".join(line for line in err.splitlines(keepends=True) if not _is_logged(line))
        assert "Traceback" not in out + err
        # Not a terminal: nothing is coloured and nothing moves the cursor.
        assert "\x1b" not in out + err
        return Said(code, out, err)

    def json(self, *arguments: str, **environment: str) -> Any:
        """The document that a command prints with --json, whatever its exit code."""
        said = self(*arguments, "--json", **environment)
        assert said.err == "", said.err
        return said.document


def program_for(home: Home, capture: pytest.CaptureFixture[str], **more: str) -> Program:
    return Program({"GATEWAY_CONFIG": str(home.config), **more}, capture)


@pytest.fixture
def caller(hall: Hall, capsys: pytest.CaptureFixture[str], canaries: Canaries) -> Iterator[Program]:
    """The program of an agent, while the gateway runs."""
    yield from watched(hall, capsys, canaries, hall.home.caller_key)


@pytest.fixture
def person(hall: Hall, capsys: pytest.CaptureFixture[str], canaries: Canaries) -> Iterator[Program]:
    """The program of the person who runs it."""
    yield from watched(hall, capsys, canaries, hall.home.person_key)


def watched(hall: Hall, capsys: pytest.CaptureFixture[str], canaries: Canaries, key: str) -> Iterator[Program]:
    made = program_for(hall.home, capsys, GATEWAY_ADDR=hall.door.netloc, GATEWAY_KEY=key)
    yield made
    canaries.watch_secret("key", key)
    canaries.watch_text("\n".join(made.heard), "what the program printed")


@pytest.fixture
def stopped(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Program:
    """The program on a folder where no gateway runs."""
    home.configure("http://127.0.0.1:9", server={"port": 9})
    return program_for(home, capsys)
