"""A real gateway behind a real socket for tests of its doors: founded once, copied for each test, and watched."""

import asyncio
import io
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

from fixtures.service.server import DeployService
from gateway.catalog.config import open_settings
from gateway.engine.chance import SystemChance
from gateway.engine.clock import SystemClock
from gateway.engine.logs import Logs
from gateway.engine.ports import Points
from gateway.founding import found
from gateway.hosting import HostWays
from gateway.running import Running, run_gateway
from gateway.surfaces.cli.composition import Initialised, InitOptions

Document = dict[str, Any]
ORIGIN = "door.test/audit"
WAIT_SECONDS = 45.0

_FINDINGS: list[Document] = [
    {"status": 200, "path": "state", "equals": "succeeded", "finding": "executed_ok"},
    {"status": 200, "path": "state", "equals": "failed", "finding": "executed_failed"},
    {"status": 200, "path": "state", "in": ["accepted", "running"], "finding": "in_progress"},
    {"status": 404, "finding": "absent"},
]
_NAME: Document = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[a-z0-9_.-]{1,60}$"}, "count": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
_BODY: Document = {"repository": "{name}", "revision": "abc1234", "environment": "staging"}
# Long enough for the busiest machine: what is to run out of time takes the brief ones.
_DEADLINES: Document = {"connect": "20s", "request": "30s", "recovery": "2m"}
_LOOKUP: Document = {
    "request": {"method": "GET", "path": "/operations/by-id/{operation_id}"},
    "identify": {"path": "idempotency_key", "equals": "{operation_id}"},
    "rules": _FINDINGS,
    "absence": {"settle": "30s"},
    "interval": "100ms",
    "result": "deployment",
}


def _write(**more: Any) -> Document:
    return {
        "description": "Deploy.",
        "effect": "irreversible",
        "service": "deploys",
        "input": _NAME,
        "request": {"method": "POST", "path": "/deployments", "body": _BODY},
        "bind": {"in": "header", "name": "Idempotency-Key", "window": {"min": "24h", "margin": "1h"}},
        "deadlines": _DEADLINES,
    } | more


def _read(path: str, service: str = "deploys") -> Document:
    return {
        "description": "Look.",
        "effect": "read",
        "service": service,
        "input": _NAME,
        "request": {"method": "GET", "path": path},
        "deadlines": _DEADLINES,
    }


ACTIONS: Mapping[str, Document] = {
    "deploy": _write(
        rejected={"any_attempt": [{"status": 400}, {"status": 422}]},
        reconcile=_LOOKUP,
    ),
    "deploy.blind": _write(deadlines={"connect": "500ms", "request": "500ms", "recovery": "1s"}),
    "deploy.brief": _write(
        deadlines={"connect": "1s", "request": "1s", "recovery": "1m"},
        reconcile=_LOOKUP | {"absence": {"settle": "1s"}},
    ),
    "deploy.alone": _write(conflict_key="one"),
    "deploy.secret": _write(service="guarded", request={"method": "POST", "path": "/echo", "body": _BODY}),
    "look": _read("/environments/{name}"),
    "echo": _read("/echo/{name}", "guarded"),
    "forbidden": _read("/environments/{name}"),
    "locked": _read("/environments/{name}", "locked"),
}
ACCESS: list[Document] = [
    {"name": "not-prod", "action": "look", "where": {"name": "production"}, "decision": "deny"},
    {"name": "nobody", "action": "forbidden", "decision": "deny"},
    {"name": "agents", "caller": "agent-*", "decision": "allow"},
    {"name": "people", "caller": "operator", "decision": "allow"},
]


class ShiftedClock(SystemClock):
    """The machine's clock, set forward by hand."""

    shift_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.shift_ms


def found_in(folder: Path) -> Initialised:
    """What `gateway init` makes, in a loop of its own."""
    options = InitOptions(folder, ORIGIN, "operator")
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(lambda: asyncio.run(found(options, {}, SystemClock(), SystemChance()))).result()
    (folder / "data" / "ballast").unlink()  # sixteen megabytes of nothing, to be copied and searched each time
    return made


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body as they came."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.content)


