"""A host of the demo: a real SSH server that runs real commands in a folder of its own, and a proxy before it."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.surfaces.cli.demo.kit import WAIT_SECONDS_MAX, Controls
from gateway.surfaces.cli.demo.processes import DemoFailedError
from gateway.surfaces.cli.demo.ssh_cases import HostCase

LOOK_SECONDS: Final = 0.05
END_SECONDS_MAX: Final = 10.0
RELEASE: Final = """\
# What runs on this host. It writes down that it ran before it does anything else: this line is the truth that the
# gateway's claims are held against.
echo "$GATEWAY_OPERATION" >>"$1/ran"
case $2 in
slow-*) until [ -e "$1/go" ] || [ ! -d "$1" ]; do sleep 0.1; done ;;
bad-*) echo "there is no version $2" >&2; exit 3 ;;
esac
echo "released $2"
"""


class DemoHost(Controls):
    """`folder` is its disk: the release script, the runner's store, and the file `ran`, a line for each run."""

    def __init__(self, ready: Mapping[str, Any]) -> None:
        """`ready` is the line that `fixtures ssh` printed; its keys lie in a folder on the host's disk."""
        super().__init__(ready)
        self.store_id = ""
        self.user = str(ready["user"])
        self.host_key = str(ready["host_key"])
        self.port = int(str(ready["proxy"]).rpartition(":")[2])
        self._key_file = Path(str(ready["key"]))
        self.folder = self._key_file.parents[1]
        self.name = self.folder.name

    @property
    def store(self) -> Path:
        """Where the runner remembers what ran."""
        return self.folder / "store"

    def private_key(self) -> str:
        """The key that it lets in."""
        return self._key_file.read_text(encoding="utf-8")

    async def prepare(self, script: bytes, read: Callable[[bytes], Mapping[str, object] | None]) -> None:
        """Lay out the release script, and make the store as its owner would: `gateway host script … | sh -s`."""
        (self.folder / "release").write_text(RELEASE, encoding="utf-8")
        pipe = asyncio.subprocess.PIPE
        shell = await asyncio.create_subprocess_exec(
            "/bin/sh", "-s", cwd=self.folder, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        output, _ = await shell.communicate(script)
        found = read(output) or {"phase": "silent"}
        if found["phase"] != "ok":
            raise DemoFailedError(f"No store could be made in {self.folder}: {found.get('reason', found['phase'])}.")
        self.store_id = str(found["store_id"])

    async def plan(self, case: HostCase) -> None:
        """Let the next session meet the case's fault; if the case leaves doubt, later ones are not let in for now."""
        if case.toxic is not None:
            stream = {"stream": "upstream"} if case.toxic == "hold_at" else {}
            toxic = {"type": case.toxic, "times": 1, "attributes": {"stage": case.toxic_stage}}
            await self.ask_proxy("POST", "/_toxics", toxic | stream)
        if case.fault is not None:
            await self.ask("POST", "/_faults", {"fault": case.fault})
        if case.doubtful and case.stage == "together":
            await self.ask("POST", "/_faults", {"fault": "ssh_refuse_login", "skip": 1, "times": None})

    async def let_in(self) -> None:
        """Whoever asks is let in again, and slow releases come to their end."""
        await self.ask("DELETE", "/_faults")
        (self.folder / "go").touch()

    async def announce(self, stage: str) -> None:
        """Tell the proxy that its connections have reached a stage."""
        await self.ask_proxy("POST", "/_announce", {"stage": stage})

    async def deliver(self) -> None:
        """Let what is held arrive, and wait until the host has dealt with it: it was the first to connect."""
        await self.release_proxy()
        await self.wait_for_entry(conn="1", kind="worker")

    def ran(self) -> list[str]:
        """The operations that ran here, once for each time."""
        file = self.folder / "ran"
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    async def until_ran(self, count: int) -> None:
        """Wait until so many commands have begun. Raises DemoFailedError."""
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while len(self.ran()) < count:  # noqa: ASYNC110 - a file of another process: nobody tells of it
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise DemoFailedError(f"No command began on {self.name} in {WAIT_SECONDS_MAX:.0f} s.") from None

    async def end(self) -> None:
        """Let everything that still runs here come to its end: its last words belong into the folder."""
        (self.folder / "go").touch()
        try:
            async with asyncio.timeout(END_SECONDS_MAX):
                while not self._is_quiet():  # noqa: ASYNC110 - as above
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            return

    def _is_quiet(self) -> bool:
        """Whether every command that began has its record, and nothing half-made lies in the store."""
        begun = self.store.glob("ops/*/b.*")
        recorded = all(mark.with_name(f"x{mark.suffix}").exists() for mark in begun)
        return recorded and not any((self.store / "tmp").glob("*"))
