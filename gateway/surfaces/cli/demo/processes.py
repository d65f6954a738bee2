"""The processes of the demo: each a program of its own, all gone when the demo ends, whatever ends it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import gateway

READY_SECONDS_MAX: Final = 40.0
STOP_SECONDS_MAX: Final = 15.0
_OWN_VARIABLES: Final = (
    "GATEWAY_CONFIG", "GATEWAY_ADDR", "GATEWAY_KEY", "GATEWAY_STORE_URL", "GATEWAY_VAULT_KEY", "GATEWAY_DATA_KEY",
)  # fmt: skip


class DemoFailedError(Exception):
    """The demo could not be carried through; says why in one sentence."""


def environment_for(base: Mapping[str, str], **more: str) -> dict[str, str]:
    """The environment of the demo's programs: none of the user's own gateway reaches them.

    With the user's `GATEWAY_STORE_URL` the demo would work in the user's own database.
    """
    kept = {name: value for name, value in base.items() if name not in _OWN_VARIABLES}
    root = str(Path(gateway.__file__).resolve().parents[1])
    path = os.pathsep.join(part for part in (root, base.get("PYTHONPATH")) if part)
    return {**kept, "PYTHONPATH": path, **more}


def program(*arguments: str) -> list[str]:
    """The command line of one of our modules. `-P`: a folder of the same name where the user stands is not run."""
    return [sys.executable, "-P", "-m", *arguments]


class Program:
    """One running process that has said in a line of JSON that it is ready."""

    def __init__(self, process: asyncio.subprocess.Process, ready: Mapping[str, Any]) -> None:
        """`ready` is what it said."""
        self._process = process
        self.ready = ready

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to put anything in order."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM, then wait; SIGKILL if it does not end. Returns its exit code."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_SECONDS_MAX):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        return await self._process.wait()


@asynccontextmanager
async def running(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> AsyncIterator[Program]:
    """Run one of our programs until the block ends; what it complains about is appended to `log`."""
    with log.open("ab") as complaints:
        process = await asyncio.create_subprocess_exec(
            *program(*arguments),
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
        )
    try:
        yield Program(process, await _ready(process, arguments, log))
    finally:
        if process.returncode is None:
            process.kill()
        # Not to be interrupted: a process that nobody waits for would outlive the demo as a zombie.
        await asyncio.shield(process.wait())


async def _ready(process: asyncio.subprocess.Process, arguments: Sequence[str], log: Path) -> dict[str, Any]:
    said = process.stdout
    try:
        async with asyncio.timeout(READY_SECONDS_MAX):
            line = await said.readline() if said is not None else b""
        ready: dict[str, Any] = json.loads(line)
    except (TimeoutError, ValueError):
        raise DemoFailedError(f"“{' '.join(arguments[:2])}” did not start; see {log}.") from None
    return ready


async def output_of(
    arguments: Sequence[str], environment: Mapping[str, str], *, fine: frozenset[int] = frozenset({0})
) -> Any:  # noqa: ANN401 - any JSON value
    """Run one of our programs to its end and return the JSON that it printed. Raises DemoFailedError."""
    process = await asyncio.create_subprocess_exec(
        *program(*arguments),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())
    if process.returncode not in fine:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise DemoFailedError(f"“{' '.join(arguments[:2])}” ended with {process.returncode}: {last[0]}")
    try:
        return json.loads(out)
    except ValueError:
        raise DemoFailedError(f"“{' '.join(arguments[:2])}” printed no JSON.") from None
