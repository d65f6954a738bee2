"""The layout of the house: packages, the size of modules and functions, and what things are called."""

import ast
import statistics

import pytest

from tests.house.source import PACKAGES, ROOT, Module, functions, modules, stale

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MEDIAN_FUNCTION_LINES_MAX = 12
MARKER = "action-gateway"
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "base"})

# path -> why it may be longer than the limit
LONG_MODULES: dict[str, str] = {}
# path::function -> why it may be longer than the limit
LONG_FUNCTIONS: dict[str, str] = {}


def _inits() -> list[Module]:
    return [module for module in modules() if module.is_init]


def test_only_the_given_folders_stand_at_the_top() -> None:
    made_by_tools = {"build", "dist", "htmlcov", "data"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}

    assert folders - made_by_tools == {*PACKAGES, "tests"}


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {module.path.rpartition("/")[0] for module in modules()}
    packages = {module.path.rpartition("/")[0] for module in _inits()}

    assert folders - packages <= {"gateway/store/migrations"}


@pytest.mark.parametrize("module", _inits(), ids=lambda module: module.path)
def test_an_init_holds_a_docstring_and_at_the_top_the_marker(module: Module) -> None:
    # What an __init__ does happens on every import of anything below it, and hides where a name comes from.
    assert ast.get_docstring(module.tree)
    rest = [ast.unparse(statement) for statement in module.tree.body[1:]]
    assert rest == ([f"MARKER = {MARKER!r}"] if module.path.count("/") == 1 else [])


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.path)
def test_a_module_opens_with_one_line_on_its_duty(module: Module) -> None:
    docstring = ast.get_docstring(module.tree)

    assert docstring, f"{module.path} has no docstring"
    first, _, rest = docstring.partition("\n")
    assert first.endswith((".", ":", "?"))
    assert not rest or rest.startswith("\n"), "the first line is a sentence of its own; more follows after a blank line"


def test_modules_keep_within_their_limit() -> None:
    long = {module.path: module.lines for module in modules() if module.lines > MODULE_LINES_MAX}

    assert {path: lines for path, lines in long.items() if path not in LONG_MODULES} == {}
    assert stale(LONG_MODULES, set(long)) == set()


def test_functions_keep_within_their_limit() -> None:
    long = {
        f"{module.path}::{name}": lines
        for module in modules()
        for name, node in functions(module)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    }

    assert {name: lines for name, lines in long.items() if name not in LONG_FUNCTIONS} == {}
    assert stale(LONG_FUNCTIONS, set(long)) == set()


def test_most_functions_are_short() -> None:
    lengths = [(node.end_lineno or 0) - node.lineno + 1 for module in modules() for _, node in functions(module)]

    assert statistics.median(lengths) <= MEDIAN_FUNCTION_LINES_MAX


def test_no_module_has_a_name_that_says_nothing() -> None:
    parts = {
        part
        for module in modules("gateway", "adapters", "audit", "fixtures", "tests")
        for part in module.path.removesuffix(".py").split("/")
    }

    assert parts & VAGUE_NAMES == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").read_bytes() == b""
