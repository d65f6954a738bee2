"""`gateway audit`: the auditor's program inside the gateway's, and the end of a stopped gateway's log."""

import json
from pathlib import Path

import pytest

from tests.unit.surfaces.cli.conftest import Program
from tests.unit.surfaces.door import ORIGIN, Home


def test_a_stopped_gateway_is_drained_verified_and_read(
    stopped: Program, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    drained = stopped.json("audit", "drain")
    log = ("audit", "verify", drained["folder"], "--trust", str(home.folder / "trust.policy"))
    anchored = (*log, "--anchor", str(home.folder / "anchors"))
    verified = stopped(*anchored)
    shown = stopped("audit", "show", drained["folder"], "--key", str(home.folder / "auditor.key"), "--json")
    events = [json.loads(line) for line in shown.out.splitlines()]

    assert drained["origin"] == ORIGIN
    assert stopped("audit", "drain").out.startswith(f"Store and files agree; the audit log {ORIGIN} is complete")
    assert verified.code == 0, verified
    assert stopped.json(*anchored)["verdict"]["word"] == "OK"
    assert stopped(*log).code == 4
    assert "key_created" in json.dumps(events)


def test_keys_for_auditors_are_made_and_never_printed(stopped: Program, tmp_path: Path) -> None:
    said = stopped("audit", "keygen", "auditor", "--out", str(tmp_path / "own.key"))

    assert said.code == 0, said
    private = (tmp_path / "own.key").read_text().split()[-1]
    assert private not in said.out


def test_mistakes_are_usage_errors(stopped: Program, tmp_path: Path) -> None:
    assert stopped("audit", "verify", str(tmp_path / "none")).code == 5
    assert stopped("audit", "verify").code == 2
    assert stopped("audit", "show", str(tmp_path), "--key", str(tmp_path / "none")).code == 2
    assert stopped("audit", "witness", "--help").code == 0
