"""Cancelling a command on a host: fenced before it begins, signalled after, and its own record has the last word."""

from pathlib import Path

import pytest

from tests.scenario.kit import Document, Home, taken
from tests.scenario.ssh_kit import Hosted, command, hosted

pytestmark = pytest.mark.timeout(180)

NAME = "v7"
WAITS = 'echo ready; while [ ! -e "$1.go" ]; do sleep 0.05; done'
LONG: Document = {"connect": "15s", "request": "40s", "recovery": "10m"}
"""No deadline decides, however slow the machine is."""
SECONDS = 60.0


async def cancelled(world: Hosted, operation: str, signal: str = "TERM") -> Document:
    path = f"/v1/operations/{operation}/cancel"
    return taken(await world.api.client.call("POST", path, query={"signal": signal}, wait_seconds=30))


@pytest.mark.parametrize(("signal", "status"), [("TERM", 143), ("KILL", 137)])
async def test_a_running_command_is_signalled_and_ends_as_its_record_says(
    home: Home, tmp_path: Path, signal: str, status: int
) -> None:
    """While the attempt is still under way: both sessions are open at once."""
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, WAITS, deadlines=LONG)}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        seen = await cancelled(world, begun["operation_id"], signal)
        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)

    assert seen["attempts"][1]["kind"] == "cancel"
    assert (ended["outcome"], ended["executed"], ended["contradicted"]) == ("error", "yes", False), ended
    assert (ended["result"]["exit"], ended["result"]["cancel_asked"]) == (status, True)
    assert world.runs == [begun["operation_id"]]
    (record,) = [item for item in home.records() if item.get("ev") == "cancel"]
    assert (record["actor"], record["signal"]) == (begun["caller"], signal)
    assert record["op"] == begun["operation_id"]


@pytest.mark.parametrize("basis", ["answer", "probe"])
async def test_a_command_that_ignores_the_signal_ends_as_it_likes(home: Home, tmp_path: Path, basis: str) -> None:
    """With the session of the attempt still open, and after it was lost."""
    ledger = tmp_path / "runs"
    words = [
        "/bin/sh",
        "-c",
        f"trap '' TERM; echo $GATEWAY_OPERATION >>'{ledger}'; set -- '{ledger}'; {WAITS}; echo whole",
    ]
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, deadlines=LONG, command=words)}) as world:
        if basis == "probe":
            world.proxy.toxics.add("cut_at", attributes={"stage": "command begun"}, times=1)
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        world.proxy.announce("command begun")
        if basis == "probe":
            await world.api.until_state(begun["operation_id"], "in_doubt", seconds=SECONDS)
        told = await cancelled(world, begun["operation_id"])
        assert (told["outcome"], told["executed"]) == ("unknown", "unknown")
        (wish,) = [item for item in told["attempts"] if item["kind"] == "cancel"]
        assert "sent TERM; its end is still to come" in wish["observation"]

        (tmp_path / "runs.go").touch()
        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)
    assert (ended["outcome"], ended["executed"], ended["basis"]) == ("success", "yes", basis), ended
    assert ended["result"]["cancel_asked"] is True
    assert world.runs == [begun["operation_id"]]


async def test_a_command_that_had_not_begun_never_will(home: Home, tmp_path: Path) -> None:
    """Its delivery is held on the way, the cancel overtakes it, and the late copy finds the door shut."""
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, deadlines=LONG)}) as world:
        world.proxy.toxics.add("hold_at", stream="upstream", attributes={"stage": "accepted"}, times=1)
        begun = await world.api.begin("migrate", name=NAME)
        await world.reached("accepted")
        done = await cancelled(world, begun["operation_id"])
        assert done["attempts"][1]["observation"] == "the host says that it never ran and never will"
        world.proxy.release()
        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)

    assert (ended["outcome"], ended["executed"]) == ("error", "no"), ended
    assert world.runs == []


async def test_an_action_whose_host_keeps_no_record_cannot_be_cancelled_once_it_left(
    home: Home, tmp_path: Path
) -> None:
    action = command(tmp_path, WAITS, deadlines=LONG, marker="none", unknown_accepted=True, reason="only a test")
    async with hosted(home, tmp_path, {"migrate": action}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        path = f"/v1/operations/{begun['operation_id']}/cancel"
        answer = await world.api.client.call("POST", path, wait_seconds=30)
        (tmp_path / "runs.go").touch()
        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)

    assert (answer.status, answer.document["code"]) == (409, "wrong_state")
    assert ended["outcome"] == "success"


async def test_a_job_that_is_cancelled_ends_at_the_step_that_runs(home: Home, tmp_path: Path) -> None:
    """The signal ends one step by its record, and no step after it is begun."""
    ledger = tmp_path / "runs"
    steps = [
        {"name": name, "command": ["/bin/sh", "-c", f"echo {name} >>'{ledger}'; set -- '{ledger}'; {script}"]}
        for name, script in (("migrate", WAITS), ("restart", "true"))
    ]
    job = {name: value for name, value in command(tmp_path, deadlines=LONG).items() if name != "command"}
    async with hosted(home, tmp_path, {"release": job | {"steps": steps}}) as world:
        begun = await world.api.begin("release", name=NAME)
        await world.begun()
        await cancelled(world, begun["operation_id"])
        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)

    assert (ended["outcome"], ended["executed"]) == ("error", "yes"), ended
    assert ended["steps"][0]["state"] == "failed", ended["steps"]
    assert world.runs == ["migrate"]
