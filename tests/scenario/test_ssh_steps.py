"""A job of several commands over SSH: each runs at most once, and after a loss it goes on where it stands still."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from gateway.engine.clock import SystemClock
from gateway.surfaces.cli.client import Client
from tests.scenario.kit import INPUT, Document, Home
from tests.scenario.ssh_kit import hosted, standing

NAME = "v7"
SLOW = 'until [ -e "$1.go" ]; do sleep 0.05; done'
LONG: Document = {"connect": "15s", "request": "40s", "recovery": "10m"}
"""No deadline decides, however slow the machine is."""
SECONDS = 60.0


def step(folder: Path, name: str, script: str = "", **more: Any) -> Document:
    """A command that leaves its name in the ledger each time it runs."""
    words = ["/bin/sh", "-c", f'echo "$2" >>"$1"; {script}', "step", str(folder / "runs"), name]
    return {"name": name, "command": words} | more


def job(*steps: Document, deadlines: Document = LONG, **more: Any) -> Document:
    return {
        "description": "Release a version.",
        "effect": "irreversible",
        "host": "web-1",
        "input": INPUT,
        "steps": list(steps),
        "deadlines": deadlines,
    } | more


def states(document: Document) -> list[str]:
    return [item["state"] for item in document["steps"]]


async def test_a_job_runs_its_steps_in_order_and_tells_of_each(home: Home, tmp_path: Path) -> None:
    release = job(
        step(tmp_path, "backup", "echo saved"), step(tmp_path, "migrate", "exit 3", success={"exit": [0, 3]}),
        step(tmp_path, "restart", "echo up >&2"),
    )  # fmt: skip
    async with hosted(home, tmp_path, {"release": release}) as world:
        done = await world.api.begin("release", name=NAME, wait=50)

        assert (done["outcome"], done["executed"], done["basis"]) == ("success", "yes", "answer"), done
        assert [(item["name"], item["state"], item["exit"]) for item in done["steps"]] == [
            ("backup", "succeeded", 0), ("migrate", "succeeded", 3), ("restart", "succeeded", 0),
        ]  # fmt: skip
        told = {item["name"]: item for item in done["result"]["steps"]}
        assert (told["backup"]["stdout"]["text"], told["restart"]["stderr"]["text"]) == ("saved\n", "up\n")
        assert world.runs == ["backup", "migrate", "restart"]
        shown = (await world.api.client.call("GET", "/v1/actions/release")).document
        assert shown["steps"] == ["backup", "migrate", "restart"]
        assert "at most once" in shown["repeat"]


async def test_a_step_that_fails_ends_the_job_and_the_next_one_never_runs(home: Home, tmp_path: Path) -> None:
    release = job(
        step(tmp_path, "backup"), step(tmp_path, "migrate", "echo broken >&2; exit 5"), step(tmp_path, "restart")
    )
    async with hosted(home, tmp_path, {"release": release}) as world:
        failed = await world.api.begin("release", name=NAME, wait=50)

        assert (failed["outcome"], failed["executed"], failed["next_step"]) == ("error", "yes", "do_not_repeat"), failed
        assert states(failed) == ["succeeded", "failed", "not_begun"]
        assert failed["error"]["status"] == 5
        assert "migrate failed with exit status 5; restart has not begun" in failed["error"]["detail"]
        assert failed["result"]["steps"][1]["stderr"]["text"] == "broken\n"
        assert world.runs == ["backup", "migrate"]


@pytest.mark.parametrize("fault", ["ssh_accept_abort", "ssh_refuse_session"])
async def test_a_session_that_dies_between_migrate_and_restart_leads_on_at_restart(
    home: Home, tmp_path: Path, fault: str
) -> None:
    release = job(step(tmp_path, "migrate"), step(tmp_path, "restart"))
    async with hosted(home, tmp_path, {"release": release}) as world:
        world.service.plan.add(fault, skip=1)
        begun = await world.api.begin("release", name=NAME)
        lost = await world.api.until(begun["operation_id"], lambda seen: seen["evidence"] != [], seconds=SECONDS)
        assert lost["evidence"][0]["finding"] == "inconclusive"

        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)
        assert (ended["outcome"], ended["executed"]) == ("success", "yes"), ended
        assert states(ended) == ["succeeded", "succeeded"]
        assert world.runs == ["migrate", "restart"]


async def test_a_session_that_dies_inside_a_step_takes_that_steps_record_and_goes_on(
    home: Home, tmp_path: Path
) -> None:
    release = job(step(tmp_path, "migrate", f"{SLOW}; echo moved"), step(tmp_path, "restart"))
    async with hosted(home, tmp_path, {"release": release}) as world:
        world.proxy.toxics.add("cut_at", attributes={"stage": "migrate begun"}, times=1)
        begun = await world.api.begin("release", name=NAME)
        await world.begun()
        world.proxy.announce("migrate begun")
        lost = await world.api.until(
            begun["operation_id"], lambda seen: states(seen) == ["running", "not_begun"], seconds=SECONDS
        )
        assert (lost["state"], lost["outcome"], lost["executed"]) == ("in_doubt", "unknown", "unknown")
        assert world.runs == ["migrate"]

        (tmp_path / "runs.go").touch()
        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)
        assert (ended["outcome"], states(ended)) == ("success", ["succeeded", "succeeded"]), ended
        assert ended["result"]["steps"][0]["stdout"]["text"] == "moved\n"
        assert world.runs == ["migrate", "restart"]


async def test_a_gateway_that_is_killed_between_two_steps_goes_on_at_its_next_start(home: Home, tmp_path: Path) -> None:
    release = job(step(tmp_path, "migrate"), step(tmp_path, "restart"))
    async with standing(home, tmp_path, {"release": release}) as host:
        # What the dying gateway sent for the second step stays on its way until the end.
        host.proxy.toxics.add("hold_at", stream="upstream", attributes={"stage": "accepted 2"}, times=1)
        async with home.process() as first:
            await host.give_key(Client(first.client._address, home.person_key))
            begun = await first.begin("release", name=NAME)
            await host.reached("accepted", 2)
            await first.kill()
        assert host.runs == ["migrate"]
        async with home.process() as second:
            ended = await second.settled(begun["operation_id"], seconds=SECONDS)
            assert (ended["outcome"], states(ended)) == ("success", ["succeeded", "succeeded"]), ended
            assert host.runs == ["migrate", "restart"]

            before = host.stages.count("ended")
            host.proxy.release()
            await host.reached("ended", before + 1)
            assert (await second.get(begun["operation_id"]))["contradicted"] is False
        assert host.runs == ["migrate", "restart"]


async def test_a_late_delivery_of_a_step_that_was_given_up_meets_its_fence(home: Home, tmp_path: Path) -> None:
    release = job(step(tmp_path, "migrate"), step(tmp_path, "restart"))
    async with standing(home, tmp_path, {"release": release}) as host:
        host.proxy.toxics.add("hold_at", stream="upstream", attributes={"stage": "accepted 2"}, times=1)
        async with home.running() as api:
            await host.give_key(api.person)
            begun = await api.begin("release", name=NAME)
            await host.reached("accepted", 2)
            asked = await api.client.call("POST", f"/v1/operations/{begun['operation_id']}/cancel")
            assert not asked.is_problem, asked.document
        # Whoever waits for the attempt's own answer is gone, and what it sent is still on its way.
        async with home.running() as api:
            ended = await api.settled(begun["operation_id"], seconds=SECONDS)
            assert (ended["outcome"], ended["executed"], ended["basis"]) == ("error", "yes", "fence"), ended
            assert states(ended) == ["succeeded", "never_ran"]
            assert ended["error"]["code"] == "executed_in_part"
            assert host.runs == ["migrate"]

            before = host.stages.count("ended")
            host.proxy.release()
            await host.reached("ended", before + 1)
            assert states(await api.get(begun["operation_id"])) == ["succeeded", "never_ran"]
        assert host.runs == ["migrate"]


class Jumping(SystemClock):
    """The machine's clock, or ahead of it: an hour passes when the test says so."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


