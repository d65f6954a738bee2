"""The tree of commands: each has help, each speaks JSON, and the program's own mistakes are not the user's."""

from collections.abc import Iterator

import pytest
import typer

from audit.cli import app as audit_app
from gateway.surfaces.cli.context import Exit
from gateway.surfaces.cli.main import build
from tests.unit.surfaces.cli.conftest import Program

WANTED = {
    "demo", "init", "recover", "serve", "check", "schema", "doctor", "call", "faults",
    "operations list", "operations show", "operations wait", "operations reconcile", "operations cancel",
    "operations attest", "runs show", "actions list", "actions show", "keys create", "keys list", "keys revoke",
    "credentials set", "credentials list", "credentials remove", "audit verify", "audit show", "audit keygen",
    "audit drain", "host script", "host read",
}  # fmt: skip


def commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, object]]:
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield f"{before}{name}", command.callback
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from commands(below.typer_instance, f"{before}{below.name} ")


def names() -> dict[str, object]:
    return dict(commands(build()))


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Program:
    return Program({}, capsys)


def test_every_command_is_there_and_has_help(program: Program) -> None:
    found = names()

    assert set(found) >= WANTED
    for name in found:
        if name == "faults":
            continue
        said = program(*name.split(), "--help")
        assert said.code == 0, name
        assert "Usage: gateway" in said.out
    for arguments in ((), ("operations",), ("keys",), ("credentials",), ("audit",), ("runs",), ("actions",)):
        said = program(*arguments)
        assert "Commands" in said.out + said.err


def test_every_command_of_the_auditor_is_a_command_of_the_gateway_at_any_depth(program: Program) -> None:
    auditors = {name for name, _ in commands(audit_app, "audit ")}

    assert "audit witness serve" in auditors
    assert auditors <= set(names())
    for name in auditors:
        assert f"Usage: gateway {name}" in program(*name.split(), "--help").out


def test_every_command_of_the_gateway_speaks_json(program: Program) -> None:
    for name in names():
        if name == "faults" or name.startswith("audit "):
            continue
        assert "--json" in program(*name.split(), "--help").out, name


def test_version_and_unknown_words(program: Program) -> None:
    assert program("--version").out.startswith("action-gateway ")
    for arguments in (("unknown",), ("operations", "unknown"), ("--unknown",), ("check", "a", "b")):
        said = program(*arguments)
        assert (said.code, said.out) == (Exit.USAGE, "")
