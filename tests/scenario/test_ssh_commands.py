"""Commands over SSH, whatever becomes of the session: the outcome is the host's truth, and nothing runs twice."""

import asyncio
import shutil
from pathlib import Path

import pytest

from adapters.ssh.canary import FORGOTTEN
from gateway.surfaces.cli.client import Client
from tests.scenario.kit import FINAL, LOOK_SECONDS, Document, Home
from tests.scenario.ssh_kit import command, hosted, marks, standing

NAME = "v7"
SLOW = 'until [ -e "$1.go" ]; do sleep 0.05; done'


def probes(document: Document) -> int:
    """Looks so far."""
    return int((document["reconcile"] or {"probes": 0})["probes"])


async def recorded(store: Path, count: int) -> None:
    """Wait until so many exit records stand in the host's store."""
    async with asyncio.timeout(40):
        while len(list(store.rglob("x.*"))) < count:
            await asyncio.sleep(LOOK_SECONDS)


async def test_a_command_that_ends_with_0_is_a_success_with_its_output(home: Home, tmp_path: Path) -> None:
    script = 'printf "moved to %s\\n" "$3"; printf "\\377warned" >&2'
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, script)}) as world:
        done = await world.api.begin("migrate", name=NAME, wait=20)

        assert (done["outcome"], done["executed"], done["basis"]) == ("success", "yes", "answer"), done
        assert done["result"]["stdout"] == {"text": "moved to v7\n", "bytes": 12, "gap": 0, "tail": ""}
        assert done["result"]["stderr"]["text"] == "\ufffdwarned"
        assert (done["result"]["exit"], done["result"]["phase"]) == (0, "exited")
        assert world.runs == [done["operation_id"]]


async def test_a_command_that_fails_is_an_error_that_was_executed(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, "echo half >&2; exit 3")}) as world:
        failed = await world.api.begin("migrate", name=NAME, wait=20)

        assert (failed["outcome"], failed["executed"], failed["basis"]) == ("error", "yes", "answer"), failed
        assert failed["error"]["status"] == 3
        assert failed["result"]["stderr"]["text"] == "half\n"
        assert world.runs == [failed["operation_id"]]


@pytest.mark.parametrize(("script", "outcome"), [("", "success"), ("exit 3", "error")])
async def test_a_session_lost_after_the_command_began_is_unknown_and_then_what_the_host_says(
    home: Home, tmp_path: Path, script: str, outcome: str
) -> None:
    """D16, hashicorp/terraform#391: a lost session was taken for the end of a job that went on."""
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, f"{SLOW}; {script}")}) as world:
        world.proxy.toxics.add("cut_at", attributes={"stage": "command begun"}, times=1)
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        world.proxy.announce("command begun")

        lost = await world.api.until(
            begun["operation_id"],
            lambda seen: seen["evidence"][-1:] != [] and seen["evidence"][-1]["finding"] == "in_progress",
        )
        assert (lost["state"], lost["outcome"], lost["executed"]) == ("in_doubt", "unknown", "unknown")

        (tmp_path / "runs.go").touch()
        ended = await world.api.settled(begun["operation_id"])
        assert (ended["outcome"], ended["executed"], ended["basis"]) == (outcome, "yes", "probe"), ended
        assert world.runs == [begun["operation_id"]]


async def test_a_session_lost_before_the_command_ran_ends_in_a_fence_and_not_executed(
    home: Home, tmp_path: Path
) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        world.service.plan.add("ssh_accept_abort")
        begun = await world.api.begin("migrate", name=NAME)

        ended = await world.api.settled(begun["operation_id"])
        assert (ended["outcome"], ended["executed"], ended["basis"]) == ("error", "no", "fence"), ended
        assert world.runs == []


@pytest.mark.parametrize("fault", ["ssh_refuse_login", "ssh_refuse_session", "ssh_refuse_command"])
async def test_what_the_host_refused_before_it_ran_is_asked_anew(home: Home, tmp_path: Path, fault: str) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        world.service.plan.add(fault)
        done = await world.api.begin("migrate", name=NAME, wait=20)

        assert (done["outcome"], done["basis"], len(done["attempts"])) == ("success", "answer", 2), done
        assert world.runs == [done["operation_id"]]


