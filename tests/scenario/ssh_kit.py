"""An SSH host that runs real commands, the runner's store on it, a proxy before it, and a gateway that knows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.proxy.server import FaultProxy
from fixtures.ssh.service import USER, SshService
from tests.scenario.kit import INPUT, Document, Home, Inside
from tests.unit.adapters.remote_host import Host

DEADLINES: Document = {"connect": "3s", "request": "4s", "recovery": "2m"}


@dataclass(frozen=True, slots=True)
class Hosted:
    """What a test needs of the world: the gateway, the host behind its proxy, and the command's own ledger."""

    api: Inside
    service: SshService
    proxy: FaultProxy
    ledger: Path
    stages: list[str]
    """What the sessions on the host have reached, in order."""

    @property
    def runs(self) -> list[str]:
        """The operations whose command ran, one entry for each time."""
        return self.ledger.read_text().split() if self.ledger.exists() else []

    async def ended(self, count: int) -> None:
        """Wait until so many commands have ended on the host, whoever still listens."""
        async with asyncio.timeout(20):
            while self.stages.count("ended") < count:
                await asyncio.sleep(0.02)


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
async def hosted(home: Home, folder: Path, actions: dict[str, Document], **host: Any) -> AsyncIterator[Hosted]:
    """A gateway whose host `web-1` is this machine, behind a proxy that hears which stage a session has reached."""
    (folder / "host").mkdir()
    store = Host(folder / "host", "dash")
    store.init()
    proxies: list[FaultProxy] = []

    stages: list[str] = []

    def announce(port: int, stage: str) -> None:
        stages.append(stage)
        for proxy in proxies:
            proxy.announce(stage, upstream_port=port)

    async with (
        SshService(folder / "sessions", real=True, announce=announce) as service,
        FaultProxy(service.address) as proxy,
    ):
        proxies.append(proxy)
        port = int(proxy.address.rpartition(":")[2])
        declared: Document = {
            "address": "127.0.0.1",
            "port": port,
            "user": USER,
            "credential": "deploy-key",
            "host_keys": [service.host_keys[0].export_public_key().decode().strip()],
            "store": store.store,
            "store_id": store.store_id,
            "allow_private": True,
        } | host
        home.configure({}, actions, hosts={"web-1": declared})
        async with home.running() as api:
            key = service.client_key.export_private_key().decode()
            body = {"kind": "ssh_key", "value": key, "origin": f"ssh://127.0.0.1:{port}"}
            made = await api.person.call("PUT", "/v1/credentials/deploy-key", body=body)
            assert not made.is_problem, made.document
            yield Hosted(api, service, proxy, folder / "runs", stages)
