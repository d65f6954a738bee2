"""Hosts looked after from the gateway: what changes one is an operation, proven by its own record on the host."""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.surfaces.cli.client import Answer
from tests.processes import ends
from tests.scenario.kit import Document, Home, taken
from tests.scenario.ssh_kit import Hosted, command, hosted
from tests.unit.adapters.ssh_stand import new_key, public_text

pytestmark = pytest.mark.timeout(180)

NAME = "v7"
UNKNOWN_ID = "op_01jd0000000000000000000000"
GONE = "0" * 64
LONG: Document = {"connect": "15s", "request": "40s", "recovery": "10m"}
"""No deadline decides, however slow the machine is."""


async def ask(world: Hosted, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
    """One call of a person about the host `web-1`."""
    path, headers = f"/v1/hosts/web-1{path}", {"Prefer": "wait=20"}
    return await world.api.person.call(method, path, body=body, wait_seconds=90, headers=headers)


async def done(world: Hosted, deed: str, **body: Any) -> Document:
    """The settled operation of a deed on the host."""
    begun = taken(await ask(world, "POST", f"/{deed}", body))
    path = f"/v1/operations/{begun['operation_id']}"
    return taken(await world.api.person.call("GET", path, query={"wait": "25"}, wait_seconds=60))


async def refusal(world: Hosted, deed: str, **body: Any) -> tuple[int, str, str]:
    answer = await ask(world, "POST", f"/{deed}", body)
    return answer.status, answer.document["code"], answer.document["detail"]


async def findings(world: Hosted) -> dict[str, Document]:
    """What stands in the way."""
    seen = taken(await ask(world, "GET", "/check"))
    found = {item["check"]: item for item in seen["findings"] if item["level"] == "finding"}
    assert seen["fine"] is not bool(found)
    return found


async def stored(world: Hosted) -> dict[str, Document]:
    page = taken(await ask(world, "GET", "/operations"))
    assert page["after"] is None
    return {item["operation"]: item for item in page["operations"]}


# -- looking -----------------------------------------------------------------------------------------------------------


async def test_a_host_in_order_is_told_so_but_for_a_store_where_files_pass_away(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        seen = taken(await ask(world, "GET", "/check"))

    levels = {item["check"]: item["level"] for item in seen["findings"]}
    # The tests' store lies below /tmp, which is what a store must not do.
    assert levels == dict.fromkeys(("reached", "shell", "store", "clock", "space", "programs"), "fine") | {
        "durable": "finding"
    }
    assert all(item["detail"].endswith(".") for item in seen["findings"])


async def test_each_thing_that_is_wrong_with_a_host_is_a_finding_that_says_what_to_do(
    home: Home, tmp_path: Path
) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}, store_id="another") as world:
        other = (await findings(world))["store"]
        assert "another store than the one declared" in other["detail"]
        assert (await ask(world, "GET", "/operations")).document["code"] == "host_unavailable"
        assert (await refusal(world, "unlock", lock="web", digest=GONE, reason="x"))[1] == "host_unavailable"

        shutil.rmtree(tmp_path / "host" / "store")
        assert "There is no store at" in (await findings(world))["store"]["detail"]

        world.service.plan.add("ssh_refuse_login")
        login = (await findings(world))["reached"]
        assert login["detail"] == "The host did not accept the credential."
        assert "authorized_keys" in login["advice"]

        world.service.plan.add("ssh_accept_abort")
        assert "the runner did not answer" in (await findings(world))["shell"]["detail"]


async def test_a_host_with_another_key_is_sent_nothing(home: Home, tmp_path: Path) -> None:
    pinned = {"host_keys": [public_text(new_key()).strip()]}
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}, **pinned) as world:
        seen = (await findings(world))["reached"]

    assert "a key (SHA256:" in seen["detail"]
    assert "nothing was sent" in seen["detail"]
    assert "gateway host enroll web-1" in seen["advice"]


async def test_a_host_that_nobody_answers_at_is_a_finding(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        world.proxy.toxics.add("cut_at", stream="downstream", attributes={"bytes": 0})
        seen = (await findings(world))["reached"]

    assert "It was not reached" in seen["detail"]


async def test_what_a_store_holds_is_listed_with_ends_and_times(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, "exit 3", deadlines=LONG)}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        failed = await world.api.settled(begun["operation_id"], seconds=60)
        held = (await stored(world))[failed["operation_id"]]

    assert (held["attempt"], held["phase"], held["exit"]) == (1, "exited", 3)
    assert held["began"] <= held["ended"]


