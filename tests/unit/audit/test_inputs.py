"""What a command is given may be a file or standard input; what could keep it waiting for ever is refused by name."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit import inputs
from audit.cli import app
from audit.disk import DiskDirectory
from audit.inputs import STDIN, read_input
from audit.keyfiles import write_key
from audit.keyring import RecipientKey, Role
from audit.log import SEGMENTS
from gateway.engine.anchoring import witnesses_of
from gateway.settings import AuditSettings
from gateway.store.port import Refused
from tests.unit.audit.logs import Journal, entropy

cli = CliRunner()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log" / SEGMENTS).mkdir(parents=True)
    return tmp_path / "log"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "auditor.key"
    write_key(path, RecipientKey.generate(Role.AUDITOR, "auditor", entropy("inputs")).to_line())
    return path


COMMANDS: dict[str, Callable[[Path, Path, Path], list[object]]] = {
    "policy": lambda odd, log, key: ["verify", log, "--trust", odd],
    "receipts": lambda odd, log, key: ["verify", log, "--receipts", odd],
    "key": lambda odd, log, key: ["show", log, "--key", odd],
    "secrets handed on": lambda odd, log, key: ["show", log, "--key", key, "--reshared", odd],
    "disclosure": lambda odd, log, key: ["check-disclosure", odd],
    "policy of a disclosure": lambda odd, log, key: ["check-disclosure", key, "--trust", odd],
    "policy to show": lambda odd, log, key: ["trust", "show", odd],
    "log key": lambda odd, log, key: ["trust", "make", "--log", odd],
    "reader": lambda odd, log, key: ["reshare", log, "--key", key, "--to", odd, "--out", log / "out"],
    "witness's policy": lambda odd, log, key: ["witness", "serve", log, "--key", key, "--trust", odd],
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", COMMANDS)
def test_no_command_waits_for_a_fifo_or_reads_a_device(what: str, fifo: Path, log: Path, key: Path) -> None:
    for odd in (fifo, Path("/dev/zero")):
        result = cli.invoke(app, [str(word) for word in COMMANDS[what](odd, log, key)])
        assert "not a regular file" in result.stderr + result.stdout, result.output
        assert result.exit_code in {2, 5}


@pytest.mark.timeout(20)
def test_a_gateway_does_not_wait_for_a_policy_that_is_a_fifo(fifo: Path) -> None:
    with pytest.raises(Refused, match="not a regular file"):
        witnesses_of(AuditSettings(witness_policy=str(fifo)))


def test_standard_input_is_read_where_a_dash_stands() -> None:
    policy = Journal().policy.to_text()
    shown = cli.invoke(app, ["trust", "show", "-"], input=policy)
    assert (shown.exit_code, "gw.example" in shown.stdout) == (0, True)
    verified = cli.invoke(app, ["verify", "/nowhere", "--trust", "-"], input=policy)
    assert verified.exit_code == 5


def test_a_file_that_is_too_large_is_refused_and_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "BYTES_MAX", 10)
    path = tmp_path / "large"
    path.write_text("0123456789")
    assert read_input(path) == "0123456789"
    path.write_text("0123456789a")
    with pytest.raises(OSError, match="larger than"):
        read_input(path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"0123456789a")))
    with pytest.raises(OSError, match="larger than"):
        read_input(STDIN)


def test_what_is_no_file_is_said_in_plain_words(fifo: Path, log: Path, key: Path, tmp_path: Path) -> None:
    def said(*words: object) -> str:
        done = cli.invoke(app, [str(word) for word in words])
        assert done.exit_code == 2, done.output
        return done.stderr

    link = tmp_path / "link.key"
    link.symlink_to(key)
    assert said("verify", log, "--trust", log) == f"audit: trust policy {log}: a folder, not a file\n"
    receipts = said("verify", log, "--receipts", fifo)
    assert receipts == f"audit: receipts {fifo}: not a regular file; `-` reads standard input\n"
    assert said("show", log, "--key", link) == f"audit: key {link}: a symbolic link, not followed\n"
    assert said("show", log, "--key", tmp_path / "no") == f"audit: key {tmp_path / 'no'}: No such file or directory\n"
    for ask in (lambda: DiskDirectory(tmp_path).size(link.name), lambda: DiskDirectory(tmp_path).open(link.name)):
        with pytest.raises(OSError, match="a symbolic link, not followed"):
            ask()