async def test_a_forced_command_that_reports_0_is_no_success(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        world.service.plan.add("ssh_forced_command")
        begun = await world.api.begin("migrate", name=NAME)

        ended = await world.api.settled(begun["operation_id"])
        assert (ended["outcome"], ended["executed"], ended["basis"]) == ("error", "no", "fence"), ended
        assert world.runs == []


async def test_a_gateway_that_is_killed_while_the_command_runs_finds_out_at_its_next_start(
    home: Home, tmp_path: Path
) -> None:
    """D16, apache/airflow#13747: whoever watched a remote job died, and the job was taken for lost."""
    async with standing(home, tmp_path, {"migrate": command(tmp_path, SLOW)}) as host:
        async with home.process() as first:
            await host.give_key(Client(first.client._address, home.person_key))
            begun = await first.begin("migrate", name=NAME)
            await host.begun()
            await first.kill()
        async with home.process() as second:
            seen = await second.until(
                begun["operation_id"], lambda now: "in_progress" in [item["finding"] for item in now["evidence"]]
            )
            assert (seen["outcome"], seen["executed"]) == ("unknown", "unknown")
            (tmp_path / "runs.go").touch()
            ended = await second.settled(begun["operation_id"])

        assert (ended["outcome"], ended["executed"], ended["basis"]) == ("success", "yes", "probe"), ended
        assert host.runs == [begun["operation_id"]]


async def test_a_host_store_put_back_while_the_gateway_was_down_is_not_believed_that_a_command_never_ran(
    home: Home, tmp_path: Path
) -> None:
    store, kept = tmp_path / "host" / "store", tmp_path / "kept"
    async with standing(home, tmp_path, {"migrate": command(tmp_path, SLOW)}) as host:
        shutil.copytree(store, kept)
        # Before the first connection, which the second command shares.
        host.proxy.toxics.add("cut_at", attributes={"stage": "command begun"}, times=1)
        async with home.running() as api:
            await host.give_key(api.person)
            (tmp_path / "runs.go").touch()
            before = await api.begin("migrate", name="before", wait=20)
            assert before["basis"] == "answer", before
            # It runs, its answer is lost, and so is that to every look.
            (tmp_path / "runs.go").unlink()
            lost = (await api.begin("migrate", name=NAME))["operation_id"]
            await host.begun(2)
            host.service.plan.add("ssh_accept_abort", times=None)
            host.proxy.announce("command begun")
            await api.until(lost, lambda seen: probes(seen) > 0)
        (tmp_path / "runs.go").touch()
        await recorded(store, 2)
        store.rename(tmp_path / "gone")
        shutil.copytree(kept, store)
        host.service.plan.remove()
        async with home.running() as api:
            seen = await api.until(
                lost, lambda now: now["state"] in FINAL or FORGOTTEN in [item["detail"] for item in now["evidence"]]
            )

        assert (seen["state"], seen["outcome"], seen["executed"]) == ("in_doubt", "unknown", "unknown"), seen
        assert host.runs == [before["operation_id"], lost]


async def test_a_command_that_outlasts_its_request_is_in_progress_until_it_ends(home: Home, tmp_path: Path) -> None:
    brief = {"connect": "3s", "request": "4s", "recovery": "2m"}
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, SLOW, deadlines=brief)}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        seen = await world.api.until_state(begun["operation_id"], "in_doubt")
        assert (seen["outcome"], seen["evidence"][0]["finding"]) == ("unknown", "in_progress"), seen

        (tmp_path / "runs.go").touch()
        ended = await world.api.settled(begun["operation_id"])
        assert (ended["outcome"], ended["basis"]) == ("success", "probe"), ended
        assert world.runs == [begun["operation_id"]]


async def test_a_command_whose_lock_is_taken_is_not_run(home: Home, tmp_path: Path) -> None:
    actions = {
        "migrate": command(tmp_path, SLOW, lock="release"),
        "restart": command(tmp_path, lock="release"),
    }
    async with hosted(home, tmp_path, actions) as world:
        first = await world.api.begin("migrate", name=NAME)
        await world.begun()
        refused = await world.api.begin("restart", name=NAME, wait=20)

        assert (refused["outcome"], refused["executed"]) == ("error", "no"), refused
        assert "another command holds its lock; `gateway host unlock" in refused["attempts"][-1]["observation"]
        (tmp_path / "runs.go").touch()
        await world.api.settled(first["operation_id"])
        assert world.runs == [first["operation_id"]]


async def test_a_delivery_that_comes_after_the_verdict_meets_the_fence(home: Home, tmp_path: Path) -> None:
    quick = {"connect": "1s", "request": "2s", "recovery": "1m"}
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, deadlines=quick)}) as world:
        world.proxy.toxics.add("hold_at", stream="upstream", attributes={"stage": "accepted"}, times=1)
        begun = await world.api.begin("migrate", name=NAME)

        ended = await world.api.settled(begun["operation_id"])
        assert (ended["outcome"], ended["executed"], ended["basis"]) == ("error", "no", "fence"), ended

        before = world.stages.count("ended")
        assert world.proxy.release() >= 1
        await world.reached("ended", before + 1)
        assert world.runs == []
        assert (await world.api.get(begun["operation_id"]))["executed"] == "no"


