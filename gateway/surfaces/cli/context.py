"""What every command shares: settings, the running gateway's address and key, printing, and exit codes."""

import asyncio
import json
import sys
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import Console

from gateway.catalog.config import config_path, open_settings
from gateway.catalog.mistake import MistakesError
from gateway.model.problem import Problem
from gateway.settings import Settings
from gateway.store.port import Refused
from gateway.surfaces.cli.composition import Composition

T = TypeVar("T")


class Exit(IntEnum):
    """Exit codes of every command that speaks of an operation; the rest use 0, 1 (findings) and 2."""

    SUCCESS = 0
    ERROR = 1
    USAGE = 2
    UNKNOWN = 3
    HELD = 4
    UNREACHABLE = 5
    REFUSED = 6


@dataclass(slots=True)
class Context:
    """Made once by `main`, handed to every command as `ctx.obj`."""

    composition: Composition
    as_json: bool = False

    @property
    def out(self) -> Console:
        """Standard output; colours on a terminal only."""
        return Console(highlight=False, soft_wrap=not sys.stdout.isatty())

    def settings(self) -> Settings:
        """The settings file's content. Ends the program with a plain list of mistakes if it cannot be used."""
        environment = self.composition.environment
        try:
            return open_settings(config_path(environment), environment)
        except MistakesError as error:
            for mistake in error.mistakes:
                sys.stderr.write(f"{mistake}\n")
            raise typer.Exit(Exit.USAGE) from None

    def address(self) -> str:
        """Where the gateway listens: `GATEWAY_ADDR`, else the settings, else the default."""
        environment = self.composition.environment
        given = environment.get("GATEWAY_ADDR")
        if given:
            return given if "://" in given else f"http://{given}"
        server = self.settings().server if config_path(environment).exists() else Settings().server
        host = f"[{server.host}]" if ":" in server.host else server.host
        return f"http://{host}:{server.port}"

    def key(self) -> str:
        """The API key from `GATEWAY_KEY`."""
        key = self.composition.environment.get("GATEWAY_KEY")
        if not key:
            fail("No API key: set GATEWAY_KEY to the key that the gateway's owner gave you.", Exit.USAGE)
        return key

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a command's work, turning refusals into one plain line and an exit code."""
        try:
            return asyncio.run(work)
        except Refused as refused:
            fail(str(refused), Exit.ERROR)
        except MistakesError as error:
            for mistake in error.mistakes:
                sys.stderr.write(f"{mistake}\n")
            raise typer.Exit(Exit.ERROR) from None
        except Problem as problem:
            fail(f"{problem.detail} {problem.guidance}".strip(), Exit.REFUSED)

    def print_json(self, value: Any) -> None:  # noqa: ANN401 - any JSON value
        """One JSON document on standard output."""
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


_CURRENT: ContextVar[Context] = ContextVar("context")


def enter(context: Context) -> None:
    """Commands run from now on share this context."""
    _CURRENT.set(context)


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong on standard error and end."""
    sys.stderr.write(f"gateway: {message}\n")
    raise typer.Exit(code)


def current() -> Context:
    """The context of the command under way."""
    return _CURRENT.get()


def read_text(path: Path) -> str:
    """A text file, or standard input for `-`."""
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}.", Exit.USAGE)
