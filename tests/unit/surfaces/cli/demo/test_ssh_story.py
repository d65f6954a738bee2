"""The story of hosts holds every claim against the lines that commands wrote on them when they began to run."""

from pathlib import Path

import pytest

from gateway.app import App
from gateway.surfaces.cli.context import Exit
from gateway.surfaces.cli.demo.account import settle_accounts
from gateway.surfaces.cli.demo.command import verdict
from gateway.surfaces.cli.demo.show import Show
from gateway.surfaces.cli.demo.ssh_cases import HOSTS
from gateway.surfaces.cli.demo.ssh_story import SshStory
from tests.unit.surfaces.cli.demo.test_account import operation
from tests.unit.surfaces.cli.demo.test_ssh_catalog import host


async def test_a_host_on_which_a_command_ran_twice_is_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = SshStory(tmp_path, {}, Show(None), App({}))
    for name in HOSTS:
        story._hosts[name] = host(tmp_path, name)
    (tmp_path / "web-1" / "ran").write_text("op_a\nop_b\n")
    (tmp_path / "web-2" / "ran").write_text("op_b\n")

    entries = await story._entries()
    documents = [operation("op_a", "success", "yes"), operation("op_b", "success", "yes")]
    totals = settle_accounts(documents, entries, told_unknown=(), audit="OK")

    assert (totals.effects, totals.duplicate_effects) == (3, 1)
    assert verdict(totals) is Exit.ERROR
    assert "op_b: took effect 2 times" in capsys.readouterr().err
