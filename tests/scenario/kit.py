"""What scenarios share: a gateway's folder made anew, the gateway on it (in this loop or a process), and witnesses."""

import asyncio
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from audit.cli import app as audit_app
from audit.disk import DiskDirectory
from audit.keyfiles import read_recipient_key
from audit.show import show
from fixtures.ledger import Entry, read_ledger
from gateway.app import App
from gateway.catalog.config import open_settings
from gateway.engine.chance import SystemChance
from gateway.engine.clock import Clock, SystemClock
from gateway.engine.ports import Points
from gateway.running import Running, run_gateway
from gateway.surfaces.cli.client import Answer, AnswerLost, Client, Unreachable
from gateway.surfaces.cli.main import run as run_program

Document = dict[str, Any]

ROOT = Path(__file__).parents[2]
ORIGIN = "scenario.test/audit"
FINAL = frozenset({"succeeded", "failed", "cancelled"})
READY_SECONDS = 40.0
LOOK_SECONDS = 0.02


def gateway_program(*arguments: str) -> list[str]:
    """The command line of the gateway as a user runs it."""
    return [sys.executable, "-m", "gateway", *arguments]


def environment(**more: str) -> dict[str, str]:
    """This environment without anything that would steer a gateway elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


# -- the catalog -------------------------------------------------------------------------------------------------------

FINDINGS: list[Document] = [
    {"status": 200, "path": "state", "equals": "succeeded", "finding": "executed_ok"},
    {"status": 200, "path": "state", "equals": "failed", "finding": "executed_failed"},
    {"status": 200, "path": "state", "in": ["accepted", "running"], "finding": "in_progress"},
    {"status": 404, "finding": "absent"},
]
LOOKUP: Document = {
    "request": {"method": "GET", "path": "/operations/by-id/{operation_id}"},
    "identify": {"path": "idempotency_key", "equals": "{operation_id}"},
    "rules": FINDINGS,
    "absence": {"settle": "30s"},
    "interval": "100ms",
    "result": "deployment",
}
BRIEF_LOOKUP: Document = LOOKUP | {"absence": {"settle": "1s"}}
ACCEPTED: Document = {"status": 202, "handle": {"header": "Operation-Location"}, "rules": FINDINGS, "interval": "100ms"}
KEY: Document = {"in": "header", "name": "Idempotency-Key", "window": {"min": "24h", "margin": "1h"}}
# Long enough for the busiest machine: what is to run out of time takes the brief ones.
DEADLINES: Document = {"connect": "20s", "request": "30s", "recovery": "2m"}
BRIEF: Document = {"connect": "900ms", "request": "1s", "recovery": "2m"}
INPUT: Document = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[a-z0-9_.-]{1,60}$"}},
    "required": ["name"],
    "additionalProperties": False,
}


def write_action(method: str = "POST", *, service: str = "deploys", **more: Any) -> Document:
    """A write to the fixture service that names its operation by key and can be looked up; None leaves a field out."""
    path = "/deployments" if method == "POST" else "/deployments/{name}"
    request: Document = {"method": method, "path": path}
    if method != "DELETE":
        request["body"] = {"repository": "{name}", "revision": "abc1234", "environment": "staging"}
    action: Document = {
        "description": f"Deploy by {method}.",
        "effect": "irreversible",
        "service": service,
        "input": INPUT,
        "request": request,
        "bind": KEY,
        "rejected": {"any_attempt": [{"status": 400}]},
        "in_flight": {"status": 409},
        "reconcile": LOOKUP,
        "deadlines": DEADLINES,
    }
    action.update(more)
    return {name: value for name, value in action.items() if value is not None}


def brief_action(method: str = "POST", **more: Any) -> Document:
    """The same where something is to run out of time, or to be found absent after it; under load a healthy call may."""
    return write_action(method, **{"deadlines": BRIEF, "reconcile": BRIEF_LOOKUP} | more)


READ: Document = {
    "description": "Show what runs in an environment.",
    "effect": "read",
    "service": "deploys",
    "input": INPUT,
    "request": {"method": "GET", "path": "/environments/{name}"},
    "deadlines": DEADLINES | {"recovery": "1m"},
}


# -- the gateway's folder ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Home:
    """A folder that `gateway init` made, with keys; copied for each test because making it takes a second."""

    folder: Path
    caller_key: str
    person_key: str

    @classmethod
    def found(cls, folder: Path) -> "Home":
        """Make one with the program itself."""
        done = subprocess.run(
            gateway_program("init", str(folder), "--origin", ORIGIN, "--json"),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        made = json.loads(done.stdout)
        return cls(folder, made["caller"]["key"], made["person"]["key"])

    def copy_to(self, folder: Path) -> "Home":
        """A gateway of its own with the same keys."""
        shutil.copytree(self.folder, folder)
        return Home(folder, self.caller_key, self.person_key)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def config(self) -> Path:
        return self.folder / "gateway.yaml"

    def log_folder(self, origin: str = ORIGIN) -> Path:
        return self.data / "audit" / origin

    def configure(self, services: Mapping[str, str | Document], actions: Mapping[str, Document], **more: Any) -> None:
        """Write catalog and settings. `services` by base URL; `more` goes into the settings as it is."""
        catalog = {
            "services": {
                name: {"base_url": given, "allow_private": True} if isinstance(given, str) else given
                for name, given in services.items()
            },
            "hosts": more.pop("hosts", {}),
            "actions": dict(actions),
        }
        for old in (self.folder / "catalog").glob("*.yaml"):
            old.unlink()
        # JSON is YAML without aliases, which a catalog may not have.
        (self.folder / "catalog" / "scenario.yaml").write_text(json.dumps(catalog, indent=1))
        found = yaml.safe_load(self.config.read_text())
        audit = {
            "origin": ORIGIN,
            "recipients": found["audit"]["recipients"],
            "anchors": [str(self.folder / "anchors")],
        }
        settings = {
            "server": {"host": "127.0.0.1", "port": 0, "drain_seconds": 5.0},
            "audit": audit | more.pop("audit", {}),
            "access": [{"caller": "*", "decision": "allow"}],
            "store": {"ballast_bytes": 65536},
            "limits": {"rate_per_key_per_second_max": 5000.0, "burst_per_key_max": 5000, "service_concurrency_max": 64},
            "recovery": {"sweep_interval_seconds": 0.2},
        } | more
        self.config.write_text(json.dumps(settings, indent=1))

    @asynccontextmanager
    async def running(self, *, points: Points | None = None, clock: Clock | None = None) -> AsyncIterator["Inside"]:
        """The gateway in this loop."""
        settings = open_settings(self.config, {})
        async with run_gateway(settings, {}, clock or SystemClock(), SystemChance(), points=points) as running:
            address = running.site.address
            yield Inside(Client(address, self.caller_key), running, Client(address, self.person_key))

    @asynccontextmanager
    async def process(self, *driver: str, prefix: Sequence[str] = ()) -> AsyncIterator["Outside"]:
        """The gateway as a process; with `driver` arguments under the test's own start script."""
        command = gateway_program("serve") if not driver else [sys.executable, str(DRIVER), *driver]
        with (self.folder / "gateway.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *prefix,
                *command,
                env=environment(GATEWAY_CONFIG=str(self.config)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        try:
            yield await Outside.of(process, self.caller_key)
        finally:
            if process.returncode is None:
                process.kill()
            await asyncio.shield(process.wait())

    def run(self, *arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """One command of the program on this folder."""
        return subprocess.run(
            gateway_program(*arguments),
            env=environment(GATEWAY_CONFIG=str(self.config)),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def within(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """One command of the program on this folder, in a thread of this process: a process for it costs a second.

        The gateway must not run in this loop, which stands still meanwhile.
        """
        told = environment(GATEWAY_CONFIG=str(self.config))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), ThreadPoolExecutor(1) as thread:
            code = thread.submit(run_program, App(told), arguments).result()
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def audit_within(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """One command of the auditor's program, in this process."""
        done = CliRunner().invoke(audit_app, arguments)
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    def run_audit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command of the auditor's program."""
        return subprocess.run(
            [sys.executable, "-m", "audit", *arguments],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    # -- witnesses -----------------------------------------------------------------------------------------------------

    def verify(self, origin: str = ORIGIN, *, trust: Path | None = None) -> tuple[int, str]:
        """Exit code and last line of `audit verify` with pinned key and anchors."""
        anchor = self.folder / "anchors" / origin.removeprefix(ORIGIN).lstrip("/")
        trusting = ("--trust", str(trust or self.folder / "trust.policy"), "--anchor", str(anchor))
        done = self.audit_within("verify", str(self.log_folder(origin)), *trusting)
        return done.returncode, (done.stdout + done.stderr).strip()

    def records(self, origin: str = ORIGIN) -> list[Document]:
        """What an auditor reads."""
        key = read_recipient_key(self.folder / "auditor.key")
        return [shown.content for shown in show(DiskDirectory(self.log_folder(origin)), key)]

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows of the stopped gateway's database."""
        connection = sqlite3.connect(f"file:{self.data / 'gateway.db'}?mode=ro", uri=True)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()


DRIVER = Path(__file__).with_name("driver.py")


# -- talking to it -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Api:
    """A caller of a running gateway."""

    client: Client

    async def submit(self, action: str, *, wait: float = 0, key: str | None = None, **args: Any) -> Answer:
        """Submit and return the answer as it is."""
        body: Document = {"action": action, "args": args}
        if key is not None:
            body["key"] = key
        headers = {"Prefer": f"wait={int(wait)}"}
        return await self.client.call("POST", "/v1/operations", body=body, wait_seconds=wait, headers=headers)

    async def begin(self, action: str, *, wait: float = 0, key: str | None = None, **args: Any) -> Document:
        """Submit what must be taken; its document."""
        return taken(await self.submit(action, wait=wait, key=key, **args))

    async def get(self, operation_id: str, *, wait: int = 0) -> Document:
        query = {"wait": str(wait)} if wait else None
        answer = await self.client.call("GET", f"/v1/operations/{operation_id}", query=query, wait_seconds=wait)
        return taken(answer)

    async def until(self, operation_id: str, wanted: Callable[[Document], bool], *, seconds: float = 45.0) -> Document:
        """Ask until the document is as wanted."""
        document: Document = {}
        try:
            async with asyncio.timeout(seconds):
                while not wanted(document := await self.get(operation_id)):
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise AssertionError(f"still {document['state']}: {document['evidence']}") from None
        return document

    async def until_state(self, operation_id: str, *states: str, seconds: float = 45.0) -> Document:
        return await self.until(operation_id, lambda document: document["state"] in states, seconds=seconds)

    async def settled(self, operation_id: str, *, seconds: float = 45.0) -> Document:
        """Its document once it is final."""
        return await self.until_state(operation_id, *FINAL, seconds=seconds)

    async def by_key(self, key: str) -> Document | None:
        """What a caller does after a lost answer."""
        answer = await self.client.call("GET", "/v1/operations", query={"key": key})
        found = taken(answer)["operations"]
        return found[0] if found else None

    async def everything(self) -> list[Document]:
        """All operations of the caller."""
        found: list[Document] = []
        query = {"limit": "200"}
        while True:
            page = taken(await self.client.call("GET", "/v1/operations", query=query))
            found += page["operations"]
            if page["cursor"] is None:
                return found
            query["cursor"] = page["cursor"]


def taken(answer: Answer) -> Document:
    """The document of an answer that is no refusal."""
    assert not answer.is_problem, answer.document
    document: Document = answer.document
    return document


@dataclass(frozen=True, slots=True)
class Inside(Api):
    """A gateway in this loop; `person` is whoever administers it."""

    running: Running
    person: Client


@dataclass(frozen=True, slots=True)
class Outside(Api):
    """A gateway in a process of its own."""

    process: asyncio.subprocess.Process

    @classmethod
    async def of(cls, process: asyncio.subprocess.Process, key: str) -> "Outside":
        assert process.stdout is not None
        async with asyncio.timeout(READY_SECONDS):
            line = await process.stdout.readline()
        # A process that was killed before it was ready says nothing; whoever planned that asks `died`.
        address = json.loads(line)["address"] if line else ""
        return cls(Client(address, key), process)

    @property
    def ready(self) -> bool:
        return self.client._address != ""

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self, seconds: float = 30.0) -> int:
        """Its exit code."""
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()


async def submit_in_the_dark(api: Api, action: str, key: str, **args: Any) -> Answer | None:
    """A call whose answer may be lost because the gateway dies of it."""
    try:
        return await api.submit(action, key=key, wait=5, **args)
    except (AnswerLost, Unreachable):
        return None


def effects(entries: Sequence[Entry], operation: str | None = None) -> int:
    """Effective executions, of one operation or of all."""
    return sum(entry.effect != "none" for entry in entries if operation is None or entry.op == operation)


def sends(entries: Sequence[Entry], operation: str | None = None) -> list[Entry]:
    """Requests on the wire that were no look."""
    return [
        entry
        for entry in entries
        if entry.kind == "request" and entry.method != "GET" and (operation is None or entry.op == operation)
    ]


def ledger_of(path: Path) -> tuple[Entry, ...]:
    return read_ledger(path).entries


def claims_hold(documents: Sequence[Document], entries: Sequence[Entry]) -> list[str]:
    """Every way in which answers and ledger disagree; empty if they do not (I2, I3, I4)."""
    wrong = []
    for document in documents:
        name, outcome, count = document["operation_id"], document["outcome"], effects(entries, document["operation_id"])
        if document["state"] not in FINAL:
            wrong.append(f"{name} is still {document['state']}")
        if count > 1:
            wrong.append(f"{name} took effect {count} times")
        if outcome == "success" and count != 1:
            wrong.append(f"{name} is a success without effect")
        if document["executed"] == "no" and count != 0:
            wrong.append(f"{name} is said not to be executed, and was")
    known = {document["operation_id"] for document in documents}
    wrong += [
        f"{entry.op} has an effect and no operation"
        for entry in entries
        if entry.effect != "none" and entry.op not in known
    ]
    return wrong
