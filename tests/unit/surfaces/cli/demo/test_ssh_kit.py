"""A host of the demo: its store is made as an owner would, and its own account says what ran."""

import subprocess
from pathlib import Path

import pytest

from gateway.app import App
from gateway.surfaces.cli.demo.processes import DemoFailedError
from gateway.surfaces.cli.demo.ssh_kit import DemoHost
from tests.unit.surfaces.cli.demo.test_ssh_catalog import host


def released(at: DemoHost, version: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["/bin/sh", str(at.folder / "release"), str(at.folder), version],
        env={"GATEWAY_OPERATION": f"op_{version}", "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


async def prepared(folder: Path) -> DemoHost:
    made = host(folder, "web-1")
    app = App({})
    await made.prepare(app.host_script(str(made.store)), app.read_host)
    return made


async def test_its_store_has_an_identity_once_it_is_made(tmp_path: Path) -> None:
    made = await prepared(tmp_path)

    assert (made.store / "id").exists()
    assert made.store_id
    assert not made.store_id.startswith("store-of")


async def test_a_store_that_cannot_be_made_fails_the_demo(tmp_path: Path) -> None:
    made = host(tmp_path, "web-1")

    with pytest.raises(DemoFailedError, match="No store could be made"):
        await made.prepare(b"echo nonsense\n", App({}).read_host)


async def test_a_release_writes_down_that_it_ran_before_anything_else(tmp_path: Path) -> None:
    made = await prepared(tmp_path)

    with released(made, "slow-1") as slow, released(made, "v7") as quick, released(made, "bad-1") as bad:
        await made.until_ran(3)
        assert slow.poll() is None
        assert (quick.wait(), bad.wait()) == (0, 3)
        (made.folder / "go").touch()
        assert slow.communicate()[0] == "released slow-1\n"

    assert slow.returncode == 0
    assert sorted(made.ran()) == ["op_bad-1", "op_slow-1", "op_v7"]


async def test_a_command_that_never_begins_fails_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.surfaces.cli.demo.ssh_kit.WAIT_SECONDS_MAX", 0.1)

    with pytest.raises(DemoFailedError, match="No command began on web-1"):
        await host(tmp_path, "web-1").until_ran(1)


async def test_it_ends_once_every_command_that_began_has_its_record(tmp_path: Path) -> None:
    made = await prepared(tmp_path)
    folder = made.store / "ops" / "op_1"
    folder.mkdir()
    (folder / "b.1").touch()
    assert not made._is_quiet()

    (folder / "x.1").touch()
    await made.end()

    assert made._is_quiet()
    assert (made.folder / "go").exists()
