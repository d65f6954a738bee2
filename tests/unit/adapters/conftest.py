"""Fixtures for adapter tests: a clock that counts, an adapter, and certificates."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adapters.contract import Head, Hooks, HttpExchange, HttpTarget, Secret
from adapters.http.client import HttpAdapter
from adapters.http.resolver import Lookup, system_lookup
from adapters.http.sockets import Denied
from tests.unit.adapters.raw_server import Authority, Peer
from tests.unit.adapters.remote_host import SHELLS, Host
from tests.unit.adapters.ssh_stand import Stand


@dataclass
class CountingClock:
    """Every reading is one millisecond later than the one before."""

    now: int = 1_000_000

    def wall_ms(self) -> int:
        self.now += 1
        return 1_700_000_000_000 + self.now

    def boot_ms(self) -> int:
        self.now += 1
        return self.now


@dataclass
class Owner:
    """The owner of an attempt: counts its calls, and says no when told to."""

    refuse: str | None = None
    asked: int = 0
    heads: list[Head] = field(default_factory=list)

    def before_send(self) -> str | None:
        self.asked += 1
        return self.refuse

    async def on_head(self, head: Head) -> None:
        self.heads.append(head)

    @property
    def hooks(self) -> Hooks:
        return Hooks(before_send=self.before_send, on_head=self.on_head)


@pytest.fixture
def clock() -> CountingClock:
    return CountingClock()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
async def stand(tmp_path: Path, clock: CountingClock) -> AsyncIterator[Stand]:
    async with Stand(tmp_path, clock) as made:
        yield made


AdapterMaker = Callable[..., HttpAdapter]


@pytest.fixture
async def make_adapter(clock: CountingClock) -> AsyncIterator[AdapterMaker]:
    """Makes adapters with options of a test's own, and closes them."""
    made: list[HttpAdapter] = []

    def make(*, denied: Denied | None = None, lookup: Lookup = system_lookup) -> HttpAdapter:
        made.append(HttpAdapter(clock, denied=denied, lookup=lookup))
        return made[-1]

    yield make
    for adapter in made:
        await adapter.close()


@pytest.fixture
def adapter(make_adapter: AdapterMaker) -> HttpAdapter:
    return make_adapter()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(str(tmp_path_factory.mktemp("authority")))


Exchanger = Callable[..., HttpExchange]


@pytest.fixture
def exchange(authority: Authority) -> Exchanger:
    """Builds an exchange to a raw server; keyword arguments override."""

    def build(
        peer: Peer | str,
        method: str = "POST",
        *,
        body: bytes = b'{"n": 1}',
        path: str = "/things?x=1",
        headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),),
        seconds: float = 40.0,
        connect_seconds: float = 30.0,
        body_max_bytes: int = 1_000_000,
        secret: Secret | None = None,
        allow_private: bool = True,
        ca_file: str | None = authority.ca_file,
        proxy: str | None = None,
        reuse: bool = False,
        url: str | None = None,
    ) -> HttpExchange:
        origin = peer if isinstance(peer, str) else peer.origin
        return HttpExchange(
            method=method,
            url=origin + path if url is None else url,
            headers=headers,
            body=body,
            target=HttpTarget(
                origin=origin,
                allow_private=allow_private,
                ca_file=ca_file,
                connect_seconds=connect_seconds,
                proxy=proxy,
                reuse=reuse,
            ),
            request_seconds=seconds,
            body_max_bytes=body_max_bytes,
            secret=secret,
            is_read=reuse,
        )

    return build


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """A host with a store, under each of the shells in turn."""
    made = Host(tmp_path, request.param)
    made.init()
    return made


@pytest.fixture
def dash(tmp_path: Path) -> Host:
    """The same under one shell, where the shell makes no difference."""
    made = Host(tmp_path, "dash")
    made.init()
    return made
