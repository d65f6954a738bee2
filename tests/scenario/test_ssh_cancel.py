"""Cancelling a command on a host: fenced before it begins, signalled after, and its own record has the last word."""

from pathlib import Path

import pytest

from tests.scenario.kit import Document, Home, taken
from tests.scenario.ssh_kit import Hosted, command, hosted

NAME = "v7"
WAITS = 'echo ready; while [ ! -e "$1.go" ]; do sleep 0.05; done'
LONG: Document = {"connect": "3s", "request": "30s", "recovery": "2m"}


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
        ended = await world.api.settled(begun["operation_id"])

    assert seen["attempts"][1]["kind"] == "cancel"
    assert (ended["outcome"], ended["executed"], ended["contradicted"]) == ("error", "yes", False), ended
    assert (ended["result"]["exit"], ended["result"]["cancel_asked"]) == (status, True)
    assert world.runs == [begun["operation_id"]]
    (record,) = [item for item in home.records() if item.get("ev") == "cancel"]
    assert (record["actor"], record["signal"]) == (begun["caller"], signal)
    assert record["op"] == begun["operation_id"]


async def test_a_command_that_ignores_the_signal_ends_as_it_likes(home: Home, tmp_path: Path) -> None:
    script = f'trap "" TERM; {WAITS}; echo whole'
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, script)}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        lost = await world.api.until_state(begun["operation_id"], "in_doubt")
        assert lost["outcome"] == "unknown"
        told = await cancelled(world, begun["operation_id"])
        assert (told["outcome"], told["executed"]) == ("unknown", "unknown")
        assert "sent TERM; its end is still to come" in told["evidence"][-1]["detail"]

        (tmp_path / "runs.go").touch()
        ended = await world.api.settled(begun["operation_id"])
    assert (ended["outcome"], ended["executed"], ended["basis"]) == ("success", "yes", "probe"), ended
    assert world.runs == [begun["operation_id"]]


async def test_a_command_that_had_not_begun_never_will(home: Home, tmp_path: Path) -> None:
    """Its delivery is held on the way, the cancel overtakes it, and the late copy finds the door shut."""
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        world.proxy.toxics.add("hold_at", stream="upstream", attributes={"stage": "accepted"}, times=1)
        begun = await world.api.begin("migrate", name=NAME)
        await world.reached("accepted")
        done = await cancelled(world, begun["operation_id"])
        assert done["attempts"][1]["observation"] == "the host says that it never ran and never will"
        world.proxy.release()
        ended = await world.api.settled(begun["operation_id"])

    assert (ended["outcome"], ended["executed"]) == ("error", "no"), ended
    assert world.runs == []


async def test_an_action_whose_host_keeps_no_record_cannot_be_cancelled_once_it_left(
    home: Home, tmp_path: Path
) -> None:
    action = command(tmp_path, WAITS, marker="none", unknown_accepted=True, reason="only a test")
    async with hosted(home, tmp_path, {"migrate": action}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        path = f"/v1/operations/{begun['operation_id']}/cancel"
        answer = await world.api.client.call("POST", path, wait_seconds=30)
        (tmp_path / "runs.go").touch()
        ended = await world.api.until_state(begun["operation_id"], "succeeded", "unresolved")

    assert (answer.status, answer.document["code"]) == (409, "wrong_state")
    assert ended["outcome"] in {"success", "unknown"}