@dataclass(slots=True)
class Home:
    """A founded folder and its keys. Everything that comes out is kept in `heard`, to be searched."""

    folder: Path
    caller_key: str = field(repr=False)
    person_key: str = field(repr=False)
    heard: list[bytes] = field(default_factory=list, repr=False)
    service: str = ""

    @property
    def config(self) -> Path:
        return self.folder / "gateway.yaml"

    def copy_to(self, folder: Path) -> "Home":
        shutil.copytree(self.folder, folder)
        return Home(folder, self.caller_key, self.person_key)

    def configure(self, service: str, **more: Document) -> None:
        """Catalog and settings for a service at that address; `more` is merged into sections of the settings."""
        self.service = service
        services: Document = {
            name: {"base_url": service, "allow_private": True} for name in ("deploys", "guarded", "locked")
        }
        services["guarded"]["credential"] = "token"
        services["locked"]["credential"] = "never-set"
        catalog = {"services": services, "actions": dict(ACTIONS)}
        for old in (self.folder / "catalog").glob("*.yaml"):
            old.unlink()
        # JSON is YAML without aliases, which a catalog may not have.
        (self.folder / "catalog" / "door.yaml").write_text(json.dumps(catalog, indent=1))
        settings = yaml.safe_load(self.config.read_text())
        settings |= {
            "server": {"host": "127.0.0.1", "port": 0, "drain_seconds": 5.0},
            "access": ACCESS,
            "store": {"ballast_bytes": 65536},
            "limits": {"rate_per_key_per_second_max": 100_000.0, "burst_per_key_max": 100_000},
            "recovery": {"sweep_interval_seconds": 0.2},
        }
        settings["audit"]["anchors"] = [str(self.folder / "anchors")]
        for section, values in more.items():
            settings[section] = settings.get(section, {}) | values
        self.config.write_text(json.dumps(settings, indent=1))

    @asynccontextmanager
    async def running(
        self,
        *,
        points: Points | None = None,
        clock: SystemClock | None = None,
        host_ways: HostWays | None = None,
    ) -> AsyncIterator["Door"]:
        """The gateway in this loop, with its log."""
        clock = clock or SystemClock()
        stream = io.StringIO()
        logs = Logs(clock, stream=stream)
        try:
            settings = open_settings(self.config, {})
            async with (
                run_gateway(settings, {}, clock, SystemChance(), points=points, host_ways=host_ways) as running,
                _session() as session,
            ):
                door = Door(running, session, self, stream)
                await _make_callers(door)
                yield door
        finally:
            logs.close()
            self.heard.append(stream.getvalue().encode())


def _session() -> ClientSession:
    return ClientSession(
        connector=TCPConnector(force_close=True), cookie_jar=DummyCookieJar(), timeout=ClientTimeout(total=WAIT_SECONDS)
    )


async def _make_callers(door: "Door") -> None:
    made = await door.call("POST", "/v1/keys", key=door.home.person_key, body={"kind": "caller", "name": "agent-b"})
    door.foreign_key = made.document["key"]


@dataclass(slots=True)
class Door:
    """A gateway that runs, and how to knock."""

    running: Running
    session: ClientSession
    home: Home
    log: io.StringIO
    foreign_key: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        return self.running.site.address

    @property
    def netloc(self) -> str:
        return urlsplit(self.address).netloc

    async def call(
        self,
        method: str,
        path: str,
        *,
        key: str | None = None,
        body: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; `key` None is the caller's, empty is none at all."""
        key = self.home.caller_key if key is None else key
        sent = {"Authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        # A text would be quoted anew on its way.
        url = URL(self.address + path, encoded=True)
        async with self.session.request(method, url, data=data, headers=sent, allow_redirects=False) as response:
            answer = Answer(response.status, dict(response.headers), await response.read())
        self.home.heard += [answer.content, repr(answer.headers).encode()]
        return answer

    async def submit(
        self, action: str, *, wait: int = 10, key: str | None = None, name: str = "a", **more: Any
    ) -> Answer:
        """Submit an operation as a caller; `more` goes into the body."""
        body = {"action": action, "args": {"name": name}} | more
        return await self.call("POST", "/v1/operations", key=key, body=body, headers={"Prefer": f"wait={wait}"})

    async def raw(self, data: bytes, *, half_close: bool = False) -> bytes:
        """Bytes in, bytes out until the gateway closes the connection."""
        host, port = self.netloc.rsplit(":", 1)
        async with asyncio.timeout(WAIT_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(data)
                await writer.drain()
                if half_close:
                    writer.write_eof()
                answer = await reader.read()
            finally:
                writer.close()
                try:
                    await writer.wait_closed()
                except ConnectionError:
                    answer = b"reset"
        self.home.heard.append(answer)
        return answer

    async def until(self, operation_id: str, *states: str) -> Document:
        """Its document once it is in one of these states."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                document: Document = (await self.call("GET", f"/v1/operations/{operation_id}?wait=5")).document
                if document["state"] in states:
                    return document


@asynccontextmanager
async def open_door(
    home: Home,
    service: DeployService,
    *,
    points: Points | None = None,
    clock: SystemClock | None = None,
    host_ways: HostWays | None = None,
    **more: Document,
) -> AsyncIterator[Door]:
    """Configure and run in one."""
    home.configure(service.url, **more)
    async with home.running(points=points, clock=clock, host_ways=host_ways) as door:
        yield door
