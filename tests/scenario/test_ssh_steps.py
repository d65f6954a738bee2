"""A job of several commands over SSH: each runs at most once, and after a loss it goes on where it stands still."""

from pathlib import Path
from typing import Any

from tests.scenario.kit import INPUT, Document, Home
from tests.scenario.ssh_kit import DEADLINES, hosted

NAME = "v7"


def step(folder: Path, name: str, script: str = "", **more: Any) -> Document:
    """A command that leaves its name in the ledger each time it runs."""
    words = ["/bin/sh", "-c", f'echo "$2" >>"$1"; {script}', "step", str(folder / "runs"), name]
    return {"name": name, "command": words} | more


def job(*steps: Document, **more: Any) -> Document:
    return {
        "description": "Release a version.",
        "effect": "irreversible",
        "host": "web-1",
        "input": INPUT,
        "steps": list(steps),
        "deadlines": DEADLINES,
    } | more


def states(document: Document) -> list[str]:
    return [item["state"] for item in document["steps"]]


async def test_a_job_runs_its_steps_in_order_and_tells_of_each(home: Home, tmp_path: Path) -> None:
    release = job(
        step(tmp_path, "backup", "echo saved"), step(tmp_path, "migrate", "echo moved"), step(tmp_path, "restart")
    )
    async with hosted(home, tmp_path, {"release": release}) as world:
        done = await world.api.begin("release", name=NAME, wait=20)

        assert (done["outcome"], done["executed"], done["basis"]) == ("success", "yes", "answer"), done
        assert done["steps"] == [
            {"name": name, "state": "succeeded", "exit": 0} for name in ("backup", "migrate", "restart")
        ]
        assert [item["stdout"]["text"] for item in done["result"]["steps"]] == ["saved\n", "moved\n", ""]
        assert world.runs == ["backup", "migrate", "restart"]


async def test_a_session_lost_between_migrate_and_restart_is_unknown_and_then_goes_on_at_restart(
    home: Home, tmp_path: Path
) -> None:
    release = job(step(tmp_path, "migrate"), step(tmp_path, "restart"))
    async with hosted(home, tmp_path, {"release": release}) as world:
        world.service.plan.add("ssh_accept_abort", skip=1)
        begun = await world.api.begin("release", name=NAME)
        lost = await world.api.until(begun["operation_id"], lambda seen: seen["evidence"] != [])
        assert (lost["outcome"], lost["executed"]) == ("unknown", "unknown"), lost

        ended = await world.api.settled(begun["operation_id"])
        assert (ended["outcome"], ended["executed"]) == ("success", "yes"), ended
        assert [item["kind"] for item in ended["attempts"]] == ["send", "send"]
        assert world.runs == ["migrate", "restart"]
