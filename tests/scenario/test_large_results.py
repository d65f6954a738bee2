"""Results too large for a record of the log: kept beside it, opened by an auditor, gone with their segments."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from fixtures.service.server import DeployService
from tests.scenario.kit import READ, Api, Document, Home

BIG = 200_000
PATIENT = {"connect": "30s", "request": "30s", "recovery": "5m"}
"""No deadline of an attempt decides anything here."""


def configure(home: Home, service: DeployService, **audit: Any) -> None:
    def read(size: int, **output: Any) -> Document:
        request = {"method": "GET", "path": "/bodies/big", "query": {"bytes": str(size)}}
        return READ | {"request": request, "output": {"max_bytes": 300_000} | output, "deadlines": PATIENT}

    actions = {"big": read(BIG), "small": read(2_000), "cut": read(900_000)}
    home.configure({"deploys": service.url}, actions, audit=audit)


def blobs(home: Home) -> list[Path]:
    return sorted((home.log_folder() / "blobs").glob("*"))


def outcomes(home: Home) -> dict[str, Document]:
    return {record["action"]: record for record in home.records() if record.get("ev") == "outcome"}


def verified(home: Home) -> tuple[int, str]:
    """Exit code and output of a verification with the auditor's key, which alone can tell what records name."""
    given = ("--trust", str(home.folder / "trust.policy"), "--anchor", str(home.folder / "anchors"))
    done = home.run_audit("verify", str(home.log_folder()), *given, "--key", str(home.folder / "auditor.key"))
    return done.returncode, done.stdout + done.stderr


async def read(api: Api, action: str) -> Document:
    begun = await api.begin(action, name="one", key=f"call-{action}", wait=10)
    done = await api.settled(begun["operation_id"], seconds=60)
    assert done["outcome"] == "success"
    return done


async def test_a_large_result_is_kept_as_the_caller_was_shown_it_and_a_small_one_is_not(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    configure(home, service)
    async with home.running() as api:
        shown = {action: await read(api, action) for action in ("big", "small", "cut")}
    told = outcomes(home)
    assert "blobs" not in told["small"]
    named = {action: told[action]["blobs"][0] for action in ("big", "cut")}
    assert [path.name for path in blobs(home)] == sorted(ref["sha256"] for ref in named.values())
    out = tmp_path / "opened"
    key = ("--key", str(home.folder / "auditor.key"))
    op = shown["cut"]["operation_id"]
    done = home.run_audit("show", str(home.log_folder()), *key, "--op", op, "--blobs", str(out))
    assert done.returncode == 0, done.stderr
    opened = {path.name: path for path in out.iterdir()}
    assert list(opened) == [f"{named['cut']['sha256']}"]
    # What was cut for the caller is kept as it was cut.
    assert json.loads(opened[named["cut"]["sha256"]].read_bytes()) == shown["cut"]["result"]
    assert shown["cut"]["result"]["truncated"]
    assert named["big"]["size"] == len(json.dumps(shown["big"]["result"], separators=(",", ":")))
    code, said = verified(home)
    assert code == 0, said
    assert "blobs      2 files" in said
    assert "named 2 times" in said


async def test_a_lost_blob_is_a_gap_and_a_changed_one_a_contradiction(home: Home, service: DeployService) -> None:
    configure(home, service)
    async with home.running() as api:
        await read(api, "big")
    (path,) = blobs(home)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert verified(home)[0] == 1
    path.unlink()
    assert verified(home)[0] == 3


async def test_nothing_is_kept_where_the_settings_say_so(home: Home, service: DeployService) -> None:
    configure(home, service, keep_large_results=False)
    async with home.running() as api:
        await read(api, "big")
    assert blobs(home) == []
    assert outcomes(home)["big"].keys().isdisjoint({"blobs", "result_kept"})


async def test_whoever_wants_every_result_in_the_log_says_what_is_large(home: Home, service: DeployService) -> None:
    configure(home, service, large_result_bytes=0)
    async with home.running() as api:
        await read(api, "small")
    assert [path.name for path in blobs(home)] == [outcomes(home)["small"]["blobs"][0]["sha256"]]


@pytest.mark.parametrize("place", ["result.before_write", "result.written"])
async def test_a_gateway_killed_around_a_blob_names_no_blob_that_is_not_there(
    place: str, home: Home, service: DeployService
) -> None:
    configure(home, service)
    async with home.process("kill", place) as api:
        lost = asyncio.create_task(api.begin("big", name="one", key="call-big", wait=10))
        assert await api.ended() == -signal.SIGKILL
        await asyncio.wait([lost])
        lost.exception()
    async with home.running() as inside:
        await read(inside, "big")
    code, said = verified(home)
    assert code == 0, said
    (ref,) = outcomes(home)["big"]["blobs"]
    assert ref["sha256"] in {path.name for path in blobs(home)}


async def test_where_no_blob_can_be_written_the_outcome_is_on_record_and_says_so(
    home: Home, service: DeployService
) -> None:
    configure(home, service)
    async with home.running() as api:
        # A file in the place of the folder: nobody, whatever their rights, can make a file in it.
        place = home.log_folder() / "blobs"
        place.write_bytes(b"")
        done = await read(api, "big")
        assert len(json.dumps(done["result"])) > BIG - 10
    assert outcomes(home)["big"]["result_kept"] is False
    place.unlink()
    assert verified(home)[0] == 0
