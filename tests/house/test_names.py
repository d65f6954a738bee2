"""What documents and docstrings name is there: a file, a module, or something that a module holds."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import PACKAGES, ROOT, modules, texts

_FILE = re.compile(r"`((?:[\w-]+/)*(?:[\w*-]+\.py|[\w-]+/))`")
_NAME = re.compile(r"`([a-z_]+(?:\.\w+)+)[`(]")
_OURS = frozenset({*PACKAGES, "catalog", "core", "engine", "model", "store", "surfaces", "tests"})
_SHELVES = (ROOT, *(ROOT / name for name in PACKAGES))
_ROOTS = (ROOT, ROOT / "gateway", ROOT / "gateway" / "surfaces")
# Folders of a data folder, not of the house.
_ELSEWHERE = frozenset({"blobs/", "dist/", "segments/"})


def _missing_files(document: str) -> Iterator[str]:
    """A bare name counts from the folder of the file that was named before it."""
    before = ROOT
    for named in _FILE.findall(document):
        found = [path for root in (*_ROOTS, before) for path in root.glob(named)]
        if found:
            before = found[0].parent if found[0].is_file() else found[0]
        elif named not in _ELSEWHERE:
            yield named


@pytest.mark.parametrize("path", [path for path in texts() if path.endswith(".md")])
def test_documents_name_only_files_that_exist(path: str) -> None:
    assert list(_missing_files(texts()[path])) == []


@pytest.mark.parametrize(
    ("document", "missing"),
    [
        ("`gateway/engine/clock.py` and `chance.py`, `surfaces/rest`, `core/acl.py`, `gateway/catalog/schema*.py`", []),
        ("`gateway/engine/clock.py` and `ids.py`", ["ids.py"]),
        ("`adapters/registry.py` below `adapters/`", ["adapters/registry.py"]),
        ("`adapters/ftp/`", ["adapters/ftp/"]),
    ],
)
def test_a_file_that_is_not_there_is_noticed(document: str, missing: list[str]) -> None:
    assert list(_missing_files(document)) == missing


def _holds(path: Path, names: list[str]) -> bool:
    return not names or re.search(rf"\b{re.escape(names[0])}\b", path.read_text()) is not None


def _is_there(name: str) -> bool:
    """Whether a module of that name exists and, where something in it is named, has the word; a setting will do."""
    parts = name.split(".")
    for root in _ROOTS:
        for count in range(len(parts), 0, -1):
            place = root.joinpath(*parts[:count])
            if place.is_dir() and count == len(parts):
                return True
            if (file := place.with_suffix(".py")).is_file():
                return _holds(file, parts[count:])
    return name == "gateway.yaml" or _holds(ROOT / "gateway" / "settings.py", parts[-1:])


def _gone(text: str) -> list[str]:
    return [name for name in _NAME.findall(text) if name.split(".")[0] in _OURS and not _is_there(name)]


def test_docstrings_and_comments_name_only_what_exists() -> None:
    assert {module.path: gone for module in modules() if (gone := _gone(module.text))} == {}


def _pages_gone(text: str) -> list[str]:
    return [page for page in re.findall(r"[\w/-]+\.md\b", text) if not any((root / page).exists() for root in _SHELVES)]


def test_docstrings_and_comments_name_only_pages_that_exist() -> None:
    assert {module.path: gone for module in modules() if (gone := _pages_gone(module.text))} == {}
    assert _pages_gone("FORMAT.md, gateway/README.md, pipeline.md") == ["pipeline.md"]


@pytest.mark.parametrize("name", ["core.lifecycle.shown", "catalog.mistake.CatalogRefused", "store.nowhere"])
def test_a_name_that_is_gone_is_noticed(name: str) -> None:
    assert _gone(f"Raises `{name}`.") == [name]


@pytest.mark.parametrize("name", ["store.port.Refused", "rest.call", "audit.recipients", "gateway.yaml", "core.ids"])
def test_a_name_that_exists_is_let_be(name: str) -> None:
    assert _gone(f"See `{name}`.") == []
