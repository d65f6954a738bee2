"""Where nobody takes what the program writes, its exit code still says nothing that is not so."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.app import App
from gateway.surfaces.cli import acting, local
from gateway.surfaces.cli.main import run
from tests.unit.surfaces.cli.conftest import Program

DEPLOY = ("call", "deploy", "--arg", "name=unwritten", "--key", "unwritten")


@contextmanager
def full() -> Iterator[int]:
    """A disk without space."""
    with Path("/dev/full").open("wb") as file:
        yield file.fileno()


@contextmanager
def left() -> Iterator[int]:
    """A pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def program(*arguments: str, output: int, environment: dict[str, str]) -> tuple[int, str]:
    said = subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        check=False,
        text=True,
        timeout=60,
    )
    return said.returncode, said.stderr


def test_an_outcome_that_nobody_takes_keeps_its_exit_code_for_1_would_say_that_it_failed(caller: Program) -> None:
    operation = caller.json(*DEPLOY)["operation_id"]

    for broken in (full, left):
        for form in ((), ("--json",)):
            with broken() as output:
                code, told = program(*DEPLOY, *form, output=output, environment=caller.environment)
            assert (code, operation in told, "Traceback" in told) == (0, True, False), told


def test_a_list_that_nobody_takes_is_a_sentence_or_nothing(caller: Program) -> None:
    with full() as output:
        code, told = program("schema", output=output, environment=caller.environment)
    assert (code, told) == (1, "gateway: The answer could not be written: No space left on device.\n")
    with left() as output:
        assert program("schema", output=output, environment=caller.environment) == (1, "")


def test_a_key_that_was_made_and_not_shown_is_told(person: Program) -> None:
    with full() as output:
        code, told = program(
            "keys", "create", "unseen", "--owner", "operator", output=output, environment=person.environment
        )

    assert code == 1
    assert "nobody has it now: revoke it" in told


def test_a_fault_of_the_program_is_no_verdict_on_an_operation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise LookupError("a fault")

    monkeypatch.setattr(acting, "mint_key", lambda _random: "key")
    monkeypatch.setattr(acting, "client_of", broken)
    monkeypatch.setattr(local, "current", broken)
    environment = {"GATEWAY_ADDR": "127.0.0.1:1", "GATEWAY_KEY": "gwk_x"}

    assert run(App(environment), ["call", "deploy"]) == 3
    assert run(App(environment), ["check"]) == 1
    assert "a fault" in capsys.readouterr().err


def test_a_closed_standard_stream_is_not_given_to_the_next_file(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = (
        "import os, sys; from gateway.__main__ import open_standard_streams as o; o();"
        f" file = open({str(seen)!r}, 'w'); print('lost'); sys.stderr.write('lost'); sys.stdin.read();"
        " file.write(f'{file.fileno() > 2} {os.readlink(\"/proc/self/fd/1\")}')"
    )
    shell = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script]

    assert subprocess.run(shell, check=False, timeout=60).returncode == 0
    assert seen.read_text() == "True /dev/null"
