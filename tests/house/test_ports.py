"""Time, chance and background work come through one door each; anything else would escape the simulator."""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import Module, modules, stale

# module -> the names that reach for the clock or for chance; None: all of the module
FORBIDDEN: dict[str, frozenset[str] | None] = {
    "time": None,
    "random": None,
    "secrets": None,
    "uuid": None,
    "os": frozenset({"urandom", "getrandom"}),
}
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})
SPAWNERS = frozenset({"create_task", "ensure_future", "run_coroutine_threadsafe"})

# path -> why it may reach for the clock or for chance
MAY_READ_CLOCK_OR_CHANCE: dict[str, str] = {
    "gateway/engine/clock.py": "the clock's port",
    "gateway/engine/chance.py": "the port of chance",
    "audit/machine.py": "the clock and the dice of the audit commands, which hand them on",
    "fixtures/clock.py": "the fixtures' own clock: a witness shares nothing with what it watches",
}
# path -> why it may start a task
MAY_SPAWN: dict[str, str] = {
    "gateway/engine/tasks.py": "the one door: it holds each task and reports its error",
}
# A witness keeps its own tasks; lint rule RUF006 sees to it that each is held.
SPAWNING_PACKAGES = ("fixtures/",)


def _clock_or_chance(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if FORBIDDEN.get(name.name, frozenset()) is None)
            case ast.ImportFrom(module=str(source), names=names, level=0) if source in FORBIDDEN:
                members = FORBIDDEN[source]
                yield from (f"{source}.{name.name}" for name in names if members is None or name.name in members)
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in (FORBIDDEN["os"] or ()):
                yield f"os.{name}"
            case ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name) if name in CLOCK_METHODS:
                yield f"datetime.{name}"
            case ast.Attribute(value=ast.Attribute(attr="datetime" | "date"), attr=name) if name in CLOCK_METHODS:
                yield f"datetime.{name}"
            case _:
                pass


def _spawns(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in SPAWNERS and _is_loop(owner):
                yield f"{owner}.{name}"
            case ast.Attribute(value=ast.Call(func=ast.Attribute(attr=getter)), attr=name) if (
                name in SPAWNERS and _is_loop(getter)
            ):
                yield f"{getter}().{name}"
            case ast.ImportFrom(module="asyncio", names=names):
                yield from (f"asyncio.{name.name}" for name in names if name.name in SPAWNERS)
            case _:
                pass


def _is_loop(name: str) -> bool:
    return name == "asyncio" or name.endswith("loop")


def _offenders(find: object, source: tuple[Module, ...]) -> dict[str, list[str]]:
    assert callable(find)
    return {module.path: found for module in source if (found := sorted(find(module.tree)))}


def test_only_the_ports_reach_for_clock_and_chance() -> None:
    found = _offenders(_clock_or_chance, modules())

    assert {path: names for path, names in found.items() if path not in MAY_READ_CLOCK_OR_CHANCE} == {}
    assert stale(MAY_READ_CLOCK_OR_CHANCE, set(found)) == set()


def test_only_one_module_starts_tasks() -> None:
    # A task nobody holds may vanish half done, and its error with it.
    found = _offenders(_spawns, modules())
    strays = {path for path in found if not path.startswith(SPAWNING_PACKAGES)}

    assert strays - set(MAY_SPAWN) == set()
    assert stale(MAY_SPAWN, strays) == set()


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import monotonic",
        "import secrets as s",
        "from os import urandom",
        "import os\nos.urandom(3)",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
        "def f():\n    import random",
        "import uuid",
    ],
)
def test_every_way_to_clock_and_chance_is_seen(text: str) -> None:
    assert list(_clock_or_chance(ast.parse(text)))


@pytest.mark.parametrize("text", ["import os", "from datetime import datetime, UTC", "clock.now()", "import timeit"])
def test_harmless_code_is_not_taken_for_a_clock(text: str) -> None:
    assert not list(_clock_or_chance(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "asyncio.create_task(f())",
        "asyncio.ensure_future(f())",
        "loop.create_task(f())",
        "asyncio.get_running_loop().create_task(f())",
        "from asyncio import create_task",
    ],
)
def test_every_way_to_start_a_task_is_seen(text: str) -> None:
    assert list(_spawns(ast.parse(text)))


def test_a_task_group_may_start_tasks() -> None:
    assert not list(_spawns(ast.parse("async with asyncio.TaskGroup() as group:\n    group.create_task(f())")))
