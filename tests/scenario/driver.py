"""Serves like `gateway serve`, with one thing planned at a named place: this process kills or stops itself there, or
finds the disk full. For scenarios only; the program that ships has no such switch.
"""

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
from pathlib import Path

from gateway.catalog.config import config_path, open_settings
from gateway.engine.chance import SystemChance
from gateway.engine.clock import SystemClock
from gateway.engine.logs import Logs
from gateway.running import serve
from gateway.store.ballast import FolderDisk


class Planned:
    """Does its deed at the nth hit of a name, counted from the moment at which the door opens, or from the start, or
    from the hit of another one.
    """

    def __init__(self, args: argparse.Namespace, wal: Path) -> None:
        self._name, self._left, self._deed = args.name, args.nth, args.deed
        self._wal = wal
        self._after = args.after
        self.armed = args.from_start

    def open_door(self) -> None:
        self.armed = self.armed or self._after is None

    def hit(self, name: str) -> None:
        self.armed = self.armed or name == self._after
        if not self.armed or name != self._name:
            return
        self._left -= 1
        if self._left == 0:
            self._act()

    def _act(self) -> None:
        if self._deed == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._deed == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self._deed == "limit":
            # From here on no file may grow beyond what the journal has now: the write that comes next is refused.
            size = self._wal.stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def main() -> int:
    """Parse the plan and serve under it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("deed", choices=["kill", "stop", "limit", "full"])
    parser.add_argument("name", help="the place; for `full` the file whose presence means that the disk is full")
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--from-start", action="store_true")
    parser.add_argument("--after", help="the place from whose first hit on it counts")
    args = parser.parse_args()
    environment = dict(os.environ)
    settings = open_settings(config_path(environment), environment)
    planned = Planned(args, Path(settings.data_folder) / "gateway.db-wal")
    clock = SystemClock()
    if args.deed == "full":
        sign, ask = Path(args.name), FolderDisk.free_bytes
        FolderDisk.free_bytes = lambda disk: 0 if sign.exists() else ask(disk)  # type: ignore[method-assign,assignment]  # a stand-in
    logs = Logs(clock)

    def ready(address: str) -> None:
        sys.stdout.write(json.dumps({"address": address, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        planned.open_door()

    try:
        return asyncio.run(serve(settings, environment, clock, SystemChance(), ready=ready, points=planned))
    finally:
        logs.close()


if __name__ == "__main__":
    raise SystemExit(main())
