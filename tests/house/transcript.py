"""Runs a session printed in a document and compares it with what really happens."""

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = "$ "
_MORE = "> "


@dataclass(frozen=True, slots=True)
class Step:
    """One command with the output printed below it. `…` stands for anything, a line of its own for any lines."""

    command: str
    expected: str


def sessions(document: str) -> list[list[Step]]:
    """The steps of each console block of a document."""
    return [list(_steps(match[1].splitlines())) for match in _BLOCK.finditer(document)]


def _steps(lines: list[str]) -> Iterator[Step]:
    command: str | None = None
    output: list[str] = []
    for line in lines:
        if line.startswith(_PROMPT):
            if command is not None:
                yield Step(command, "\n".join(output))
            command, output = line.removeprefix(_PROMPT), []
        elif command is None:
            raise ValueError(f"output before the first command: {line!r}")
        elif line.startswith(_MORE) and not output:
            command += "\n" + line.removeprefix(_MORE)
        else:
            output.append(line)
    if command is not None:
        yield Step(command, "\n".join(output))


def matches(expected: str, actual: str) -> bool:
    """Whether the output is what was printed; white space at the ends of lines does not count."""
    pattern = "".join(
        "(?:.*\n)*?" if line.strip() == "…" else re.escape(line.rstrip()).replace("…", ".*?") + "\n"
        for line in expected.strip().splitlines()
    )
    got = "".join(line.rstrip() + "\n" for line in actual.strip().splitlines())
    return re.fullmatch(pattern, got) is not None


def run(steps: list[Step], *, folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[Step, str]]:
    """Run the steps in one shell, so that variables and background servers last; kill what is left at the end."""
    shell = subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    try:
        for step in steps:
            end = f"end-of-step-{uuid.uuid4().hex}"
            # As a reader pastes it: whatever must be waited for, the session itself waits for.
            shell.stdin.write(f"{step.command}\nprintf '\\n%s\\n' {end}\n")
            shell.stdin.flush()
            output = []
            for line in shell.stdout:
                if line.rstrip("\n") == end:
                    break
                output.append(line)
            yield step, "".join(output)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
