"""The project's own source, parsed once, for the tests that read it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "adapters", "audit", "fixtures")
# Alembic loads these by path; they follow its form, not the house's.
MIGRATIONS = "gateway/store/migrations/"
_MADE_BY_TOOLS = frozenset({"__pycache__", "build", "dist", "htmlcov", "data"})
_TEXT = frozenset(
    ("", ".css", ".html", ".ini", ".js", ".json", ".lock", ".mako", ".md", ".py", ".sql", ".svg", ".toml", ".txt")
)
_YAML = frozenset({".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class Module:
    path: str
    text: str
    tree: ast.Module

    @property
    def is_init(self) -> bool:
        return self.path.endswith("/__init__.py")

    @property
    def lines(self) -> int:
        return self.text.count("\n")


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Every module below the folders (the four packages where none are named), migrations left out."""
    found = []
    for folder in folders or PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(MIGRATIONS + "versions/"):
                text = path.read_text()
                found.append(Module(name, text, ast.parse(text, name)))
    return tuple(found)


def functions(module: Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function with its dotted name inside the module."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{prefix}{child.name}."
                yield name[:-1], child
            elif isinstance(child, ast.ClassDef):
                name = f"{prefix}{child.name}."
            yield from walk(child, name)

    return walk(module.tree, "")


@cache
def texts() -> dict[str, str]:
    """Every text file of the project by its path; what tools make is left out."""
    found = {}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = parts[0].startswith(".") and parts[0] not in {".ci", ".editorconfig", ".gitignore"}
        if hidden or _MADE_BY_TOOLS.intersection(parts) or not path.is_file() or path.is_symlink():
            continue
        if path.suffix in _TEXT | _YAML or path.name.startswith("."):
            found["/".join(parts)] = path.read_text()
    return found


def stale(exempt: dict[str, str], offenders: set[str]) -> set[str]:
    """Exemptions that nothing needs any more: a list that only grows protects nothing."""
    return set(exempt) - offenders