async def test_a_host_that_restarts_inside_a_step_leaves_it_to_a_person_and_nothing_runs_again(
    home: Home, tmp_path: Path
) -> None:
    release = job(step(tmp_path, "backup"), step(tmp_path, "migrate", SLOW), step(tmp_path, "restart"))
    clock = Jumping()
    async with standing(home, tmp_path, {"release": release}) as host, home.running(clock=clock) as api:
        await host.give_key(api.person)
        host.proxy.toxics.add("cut_at", attributes={"stage": "host restarts"}, times=1)
        begun = await api.begin("release", name=NAME)
        name = begun["operation_id"]
        await api.until(name, lambda _seen: host.runs == ["backup", "migrate"], seconds=SECONDS)
        restart_host(tmp_path, f"{name}.migrate")
        host.proxy.announce("host restarts")

        lost = await api.until(name, lambda seen: states(seen)[1] == "lost", seconds=SECONDS)
        assert (lost["state"], lost["outcome"], lost["executed"]) == ("in_doubt", "unknown", "unknown"), lost
        clock.ahead_ms = 3_600_000
        left = await api.until_state(name, "unresolved", seconds=SECONDS)
        assert (left["outcome"], left["executed"], left["next_step"]) == ("unknown", "unknown", "ask_person"), left
        assert states(left) == ["succeeded", "lost", "not_begun"]
        assert "no record of its end" in left["evidence"][-1]["detail"]
        assert f"gateway operations attest {name} --outcome" in left["guidance"]

        word = {"outcome": "error", "executed": "yes", "reason": "looked at it", "digest": left["attest_digest"]}
        told = await api.person.call("POST", f"/v1/operations/{name}/attest", body=word)
        assert (told.document["state"], told.document["basis"]) == ("failed", "attestation"), told.document
        assert host.runs == ["backup", "migrate"]


