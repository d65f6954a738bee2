"""The table of who may import whom holds, and each contract notices an import that breaks it."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import PACKAGES, ROOT, modules

# (module that would reach out, what it must not import, words in the report)
FORBIDDEN = [
    ("gateway/core", "import time", "cannot look at a clock"),
    ("gateway/core", "from gateway import store", "imports point down"),
    ("gateway/model", "import pydantic", "cannot look at a clock"),
    ("gateway/model", "from gateway import core", "imports point down"),
    ("gateway/core", "import fixtures", "Nothing that ships leans on fixtures"),
    ("gateway/core", "import adapters.http", "know of adapters only the contract"),
    ("gateway/engine", "from adapters import http", "know of adapters only the contract"),
    ("gateway/store", "import audit.chain", "know nothing of adapters and audit"),
    ("gateway/catalog", "import adapters.contract", "know nothing of adapters and audit"),
    ("gateway/surfaces", "from gateway import app", "imports point down"),
    ("gateway/surfaces", "import audit.seal", "Doors know no adapter"),
    ("gateway/surfaces", "import adapters.contract", "Doors know no adapter"),
    ("gateway/engine", "from gateway import surfaces", "imports point down"),
    ("gateway/store", "from gateway import catalog", "imports point down"),
    ("gateway/catalog", "from gateway import store", "imports point down"),
    ("adapters", "from gateway import model", "Adapters know nothing of ours"),
    ("audit", "from gateway import model", "usable alone"),
    ("fixtures", "import adapters.contract", "Fixtures are a witness"),
]


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    environment = os.environ | {"COLUMNS": "200", "PYTHONPATH": str(folder)}
    return subprocess.run(
        [program, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_every_import_contract_holds() -> None:
    result = _lint(ROOT)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("package", "line", "words"), FORBIDDEN)
def test_a_forbidden_import_is_noticed(copy: Path, package: str, line: str, words: str) -> None:
    stray = copy / package / "stray.py"
    stray.write_text(f'"""Reaches out."""\n\n{line}\n')
    try:
        result = _lint(copy)
    finally:
        stray.unlink()

    assert result.returncode == 1, result.stdout
    assert words in result.stdout
    assert "BROKEN" in result.stdout


@pytest.mark.parametrize("path", ["gateway/model/", "adapters/contract.py", "audit/chain.py", "audit/record.py"])
def test_nouns_and_formats_need_only_the_standard_library(path: str) -> None:
    allowed = sys.stdlib_module_names | {path.split("/", maxsplit=1)[0]}
    for module in modules():
        if module.path.startswith(path):
            for node in ast.walk(module.tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert {name.split(".", maxsplit=1)[0] for name in names} <= allowed, module.path
