"""`gateway doctor` reads every byte of the log and looks at the anchors: what is wrong, and what to do about it."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from audit.checkpoint import CHECKPOINT, HISTORY
from audit.cosign import Cosigner
from audit.report import Finding
from fixtures.service.server import DeployService
from gateway.catalog.config import open_settings
from gateway.engine.chance import SystemChance
from gateway.engine.clock import SystemClock
from gateway.engine.log_look import LogLook
from gateway.office import Paths
from tests.scenario.kit import LOOK_SECONDS, Home, write_action

SECONDS = 30.0


def configure(home: Home, service: DeployService, **audit: Any) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit=audit)


def checks(home: Home) -> dict[str, tuple[bool, str]]:
    told = json.loads(home.within("doctor", "--json").stdout)["checks"]
    return {item["check"]: (item["ok"], item["detail"]) for item in told}


def look(home: Home) -> LogLook:
    return LogLook(open_settings(home.config, {}), Paths(home.data))


def damage(home: Home) -> list[Finding]:
    return look(home).damage(SystemClock().wall_ms())


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


async def written(home: Home, service: DeployService) -> list[Path]:
    """A log of a few segments, ended cleanly."""
    configure(home, service, segment_max_bytes=4096)
    async with home.running() as api:
        for number in range(8):
            await api.begin("deploy", name=f"a{number}", wait=10)
    return sorted((home.log_folder() / "segments").glob("*.agl"))


async def test_a_changed_byte_anywhere_is_found_with_its_place_and_what_to_do(
    home: Home, service: DeployService
) -> None:
    segments = await written(home, service)
    assert len(segments) > 2
    assert damage(home) == []
    whole = [segments[0], segments[1], home.log_folder() / CHECKPOINT, home.log_folder() / "checkpoints.log"]
    for path in whole:
        kept = path.read_bytes()
        flip(path, len(kept) // 2)
        found = damage(home)
        assert found, path
        path.write_bytes(kept)
    assert damage(home) == []
    flip(segments[1], 700)
    ok, said = checks(home)["audit log"]
    assert not ok
    for part in (f"segments/{segments[1].name}", "byte", "Keep a copy", "gateway recover --accept-loss"):
        assert part in said, said
    segments[1].unlink()
    assert {finding.code for finding in damage(home)}


async def test_a_rewritten_log_contradicts_its_anchor(home: Home, service: DeployService) -> None:
    await written(home, service)
    (home.folder / "anchors" / CHECKPOINT).write_bytes(
        (home.log_folder() / CHECKPOINT).read_bytes().replace(b"\n", b" \n", 1)
    )
    assert [finding.code for finding in damage(home)] == ["bad_anchor"]


async def test_an_anchor_that_is_gone_is_never_made_anew_and_said_by_keeper_and_doctor(
    home: Home, service: DeployService
) -> None:
    configure(home, service, checkpoint_interval_seconds=0.05, seal_interval_seconds=0.05)
    anchors = home.folder / "anchors"
    async with home.running() as api:
        await api.begin("deploy", name="a", wait=10)
        kept = home.folder / "kept"
        shutil.move(anchors, kept)
        await api.begin("deploy", name="b", wait=10)
        async with asyncio.timeout(SECONDS):
            while not api.running.keeper.ailing():
                await asyncio.sleep(LOOK_SECONDS)
        assert "missing" in json.dumps(dict(api.running.keeper.ailing()))
    assert not anchors.exists()
    ok, said = checks(home)["anchors"]
    assert (ok, "Put back" in said) == (False, True)
    assert not anchors.exists(), "the doctor opens the folder and must not make one either"
    anchors.mkdir()
    assert look(home).emptied_anchors() == [anchors]
    anchors.rmdir()
    shutil.move(kept, anchors)
    assert look(home).emptied_anchors() == []
    fine = checks(home)
    assert (fine["anchors"][0], fine["audit log"][0]) == (True, True), fine
    code, verdict = home.verify()
    assert code == 0, verdict


async def test_cosignatures_of_an_earlier_log_say_nothing_of_the_present_one(
    home: Home, service: DeployService
) -> None:
    cosigner = Cosigner.generate("w.test/one", SystemChance().bytes)
    configure(home, service, witnesses=[{"vkey": str(cosigner.key), "url": "http://127.0.0.1:9"}])
    note = (home.log_folder() / CHECKPOINT).read_text()
    line = cosigner.cosign(note.partition("\n\n")[0] + "\n", SystemClock().wall_ms() // 1000)
    (home.log_folder() / HISTORY).write_text(f"{note}{line}\n")
    ok, said = checks(home)["witnesses"]
    assert (ok, "newest cosignature" in said) == (True, True), said
    flip(max((home.log_folder() / "segments").glob("*.agl")), 30)
    done = home.within("recover", "--accept-loss", "--person", "ada", "--reason", "A file was damaged.")
    assert done.returncode == 0, done.stderr
    ok, said = checks(home)["witnesses"]
    assert (ok, "none of 1 has cosigned this log" in said) == (False, True), said


async def test_a_log_that_is_written_meanwhile_is_no_finding(home: Home, service: DeployService) -> None:
    configure(home, service, checkpoint_interval_seconds=0.05, seal_interval_seconds=0.05)
    async with home.running() as api:
        for number in range(5):
            await api.begin("deploy", name=f"a{number}", wait=10)
            assert await asyncio.to_thread(damage, home) == []


@pytest.mark.parametrize("damaged", ["keys/log.key", "gateway.db"])
def test_what_cannot_be_looked_at_is_a_finding_of_its_own(home: Home, service: DeployService, damaged: str) -> None:
    configure(home, service)
    (home.data / damaged).write_bytes(b"nonsense" * 1000)
    ok, said = checks(home)["audit log"]
    assert (ok, "not looked at" in said) == (False, True), said
