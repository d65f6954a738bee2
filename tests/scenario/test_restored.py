"""The database is restored from a backup and knows less than its log: writes are held, nothing is sent twice."""

import hashlib
import shutil
from pathlib import Path
from typing import Final

import pytest

from audit.trust import TrustPolicy
from fixtures.service.server import DeployService
from gateway.office import Paths, read_signers
from tests.scenario.kit import (
    LOOKUP,
    ORIGIN,
    READ,
    Api,
    Document,
    Home,
    Inside,
    claims_hold,
    effects,
    sends,
    write_action,
)

SECOND: Final = f"{ORIGIN}/2"
DATABASE: Final = ("gateway.db", "gateway.db-wal", "gateway.db-shm")
ACTIONS: Final = {"deploy": write_action(), "read": READ, "put": write_action("PUT")}


def back_up(home: Home, into: Path) -> None:
    into.mkdir()
    for name in DATABASE:
        if (home.data / name).exists():
            shutil.copy2(home.data / name, into / name)


def restore(home: Home, kept: Path) -> None:
    for name in DATABASE:
        (home.data / name).unlink(missing_ok=True)
        if (kept / name).exists():
            shutil.copy2(kept / name, home.data / name)


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in (folder / "segments").iterdir() if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def trusted(home: Home) -> Path:
    """A policy that pins the keys of every log that this gateway ever had, as an operator would after a recovery."""
    keys = tuple(signer.key for signer in read_signers(Paths(home.data).log_key))
    file = home.folder / "trust-all.policy"
    file.write_text(TrustPolicy(keys).to_text())
    return file


def verified(home: Home, *origins: str) -> None:
    for origin in origins:
        code, said = home.verify(origin, trust=trusted(home))
        assert code == 0, said


async def write_then_lose_it(home: Home, service: DeployService, kept: Path) -> Document:
    """One operation before the backup, one after it; then the backup is restored."""
    home.configure({"deploys": service.url}, ACTIONS)
    async with home.running() as api:
        assert (await api.begin("deploy", name="before", key="call-before", wait=10))["outcome"] == "success"
    back_up(home, kept)
    async with home.running() as api:
        lost = await api.begin("deploy", name="lost", key="call-lost", wait=10)
    restore(home, kept)
    return lost


async def check_held(api: Inside) -> None:
    answer = await api.submit("deploy", name="new", key="call-new")
    assert (answer.status, answer.document["code"]) == (503, "quarantined")
    assert (await api.begin("read", name="staging", wait=10))["outcome"] == "success"
    known = {item["key"] for item in await api.everything()}
    assert known == {"call-before", None}


async def test_a_restored_database_holds_writes_goes_on_under_a_new_log_and_leaves_the_old_one_as_it_is(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    await write_then_lose_it(home, service, tmp_path / "kept")
    old = digests(home.log_folder())

    for _ in range(2):  # a restart changes nothing about it
        async with home.running() as api:
            await check_held(api)

    assert digests(home.log_folder()) == old
    verified(home, ORIGIN, SECOND)
    started = [record for record in home.records(SECOND) if record["ev"] == "started"]
    assert len(started) == 2
    assert all("store knows" in record["quarantine"] for record in started)
    assert home.run("doctor").returncode == 1


async def test_a_person_lifts_the_quarantine_and_that_is_on_record(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    await write_then_lose_it(home, service, tmp_path / "kept")

    done = home.run("recover", "--person", "ada", "--reason", "Compared with the service's books.")

    assert done.returncode == 0, done.stderr
    assert SECOND in done.stdout
    async with home.running() as api:
        assert (await api.begin("deploy", name="new", key="call-new", wait=10))["outcome"] == "success"
    lifted = [record for record in home.records(SECOND) if record["ev"] == "quarantine_lifted"]
    assert [(record["person"], record["reason"]) for record in lifted] == [
        ("ada", "Compared with the service's books.")
    ]
    verified(home, ORIGIN, SECOND)
    assert "Nothing to recover" in home.run("recover", "--person", "ada", "--reason", "x").stdout


async def test_store_and_files_that_contradict_each_other_are_refused_and_an_accepted_loss_starts_a_new_log(
    home: Home, service: DeployService
) -> None:
    home.configure({"deploys": service.url}, ACTIONS)
    async with home.running() as api:
        assert (await api.begin("deploy", name="before", key="call-before", wait=10))["outcome"] == "success"
    segments = sorted((home.log_folder() / "segments").iterdir())
    segments[-1].unlink()
    old = digests(home.log_folder())

    refused = home.run("serve")

    assert refused.returncode != 0
    assert "contradict each other" in refused.stderr
    assert "recover --accept-loss" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "contradict" in home.run("recover", "--person", "ada", "--reason", "x").stderr
    accepted = home.run("recover", "--accept-loss", "--person", "ada", "--reason", "The disk lost a file.")
    assert accepted.returncode == 0, accepted.stderr
    async with home.running() as api:
        assert (await api.begin("deploy", name="new", key="call-new", wait=10))["outcome"] == "success"
        assert len(await api.everything()) == 2
    assert digests(home.log_folder()) == old
    verified(home, SECOND)
