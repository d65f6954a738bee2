"""Each source module has tests that name it, at a place that mirrors the packages."""

import ast
from collections.abc import Iterator

from tests.house.source import PACKAGES, ROOT, Module, modules

UNIT = ROOT / "tests" / "unit"

# module, or folder with a slash at its end -> what tests it, where no test names it
TESTED_THROUGH_OTHERS: dict[str, str] = {
    "adapters/http/answer.py": "through every row of the fault table",
    "adapters/http/report.py": "through every row of the fault table",
    "adapters/http/selftest.py": "it is a test itself, run whenever an adapter starts",
    "adapters/http/tls.py": "through the fault table's half over TLS",
    "fixtures/": "as processes, through their sockets: a witness is judged by what it does on the wire",
    "gateway/store/items_subjects.py": "through the exam every store takes, in tests/contract",
    "gateway/store/migrations/env.py": "alembic runs it whenever a store is opened",
    "gateway/store/writing.py": "through the exam every store takes, in tests/contract",
    "gateway/surfaces/": "through the program and its REST doors, in tests/scenario",
}


def _dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _imported(tests: tuple[Module, ...]) -> Iterator[str]:
    """Every name that a test imports; `from a.b import c` may mean the module a.b or the module a.b.c."""
    for module in tests:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{name.name}" for name in node.names)


def _own_test(path: str) -> str:
    folder, _, name = path.removeprefix("gateway/").rpartition("/")
    return f"{folder}/test_{name}".lstrip("/")


def _untested() -> set[str]:
    named = set(_imported(modules("tests")))
    return {
        module.path
        for module in modules()
        if not module.is_init
        and not module.path.endswith("/__main__.py")
        and _dotted(module.path) not in named
        and not (UNIT / _own_test(module.path)).exists()
    }


def test_every_module_is_named_by_a_test() -> None:
    exempt = tuple(TESTED_THROUGH_OTHERS)
    untested = _untested()

    assert {path for path in untested if not path.startswith(exempt or ("-",))} == set()
    assert {entry for entry in exempt if not any(path.startswith(entry) for path in untested)} == set()


def test_unit_tests_lie_in_folders_named_like_packages() -> None:
    packages = {path.name for path in (ROOT / "gateway").iterdir() if path.is_dir()} | set(PACKAGES) - {"gateway"}
    folders = {path.relative_to(UNIT).parts[0] for path in UNIT.rglob("test_*.py") if path.parent != UNIT}

    assert folders - packages == set()
