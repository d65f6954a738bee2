"""The REST door over the life of a process: its start in one line, an orderly end, a lost store, a restored store."""

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, TCPConnector

from fixtures.service.server import DeployService
from gateway.catalog.config import open_settings
from gateway.engine.chance import SystemChance
from gateway.engine.clock import SystemClock
from gateway.founding import go_on
from gateway.running import EXIT_STORE_UNKNOWN
from tests.canary import Canaries
from tests.scenario.kit import environment, gateway_program
from tests.unit.surfaces.door import ORIGIN, Answer, Door, Home, found_in, open_door

GOLDEN = Path(__file__).parents[1] / "golden" / "serving.json"
SECONDS = 40.0

LOSES_ITS_STORE = """
import asyncio, json, sys
from gateway.catalog.config import open_settings
from gateway.engine.chance import SystemChance
from gateway.engine.clock import SystemClock
from gateway.engine.logs import Logs
from gateway.running import serve
from pathlib import Path

class Points:
    armed = False
    def hit(self, name):
        if name == "admit.before_commit":
            self.armed = True
        if name == "store.committed" and self.armed:
            raise OSError("planted")

def ready(address):
    print(json.dumps({"address": address}), flush=True)

clock = SystemClock()
logs = Logs(clock)
settings = open_settings(Path(sys.argv[1]), {})
sys.exit(asyncio.run(serve(settings, {}, clock, SystemChance(), ready=ready, points=Points())))
"""


