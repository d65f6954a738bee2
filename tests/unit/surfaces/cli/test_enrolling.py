"""A host's keys by command: shown first, believed only after a person said yes, and never a changed one in passing."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.surfaces.cli.context import Exit
from tests.contract.ssh_daemon import Daemon, running_daemon
from tests.unit.adapters.ssh_stand import public_text
from tests.unit.surfaces.cli.conftest import Program
from tests.unit.surfaces.door import Home

NOBODY_PORT = "9"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("sshd")) as daemon:
        yield daemon


def at(daemon: Daemon) -> tuple[str, ...]:
    return ("--address", "127.0.0.1", "--port", str(daemon.port), "--allow-private")


def answering(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{word}\n"))


def test_a_host_that_nobody_declared_yet_is_shown_and_believed_after_a_yes(
    stopped: Program, home: Home, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"GATEWAY_KEY": home.person_key}
    line = " ".join(public_text(daemon.host_key).split()[:2])
    answering(monkeypatch, "n")
    refused = stopped("host", "enroll", "db-1", *at(daemon), **key)
    assert (refused.code, "Nothing was recorded." in refused.err, line in refused.out) == (Exit.ERROR, True, False)
    assert stopped.json("host", "enroll", "db-1", *at(daemon), **key)["believed"] == []

    answering(monkeypatch, "y")
    said = stopped("host", "enroll", "db-1", *at(daemon), **key)
    assert said.code == 0, said.err
    assert "SHA256:" in said.out
    assert f'In the catalog, below `db-1`:\n    host_keys:\n      - "{line}"\n' in said.out
    seen = stopped.json("host", "enroll", "db-1", *at(daemon), **key)
    assert (seen["believed"], seen["changed"]) == ([seen["keys"][0]["fingerprint"]], False)


def test_another_key_than_the_one_that_is_believed_is_not_even_asked_about(
    stopped: Program, home: Home, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"GATEWAY_KEY": home.person_key}
    answering(monkeypatch, "y")
    assert stopped("host", "enroll", "db-1", *at(daemon), **key).code == 0
    (tmp_path / "other").mkdir()
    with running_daemon(tmp_path / "other") as other:
        answering(monkeypatch, "y")
        said = stopped("host", "enroll", "db-1", *at(other), **key)
        assert (said.code, "Somebody may stand in between; nothing was recorded." in said.err) == (Exit.REFUSED, True)
        old = stopped.json("host", "enroll", "db-1", *at(other), **key)["missing"]
        answering(monkeypatch, "y")
        replaced = stopped("host", "enroll", "db-1", *at(other), "--replaces", old[0], **key)

    assert replaced.code == 0, replaced.err


def test_what_cannot_be_asked_is_said_in_a_sentence(stopped: Program, home: Home) -> None:
    key = {"GATEWAY_KEY": home.person_key}
    nowhere = stopped("host", "enroll", "db-1", **key)
    assert (nowhere.code, "Give its address." in nowhere.err) == (Exit.REFUSED, True)
    silent = stopped(
        "host", "enroll", "db-1", "--address", "127.0.0.1", "--port", NOBODY_PORT, "--allow-private", **key
    )
    assert (silent.code, "the host refused the connection" in silent.err) == (Exit.REFUSED, True)
    private = stopped("host", "enroll", "db-1", "--address", "127.0.0.1", **key)
    assert (private.code, "not allowed" in private.err) == (Exit.REFUSED, True)
    assert stopped("host", "enroll", "db-1", "--address", "127.0.0.1").code == Exit.USAGE
    caller = stopped("host", "enroll", "db-1", "--address", "127.0.0.1", GATEWAY_KEY=home.caller_key)
    assert (caller.code, "person's key" in caller.err) == (Exit.REFUSED, True)
