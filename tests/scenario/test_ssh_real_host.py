"""The same against OpenSSH's own server: the runner travels, the command runs once, the host settles a cut."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adapters.ssh.runner import load_runner
from fixtures.proxy.server import FaultProxy
from tests.contract.ssh_daemon import running_daemon
from tests.scenario.kit import INPUT, Document, Home, Inside
from tests.scenario.ssh_kit import command
from tests.unit.adapters.remote_host import Host
from tests.unit.adapters.ssh_stand import public_text

LOGIN_BYTES = 6_000
"""More than a login takes and less than the runner that follows it: a cut here tears the delivery."""
SECONDS = 60.0


@asynccontextmanager
async def real_host(home: Home, folder: Path, action: Document) -> AsyncIterator[tuple[FaultProxy, Inside]]:
    """The proxy before a host with OpenSSH's server, and a gateway that runs `release` there."""
    for name in ("host", "sshd"):
        (folder / name).mkdir()
    store = Host(folder / "host", "dash")
    store.init()
    with running_daemon(folder / "sshd") as daemon:
        async with FaultProxy(daemon.address) as proxy:
            port = int(proxy.address.rpartition(":")[2])
            host = {
                "address": "127.0.0.1",
                "port": port,
                "user": daemon.user,
                "credential": "deploy-key",
                "host_keys": [public_text(daemon.host_key).strip()],
                "store": store.store,
                "store_id": store.store_id,
                "allow_private": True,
            }
            home.configure({}, {"release": action}, hosts={"web-1": host})
            async with home.running() as api:
                key = daemon.client_key.export_private_key().decode()
                body = {"kind": "ssh_key", "value": key, "origin": f"ssh://127.0.0.1:{port}"}
                made = await api.person.call("PUT", "/v1/credentials/deploy-key", body=body)
                assert not made.is_problem, made.document
                yield proxy, api


def runs(folder: Path) -> list[str]:
    ledger = folder / "runs"
    return ledger.read_text().split() if ledger.exists() else []


@pytest.mark.parametrize("cut", [None, "upstream", "downstream"])
async def test_a_command_on_a_real_host(home: Home, tmp_path: Path, cut: str | None) -> None:
    async with real_host(home, tmp_path, command(tmp_path, "echo moved")) as (proxy, api):
        if cut is not None:
            proxy.toxics.add("cut_at", stream=cut, attributes={"bytes": LOGIN_BYTES}, times=1)
        begun = await api.begin("release", name="v7")
        ended = await api.settled(begun["operation_id"])

    assert runs(tmp_path) in ([], [begun["operation_id"]])
    assert (ended["outcome"], ended["executed"]) == (("success", "yes") if runs(tmp_path) else ("error", "no")), ended
    if cut is None:
        assert (ended["basis"], ended["result"]["stdout"]["text"]) == ("answer", "moved\n")


def release(folder: Path, script: str = "") -> Document:
    def step(name: str, more: str) -> Document:
        words = ["/bin/sh", "-c", f'echo "$2" >>"$1"; {more}', "step", str(folder / "runs"), name]
        return {"name": name, "command": words}

    return {
        "description": "Release a version.",
        "effect": "irreversible",
        "host": "web-1",
        "input": INPUT,
        "steps": [step("migrate", script), step("restart", "")],
        "deadlines": {"connect": "15s", "request": "40s", "recovery": "10m"},
    }


async def test_a_job_goes_on_at_restart_when_the_session_dies_after_migrate_on_a_real_host(
    home: Home, tmp_path: Path
) -> None:
    # Past the whole delivery of the first step, and within that of the second.
    torn = LOGIN_BYTES + len(load_runner().text) + 10_000
    async with real_host(home, tmp_path, release(tmp_path)) as (proxy, api):
        proxy.toxics.add("cut_at", stream="upstream", attributes={"bytes": torn}, times=1)
        begun = await api.begin("release", name="v7")
        ended = await api.settled(begun["operation_id"], seconds=SECONDS)

    assert [item["kind"] for item in ended["attempts"]] == ["send", "send"], ended
    assert ended["evidence"][0]["finding"] == "inconclusive"
    assert (ended["outcome"], [item["state"] for item in ended["steps"]]) == ("success", ["succeeded"] * 2), ended
    assert runs(tmp_path) == ["migrate", "restart"]


async def test_a_step_that_ends_after_its_session_has_died_is_taken_by_its_record_on_a_real_host(
    home: Home, tmp_path: Path
) -> None:
    action = release(tmp_path, 'until [ -e "$1.go" ]; do sleep 0.05; done')
    async with real_host(home, tmp_path, action) as (proxy, api):
        proxy.toxics.add("cut_at", attributes={"stage": "migrate begun"}, times=1)
        begun = await api.begin("release", name="v7")
        await api.until(begun["operation_id"], lambda _seen: runs(tmp_path) == ["migrate"], seconds=SECONDS)
        proxy.announce("migrate begun")
        lost = await api.until(
            begun["operation_id"], lambda seen: seen["steps"][0]["state"] == "running", seconds=SECONDS
        )
        assert (lost["state"], lost["outcome"]) == ("in_doubt", "unknown"), lost

        (tmp_path / "runs.go").touch()
        ended = await api.settled(begun["operation_id"], seconds=SECONDS)

    assert (ended["outcome"], ended["executed"]) == ("success", "yes"), ended
    assert runs(tmp_path) == ["migrate", "restart"]
