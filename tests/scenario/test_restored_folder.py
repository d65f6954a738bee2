"""A whole data folder, log and keys included, that was put back or runs twice: only what lies elsewhere tells."""

import shutil
import signal
from pathlib import Path

import pytest

from fixtures.service.server import DeployService
from tests.scenario.kit import (
    ORIGIN,
    Document,
    Home,
    sends,
)
from tests.scenario.restoring import ACTIONS, RECOVER, SECOND, changed, digests, recover_with_key, until, verified

# -- the whole folder: database, log and keys together ------------------------------------------------------------


def put_back(home: Home, kept: Path) -> None:
    shutil.rmtree(home.data)
    shutil.copytree(kept, home.data)


async def lose_the_last_call(home: Home, service: DeployService, kept: Path) -> Document:
    """A call, a copy of everything but the anchors, one more call; then the copy is put back. All by processes."""
    home.configure({"deploys": service.url}, ACTIONS)
    async with home.process() as api:
        await api.begin("deploy", name="before", key="call-before", wait=10)
        api.send(signal.SIGTERM)
        assert await api.ended() == 0
    shutil.copytree(home.data, kept)
    async with home.process() as api:
        lost = await api.begin("deploy", name="lost", key="call-lost", wait=10)
        assert lost["outcome"] == "success"
        api.send(signal.SIGTERM)
        assert await api.ended() == 0
    put_back(home, kept)
    return lost


@pytest.mark.timeout(180)  # several processes, one after the other, on a machine that may be busy
async def test_a_whole_folder_that_is_older_than_its_anchor_holds_writes_and_sends_nothing_twice(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    await lose_the_last_call(home, service, tmp_path / "kept")
    old = digests(home.log_folder())
    async with home.process() as api:
        again = await api.submit("deploy", name="lost", key="call-lost", wait=5)
        assert (again.status, again.document["code"]) == (503, "quarantined")
        assert (await api.begin("read", name="staging", wait=10))["outcome"] == "success"
        api.send(signal.SIGTERM)
        assert await api.ended() == 0
    assert len(sends(service.ledger.entries)) == 2
    assert digests(home.log_folder()) == old
    started = [record for record in home.records(SECOND) if record["ev"] == "started"]
    assert all("rolled back or forked" in record["quarantine"] for record in started)
    assert "writes are held: the log was rolled back" in home.run("doctor").stdout

    said = recover_with_key(home)
    assert "nothing keeps it from being done a second time" in said
    assert SECOND in said
    assert "Nothing to recover" in home.run(*RECOVER).stdout
    async with home.running() as api_again:
        assert (await api_again.begin("deploy", name="new", key="call-new", wait=10))["outcome"] == "success"
    verified(home, SECOND)

    # The same copy is put back once more: the name that it gave itself then is taken.
    put_back(home, tmp_path / "kept")
    assert f"{ORIGIN}/3" in home.run(*RECOVER).stdout


@pytest.mark.timeout(180)  # several processes, one after the other, on a machine that may be busy
async def test_a_clone_that_went_its_own_way_holds_writes(home: Home, service: DeployService, tmp_path: Path) -> None:
    """Two folders wrote different entries at the same places, and share an anchor."""
    await lose_the_last_call(home, service, tmp_path / "kept")
    aside = home.folder / "anchors-aside"
    (home.folder / "anchors").rename(aside)
    (home.folder / "anchors").mkdir()
    async with home.running() as api:
        for number in range(20):
            await api.begin("deploy", name=f"clone-{number}", wait=10)
    shutil.rmtree(home.folder / "anchors")
    aside.rename(home.folder / "anchors")
    async with home.running() as api:
        answer = await api.submit("deploy", name="new", key="call-new")
        assert (answer.status, answer.document["code"]) == (503, "quarantined")
    started = [record for record in home.records(SECOND) if record["ev"] == "started"]
    assert "made of others than those of this log" in started[0]["quarantine"]


async def test_a_folder_that_runs_twice_is_noticed_by_the_one_that_finds_the_other_in_its_anchor(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    """Both are at work when one first sees the anchor of the other, as two copies of a running machine are; it holds
    writes, and says so.
    """
    seldom = {"checkpoint_interval_seconds": 3600.0}
    home.configure({"deploys": service.url}, ACTIONS, audit=seldom)
    async with home.running() as api:
        await api.begin("deploy", name="before", key="call-before", wait=10)
    twin = home.copy_to(tmp_path / "twin")
    twin.configure({"deploys": service.url}, ACTIONS, audit=seldom)
    anchored, aside = (folder / "anchors" / "checkpoint" for folder in (home.folder, twin.folder))
    before = anchored.read_bytes()
    async with home.running() as one, twin.running() as other:
        for api, place in ((one, anchored), (other, aside)):
            api.running.keeper.hasten()
            await until(changed(place, before))
            assert api.running.keeper.refusal() is None
        written = anchored.read_bytes()
        shutil.rmtree(twin.folder / "anchors")
        (twin.folder / "anchors").symlink_to(home.folder / "anchors")
        with other.running.assembly.hub.subscribe(None) as alerts:
            other.running.keeper.hasten()
            await until(lambda: other.running.keeper.refusal() is not None)
            told = [notice.data.get("alert") for notice in alerts.queue]
        assert "audit_checkpoint_refused" in told
        held = await other.submit("deploy", name="again", key="call-again")
        assert (held.status, held.document["code"]) == (503, "audit_unavailable")
        assert "runs elsewhere" in held.document["detail"]
        # The one that is alone in the anchor goes on.
        assert anchored.read_bytes() == written
        assert (await one.begin("deploy", name="new", key="call-new", wait=10))["outcome"] == "success"
        one.running.keeper.hasten()
        await until(changed(anchored, written))
        assert one.running.keeper.refusal() is None
    async with twin.running() as api:
        answer = await api.submit("deploy", name="again", key="call-again")
        assert (answer.status, answer.document["code"]) == (503, "quarantined")
    assert len(sends(service.ledger.entries)) == 2


async def test_a_start_after_a_kill_is_no_rollback(home: Home, service: DeployService) -> None:
    quick = {"seal_interval_seconds": 0.05, "checkpoint_interval_seconds": 0.05}
    home.configure({"deploys": service.url}, ACTIONS, audit=quick)
    for number in range(3):
        async with home.process() as api:
            await api.begin("deploy", name=f"n-{number}", key=f"call-{number}", wait=10)
            await api.kill()
    async with home.running() as last:
        assert (await last.begin("deploy", name="new", key="call-new", wait=10))["outcome"] == "success"
    verified(home, ORIGIN)


async def test_a_damaged_file_is_refused_with_what_to_do_and_that_helps(home: Home, service: DeployService) -> None:
    home.configure({"deploys": service.url}, ACTIONS)
    last = max((home.log_folder() / "segments").glob("*.agl"))
    content = bytearray(last.read_bytes())
    content[30] ^= 1
    last.write_bytes(content)
    refused = home.run("recover", "--person", "ada", "--reason", "x")
    assert refused.returncode != 0
    assert "damage, not a torn end" in refused.stderr
    assert "`gateway doctor` says which file" in " ".join(refused.stderr.split())
    assert home.run(*RECOVER, "--accept-loss").returncode == 0
    async with home.running() as api:
        assert (await api.begin("deploy", name="new", key="call-new", wait=10))["outcome"] == "success"
