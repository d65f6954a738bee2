"""The Makefile is the one list of commands: it explains itself, and documents and CI name only what it holds."""

import os
import re
import subprocess

import pytest

from tests.house.source import ROOT, texts

TARGET = re.compile(r"^([a-z]+):(.*)$", re.MULTILINE)
PROMISED = frozenset({"demo", "test", "races", "check", "fmt", "bench", "soak", "wheel", "lock", "help"})


def _targets() -> dict[str, str]:
    return {match[1]: match[2] for match in TARGET.finditer((ROOT / "Makefile").read_text())}


def test_every_promised_command_exists_and_says_what_it_does() -> None:
    targets = _targets()

    assert set(targets) >= PROMISED
    assert [name for name, rest in targets.items() if "## " not in rest] == []


def test_make_alone_lists_the_commands() -> None:
    # These tests may run under make themselves, whose flags must not reach the inner one.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(["make"], cwd=ROOT, env=plain, capture_output=True, text=True, check=True).stdout

    assert [line.split()[1] for line in shown.splitlines() if line] == list(_targets())


def _documents() -> list[str]:
    return [path for path in texts() if path.endswith(".md") or path == ".ci/run"]


@pytest.mark.parametrize("path", _documents())
def test_documents_name_only_commands_that_exist(path: str) -> None:
    named = set(re.findall(r"(?:`|^\s*\$? ?|\|\| |&& )make ([a-z]+)\b", texts()[path], re.MULTILINE))

    assert named <= set(_targets())


@pytest.mark.parametrize("path", [path for path in _documents() if path.endswith(".md")])
def test_links_inside_documents_lead_somewhere(path: str) -> None:
    folder = (ROOT / path).parent
    links = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", texts()[path])

    assert [link for link in links if not (folder / link).exists()] == []


def test_ci_runs_the_readmes_test_command() -> None:
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert re.search(r"^make test\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


def test_ci_runs_what_the_suite_leaves_out_for_its_length_before_the_suite() -> None:
    steps = re.findall(r"^make ([a-z]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)

    assert steps == ["check", "races", "test"]


def test_the_ci_script_is_sound_and_executable() -> None:
    script = ROOT / ".ci" / "run"
    subprocess.run(["bash", "-n", script], check=True)

    assert script.stat().st_mode & 0o111
