"""A host on OpenSSH's own server, from its first key to its last lock, by the commands that a person types."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.app import App
from gateway.surfaces.cli.client import Client
from gateway.surfaces.cli.context import Exit
from gateway.surfaces.cli.main import run
from tests.contract.ssh_daemon import Daemon, running_daemon
from tests.processes import ends
from tests.scenario.kit import Document, Home, Outside, taken
from tests.scenario.ssh_kit import command
from tests.unit.adapters.remote_host import Host
from tests.unit.adapters.ssh_stand import new_key, public_text

pytestmark = pytest.mark.timeout(300)

UNKNOWN_ID = "op_01jd0000000000000000000000"
NAME = "v7"
LONG: Document = {"connect": "15s", "request": "40s", "recovery": "10m"}
"""No deadline decides, however slow the machine is."""
WAITS = 'until [ -e "$1.go" ]; do sleep 0.05; done'


@dataclass
class World:
    """The host, the gateway's folder, and the program."""

    home: Home
    daemon: Daemon
    store: Host
    folder: Path
    capture: pytest.CaptureFixture[str]
    address: str = ""

    def declare(self, *keys: str) -> None:
        """Write the catalog; without keys it is one that a gateway would not start with."""
        host = {
            "address": "127.0.0.1",
            "port": self.daemon.port,
            "user": self.daemon.user,
            "credential": "deploy-key",
            "host_keys": list(keys),
            "store": self.store.store,
            "store_id": self.store.store_id,
            "allow_private": True,
        }
        actions = {
            "migrate": command(self.folder, WAITS, lock="web", deadlines=LONG),
            "next": command(self.folder, lock="web", deadlines=LONG),
        }
        self.home.configure({}, actions, hosts={"web-1": host})

    async def type(self, *words: str, key: str | None = None) -> tuple[int, str, str]:
        """What a person types; exit code and what is printed."""
        environment = {
            "GATEWAY_CONFIG": str(self.home.config),
            "GATEWAY_KEY": self.home.person_key if key is None else key,
            # Nobody listens at port 9 here, so without a gateway its folder is opened.
            "GATEWAY_ADDR": self.address or "127.0.0.1:9",
        }
        self.capture.readouterr()
        code = await asyncio.to_thread(run, App(environment), ["host", *words])
        out, err = self.capture.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    async def ask(self, *words: str) -> tuple[int, Document]:
        code, out, err = await self.type(*words, "--json")
        assert err == ""

        return code, json.loads(out)