async def test_hosts_are_looked_after_by_people_only(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        refused = await world.api.client.call("GET", "/v1/hosts/web-1/locks/web")
        body = {"operation": UNKNOWN_ID}
        fence = await world.api.client.call("POST", "/v1/hosts/web-1/fence", body=body)
        hidden = await world.api.submit("host.fence", host="web-1", target=UNKNOWN_ID, issued_ms=1, attempts=1)
        nowhere = await world.api.person.call("GET", "/v1/hosts/web-9/check")

    assert (refused.status, fence.status) == (403, 403)
    assert (hidden.status, hidden.document["code"]) == (404, "unknown_action")
    assert (nowhere.status, nowhere.document["code"]) == (404, "not_found")


# -- changing ----------------------------------------------------------------------------------------------------------


async def test_an_operation_that_nobody_knows_is_fenced_for_ever(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        ended = await done(world, "fence", operation=UNKNOWN_ID, attempts=2, reason="its gateway is lost")
        held = (await stored(world))[UNKNOWN_ID]

    assert (ended["action"], ended["outcome"], ended["executed"], ended["basis"]) == (
        "host.fence", "success", "yes", "answer",
    ), ended  # fmt: skip
    assert (held["attempt"], held["phase"], held["exit"]) == (2, "fenced", None)
    (admitted,) = [item for item in home.records() if item.get("ev") == "admitted" and item.get("upkeep")]
    assert admitted["upkeep"] == {"target": UNKNOWN_ID, "reason": "its gateway is lost"}
    assert (admitted["caller"], admitted["rule"], admitted["op"]) == ("operator", "built-in", ended["operation_id"])
    assert home.verify()[0] == 0


async def test_a_fence_whose_answer_is_lost_is_settled_by_its_own_record_on_the_host(
    home: Home, tmp_path: Path
) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        world.proxy.toxics.add("cut_at", stream="downstream", attributes={"bytes": 6_000}, times=1)
        ended = await done(world, "fence", operation=UNKNOWN_ID, attempts=1)
        held = await stored(world)

    assert ended["outcome"] in {"success", "error"}
    assert (UNKNOWN_ID in held) == (ended["executed"] == "yes")
    assert len(ended["attempts"]) >= 1


async def test_what_has_run_cannot_be_fenced_and_the_operation_says_so(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, deadlines=LONG)}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        ran = await world.api.settled(begun["operation_id"], seconds=60)
        ended = await done(world, "fence", operation=ran["operation_id"])

    assert (ended["outcome"], ended["executed"], ended["result"]["exit"]) == ("error", "yes", 3)
    assert '"phase":"exited"' in ended["result"]["stdout"]["text"]


async def test_an_operation_in_doubt_here_is_cancelled_and_not_fenced_behind_its_back(
    home: Home, tmp_path: Path
) -> None:
    script = 'until [ -e "$1.go" ]; do sleep 0.05; done'
    async with hosted(home, tmp_path, {"migrate": command(tmp_path, script, deadlines=LONG)}) as world:
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        status, code, detail = await refusal(world, "fence", operation=begun["operation_id"])
        (tmp_path / "runs.go").touch()
        await world.api.settled(begun["operation_id"], seconds=60)

    assert (status, code) == (409, "wrong_state")
    assert "this gateway's own" in detail


async def test_a_lock_is_set_aside_only_as_it_was_shown_and_never_that_of_the_living(
    home: Home, tmp_path: Path
) -> None:
    script = 'until [ -e "$1.go" ]; do sleep 0.05; done'
    actions = {
        "migrate": command(tmp_path, script, lock="web", deadlines=LONG),
        "next": command(tmp_path, lock="web", deadlines=LONG),
    }
    async with hosted(home, tmp_path, actions) as world:
        assert (await refusal(world, "unlock", lock="web", digest=GONE, reason="x"))[2].startswith("Nobody holds")
        begun = await world.api.begin("migrate", name=NAME)
        await world.begun()
        alive = taken(await ask(world, "GET", "/locks/web"))
        assert (alive["holder"], alive["holder_phase"], alive["state"]) == (
            begun["operation_id"], "running", "held",
        )  # fmt: skip
        kept = await refusal(world, "unlock", lock="web", digest=alive["digest"], reason="impatience")
        assert kept[1:] == ("wrong_state", "Its holder is alive, so the lock stays; nothing was sent.")

        _kill_everything_of(begun["operation_id"])
        async with asyncio.timeout(60):
            # A process that was killed is there until it has died.
            while (dead := taken(await ask(world, "GET", "/locks/web")))["holder_phase"] == "running":
                pass
        assert (dead["state"], dead["holder_phase"]) == ("held", "lost"), dead
        busy = await world.api.settled((await world.api.begin("next", name=NAME))["operation_id"], seconds=60)
        assert (busy["outcome"], busy["executed"]) == ("error", "no")
        assert (await refusal(world, "unlock", lock="web", digest=alive["digest"], reason="x"))[1] == "stale_digest"

        ended = await done(world, "unlock", lock="web", digest=dead["digest"], reason="its host was killed")
        free = taken(await ask(world, "GET", "/locks/web"))
        went_on = await world.api.settled((await world.api.begin("next", name="v8"))["operation_id"], seconds=60)

    assert (ended["outcome"], free["state"], went_on["outcome"]) == ("success", "free", "success"), ended
    (record,) = [item for item in home.records() if item.get("action") == "host.unlock" and item.get("upkeep")]
    assert record["upkeep"]["holder"] == begun["operation_id"]
    assert record["upkeep"]["reason"] == "its host was killed"


def _kill_everything_of(operation: str) -> None:
    """As if the power of the host had failed: supervisor and command are gone at once."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if operation.encode() in words:
                _kill(int(entry.name))


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
    assert ends(process)


async def test_what_is_settled_and_old_is_forgotten(home: Home, tmp_path: Path) -> None:
    async with hosted(home, tmp_path, {"migrate": command(tmp_path)}) as world:
        old = await done(world, "fence", operation=UNKNOWN_ID, attempts=1)
        assert old["outcome"] == "success"
        swept = await done(world, "collect", older_than_seconds=60)
        assert (swept["outcome"], '"removed":1' in swept["result"]["stdout"]["text"]) == ("success", True), swept
        held = await stored(world)

    assert UNKNOWN_ID not in held
    assert {old["operation_id"], swept["operation_id"]} <= set(held)