@pytest.mark.parametrize("stage", ["connected", "login", "opened", "asked", "accepted", "ran", "output", "ended"])
async def test_wherever_the_line_is_cut_the_outcome_is_the_hosts_truth(home: Home, tmp_path: Path, stage: str) -> None:
    """D17, ansible/ansible#75142: a plugin's own retries made four attempts of one command."""
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        world.proxy.toxics.add("cut_at", attributes={"stage": stage}, times=1)
        begun = await world.api.begin("migrate", name=NAME)

        ended = await world.api.settled(begun["operation_id"])
        assert ended["executed"] == ("yes" if world.runs else "no"), (ended, world.runs)
        assert len(world.runs) <= 1
        assert (ended["outcome"] == "success") is (len(world.runs) == 1)


async def test_a_status_command_of_ones_own_tells_what_became_of_it(home: Home, tmp_path: Path) -> None:
    status = {
        "command": ["/bin/sh", "-c", 'cat "$1"', "status", str(tmp_path / "status.json")],
        "identify": {"path": "operation_id", "equals": "{operation_id}"},
        "rules": [
            {"path": "phase", "equals": "migrated", "finding": "executed_ok"},
            {"path": "phase", "equals": "migrating", "finding": "in_progress"},
        ],
        "interval": "100ms",
    }
    action = command(tmp_path, SLOW, reconcile=status)
    async with hosted(home, tmp_path, {"migrate": action}) as world:
        world.proxy.toxics.add("cut_at", attributes={"stage": "command begun"}, times=1)
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        world.proxy.announce("command begun")
        record = tmp_path / "status.json"

        for content in ("", '{"phase": "migrated"}', '{"operation_id": "op_other", "phase": "migrated"}', "{} {}"):
            record.write_text(content)
            before = probes(await world.api.get(begun["operation_id"]))
            while probes(await world.api.get(begun["operation_id"])) < before + 2:
                await asyncio.sleep(LOOK_SECONDS)
        assert (await world.api.get(begun["operation_id"]))["outcome"] == "unknown"

        record.write_text(f'{{"operation_id": "{begun["operation_id"]}", "phase": "migrated"}}')
        ended = await world.api.settled(begun["operation_id"])
        assert (ended["outcome"], ended["executed"], ended["basis"]) == ("success", "yes", "probe"), ended
        (tmp_path / "runs.go").touch()
        assert world.runs == [begun["operation_id"]]


async def test_a_host_whose_key_changed_is_asked_nothing_and_people_hear_of_it(home: Home, tmp_path: Path) -> None:
    strange = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1sVDrVWpbSrxBzHhLwQvnGyLSLYt4/4vvcnzLnRTBe"
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}, host_keys=[strange]) as world:
        refused = await world.api.begin("migrate", name=NAME, wait=20)

        assert (refused["outcome"], refused["executed"]) == ("error", "no"), refused
        assert len(refused["attempts"]) == 1
        assert world.service.logins == 1
        assert world.runs == []


async def test_a_read_runs_without_a_record_and_is_repeated_when_its_answer_is_lost(home: Home, tmp_path: Path) -> None:
    action = command(tmp_path, effect="read")
    async with hosted(home, tmp_path, {"look": action}) as world:
        world.proxy.toxics.add("cut_at", attributes={"stage": "ran"}, times=1)
        done = await world.api.begin("look", name=NAME, wait=20)

        assert (done["outcome"], done["basis"]) == ("success", "answer"), done
        assert len(done["attempts"]) == 2


async def test_an_argument_that_would_be_an_option_creates_nothing(home: Home, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    action = command(tmp_path, input=schema, command=[*marks(tmp_path)[:-1], "{name}"])
    async with hosted(home, tmp_path, {"migrate": action}) as world:
        for value in ("-rf", "a\nb", "a\0b", "x" * 60_000):
            refused = await world.api.submit("migrate", name=value)
            assert refused.is_problem, refused.document
            assert refused.document["code"] == "invalid_input"
        assert await world.api.everything() == []
        assert world.runs == []


async def test_the_key_shows_nowhere(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, 'cat "$1.key"')}) as world:
        key = world.service.client_key.export_private_key().decode()
        listed = await world.api.person.call("GET", "/v1/credentials")
        done = await world.api.begin("migrate", name=NAME, wait=20)

    secret = key.splitlines()[2]
    assert secret not in str(listed.document) + str(done)
    for path in sorted(path for path in home.folder.rglob("*") if path.is_file()):
        assert secret.encode() not in path.read_bytes(), path