@pytest.fixture
def world(home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[World]:
    for name in ("host", "sshd"):
        (tmp_path / name).mkdir()
    store = Host(tmp_path / "host", "dash")
    store.init()
    with running_daemon(tmp_path / "sshd") as daemon:
        yield World(home, daemon, store, tmp_path, capsys)


@asynccontextmanager
async def served(world: World) -> AsyncIterator[Outside]:
    """A gateway in a process of its own, with the host's credential."""
    async with world.home.process() as api:
        world.address = api.client._address.removeprefix("http://")
        person = Client(api.client._address, world.home.person_key)
        key = world.daemon.client_key.export_private_key().decode()
        body = {"kind": "ssh_key", "value": key, "origin": f"ssh://127.0.0.1:{world.daemon.port}"}
        assert not (await person.call("PUT", "/v1/credentials/deploy-key", body=body)).is_problem
        yield api
    world.address = ""


async def test_a_host_is_enrolled_checked_and_kept_in_order(world: World) -> None:
    world.declare()
    await _enrol(world)
    async with served(world) as api:
        _, checked = await world.ask("check", "web-1")
        # The tests' store lies below /tmp, which is what a store must not do.
        assert {item["check"] for item in checked["findings"] if item["level"] == "finding"} == {"durable"}

        begun = await api.begin("migrate", name=NAME)
        await _spoken(world)
        path = f"/v1/operations/{begun['operation_id']}/cancel"
        told = taken(await api.client.call("POST", path, wait_seconds=60))
        assert told["attempts"][1]["kind"] == "cancel"
        ended = await api.settled(begun["operation_id"], seconds=60)
        assert (ended["outcome"], ended["executed"], ended["result"]["exit"]) == ("error", "yes", 143), ended

        held = await api.begin("migrate", name="v8")
        await _spoken(world, 2)
        await _refuse_while_alive(world)
        _kill_everything_of(held["operation_id"])
        await _unlock(world)
        went_on = await api.settled((await api.begin("next", name=NAME))["operation_id"], seconds=60)
        assert went_on["outcome"] == "success", went_on

        code, fenced = await world.ask(
            "fence", "web-1", UNKNOWN_ID, "--attempts", "1", "--reason", "its gateway is lost"
        )
        assert (code, fenced["outcome"]) == (Exit.SUCCESS, "success"), fenced
        _, listed = await world.ask("operations", "web-1")
        phases = {item["operation"]: (item["phase"], item["exit"]) for item in listed["operations"]}
        assert phases[UNKNOWN_ID] == ("fenced", None)
        assert phases[begun["operation_id"]] == ("exited", 143)
        assert phases[held["operation_id"]] == ("lost", None)
        code, said, _ = await world.type("collect", "web-1", "--older-than", "1h")
        assert (code, "removed 1" in said) == (Exit.SUCCESS, True), said

    events = [item for item in world.home.records() if item.get("ev") == "host_enrolled"]
    assert [event["by"] for event in events] == ["operator"]
    assert world.home.verify()[0] == 0


async def _enrol(world: World) -> None:
    """On a stopped gateway, whose catalog pins nothing yet."""
    line = " ".join(public_text(world.daemon.host_key).split()[:2])
    code, _, said = await world.type("enroll", "web-1", "--json", key=world.home.caller_key)
    assert (code, "person's key" in said) == (Exit.REFUSED, True), said
    code, offered = await world.ask("enroll", "web-1")
    assert (code, [key["line"] for key in offered["keys"]], offered["enrolled"]) == (Exit.SUCCESS, [line], False)

    code, _, said = await world.type("enroll", "web-1", "--digest", "0" * 64)
    assert (code, "other keys than those that were shown" in said) == (Exit.REFUSED, True), said
    code, printed, _ = await world.type("enroll", "web-1", "--digest", offered["digest"])
    assert (code, f'    host_keys:\n      - "{line}"\n' in printed) == (Exit.SUCCESS, True), printed

    world.declare(public_text(new_key()).strip())
    code, changed = await world.ask("enroll", "web-1")
    assert (code, changed["changed"], changed["missing"]) == (Exit.ERROR, True, changed["believed"])
    code, _, said = await world.type("enroll", "web-1", "--digest", changed["digest"])
    assert (code, "does not present the key that it is believed by" in said) == (Exit.REFUSED, True), said
    code, said, _ = await world.type("check", "web-1")
    assert (code, "credential deploy-key is not in the vault" in said) == (Exit.ERROR, True), said
    world.declare(line)


async def _refuse_while_alive(world: World) -> None:
    code, shown = await world.ask("unlock", "web-1", "web", "--reason", "impatience")
    assert (code, shown["holder_phase"]) == (Exit.SUCCESS, "running")
    code, _, said = await world.type("unlock", "web-1", "web", "--reason", "impatience", "--digest", shown["digest"])
    assert (code, "Its holder is alive, so the lock stays" in said) == (Exit.REFUSED, True), said


async def _unlock(world: World) -> None:
    _, dead = await world.ask("unlock", "web-1", "web", "--reason", "killed")
    assert (dead["holder_phase"], dead["state"]) == ("lost", "held"), dead
    code, said, _ = await world.type("unlock", "web-1", "web", "--reason", "killed", "--digest", dead["digest"])
    assert (code, "the host: phase ok, state free" in said) == (Exit.SUCCESS, True), said


async def _spoken(world: World, times: int = 1) -> None:
    """Wait until the command itself has left its line."""
    runs = world.folder / "runs"
    async with asyncio.timeout(60):
        while not runs.exists() or len(runs.read_text().split()) < times:
            await asyncio.sleep(0.02)


def _kill_everything_of(operation: str) -> None:
    """As if the power of the host had failed: supervisor and command are gone at once."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and operation.encode() in _words(entry):
            os.kill(int(entry.name), signal.SIGKILL)
            assert ends(int(entry.name))


def _words(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
