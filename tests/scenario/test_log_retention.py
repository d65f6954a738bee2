"""Old segments of the log are dropped while the gateway serves; what is left verifies, killed in the middle or not."""

import asyncio
import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fixtures.service.server import DeployService
from gateway.engine import log_keeper
from tests.scenario.kit import LOOK_SECONDS, Api, Home, write_action

SECONDS = 40.0
SMALL: dict[str, Any] = {
    "segment_max_bytes": 4096,
    "seal_interval_seconds": 0.1,
    "checkpoint_interval_seconds": 0.1,
}
MOMENT_DAYS = 1e-5
"""Less than a second: whatever segment is not the last one may go."""


def configure(home: Home, service: DeployService, **audit: Any) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit=SMALL | audit)


async def fill(api: Api, begin: int, end: int) -> None:
    for number in range(begin, end):
        done = await api.begin("deploy", name=f"part-{number}", key=f"call-{number}", wait=10)
        assert done["outcome"] == "success"


def segments(home: Home) -> list[str]:
    return sorted(path.name for path in (home.log_folder() / "segments").glob("*.agl"))


def is_pruned(home: Home) -> bool:
    return segments(home)[0] != f"{0:016x}.agl"


def blob(home: Home, content: bytes, *, days_old: float) -> Path:
    path = home.log_folder() / "blobs" / hashlib.sha256(content).hexdigest()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    made_s = path.stat().st_mtime - days_old * 86_400
    os.utime(path, (made_s, made_s))
    return path


async def test_old_segments_go_while_the_gateway_serves_and_the_rest_verifies_as_a_pruned_log(
    home: Home, service: DeployService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_keeper, "RETENTION_SECONDS", 0.05)
    configure(home, service, keep_days=MOMENT_DAYS)
    old, young = blob(home, b"old", days_old=2), blob(home, b"young", days_old=0.5)
    partial = home.log_folder() / "blobs" / f"{7:032x}.tmp"
    partial.write_bytes(b"half")
    async with home.running() as api:
        assert not partial.exists()
        await fill(api, 0, 12)
        async with asyncio.timeout(SECONDS):
            while not is_pruned(home):
                await asyncio.sleep(LOOK_SECONDS)
        await fill(api, 12, 16)
        assert not api.running.keeper.ailing()
    code, said = home.verify()
    assert code == 0, said
    assert "pruned prefix" in said
    assert not old.exists()
    assert young.exists()


async def test_everything_is_kept_unless_the_settings_say_otherwise(home: Home, service: DeployService) -> None:
    configure(home, service)
    async with home.running() as api:
        await fill(api, 0, 6)
        await api.running.keeper.export_all()
    assert len(segments(home)) > 2
    assert not is_pruned(home)


@pytest.mark.parametrize("place", ["retention.announced", "retention.published"])
async def test_a_gateway_killed_while_it_drops_leaves_a_log_that_verifies_and_the_next_one_goes_on(
    place: str, home: Home, service: DeployService
) -> None:
    configure(home, service)
    async with home.running() as api:
        await fill(api, 0, 12)
    configure(home, service, keep_days=MOMENT_DAYS)
    async with home.process("kill", place, "--from-start") as api:
        assert await api.ended() == -signal.SIGKILL

    done = home.run("audit", "drain")
    code, said = home.verify()

    assert done.returncode == 0, done.stderr
    assert code == 0, said
    assert not is_pruned(home)
    async with home.running() as inside:
        async with asyncio.timeout(SECONDS):
            while not is_pruned(home):
                await asyncio.sleep(LOOK_SECONDS)
        await fill(inside, 12, 14)
    code, said = home.verify()
    assert code == 0, said
    assert "pruned prefix" in said
