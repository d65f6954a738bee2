"""A host's store is made by its owner over a way of their own: the script does it, and its answer is read strictly."""

import io
import subprocess
from pathlib import Path

import pytest

from adapters.ssh.runner_command import UnfitCall
from adapters.ssh.runner_setup import setup_answer, setup_script
from gateway.surfaces.cli.context import Exit
from tests.unit.adapters.remote_host import Host
from tests.unit.adapters.remote_host import program as program_at
from tests.unit.surfaces.cli.conftest import Program


def piped(data: bytes) -> io.TextIOWrapper:
    """Standard input of the next command."""
    return io.TextIOWrapper(io.BytesIO(data))


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Program:
    return Program({}, capsys)


def run_on_host(text: bytes, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-s"], input=text, env=environment, capture_output=True, timeout=30, check=True)


def on_host(text: bytes) -> bytes:
    return run_on_host(text).stdout


def test_what_the_script_prints_on_the_host_gives_the_line_of_the_catalog(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "host" / "store"
    printed = program("host", "script", "--store", str(store))
    assert printed.code == 0
    assert program.json("host", "script", "--store", str(store))["script"].startswith("{ gw_dir=")
    answered = on_host(printed.out.encode())
    monkeypatch.setattr("sys.stdin", piped(answered))
    said = program("host", "read")

    assert said.code == 0, said.err
    made = said.out.split()[1]
    assert said.out.startswith(f"    store_id: {made}\n")
    (tmp_path / "as").mkdir()
    host = Host(tmp_path / "as", "dash", store)
    assert host.init().store_id == made

    monkeypatch.setattr("sys.stdin", piped(answered))
    assert program.json("host", "read")["store_id"] == made


@pytest.mark.parametrize("store", ["state", "/a b", "/a/../b", "/"])
def test_a_path_that_is_none_is_refused(program: Program, store: str) -> None:
    said = program("host", "script", "--store", store)

    assert (said.code, said.out) == (Exit.USAGE, "")
    assert "store" in said.err
    with pytest.raises(UnfitCall):
        setup_script(store, "a" * 16)


@pytest.mark.parametrize(
    ("answered", "words"),
    [
        (b"", "no answer"),
        (b"Welcome!\n", "no answer"),
        (b"@gw1 otherNonce {}\n", "no answer"),
    ],
)
def test_anything_but_the_answer_is_none(
    program: Program, monkeypatch: pytest.MonkeyPatch, answered: bytes, words: str
) -> None:
    monkeypatch.setattr("sys.stdin", piped(answered))
    said = program("host", "read")

    assert said.code == Exit.ERROR
    assert words in said.err
    assert setup_answer(answered) is None


def test_a_host_that_cannot_make_it_says_why(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = run_on_host(setup_script(f"{tmp_path}/file/store", "a" * 16))
    monkeypatch.setattr("sys.stdin", piped(ran.stdout))
    said = program("host", "read")

    assert said.code == Exit.ERROR
    assert "could not make it, or could not write in it; its shell said why" in said.err
    assert "[store_write]" in said.err
    # Which of the many causes it is, only the host can say, and it says so to whoever runs the script.
    assert f"{tmp_path}/file" in ran.stderr.decode()


def test_a_host_without_a_program_for_digests_is_not_told_to_be_unable_to_write(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir", "cat", "rm", "mv"):
        (tools / name).symlink_to(program_at(name))
    ran = run_on_host(setup_script(f"{tmp_path}/store", "a" * 16), {"PATH": str(tools)})
    monkeypatch.setattr("sys.stdin", piped(ran.stdout))
    said = program("host", "read")

    assert said.code == Exit.ERROR
    assert "no program for digests" in said.err
    assert "[no_digest_tool]" in said.err
