"""What every command shares: settings, the running gateway's address and key, printing, and exit codes."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from yarl import URL

from gateway.catalog.mistake import MistakesError
from gateway.model.problem import Problem
from gateway.settings import Settings
from gateway.store.port import Refused, StoreUnknown, Unavailable
from gateway.surfaces.cli.composition import Composition

T = TypeVar("T")

_ADDRESS = re.compile(r"http://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]+", re.ASCII)
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the document as JSON.")]
PIPE_WIDTH = 1000
"""Nothing is folded where another program reads: an id in two halves cannot be searched for."""


def _is_address(text: str) -> bool:
    """Whether a client can dial it: the pattern alone lets through ports and hosts that do not exist."""
    try:
        return _ADDRESS.fullmatch(text) is not None and bool(URL(text).host) and URL(text).explicit_port is not None
    except ValueError:
        return False


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
    interrupted: tuple[str, int] = ("Interrupted.", 130)
    """What to say, and the exit code, after Ctrl-C."""
    unwritten: tuple[str, int] | None = None
    """What to say, and the exit code, if standard output does not take the answer."""
    look_back: Callable[[], Coroutine[Any, Any, str | None]] | None = None
    """Asked once after Ctrl-C, within seconds, for a sentence that says more; it may look, and must not change."""

    @property
    def out(self) -> Console:
        """Standard output; colours on a terminal only."""
        on_terminal = sys.stdout.isatty()
        return Console(
            highlight=False,
            soft_wrap=not on_terminal,
            width=None if on_terminal else PIPE_WIDTH,
            force_terminal=on_terminal,
        )

    def settings(self) -> Settings:
        """The settings file's content. Ends the program with a plain list of mistakes if it cannot be used."""
        from gateway.catalog.config import config_path, open_settings

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
            address = (given if "://" in given else f"http://{given}").removesuffix("/")
            if not _is_address(address):
                fail("GATEWAY_ADDR is not an address: write host:port, for example 127.0.0.1:8420.", Exit.USAGE)
            return address
        from gateway.catalog.config import config_path

        server = self.settings().server if config_path(environment).exists() else Settings().server
        host = f"[{server.host}]" if ":" in server.host else server.host
        return f"http://{host}:{server.port}"

    def key(self) -> str:
        """The API key from `GATEWAY_KEY`."""
        key = self.key_if_any()
        if not key:
            fail("No API key: set GATEWAY_KEY to the key that the gateway's owner gave you.", Exit.USAGE)
        return key

    def key_if_any(self) -> str:
        """The API key, empty if there is none: what works on a stopped gateway needs none."""
        key = self.composition.environment.get("GATEWAY_KEY", "").strip()
        if key and _KEY.fullmatch(key) is None:
            fail("GATEWAY_KEY does not hold a key: it has spaces or other characters that no key has.", Exit.USAGE)
        return key

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a command's work, turning refusals into one plain line and an exit code."""
        try:
            return asyncio.run(work)
        except KeyboardInterrupt:
            fail(self._last_words(), self.interrupted[1])
        except Refused as refused:
            fail(str(refused), Exit.ERROR)
        except MistakesError as error:
            for mistake in error.mistakes:
                sys.stderr.write(f"{mistake}\n")
            raise typer.Exit(Exit.ERROR) from None
        except Problem as problem:
            errors = "".join(f"\n  {item.pointer}: {item.detail} {item.guidance}" for item in problem.errors)
            fail(f"{problem.detail} {problem.guidance}{errors}".strip(), Exit.REFUSED)
        except (Unavailable, StoreUnknown) as error:
            fail(f"The store did not take it: {error}", Exit.ERROR)
        except BrokenPipeError:
            raise
        except OSError as error:
            if self.unwritten is not None:
                raise
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}", self.no_verdict)

    @property
    def no_verdict(self) -> Exit:
        """The exit code after a failure of the program's own, which shows nothing about an operation that may exist."""
        return Exit.UNKNOWN if self.interrupted[1] == Exit.UNKNOWN else Exit.ERROR

    def _last_words(self) -> str:
        said, _code = self.interrupted
        if self.look_back is None:
            return said
        try:
            return asyncio.run(self.look_back()) or said
        except KeyboardInterrupt:
            # Somebody is in a hurry.
            return said

    def print_json(self, value: Any) -> None:  # noqa: ANN401 - any JSON value
        """One JSON document on standard output; on a terminal without characters that it might obey.

        Nor with any where they could not be written as what they are.
        """
        # A stream in memory has no encoding and takes everything.
        encoding = (sys.stdout.encoding or "utf-8").lower()
        plain = sys.stdout.isatty() or encoding not in {"utf-8", "utf8"}
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=plain) + "\n")


_CURRENT: ContextVar[Context] = ContextVar("context")


def enter(context: Context) -> None:
    """Commands run from now on share this context."""
    _CURRENT.set(context)


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong on standard error and end. If nobody can hear it, the exit code still tells."""
    complain(f"gateway: {message}\n")
    raise typer.Exit(code)


def complain(text: str) -> None:
    """Write on standard error, whether anybody takes it or not."""
    with suppress(OSError):
        sys.stderr.write(text)


def current() -> Context:
    """The context of the command under way."""
    return _CURRENT.get()


def read_input() -> str:
    """Standard input as text."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        fail("Standard input is not UTF-8 text.", Exit.USAGE)


def check_seconds(value: float) -> float:
    """A number of seconds; `nan` passes every comparison and means nothing."""
    if not 0 <= value < float("inf"):
        raise typer.BadParameter("that is not a number of seconds")
    return value
