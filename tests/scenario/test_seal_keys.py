"""Seal keys that change while the gateway runs, and what happens when the one in force is lost."""

import asyncio
from functools import partial

import pytest

from audit.bodies import Succession, read_body
from audit.disk import DiskDirectory
from audit.epochs import EpochKeys, EpochLimits
from audit.keyring import SealKey
from audit.log import chunks, files_head, segments
from audit.record import Kind
from fixtures.service.server import DeployService
from gateway.engine import log_start
from tests.scenario.kit import ORIGIN, Home, write_action

SECONDS = 30.0


def seal_keys(home: Home) -> list[SealKey]:
    return [SealKey.parse(line) for line in (home.data / "keys" / "seal.key").read_text().splitlines()]


def configured(home: Home, service: DeployService, **audit: object) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit=audit)


async def test_old_seal_keys_are_gone_while_the_log_still_verifies(
    home: Home, service: DeployService, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(EpochKeys, limits=EpochLimits(age_max_ms=50, entries_max=1000))
    monkeypatch.setattr(log_start, "EpochKeys", quick)
    configured(home, service, seal_interval_seconds=0.05)
    kept = seal_keys(home)
    first = kept[0]
    async with home.running() as api:
        async with asyncio.timeout(SECONDS):
            for number in range(1000):
                await api.begin("deploy", wait=10, name=f"a{number}")
                kept = seal_keys(home)
                if kept[0].epoch >= 3:
                    break
    code, said = home.verify()

    assert code == 0, said
    assert len(kept) <= 2
    assert first.private not in {key.private for key in kept}
    (last,) = seal_keys(home)
    assert f"epochs 0 - {last.epoch}" in said
    assert (home.data / "keys" / "seal.key").stat().st_mode & 0o077 == 0


async def test_a_lost_seal_key_is_replaced_by_one_of_the_next_epoch_and_said(
    home: Home, service: DeployService
) -> None:
    configured(home, service)
    async with home.running() as api:
        await api.begin("deploy", wait=10, name="a")
    (home.data / "keys" / "seal.key").unlink()
    async with home.running() as api:
        await api.begin("deploy", wait=10, name="b")
    code, said = home.verify()

    assert code == 0, said
    assert "epochs 0 - 1" in said
    (key,) = seal_keys(home)
    assert (key.epoch, key.certified) == (1, True)
    assert [record.get("seal_key") for record in home.records() if record.get("ev") == "started"][-2:] == [None, "lost"]


async def test_a_log_after_a_loss_begins_with_the_last_known_head_of_the_one_before(
    home: Home, service: DeployService
) -> None:
    configured(home, service)
    async with home.running() as api:
        await api.begin("deploy", wait=10, name="a")
    before = files_head(DiskDirectory(home.log_folder()), ORIGIN)
    lost = home.run("recover", "--accept-loss", "--person", "operator", "--reason", "a test")
    assert lost.returncode == 0, lost.stderr
    new = DiskDirectory(home.log_folder(f"{ORIGIN}/2"))
    found = [
        read_body(Kind.RECOVERY, entry.body)
        for chunk in chunks(new, segments(new)[0])
        for entry in chunk.entries()
        if entry.header.kind == Kind.RECOVERY
    ]

    assert found == [Succession(ORIGIN, before.size, before.root(), before.leaf)]