@pytest.fixture(scope="module")
def first_folder(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = found_in(tmp_path_factory.mktemp("founded") / "home")
    return Home(made.config.parent, made.caller_key, made.person_key)


@pytest.fixture
def folder(first_folder: Home, tmp_path: Path, canaries: Canaries) -> Iterator[Home]:
    mine = first_folder.copy_to(tmp_path / "home")
    canaries.watch_secret("caller key", mine.caller_key)
    canaries.watch_secret("person key", mine.person_key)
    yield mine
    canaries.watch_folder(mine.folder / "data")
    canaries.watch_text(b"\n".join(mine.heard), "answers and log")
    assert b"Traceback" not in b"\n".join(mine.heard)


class Process:
    """A gateway in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, session: ClientSession, home: Home) -> None:
        self.process, self._session, self._home = process, session, home
        self.address = ""

    async def call(self, method: str, path: str, *, body: Any = None, wait: int | None = None) -> Answer:
        headers = {"Authorization": f"Bearer {self._home.caller_key}"}
        if wait is not None:
            headers["Prefer"] = f"wait={wait}"
        async with self._session.request(method, self.address + path, json=body, headers=headers) as response:
            answer = Answer(response.status, dict(response.headers), await response.read())
        self._home.heard.append(answer.content)
        return answer

    async def submit(self, action: str, name: str, *, wait: int = 0, **more: Any) -> Answer:
        body = {"action": action, "args": {"name": name}} | more
        return await self.call("POST", "/v1/operations", body=body, wait=wait)

    async def ended(self) -> int:
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def process(home: Home, *command: str) -> AsyncIterator[Process]:
    log = home.folder.parent / "process.log"
    with log.open("wb") as stream:
        started = await asyncio.create_subprocess_exec(
            *(command or gateway_program("serve")),
            env=environment(GATEWAY_CONFIG=str(home.config)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stream,
        )
    assert started.stdout is not None
    connector = TCPConnector(force_close=True)
    try:
        async with ClientSession(connector=connector, timeout=ClientTimeout(total=SECONDS)) as session:
            running = Process(started, session, home)
            async with asyncio.timeout(SECONDS):
                running.address = json.loads(await started.stdout.readline())["address"]
            yield running
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()
        home.heard.append(log.read_bytes())


def effects(service: DeployService) -> list[str]:
    return [entry.effect for entry in service.ledger.entries if entry.method == "POST"]


async def test_the_start_is_said_in_one_line_with_every_setting_that_safety_rests_on(
    folder: Home, service: DeployService
) -> None:
    async with open_door(folder, service) as door:
        lines = [json.loads(line) for line in door.log.getvalue().splitlines()]

    line = next(line for line in lines if line["event"] == "serving")
    line |= {"time": "TIME", "address": "ADDRESS"}
    assert line == json.loads(GOLDEN.read_text())


async def test_sigterm_answers_what_is_under_way_refuses_what_is_new_and_ends_with_0(
    folder: Home, service: DeployService
) -> None:
    folder.configure(service.url, server={"drain_seconds": 20.0})
    service.faults.add("lookup_unavailable", times=None)
    async with process(folder) as gateway:
        service.faults.add("read_then_drop")
        doubtful = (await gateway.submit("deploy", "doubtful", wait=1)).document
        service.faults.add("commit_then_slow_bytes", params={"interval_seconds": 60.0})
        under_way = asyncio.ensure_future(gateway.submit("deploy.alone", "slow", wait=20))
        polling = asyncio.ensure_future(gateway.call("GET", f"{doubtful['links']['self']}?wait=20"))
        await service.wait_for(lambda entry: entry.fault == "commit_then_slow_bytes")

        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            while (ready := await gateway.call("GET", "/readyz")).status == 200:
                await asyncio.sleep(0.01)
        refused = await gateway.submit("deploy", "new")
        await service.release()
        slow, doubt = await under_way, await polling
        code = await gateway.ended()

    assert (ready.status, ready.document["reason"]) == (503, "shutting down")
    assert (refused.status, refused.document["code"]) == (503, "shutting_down")
    assert "Retry-After" in refused.headers
    assert (slow.status, slow.document["outcome"]) == (200, "success")
    assert (doubt.status, doubt.document["outcome"]) == (200, "unknown")
    assert code == 0
    # One for each of the two that were taken.
    assert len(effects(service)) == 2


async def test_a_second_gateway_on_one_folder_is_refused_in_a_sentence(folder: Home, service: DeployService) -> None:
    async with open_door(folder, service):
        second = await asyncio.create_subprocess_exec(
            *gateway_program("serve"),
            env=environment(GATEWAY_CONFIG=str(folder.config)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(SECONDS):
            out, err = await second.communicate()

    assert second.returncode == 1
    assert out == b""
    assert err.decode().startswith("gateway: ")
    assert b"Traceback" not in err


async def test_a_store_whose_answer_was_lost_is_said_to_be_lost_and_ends_the_process_with_17(
    folder: Home, service: DeployService
) -> None:
    folder.configure(service.url)
    async with process(folder, sys.executable, "-c", LOSES_ITS_STORE, str(folder.config)) as gateway:
        answer = await gateway.submit("deploy.brief", "a", wait=5, key="k-1")
        code = await gateway.ended()

    assert (answer.status, answer.document["code"]) == (503, "store_unavailable")
    named = answer.document["operation_id"]
    assert answer.headers["x-should-retry"] == "false"
    assert "Nothing was sent" in answer.document["detail"]
    assert "Ask by key" in answer.document["guidance"]
    assert code == EXIT_STORE_UNKNOWN
    assert effects(service) == []

    # The commit was in fact made: the next start finds the operation under its key and settles it by looking.
    async with open_door(folder, service) as door:
        found = (await door.call("GET", "/v1/operations?key=k-1")).document["operations"]
        assert [item["operation_id"] for item in found] == [named]
        settled = await door.until(named, "failed")
    assert (settled["executed"], settled["basis"]) == ("no", "absence")
    assert effects(service) == []


async def test_without_an_audit_log_nothing_is_taken_and_nothing_is_sent(folder: Home, service: DeployService) -> None:
    async with open_door(folder, service) as door:
        made = (await door.submit("look")).document
        await door.running.office.store.close_log()
        refused = await door.submit("deploy")
        again = await door.submit("look", name="other")
        listed = (await door.call("GET", "/v1/operations")).document["operations"]

    for answer in (refused, again):
        assert (answer.status, answer.document["code"]) == (503, "audit_unavailable")
        assert answer.document["retryable"] is True
        assert "Retry-After" in answer.headers
    assert [item["operation_id"] for item in listed] == [made["operation_id"]]
    assert effects(service) == []


async def unsent(door: Door, service: DeployService) -> str:
    """An operation that still wants to be sent: nobody listened when it was."""
    await service.down()
    made: str = (await door.submit("deploy", wait=0)).document["operation_id"]
    async with asyncio.timeout(SECONDS):
        while (await door.call("GET", f"/v1/operations/{made}")).document["executed"] != "no":
            await asyncio.sleep(0.01)
    return made


async def test_a_restored_store_sends_nothing_until_a_person_answers_for_it(
    folder: Home, service: DeployService, tmp_path: Path
) -> None:
    data, backup = folder.folder / "data", tmp_path / "backup"
    async with open_door(folder, service) as door:
        made = await unsent(door, service)
    backup.mkdir()
    for file in data.glob("gateway.db*"):
        shutil.copy2(file, backup)
    service.up()
    async with open_door(folder, service) as door:
        await door.until(made, "succeeded")
    for file in data.glob("gateway.db*"):
        file.unlink()
    for file in backup.iterdir():
        shutil.copy2(file, data)
    sent = len(service.ledger.entries)

    async with open_door(folder, service) as door:
        write = await door.submit("deploy", name="other")
        read = await door.submit("look")
        metrics = (await door.call("GET", "/metrics")).content
        await asyncio.sleep(0.5)  # several sweeps, each of which would send it
        still = (await door.call("GET", f"/v1/operations/{made}")).document
    writes = [entry for entry in service.ledger.entries[sent:] if entry.method == "POST"]

    assert (write.status, write.document["code"]) == (503, "quarantined")
    assert write.headers["x-should-retry"] == "false"
    assert read.document["outcome"] == "success"
    assert b"gateway_quarantine 1.0" in metrics
    assert writes == []
    assert (still["state"], still["basis"]) == ("succeeded", "probe")

    settings = open_settings(folder.config, {})
    said = await go_on(
        settings, {}, SystemClock(), SystemChance(), person="operator", reason="asked the service", accept_loss=False
    )
    assert f"{ORIGIN}/2" in said
    async with open_door(folder, service) as door:
        assert (await door.submit("deploy", name="other")).document["outcome"] == "success"
        await door.until(made, "succeeded")
    assert [entry.effect for entry in service.ledger.entries if entry.op == made].count("done") == 1
