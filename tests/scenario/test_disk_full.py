"""The disk fills up: what is new is refused before anything leaves, what is under way keeps its outcome; it heals."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from fixtures.proxy.server import FaultProxy
from fixtures.service.server import DeployService
from gateway.running import EXIT_STORE_UNKNOWN
from gateway.surfaces.cli.client import Answer
from tests.scenario.kit import (
    Api,
    Home,
    Outside,
    brief_action,
    claims_hold,
    effects,
    sends,
    submit_in_the_dark,
    write_action,
)
from tests.scenario.test_killed import agree

CALLS: Final = 30
MEGABYTE: Final = 1 << 20
TMPFS_MEGABYTES: Final = 96
"""More than the 64 MB that a gateway wants free before it takes anything new; memory is used only while it is full."""


async def call_all(api: Api) -> list[Answer | None]:
    names = [f"part-{number}" for number in range(CALLS)]
    return await asyncio.gather(*(submit_in_the_dark(api, "deploy", f"key-{name}", name=name) for name in names))


@pytest.mark.parametrize("place", ["store.begin", "store.sealed", "store.written"])
@pytest.mark.parametrize("nth", [1, 3])
async def test_a_write_refused_in_the_middle_of_thirty_calls_forks_no_chain_and_sends_nothing_unrecorded(
    place: str, nth: int, home: Home, service: DeployService
) -> None:
    """D19, seangalliher/ProbOS#1351 and zeroclaw-labs/zeroclaw#10359: a failed append leaves the head ahead.

    From the chosen place on no file may grow: the journal's next write fails in the middle of a transaction.
    """
    home.configure({"deploys": service.url}, {"deploy": brief_action()})
    async with home.process("limit", place, "--nth", str(nth)) as api:
        answers = await call_all(api)
        assert await api.ended() == EXIT_STORE_UNKNOWN

    refused = [answer.document for answer in answers if answer is not None and answer.is_problem]
    assert all(item["code"] == "store_unavailable" and "Ask by key" in item["guidance"] for item in refused)
    sent_before = {entry.op for entry in sends(service.ledger.entries)}
    async with home.running() as api:
        stored = {item["operation_id"] for item in await api.everything()}
        assert sent_before <= stored
        # Whoever came after the store had failed never became an operation: no id to name, nothing under the key.
        for number, answer in enumerate(answers):
            if answer is not None and answer.is_problem and "operation_id" not in answer.document:
                assert await api.by_key(f"key-part-{number}") is None
        # Whose admission did not reach the disk sent nothing, and its key is free.
        lost = {item["operation_id"] for item in refused if "operation_id" in item} - stored
        assert not lost & {entry.op for entry in service.ledger.entries}
        for answer in await call_all(api):
            assert answer is not None
            assert not answer.is_problem
        everything = [await api.settled(item["operation_id"]) for item in await api.everything()]
    assert len(everything) == CALLS
    assert claims_hold(everything, service.ledger.entries) == []
    agree(home)


async def full_between_intent_and_outcome(
    home: Home, service: DeployService, api: Api, fill: Callable[[], None], free: Callable[[], None]
) -> None:
    """D20: one call is under way; the disk fills up; its answer comes; the disk is freed."""
    under_way = await api.begin("slow", name="one", key="call-1")
    await service.wait_for(lambda entry: entry.effect == "done")
    fill()

    async with asyncio.timeout(40):  # the disk is freed further down
        refused = await api.submit("deploy", name="two", key="call-2", wait=10)

    assert (refused.status, refused.document["code"]) == (503, "audit_unavailable")
    assert "disk is nearly full" in refused.document["detail"]
    assert "Nothing was sent" in refused.document["detail"]
    full = await api.client.call("GET", "/readyz")
    assert (full.status, "disk is nearly full" in full.document["reason"]) == (503, True)
    settled = await api.settled(under_way["operation_id"])
    assert (settled["outcome"], settled["basis"]) == ("success", "answer")
    assert await api.by_key("call-2") is None
    free()
    again: Answer | None = None
    async with asyncio.timeout(40):
        while again is None or again.is_problem:
            again = await api.submit("deploy", name="two", key="call-2", wait=10)
    assert again.document["outcome"] == "success"
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 2


def configure(home: Home, service: DeployService, slow: FaultProxy, **more: object) -> None:
    actions = {
        "deploy": write_action(),
        "slow": write_action(service="slowly"),
    }
    slow.toxics.add("latency", attributes={"latency_seconds": 2.0}, times=1)
    home.configure({"deploys": service.url, "slowly": slow.url}, actions, **more)


async def test_a_disk_said_to_be_full_stops_what_is_new_and_nothing_else_and_heals_by_itself(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    """D20, hashicorp/vault#18943, #3725 and #5361: the log's disk is full and everything stalls.

    The gateway is told that no byte is free, so this runs on every machine; the next test fills a real disk.
    """
    sign = tmp_path / "full"
    async with FaultProxy(f"127.0.0.1:{service.port}") as slow:
        configure(home, service, slow)
        async with home.process("full", str(sign)) as api:
            await full_between_intent_and_outcome(home, service, api, sign.touch, sign.unlink)
            api.send(signal.SIGTERM)
            assert await api.ended() == 0
    agree(home)


def new_mounts() -> list[str]:
    """How a process gets mounts of its own here: as root, or as root of a user namespace; empty if not at all."""
    for command in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        try:
            done = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
        except FileNotFoundError:
            return []
        if done.returncode == 0:
            return command
    return []


def fill_up(folder: Path) -> None:
    """Write until the disk takes not one byte more."""
    descriptor = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for size in (MEGABYTE, 65536, 4096, 1):
            while takes(descriptor, size):
                pass
    finally:
        os.close(descriptor)


def takes(descriptor: int, size: int) -> bool:
    try:
        os.write(descriptor, b"x" * size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


MOUNTS: Final = new_mounts()


@pytest.mark.parametrize("mounts", [MOUNTS], ids=["tmpfs"])
async def test_a_disk_that_is_full_indeed_stops_what_is_new_and_nothing_else_and_heals_by_itself(
    mounts: list[str], home: Home, service: DeployService, tmp_path: Path
) -> None:
    """D20 on a file system of its own that holds the data folder alone, filled to its last byte."""
    if not mounts:
        # Nobody may mount anything here. The test above says the same of a gateway that is told so.
        return
    kept = tmp_path / "kept"
    shutil.move(home.data, kept)
    home.data.mkdir(mode=0o700)
    script = (
        f"mount -t tmpfs -o size={TMPFS_MEGABYTES}m,mode=0700 none '{home.data}' && cp -a '{kept}/.' '{home.data}/'"
        ' && exec "$@"'
    )
    async with FaultProxy(f"127.0.0.1:{service.port}") as slow:
        configure(home, service, slow, store={"ballast_bytes": 4 * MEGABYTE})
        async with home.process(prefix=[*mounts, "sh", "-c", script, "sh"]) as api:
            # The folder as the gateway sees it; the mount is visible to nobody else.
            seen = Path(f"/proc/{api.process.pid}/root{home.data}")
            assert (seen / "gateway.db").exists()
            await full_between_intent_and_outcome(home, service, api, lambda: fill_up(seen), (seen / "filler").unlink)
            shutil.rmtree(kept)
            code = await stop_and_keep(api, seen, kept)
            assert code == 0
    home.data.rmdir()
    shutil.move(kept, home.data)
    agree(home)


async def stop_and_keep(api: Outside, seen: Path, kept: Path) -> int:
    """End the gateway; a second look into its file system keeps that alive, so that its files can be taken out."""
    folder = os.open(seen, os.O_RDONLY | os.O_DIRECTORY)
    try:
        api.send(signal.SIGTERM)
        code = await api.ended()
        shutil.copytree(f"/proc/self/fd/{folder}", kept, ignore=shutil.ignore_patterns("filler"))
    finally:
        os.close(folder)
    return code
