"""What is measured: a gateway with a data folder of its own, the proxies, and the service behind them all."""

import json
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import yaml

from tests.bench.load import PROPERTIES
from tests.bench.processes import ROOT, Server, environment, serving

WRITE, READ, HELD = "bench.write", "bench.read", "bench.held"
HOLD_SECONDS = 120.0
PLACES = 600
"""Attempts that may be under way at a service: more than anything here asks for."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A server under load. `key` is a gateway's caller's key."""

    name: str
    server: Server
    port: int
    key: str | None = None

    def load(self, connections: int, count: int, *, read: bool = False) -> dict[str, float]:
        """Put load on it and wait for the figures."""
        order = [str(self.port), str(connections), str(count)]
        if self.key is not None:
            order += ["--action", READ if read else WRITE]
        elif read:
            order += ["--read"]
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.load", *order],
            cwd=ROOT,
            env=environment(),
            input=f"{self.key or ''}\n",
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        figures: dict[str, float] = json.loads(done.stdout)
        return figures

    @contextmanager
    def holding(self, count: int, silent: Server) -> Iterator[None]:
        """So many operations under way, each with its caller waiting, at a service that answers none of them."""
        order = [str(self.port), str(count), str(count), "--action", HELD]
        waiting = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.load", *order],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert waiting.stdin is not None
            waiting.stdin.write(f"{self.key}\n")
            waiting.stdin.close()
            # If something keeps the load from holding them all, reading must not wait for ever.
            alarm = Timer(HOLD_SECONDS, silent.process.terminate)
            alarm.start()
            try:
                while silent.line()["held"] < count:
                    pass
            finally:
                alarm.cancel()
            yield
        finally:
            waiting.kill()
            waiting.wait()


@dataclass(frozen=True, slots=True)
class Folder:
    """A gateway's folder, made by `gateway init`."""

    path: Path
    key: str

    @property
    def config(self) -> Path:
        return self.path / "gateway.yaml"

    @property
    def data(self) -> Path:
        return self.path / "data"


def make_folder(path: Path, service: int, silent: int) -> Folder:
    """A gateway whose two services listen at these ports."""
    made = subprocess.run(
        [sys.executable, "-m", "gateway", "init", str(path), "--origin", f"bench.test/{path.name}", "--json"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    settings = yaml.safe_load((path / "gateway.yaml").read_text())
    settings["server"]["port"] = 0
    settings["access"] = [{"name": "all", "decision": "allow"}]
    settings["limits"] |= {
        "rate_per_key_per_second_max": 1_000_000,
        "burst_per_key_max": 1_000_000,
        "in_flight_per_caller_max": PLACES,
    }
    (path / "gateway.yaml").write_text(yaml.safe_dump(settings))
    for starter in (path / "catalog").iterdir():
        starter.unlink()
    # JSON is YAML, and writes no anchors for what stands in two places.
    (path / "catalog" / "bench.yaml").write_text(json.dumps(_catalog(service, silent)))
    return Folder(path, json.loads(made.stdout)["caller"]["key"])


def _catalog(service: int, silent: int) -> dict[str, Any]:
    names = [f"p{at}" for at in range(PROPERTIES)]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    values = {name: f"{{{name}}}" for name in names}
    write = {
        "description": "Write.",
        "effect": "reversible",
        "service": "bench",
        "input": schema | {"additionalProperties": False},
        "request": {"method": "POST", "path": "/do", "body": values},
        "bind": {"in": "header", "name": "Idempotency-Key"},
        "success": {"status": "2xx"},
    }
    read = {name: write[name] for name in ("service", "input")} | {
        "description": "Read.",
        "effect": "read",
        "request": {"method": "GET", "path": "/do", "query": values},
    }
    held = write | {"service": "silent", "deadlines": {"request": "10m", "recovery": "1h"}}

    def at(port: int) -> dict[str, Any]:
        limits = {"concurrency": PLACES}
        return {"base_url": f"http://127.0.0.1:{port}", "allow_private": True, "limits": limits}

    return {
        "services": {"bench": at(service), "silent": at(silent)},
        "actions": {WRITE: write, READ: read, HELD: held},
    }


@contextmanager
def gateway(folder: Folder, name: str = "gateway", *, under: Sequence[str] = ()) -> Iterator[Candidate]:
    """Serve that folder. `under`: a command that runs it."""
    errors = folder.path / "log.txt"
    with serving(["-m", "gateway", "serve"], errors, under=under, GATEWAY_CONFIG=str(folder.config)) as server:
        yield Candidate(name, server, int(server.said["address"].rpartition(":")[2]), folder.key)


@contextmanager
def proxies(service: int, errors: Path) -> Iterator[tuple[Candidate, Candidate]]:
    """The proxy with a connection per request, and the one that keeps them."""
    target = f"http://127.0.0.1:{service}"
    with ExitStack() as stack:
        closing = stack.enter_context(serving(["-m", "tests.bench.proxy", target], errors))
        pooled = stack.enter_context(serving(["-m", "tests.bench.proxy", target, "--pooled"], errors))
        yield (
            Candidate("proxy, force_close", closing, closing.said["port"]),
            Candidate("proxy, pooled", pooled, pooled.said["port"]),
        )


def grow(folder: Folder, path: Path, count: int) -> Folder:
    """A copy of a folder that is not in use, whose store holds `count` final operations more than the original.

    The rows are those that are there, under other ids and names: nobody could fill a store by honest work in the time.
    """
    shutil.copytree(folder.path, path)
    config = (path / "gateway.yaml").read_text().replace(f"{folder.path}", f"{path}")
    (path / "gateway.yaml").write_text(config)
    base = sqlite3.connect(path / "data" / "gateway.db", isolation_level=None)
    try:
        base.execute("BEGIN")
        _multiply(base, count)
        base.execute("COMMIT")
    finally:
        base.close()
    return Folder(path, folder.key)


def _multiply(base: sqlite3.Connection, count: int) -> None:
    names = [row[1] for row in base.execute("PRAGMA table_info(operations)")]
    at = {name: place for place, name in enumerate(names)}
    finals = "SELECT * FROM operations WHERE final_ms IS NOT NULL ORDER BY id LIMIT 200"
    models = [list(row) for row in base.execute(finals)]
    bodies = {
        model[at["id"]]: list(
            base.execute("SELECT kind, body FROM payloads WHERE operation_id = ?", (model[at["id"]],))
        )
        for model in models
    }
    marks = ", ".join("?" * len(names))
    first_ms = models[0][at["created_ms"]] - count
    for number in range(count):
        row = list(models[number % len(models)])
        old = row[at["id"]]
        # Ids begin with their time (RFC 9562 section 5.7): those from before come before.
        row[at["id"]] = (first_ms + number).to_bytes(6, "big") + b"\x70" + secrets.token_bytes(9)
        for name in ("key_hash", "fingerprint_hash"):
            row[at[name]] = secrets.token_bytes(16)
        base.execute(f"INSERT INTO operations VALUES ({marks})", row)
        base.executemany(
            "INSERT INTO payloads (operation_id, kind, body) VALUES (?, ?, ?)",
            [(row[at["id"]], kind, body) for kind, body in bodies[old]],
        )
