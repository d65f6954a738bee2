"""The lock files hold names, versions and hashes, nothing that ties them to one machine or one index."""

import re
import tomllib

import pytest

from tests.house.source import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")
PIN = re.compile(r"^([a-z0-9]+(?:-[a-z0-9]+)*)==([0-9][\w.+!-]*)(?: ; [\w .='<>!()-]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
NAME = re.compile(r"^[A-Za-z0-9._-]+")


def _read(lock: str) -> list[str]:
    return (ROOT / lock).read_text().splitlines()


def _pins(lock: str) -> dict[str, str]:
    return {match[1]: match[2] for line in _read(lock) if (match := PIN.match(line))}


def _wanted(requirements: list[str]) -> set[str]:
    names = (match[0] for text in requirements if (match := NAME.match(text)))
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


def _project() -> dict[str, dict[str, list[str]]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_only_names_versions_and_hashes(lock: str) -> None:
    strange = [line for line in _read(lock) if not PIN.match(line) and not HASH.match(line)]

    assert strange == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash(lock: str) -> None:
    lines = _read(lock)

    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if PIN.match(line):
            assert HASH.match(following), f"{line} is not followed by a hash"


@pytest.mark.parametrize(
    "line",
    [
        "aiohttp==3.14.5",
        "aiohttp>=3.14 \\",
        "aiohttp @ file:///somewhere \\",
        "--index" + "-url https://index.example/simple",
        "    --hash=md5:0123456789abcdef0123456789abcdef",
        "# via aiohttp",
        "-r other.lock",
    ],
)
def test_anything_else_is_noticed(line: str) -> None:
    assert not PIN.match(line)
    assert not HASH.match(line)


def test_every_dependency_is_locked() -> None:
    project = _project()

    assert _wanted(project["project"]["dependencies"]) <= set(_pins("requirements.lock"))
    assert _wanted(project["dependency-groups"]["dev"]) <= set(_pins("requirements-dev.lock"))
    assert _wanted(project["build-system"]["requires"]) <= set(_pins("requirements-build.lock"))


def test_the_locks_agree_on_every_version() -> None:
    dev = _pins("requirements-dev.lock").items()

    assert _pins("requirements.lock").items() <= dev
    assert _pins("requirements-build.lock").items() <= dev


def test_every_dependency_gives_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    project = _project()
    for requirement in (*project["project"]["dependencies"], *project["dependency-groups"]["dev"]):
        line = next(line for line in text.splitlines() if line.startswith(f'    "{requirement}"'))
        assert re.search(r"#\s+\w", line), f"{requirement} is there for no stated reason"
