"""An SSH host that runs real commands, the runner's store on it, a proxy before it, and a gateway that knows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.proxy.server import FaultProxy
from fixtures.ssh.service import USER, SshService
from gateway.surfaces.cli.client import Client
from tests.scenario.kit import INPUT, LOOK_SECONDS, Document, Home, Inside
from tests.unit.adapters.remote_host import Host

DEADLINES: Document = {"connect": "15s", "request": "19s", "recovery": "2m"}
"""Longer than anything takes: what a test shows must not be the time that a busy machine took."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The host behind its proxy, and the command's own ledger."""

    service: SshService
    proxy: FaultProxy
    ledger: Path
    stages: list[str]
    """What the sessions on the host have reached, in order."""

    @property
    def runs(self) -> list[str]:
        """The operations whose command ran, one entry for each time."""
        return self.ledger.read_text().split() if self.ledger.exists() else []

    @property
    def port(self) -> int:
        return int(self.proxy.address.rpartition(":")[2])

    async def reached(self, stage: str, count: int = 1) -> None:
        """Wait until so many sessions have reached a stage on the host, whoever still listens."""
        async with asyncio.timeout(40):
            while self.stages.count(stage) < count:
                await asyncio.sleep(LOOK_SECONDS)

    async def begun(self, count: int = 1) -> None:
        """Wait until the command itself has left a line: a session that runs its shell may still be fenced."""
        async with asyncio.timeout(40):
            while len(self.runs) < count:
                await asyncio.sleep(LOOK_SECONDS)

    async def give_key(self, person: Client) -> None:
        """Put the host's credential into the vault."""
        key = self.service.client_key.export_private_key().decode()
        body = {"kind": "ssh_key", "value": key, "origin": f"ssh://127.0.0.1:{self.port}"}
        made = await person.call("PUT", "/v1/credentials/deploy-key", body=body)
        assert not made.is_problem, made.document


@dataclass(frozen=True, slots=True)
class Hosted(Standing):
    """A gateway beside it, in this loop."""

    api: Inside


def marks(folder: Path, script: str = "") -> list[str]:
    """A command that leaves a line in the ledger each time it runs."""
    return ["/bin/sh", "-c", f'echo "$2" >>"$1"; {script}', "marks", str(folder / "runs"), "{operation_id}", "{name}"]


def command(folder: Path, script: str = "", **more: Any) -> Document:
    action: Document = {
        "description": "Run a command.",
        "effect": "irreversible",
        "host": "web-1",
        "input": INPUT,
        "command": marks(folder, script),
        "deadlines": DEADLINES,
    }
    return {name: value for name, value in (action | more).items() if value is not None}


@asynccontextmanager
async def standing(home: Home, folder: Path, actions: dict[str, Document], **host: Any) -> AsyncIterator[Standing]:
    """The host `web-1`, which is this machine, behind a proxy that hears which stage a session has reached."""
    (folder / "host").mkdir()
    store = Host(folder / "host", "dash")
    store.init()
    proxies: list[FaultProxy] = []
    stages: list[str] = []

    def announce(port: int, stage: str) -> None:
        stages.append(stage)
        for proxy in proxies:
            proxy.announce(stage, upstream_port=port)
            # As well by its number, for toxics that mean one session and not the first to come there.
            proxy.announce(f"{stage} {stages.count(stage)}", upstream_port=port)

    async with (
        SshService(folder / "sessions", real=True, announce=announce) as service,
        FaultProxy(service.address) as proxy,
    ):
        proxies.append(proxy)
        made = Standing(service, proxy, folder / "runs", stages)
        declared: Document = {
            "address": "127.0.0.1",
            "port": made.port,
            "user": USER,
            "credential": "deploy-key",
            "host_keys": [service.host_keys[0].export_public_key().decode().strip()],
            "store": store.store,
            "store_id": store.store_id,
            "allow_private": True,
        } | host
        home.configure({}, actions, hosts={"web-1": declared})
        yield made


@asynccontextmanager
async def hosted(home: Home, folder: Path, actions: dict[str, Document], **host: Any) -> AsyncIterator[Hosted]:
    """The host, and a gateway that knows it and holds its key."""
    async with standing(home, folder, actions, **host) as made, home.running() as api:
        await made.give_key(api.person)
        yield Hosted(made.service, made.proxy, made.ledger, made.stages, api)
