"""The disk of the audit log says nothing: nobody waits for it, nothing new begins, what is under way ends; it heals."""

import asyncio
import threading
from pathlib import Path

import pytest

from audit import disk
from fixtures.proxy.server import FaultProxy
from fixtures.service.server import DeployService
from gateway.surfaces.cli.client import Answer
from tests.scenario.kit import LOOK_SECONDS, Home, effects, sends, write_action
from tests.scenario.test_killed import agree

SECONDS = 40.0


@pytest.fixture
def unhurried_disk() -> None:
    """Here the time that a disk has to answer is the subject."""


class Silence:
    """While it lasts, whoever syncs a file in these folders waits without an answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
        self.heard = threading.Event()
        """Somebody waits."""
        self._over = threading.Event()
        self._folders = folders
        self._over.set()
        given = disk.DiskDirectory.open
        silence = self

        class Mute(disk.DiskFile):
            __slots__ = ()

            def sync(self) -> None:
                silence.wait()
                super().sync()

        def mute(directory: disk.DiskDirectory, name: str, *, fresh: bool = False) -> disk.DiskFile:
            file = given(directory, name, fresh=fresh)
            return Mute(file._fd) if any(directory.path.is_relative_to(folder) for folder in folders) else file

        monkeypatch.setattr(disk.DiskDirectory, "open", mute)

    def wait(self) -> None:
        if not self._over.is_set():
            self.heard.set()
            assert self._over.wait(60)

    def begin(self) -> None:
        self._over.clear()

    def end(self) -> None:
        self._over.set()


async def test_a_silent_disk_of_the_log_stops_what_is_new_and_nothing_else_and_heals_by_itself(
    home: Home, service: DeployService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hashicorp/vault#5361: an audit device that blocks held up every request, and the health check with them."""
    silence = Silence(monkeypatch, home.data / "audit")
    async with FaultProxy(f"127.0.0.1:{service.port}") as slowly:
        slowly.toxics.add("latency", attributes={"latency_seconds": 3.0}, times=1)
        slow = write_action(service="slowly")
        home.configure({"deploys": service.url, "slowly": slowly.url}, {"deploy": write_action(), "slow": slow})
        async with home.running() as api:
            silence.begin()
            under_way = await api.begin("slow", name="one", key="call-1")
            async with asyncio.timeout(SECONDS):
                while api.running.keeper.refusal() is None:
                    await asyncio.sleep(LOOK_SECONDS)
            assert silence.heard.is_set()

            # Far less than `silence` lasts: it is ended further down.
            async with asyncio.timeout(SECONDS):
                refused = await api.submit("deploy", name="two", key="call-2", wait=10)
                health = await api.client.call("GET", "/readyz")

            assert (refused.status, refused.document["code"]) == (503, "audit_unavailable")
            assert "did not answer" in refused.document["detail"] or "still does not" in refused.document["detail"]
            assert health.status == 503
            settled = await api.settled(under_way["operation_id"])
            assert (settled["outcome"], settled["basis"]) == ("success", "answer")
            assert api.running.keeper.refusal() is not None
            assert await api.by_key("call-2") is None
            silence.end()
            again: Answer | None = None
            async with asyncio.timeout(SECONDS):
                while again is None or again.is_problem:
                    again = await api.submit("deploy", name="two", key="call-2", wait=10)
            assert again.document["outcome"] == "success"
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 2
    agree(home)


async def test_a_silent_anchor_holds_up_neither_files_nor_operations(
    home: Home, service: DeployService, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = Silence(monkeypatch, home.folder / "anchors")
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit={"checkpoint_interval_seconds": 0.1})
    async with home.running() as api:
        silence.begin()
        assert (await api.begin("deploy", name="one", key="call-1", wait=10))["outcome"] == "success"
        async with asyncio.timeout(SECONDS):
            while "checkpoint" not in api.running.keeper.ailing():
                await asyncio.sleep(LOOK_SECONDS)
        for number in range(2, 5):
            done = await api.begin("deploy", name=f"part-{number}", key=f"call-{number}", wait=10)
            assert done["outcome"] == "success"
        assert api.running.keeper.refusal() is None
        silence.end()
        async with asyncio.timeout(SECONDS):
            while api.running.keeper.ailing():
                await asyncio.sleep(LOOK_SECONDS)
    agree(home)
