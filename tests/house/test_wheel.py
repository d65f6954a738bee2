"""What is shipped: the wheel holds the four packages whole and nothing else, and works in an empty environment."""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import PACKAGES, ROOT

# Building and installing goes through pip, which the package index may keep waiting.
SLOW = pytest.mark.timeout(300)


def _run(*command: str | Path, cwd: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "GATEWAY"))}
    result = subprocess.run(
        command, cwd=cwd, env=kept, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def source() -> set[str]:
    """What the packages hold at the moment the wheel is built."""
    return set(_shipped())


@pytest.fixture(scope="module")
def wheel(source: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def _shipped() -> Iterator[str]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT).as_posix()


@SLOW
def test_the_wheel_holds_the_four_packages_whole_and_nothing_else(wheel: Path, source: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert {name for name in names if name.partition("/")[0] in PACKAGES} == source
    assert {name.partition("/")[0] for name in names} - set(PACKAGES) == {"action_gateway-0.1.0.dist-info"}


@SLOW
def test_the_wheel_says_what_it_is_and_carries_its_license(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("action_gateway-0.1.0.dist-info/METADATA").decode()
        scripts = archive.read("action_gateway-0.1.0.dist-info/entry_points.txt").decode()
        license_text = archive.read("action_gateway-0.1.0.dist-info/licenses/LICENSE")

    assert "Name: action-gateway\n" in metadata
    assert "Requires-Python: >=3.11\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "gateway = gateway.__main__:main" in scripts
    assert "audit = audit.cli:main" in scripts
    assert license_text == (ROOT / "LICENSE").read_bytes()


@SLOW
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    venv.create(home, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "--disable-pip-version-check")
    install = (*pip, "install", "-qq", "--no-compile", "--no-deps")
    _run(*install, "--require-hashes", "-r", ROOT / "requirements.lock", cwd=tmp_path)
    _run(*install, "--no-index", wheel, cwd=tmp_path)
    _run(*pip, "check", cwd=tmp_path)

    assert "Usage" in _run(home / "bin" / "gateway", "--help", cwd=tmp_path)
    assert "verify" in _run(home / "bin" / "audit", "--help", cwd=tmp_path)
    where = _run(
        home / "bin" / "python",
        "-c",
        "import importlib.util as u; print([u.find_spec(name) is not None for name in "
        "('gateway', 'adapters', 'audit', 'fixtures', 'tests')])",
        cwd=tmp_path,
    )
    assert where.strip() == "[True, True, True, True, False]"
