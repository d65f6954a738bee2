"""Ctrl-C in the middle of a command: the operation goes on, and whoever pressed the keys is told how to go on, too."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fixtures.proxy.server import FaultProxy
from fixtures.service.server import DeployService
from tests.scenario.kit import Home, Inside, environment, gateway_program, write_action

SECONDS = 30.0
UNKNOWN = 3


@asynccontextmanager
async def command(home: Home, address: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command of the program in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *gateway_program(*arguments),
        env=environment(GATEWAY_CONFIG=str(home.config), GATEWAY_ADDR=address, GATEWAY_KEY=home.caller_key),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def interrupted(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def waited_for(api: Inside, operation_id: str) -> None:
    """Until somebody waits for that operation at the gateway."""
    async with asyncio.timeout(SECONDS):
        while operation_id not in api.running.assembly.hub._waiting:
            await asyncio.sleep(0.01)


@pytest.fixture
def slow(home: Home, service: DeployService) -> Home:
    """A gateway whose service reads a request and lets it hang."""
    deploy = write_action()
    home.configure({"deploys": service.url}, {"deploy": deploy})
    service.faults.add("commit_then_hang")
    return home


@pytest.mark.parametrize("key", [(), ("--key", "k-own")])
async def test_interrupted_call_names_its_operation_which_goes_on(
    slow: Home, service: DeployService, key: tuple[str, ...]
) -> None:
    async with slow.running() as api:
        async with command(slow, api.running.site.address, "call", "deploy", "--arg", "name=a", *key) as process:
            await service.wait_for(lambda entry: entry.fault == "commit_then_hang")
            code, out, err = await interrupted(process)
        (document,) = await api.everything()
        await service.release()
        settled = await api.settled(document["operation_id"])

    named = re.findall(r"gateway operations wait (op_[0-9a-z]{26})", err)
    assert code == UNKNOWN, err
    assert named == [document["operation_id"]]
    assert "Do not submit it again" in err
    assert "Traceback" not in err
    assert out == ""
    assert settled["outcome"] == "success"


async def test_interrupted_call_that_cannot_ask_any_more_names_its_key(slow: Home, service: DeployService) -> None:
    arguments = ("call", "deploy", "--args", '{"name": "a"}')
    async with slow.running() as api, FaultProxy(api.running.site.address.removeprefix("http://")) as proxy:
        proxy.toxics.add("swallow_then_cut", times=None, skip=1)
        async with command(slow, proxy.address, *arguments) as process:
            await service.wait_for(lambda entry: entry.fault == "commit_then_hang")
            code, _out, err = await interrupted(process)
        (document,) = await api.everything()
        await service.release()

    assert code == UNKNOWN, err
    assert f"gateway operations list --key {document['key']}" in err
    assert "Traceback" not in err


async def test_interrupted_wait_says_how_to_go_on(slow: Home, service: DeployService) -> None:
    async with slow.running() as api:
        made = await api.begin("deploy", name="a")
        await service.wait_for(lambda entry: entry.fault == "commit_then_hang")
        operation = made["operation_id"]
        async with command(slow, api.running.site.address, "operations", "wait", operation) as process:
            await waited_for(api, operation)
            code, out, err = await interrupted(process)
        await service.release()
        settled = await api.settled(operation)

    assert code == UNKNOWN, err
    assert f"The operation {operation} goes on without you" in err
    assert "Traceback" not in err
    assert out == ""
    assert settled["outcome"] == "success"
