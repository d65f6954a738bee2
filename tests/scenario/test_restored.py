"""The database is restored from a backup and knows less than its log: writes are held, nothing is sent twice."""

import asyncio
import hashlib
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from audit.trust import TrustPolicy
from fixtures.service.server import DeployService
from gateway.engine.log_keys import KeyFile
from gateway.office import Paths
from tests.scenario.kit import (
    LOOK_SECONDS,
    ORIGIN,
    READ,
    READY_SECONDS,
    Document,
    Home,
    Inside,
    brief_action,
    claims_hold,
    effects,
    sends,
)

SECOND: Final = f"{ORIGIN}/2"
DATABASE: Final = ("gateway.db", "gateway.db-wal", "gateway.db-shm")
ACTIONS: Final = {"deploy": brief_action(), "read": READ, "put": brief_action("PUT")}


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
    keys = tuple(signer.key for signer in KeyFile(Paths(home.data).log_key).read())
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


RECOVER: Final = ("recover", "--person", "ada", "--reason", "Restored after a disk failure.")


def recover_with_key(home: Home) -> str:
    done = home.run(*RECOVER, "--auditor-key", str(home.folder / "auditor.key"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("served", [False, True], ids=["at once", "after a start in quarantine"])
async def test_what_the_log_knows_and_the_store_forgot_is_never_done_again(
    served: bool, home: Home, service: DeployService, tmp_path: Path
) -> None:
    """The caller comes again for an operation that the restored store has never heard of."""
    lost = await write_then_lose_it(home, service, tmp_path / "kept")
    if served:
        async with home.running() as api:
            await check_held(api)

    assert "1 operations that the store does not know" in recover_with_key(home)

    async with home.running() as api:
        by_key = await api.submit("deploy", name="lost", key="call-lost", wait=5)
        assert (by_key.status, by_key.document["code"]) == (422, "key_reused")
        assert by_key.document["operation_id"] == lost["operation_id"]
        other_arguments = await api.submit("deploy", name="else", key="call-lost", wait=5)
        assert other_arguments.document["code"] == "key_reused"
        keyless = await api.submit("deploy", name="lost", wait=5)
        assert (keyless.status, keyless.document["code"]) == (409, "probable_repeat")
        assert effects(service.ledger.entries, lost["operation_id"]) == 1
        assert len(sends(service.ledger.entries)) == 2
        # Meant to be done once more, and what was never done, go ahead.
        assert (await api.begin("deploy", name="lost", key="once-more", wait=10))["outcome"] == "success"
        assert (await api.begin("deploy", name="new", key="call-new", wait=10))["outcome"] == "success"
    lifted = [record for record in home.records(SECOND) if record["ev"] == "quarantine_lifted"]
    assert [(record["log_read"], record["buried"]) for record in lifted] == [(True, 1)]
    verified(home, ORIGIN, SECOND)


async def test_what_was_lost_in_doubt_needs_a_person_before_it_is_done_again(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    """Lost while nobody knew whether it was carried out: no key of the caller's makes it safe to send again."""
    home.configure({"deploys": service.url}, ACTIONS)
    async with home.running() as api:
        assert (await api.begin("deploy", name="before", key="call-before", wait=10))["outcome"] == "success"
    back_up(home, tmp_path / "kept")
    service.faults.add("commit_then_drop")
    service.faults.add("lookup_unavailable", times=None)
    async with home.running() as api:
        lost = await api.begin("deploy", name="lost", key="call-lost")
        await api.until_state(lost["operation_id"], "in_doubt")
    service.faults.remove()
    restore(home, tmp_path / "kept")

    recover_with_key(home)

    async with home.running() as api:
        for key in ("call-lost", "another", None):
            answer = await api.submit("deploy", name="lost", key=key, wait=5)
            assert (answer.status, answer.document["code"]) == (409, "predecessor_unsettled")
            assert answer.document["operation_id"] == lost["operation_id"]
            assert "`supersedes`" in answer.document["guidance"]
        assert len(sends(service.ledger.entries)) == 2
        body = {"action": "deploy", "args": {"name": "lost"}, "supersedes": lost["operation_id"]}
        answer = await api.person.call("POST", "/v1/operations", body=body, wait_seconds=10)
        assert answer.document["outcome"] == "success"
        # It was replaced by a person; the caller may go on.
        assert (await api.begin("deploy", name="lost", key="another", wait=10))["outcome"] == "success"
    verified(home, SECOND)


async def unsent_in_the_backup(home: Home, service: DeployService, kept: Path, fault: str | None) -> Document:
    """An operation that waits for a place to be sent from when the backup is made, and is sent after it."""
    actions = {"deploy": brief_action(service="narrow"), "blocker": brief_action("PUT", service="narrow"), "read": READ}
    services = {"deploys": service.url}
    narrow = {"base_url": service.url, "allow_private": True, "limits": {"concurrency": 1}}
    home.configure({**services, "narrow": narrow}, actions)
    service.faults.add("read_then_hang", match={"method": "PUT"})
    async with home.process() as api:
        await api.begin("blocker", name="first", key="call-blocker")
        await service.wait_for(lambda entry: entry.method == "PUT")
        waiting = await api.begin("deploy", name="web", key="call-web")
        assert waiting["state"] == "ready"
        await api.kill()
    back_up(home, kept)
    if fault is not None:
        service.faults.add(fault, match={"method": "POST"})
    async with home.running() as api:
        await service.wait_for(lambda entry: entry.method == "POST" and entry.op == waiting["operation_id"])
        await api.settled(waiting["operation_id"])
    restore(home, kept)
    return waiting


@pytest.mark.parametrize("way", ["with the log", "without the log", "served in quarantine first"])
async def test_what_the_backup_believes_to_be_unsent_is_looked_for_and_not_sent_again(
    way: str, home: Home, service: DeployService, tmp_path: Path
) -> None:
    """The backup was made between admission and begin; the request went out after it."""
    waiting = await unsent_in_the_backup(home, service, tmp_path / "kept", "commit_then_drop")
    if way == "served in quarantine first":
        async with home.running() as api:
            held = await api.settled(waiting["operation_id"])
            assert held["outcome"] == "success"
    if way == "with the log":
        assert "1 operations that seemed to be unsent are in doubt" in recover_with_key(home)
    else:
        assert home.run(*RECOVER).returncode == 0
    async with home.running() as api:
        document = await api.settled(waiting["operation_id"])
        everything = [await api.settled(item["operation_id"]) for item in await api.everything()]
    assert (document["outcome"], document["executed"], document["basis"]) == ("success", "yes", "probe")
    assert len(sends(service.ledger.entries, waiting["operation_id"])) == 1
    assert claims_hold(everything, service.ledger.entries) == []
    verified(home, ORIGIN, SECOND)


async def test_a_cancellation_that_the_backup_does_not_know_stands(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    """The caller was told that nothing was executed; the restored store would still send it."""
    narrow = {"base_url": service.url, "allow_private": True, "limits": {"concurrency": 1}}
    actions = {"deploy": brief_action(service="narrow"), "blocker": brief_action("PUT", service="narrow")}
    home.configure({"narrow": narrow}, actions)
    service.faults.add("read_then_hang", match={"method": "PUT"}, times=None)
    async with home.process() as api:
        await api.begin("blocker", name="first", key="call-blocker")
        await service.wait_for(lambda entry: entry.method == "PUT")
        waiting = await api.begin("deploy", name="web", key="call-web")
        # A backup of a running gateway, at one moment.
        api.send(signal.SIGSTOP)
        back_up(home, tmp_path / "kept")
        api.send(signal.SIGCONT)
        cancelled = await api.client.call("POST", f"/v1/operations/{waiting['operation_id']}/cancel")
        assert cancelled.document["state"] == "cancelled"
        api.send(signal.SIGTERM)
        assert await api.ended() == 0
    restore(home, tmp_path / "kept")

    assert "1 were cancelled again" in recover_with_key(home)

    async with home.running() as api:
        document = await api.get(waiting["operation_id"])
    assert (document["state"], document["executed"]) == ("cancelled", "no")
    assert sends(service.ledger.entries, waiting["operation_id"]) == []


async def test_a_key_that_was_revoked_after_the_backup_does_not_come_back_to_life(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    home.configure({"deploys": service.url}, ACTIONS)
    back_up(home, tmp_path / "kept")
    async with home.running() as api:
        key_id = home.caller_key.removeprefix("gwk_").partition("_")[0]
        assert (await api.person.call("DELETE", f"/v1/keys/{key_id}")).status == 204
    restore(home, tmp_path / "kept")

    assert "1 keys were revoked again" in recover_with_key(home)

    async with home.running() as api:
        assert (await api.submit("deploy", name="new")).status == 401
    verified(home, SECOND)


async def test_a_key_that_does_not_open_the_log_lifts_nothing(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    await write_then_lose_it(home, service, tmp_path / "kept")
    other = tmp_path / "other.key"
    made = home.run_audit("keygen", "auditor", "--out", str(other))
    assert made.returncode == 0, made.stderr

    refused = home.run(*RECOVER, "--auditor-key", str(other))

    assert refused.returncode != 0
    assert "cannot be read with this key" in refused.stderr
    assert "Traceback" not in refused.stderr
    async with home.running() as api:
        await check_held(api)


def changed(path: Path, before: bytes) -> Callable[[], bool]:
    return lambda: path.read_bytes() != before


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while not holds():
            await asyncio.sleep(LOOK_SECONDS)


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
