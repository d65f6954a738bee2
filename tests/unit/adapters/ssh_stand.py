"""An SSH host with a proxy before it, and the adapter under test: what the SSH tests stand on."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncssh

from adapters.contract import Clock, Hooks
from adapters.contract_ssh import (
    SshCredential,
    SshExchange,
    SshLimits,
    SshObservation,
    SshPins,
    SshRoute,
    Stage,
)
from adapters.ssh.client import SshAdapter
from fixtures.proxy.server import FaultProxy
from fixtures.ssh.service import USER, SshService

LONG_SECONDS = 40.0
"""For what must not run out of time, on the busiest machine."""
PATIENT = SshLimits(
    connect_seconds=LONG_SECONDS,
    login_seconds=LONG_SECONDS,
    open_seconds=LONG_SECONDS,
    reply_seconds=LONG_SECONDS,
    grace_seconds=LONG_SECONDS,
    keepalive_seconds=LONG_SECONDS,
)
LOOK_SECONDS = 0.005
SHORT_SECONDS = 0.3
"""For what must run out of time."""


def new_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


def public_text(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode()


def credential_of(key: asyncssh.SSHKey, certificate: asyncssh.SSHCertificate | None = None) -> SshCredential:
    return SshCredential(
        key.export_private_key().decode(),
        None if certificate is None else certificate.export_certificate().decode(),
    )


def agreed() -> str | None:
    return None


class Stand:
    """Stages that the host reaches are announced to the proxy, so that toxics can strike at them."""

    def __init__(self, folder: Path, clock: Clock, **service: Any) -> None:
        self.service = SshService(folder / "ssh-ledger", announce=self._announce, **service)
        self.clock = clock
        self.stages: list[str] = []
        self._waiting: list[tuple[str, asyncio.Event]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.service)
        self.proxy = await self._stack.enter_async_context(FaultProxy(self.service.address))
        self.adapter = self.new_adapter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def new_adapter(self, **options: Any) -> SshAdapter:
        adapter = SshAdapter(self.clock, **options)
        self._stack.push_async_callback(adapter.close)
        return adapter

    def _announce(self, port: int, stage: str) -> None:
        self.stages.append(stage)
        self.proxy.announce(stage, upstream_port=port)
        for wanted, event in self._waiting:
            if wanted == stage:
                event.set()

    async def reached(self, stage: str) -> None:
        """Wait until the host has reached a stage, if it has not before."""
        if stage in self.stages:
            return
        event = asyncio.Event()
        self._waiting.append((stage, event))
        async with asyncio.timeout(LONG_SECONDS):
            await event.wait()

    @property
    def pins(self) -> SshPins:
        return SshPins(tuple(public_text(key) for key in self.service.host_keys))

    @cached_property
    def direct(self) -> SshRoute:
        """Made once: the text of a key differs each time it is exported."""
        return SshRoute(
            name="host",
            address="127.0.0.1",
            port=self.service.port,
            user=USER,
            pins=self.pins,
            credential=credential_of(self.service.client_key),
            allow_private=True,
        )

    @property
    def proxied(self) -> SshRoute:
        return replace(self.direct, port=int(self.proxy.address.rpartition(":")[2]))

    def exchange(self, route: SshRoute | None = None, **changes: Any) -> SshExchange:
        plain = SshExchange(route or self.direct, "sh -s", b"payload\n", run_seconds=LONG_SECONDS, limits=PATIENT)
        return replace(plain, **changes)

    async def attempt(
        self, route: SshRoute | None = None, hooks: Hooks | None = None, **changes: Any
    ) -> SshObservation:
        return await self.adapter.attempt(self.exchange(route, **changes), hooks or Hooks(agreed))

    @property
    def effects(self) -> int:
        """How many commands the host carried out."""
        return sum(entry.effect != "none" for entry in self.service.ledger.entries)


def limited(**seconds: Any) -> SshLimits:
    return replace(PATIENT, **seconds)


async def run_out(adapter: SshAdapter, stage: Stage) -> None:
    """Let the time of the attempts under way be over once they have reached a stage, however long that took.

    A short limit instead would strike earlier on a busy machine, and the test would show another thing.
    """
    while under_way := [flight for flight in adapter._flights if not flight.clock.expired()]:
        for flight in under_way:
            if flight.stage is stage:
                flight.give_up()
        await asyncio.sleep(LOOK_SECONDS)