def restart_host(folder: Path, place: str) -> None:
    """Kill what works at a place of the runner's store, and have its claim be of another boot."""
    found = next((folder / "host").rglob(f"ops/{place}"))
    gate = found / "g.1"
    token = gate.read_text()
    for text in (token, next(found.glob("c.*")).read_text()):
        os.killpg(int(re.findall(r"pid=(\d+)", text)[0]), signal.SIGKILL)
    gate.write_text(re.sub(r"boot=\S+", "boot=00000000-0000-4000-8000-000000000000", token))


async def test_a_lock_that_is_busy_holds_a_step_up_and_never_a_finished_one(home: Home, tmp_path: Path) -> None:
    other = {
        "description": "Hold the lock.", "effect": "irreversible", "host": "web-1", "input": INPUT, "deadlines": LONG,
        "command": ["/bin/sh", "-c", f'echo other >>"$1"; {SLOW}', "other", str(tmp_path / "runs")], "lock": "app",
    }  # fmt: skip
    release = job(step(tmp_path, "migrate"), step(tmp_path, "restart", lock="app"))
    async with hosted(home, tmp_path, {"release": release, "other": other}) as world:
        holder = await world.api.begin("other", name=NAME)
        await world.begun()
        begun = await world.api.begin("release", name=NAME)
        ended = await world.api.settled(begun["operation_id"], seconds=SECONDS)

        assert (ended["outcome"], ended["executed"]) == ("error", "yes"), ended
        assert states(ended) == ["succeeded", "never_ran"]
        (tmp_path / "runs.go").touch()
        await world.api.settled(holder["operation_id"], seconds=SECONDS)
        assert world.runs == ["other", "migrate"]
