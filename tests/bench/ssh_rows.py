"""What the runner costs: `true` run once and on record, beside a plain exec of `true` on the same connection."""

import asyncio
import shutil
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from adapters.contract import Hooks, HostTarget, HostVerb
from adapters.contract_ssh import SshExchange
from adapters.ssh.client import SshAdapter
from adapters.ssh.transport import RunnerTransport, route_of
from fixtures.ssh.service import USER, SshService
from tests.bench.rows import Row
from tests.contract.ssh_daemon import find_daemon
from tests.contract.ssh_world import REQUEST_SECONDS, Clock, Tokens, exchange_of, standing_host, target_of
from tests.unit.adapters.remote_host import SHELLS, Host
from tests.unit.adapters.ssh_stand import agreed

TARGET_MS = 150.0
WARM_UP = 2
COMMAND = ("true",)


@dataclass(frozen=True)
class Place:
    """A host with a store, and what serves SSH there."""

    host: Host
    target: HostTarget
    server: str


def measure(folder: Path, count: int) -> list[Row]:
    """One row per shell, in a folder on the disk in question."""
    folder.mkdir()
    if find_daemon() is None:
        return [asyncio.run(_measured("sh", _with_fixture(folder), count))]
    return [
        asyncio.run(_measured(shell, _with_openssh(folder, shell), count))
        if shutil.which(shell)
        else _row(shell, (), f"{shell} is missing: apt-get install {shell}")
        for shell in SHELLS
    ]


def _row(shell: str, values: tuple[float, ...], note: str) -> Row:
    measured = f"run of `true` beyond a plain exec, {shell}"
    return Row("s", measured, values, TARGET_MS, most=True, unit="ms", note=note)


@asynccontextmanager
async def _with_openssh(folder: Path, shell: str) -> AsyncIterator[Place]:
    (folder / shell).mkdir()
    async with standing_host(folder / shell, shell, recording=False) as world:
        yield Place(world.host, world.target, "OpenSSH")


@asynccontextmanager
async def _with_fixture(folder: Path) -> AsyncIterator[Place]:
    host = Host(folder, "dash")
    host.init()
    async with SshService(folder / "sessions", real=True) as service:
        target = target_of(service.port, USER, service.host_keys[0], service.client_key)
        yield Place(host, target, "the fixture, sshd is missing")


async def _measured(shell: str, standing: AbstractAsyncContextManager[Place], count: int) -> Row:
    """Turn by turn, each time in the other order; what stands in the row are the differences within each turn."""
    plain: list[float] = []
    recorded: list[float] = []
    async with standing as place:
        adapter = SshAdapter(Clock())
        bare = SshExchange(route_of(place.target), " ".join(COMMAND), run_seconds=REQUEST_SECONDS)
        way = RunnerTransport(adapter, Clock(), Tokens())
        try:
            for turn in range(WARM_UP + count):
                for runner in (turn % 2 == 0, turn % 2 == 1):
                    began = time.perf_counter()
                    if runner:
                        run = exchange_of(place.host, place.target, HostVerb.RUN, f"op_{turn}", COMMAND)
                        done = (await way.attempt(run, Hooks(agreed))).header("Exited") == "0"
                    else:
                        seen = await adapter.attempt(bare, Hooks(agreed))
                        done = seen.exit_status == 0 and (seen.reused or turn == 0)
                    if not done:
                        raise RuntimeError(f"the command did not run as it should on {place.server}")
                    (recorded if runner else plain).append((time.perf_counter() - began) * 1000)
        finally:
            await way.close()
        server = place.server
    medians = [statistics.median(times[WARM_UP:]) for times in (plain, recorded)]
    note = f"{medians[1]:.0f} ms against {medians[0]:.0f} ms; {server}"
    pairs = zip(plain[WARM_UP:], recorded[WARM_UP:], strict=True)
    return _row(shell, tuple(ours - theirs for theirs, ours in pairs), note)
