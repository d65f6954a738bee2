"""The gateway refuses to run where a package of the same name is not its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import PACKAGES, ROOT


def _gateway(first_on_path: Path) -> subprocess.CompletedProcess[str]:
    program = (
        f"import sys; sys.path[:0] = [{str(first_on_path)!r}, {str(ROOT)!r}]; from gateway.__main__ import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "--help"], cwd=first_on_path, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - {"gateway"}))
@pytest.mark.parametrize("marker", ["", 'MARKER = "something else"'])
def test_a_stranger_in_the_environment_is_refused_with_a_plain_sentence(
    tmp_path: Path, package: str, marker: str
) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(marker)

    result = _gateway(tmp_path)

    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert f"The package '{package}' at {tmp_path / package / '__init__.py'} does not belong" in result.stderr


def test_our_own_packages_are_let_in(tmp_path: Path) -> None:
    result = _gateway(tmp_path)

    assert result.returncode == 0, result.stderr
    assert "Usage" in result.stdout
