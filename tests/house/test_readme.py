"""The session printed in the README is what happens when its commands are run."""

import os
import socket
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.house.transcript import Step, matches, run, sessions
from tests.processes import ends

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "gateway/README.md", "fixtures/README.md", "audit/FORMAT.md")

SERVICE_PORT = "8999"
"""Where the starter catalog expects the service."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _printed() -> list[tuple[str, list[Step]]]:
    return [
        (document, steps)
        for document in DOCUMENTS
        if (ROOT / document).exists()
        for steps in sessions((ROOT / document).read_text())
    ]


def _on_free_ports(step: Step, service_port: int) -> str:
    """The command as printed, with a free port for the fault kit's: the printed one may be taken on this machine."""
    command = step.command.replace(SERVICE_PORT, str(service_port))
    if "gateway init" in command:
        command += f"; sed -i s/{SERVICE_PORT}/{service_port}/ catalog/*.yaml */catalog/*.yaml 2>/dev/null"
    return command


@pytest.mark.timeout(180)
def test_every_printed_session_happens_as_printed(tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "GATEWAY_ADDR": f"127.0.0.1:{free_port()}",
    }
    service_port = free_port()
    for document, steps in _printed():
        folder = tmp_path / document.replace("/", "-")
        folder.mkdir(exist_ok=True)
        adapted = [Step(_on_free_ports(step, service_port), step.expected) for step in steps]
        for step, output in run(adapted, folder=folder, environment=environment):
            assert matches(step.expected, output), f"{document}: $ {step.command}\n{output}"


def test_the_readme_begins_with_a_session_in_which_an_answer_is_lost_and_settled() -> None:
    first, *_ = sessions((ROOT / "README.md").read_text())
    told = "\n".join(step.expected for step in first)

    assert "commit_then_drop" in "\n".join(step.command for step in first)
    assert told.index("unknown  deployments.create") < told.index("success  deployments.create")
    assert "duplicate effects: 0" in told


def test_a_session_is_read_step_by_step() -> None:
    document = "# T\n\n```console\n$ one\nout\n\nmore\n$ two \\\n> three\n```\n\n```\n$ not a session\n```\n"

    assert sessions(document) == [[Step("one", "out\n\nmore"), Step("two \\\nthree", "")]]


def test_output_before_a_command_is_refused() -> None:
    with pytest.raises(ValueError, match="before the first command"):
        sessions("```console\nout\n```\n")


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("a", "a \n\n", True),
        ("a", "b", False),
        ("id op_… done", "id op_01jd done", True),
        ("id op_… done", "id op_01\njd done", False),
        ("a\n…\nz", "a\nb\nc\nz", True),
        ("a\n…\nz", "a\nz", True),
        ("a\n…\nz", "a\nb\nc", False),
        ("a", "a\nb", False),
        ("(a) [b] *", "(a) [b] *", True),
        ("", "", True),
        ("", "surprise", False),
    ],
)
def test_output_is_compared_with_room_for_what_changes(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


def test_steps_share_a_shell_and_leave_nothing_running(tmp_path: Path) -> None:
    steps = [Step("x=1; sleep 600 & echo $!", ""), Step("echo $x >&2", ""), Step("false", "")]

    outputs = [output.strip() for _, output in run(steps, folder=tmp_path, environment=os.environ)]

    assert outputs[1:] == ["1", ""]
    assert ends(int(outputs[0]))
