"""The database is restored from a backup and knows less than its log: writes are held, nothing is sent twice."""

import shutil
import signal
from pathlib import Path

import pytest

from fixtures.service.server import DeployService
from tests.scenario.kit import (
    ORIGIN,
    READ,
    Document,
    Home,
    Inside,
    brief_action,
    claims_hold,
    effects,
    sends,
)
from tests.scenario.restoring import ACTIONS, DATABASE, RECOVER, SECOND, digests, recover_with_key, verified


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
