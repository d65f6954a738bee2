"""The demo's processes: none of the user's gateway reaches them, and none outlives the demo."""

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from gateway.surfaces.cli.demo.processes import DemoFailedError, environment_for, output_of, program, running


def test_the_users_own_gateway_is_out_of_reach() -> None:
    own = {"GATEWAY_STORE_URL": "sqlite:///own.db", "GATEWAY_VAULT_KEY": "k", "GATEWAY_CONFIG": "own.yaml", "HOME": "h"}

    made = environment_for(own, GATEWAY_ADDR="127.0.0.1:0")

    assert set(made) == {"HOME", "PYTHONPATH", "GATEWAY_ADDR"}


def test_a_folder_of_the_same_name_is_not_run() -> None:
    assert program("fixtures", "up") == [sys.executable, "-P", "-m", "fixtures", "up"]


async def test_a_process_is_gone_after_its_block_however_that_ends(tmp_path: Path) -> None:
    environment = environment_for({})
    arguments = ("fixtures", "up", "--ledger", str(tmp_path / "ledger"))
    started: list[int] = []

    async def stumble() -> None:
        async with running(arguments, environment, tmp_path / "log") as kit:
            assert psutil.pid_exists(kit.pid)
            assert kit.ready["service"].startswith("http://127.0.0.1:")
            started.append(kit.pid)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        await stumble()

    assert not psutil.pid_exists(started[0])


async def test_a_stopped_process_ends_in_order(tmp_path: Path) -> None:
    arguments = ("fixtures", "up", "--ledger", str(tmp_path / "ledger"))
    async with running(arguments, environment_for({}), tmp_path / "log") as kit:
        assert await kit.stop() == 0
        await kit.kill()


async def test_a_process_that_does_not_start_is_said_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(DemoFailedError, match="did not start; see"):
        async with running(("fixtures", "no-such-command"), environment_for({}), tmp_path / "log"):
            pass

    assert "no-such-command" in (tmp_path / "log").read_text()


async def test_output_is_json_or_a_sentence() -> None:
    environment = environment_for({})

    assert len(await output_of(("fixtures", "faults", "list", "--json"), environment)) > 0
    with pytest.raises(DemoFailedError, match="printed no JSON"):
        await output_of(("fixtures", "faults", "list"), environment)
    with pytest.raises(DemoFailedError, match="ended with 2"):
        await output_of(("fixtures", "nonsense"), environment)


async def test_a_cancelled_run_kills_what_it_started(tmp_path: Path) -> None:
    started: list[int] = []

    async def hold() -> None:
        async with running(
            ("fixtures", "up", "--ledger", str(tmp_path / "l")), environment_for({}), tmp_path / "log"
        ) as kit:
            started.append(kit.pid)
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    while not started:
        await asyncio.wait({task}, timeout=0.05)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert not psutil.pid_exists(started[0])
