"""Where nobody takes what the program writes, its exit code still says nothing that is not so."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest

from gateway.app import App
from gateway.surfaces.cli import acting, administering, host_upkeep, local, main
from gateway.surfaces.cli.client import Answer
from gateway.surfaces.cli.context import Exit
from gateway.surfaces.cli.main import run
from tests.unit.surfaces.cli.conftest import Program
from tests.unit.surfaces.door import Home

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


class Full(StringIO):
    """Standard output on a disk without space, for a command that runs in this process."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def untold(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], *words: str) -> int:
    # This process keeps its own standard output.
    monkeypatch.setattr(main, "drop_output", lambda: None)
    with redirect_stdout(Full()):
        return main.run(App(environment), words)


def test_what_was_changed_is_told_where_the_answer_is_not_taken(
    stopped: Program, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = home.caller_key[:14]
    monkeypatch.setattr(administering, "read_input", lambda: "value-of-some-length\n")
    monkeypatch.setattr(sys, "stdin", StringIO())
    for words, told in (
        (("init", str(tmp_path / "new")), "was made, and nobody has its two keys"),
        (("credentials", "set", "c", "--origin", "http://127.0.0.1:9"), "The credential c was stored."),
        (("credentials", "remove", "c"), "The credential c was removed."),
        (("keys", "revoke", prefix), f"The key {prefix} is revoked."),
        (("subjects", "shred", "somebody"), "There is no key of that person."),
        (("recover", "--person", "a", "--reason", "b", "--accept-loss"), "Writes go on. The audit log is "),
    ):
        assert untold(monkeypatch, stopped.environment, *words) == Exit.ERROR, words
        assert told in capsys.readouterr().err, words


def test_what_became_of_an_operation_on_a_host_keeps_its_exit_code(
    caller: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = caller.json("call", "deploy", "--arg", "name=on-a-host", "--key", "on-a-host", "--wait", "0")

    async def answered(*_: object, **__: object) -> Answer:
        return Answer(202, made | {"state": "in_doubt", "outcome": "unknown", "executed": "unknown"}, {})

    monkeypatch.setattr(host_upkeep, "ask", answered)
    for form in ((), ("--json",)):
        words = "host", "fence", "web-1", "op_01jd0000000000000000000000", *form
        assert untold(monkeypatch, caller.environment, *words) == Exit.UNKNOWN
        assert "The operation's state is in_doubt" in capsys.readouterr().err


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


def test_an_output_of_another_encoding_spells_what_it_lacks(caller: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = caller.json("call", "look", "--arg", "name=unwritten")["operation_id"]

    for arguments, told in (
        (("operations", "show", operation), "state succeeded \\xb7 executed yes"),
        (("operations", "show", operation, "--json"), '"state": "succeeded"'),
        (("--help",), "Usage: gateway"),
    ):
        taken = BytesIO()
        monkeypatch.setattr(sys, "stdout", TextIOWrapper(taken, "ascii"))
        assert run(App(caller.environment), arguments) == Exit.SUCCESS
        assert told in taken.getvalue().decode("ascii")
