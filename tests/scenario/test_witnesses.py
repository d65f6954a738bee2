"""Witnesses: what they sign can be checked against a quorum, and a log that was rolled back is refused and reported."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from audit.bodies import AnchorResult, read_body
from audit.checkpoint import Checkpoint
from audit.cosign import Cosigner
from audit.disk import DiskDirectory
from audit.log import chunks, segments
from audit.record import Kind
from fixtures.service.server import DeployService
from gateway import office
from gateway.catalog.config import open_settings
from gateway.engine.anchoring import Taken
from gateway.engine.chance import SystemChance
from gateway.engine.log_look import LogLook
from gateway.office import Paths
from tests.scenario.kit import Home, Inside, environment, gateway_program, sends, write_action
from tests.streams import ended

SECONDS = 30.0
NOT_PROVEN = 4


@asynccontextmanager
async def witness(home: Home, folder: Path, name: str) -> AsyncIterator[str]:
    """`gateway audit witness serve` in a process of its own; its line for a policy, with the URL where it listens."""
    key = folder / f"{name}.key"
    if not key.exists():
        folder.mkdir(exist_ok=True)
        made = home.run("audit", "keygen", "witness", "--name", name, "--out", str(key))
        assert made.returncode == 0, made.stderr
        (folder / f"{name}.line").write_text(made.stdout.strip())
    process = await asyncio.create_subprocess_exec(
        *gateway_program("audit", "witness", "serve", str(folder / name), "--key", str(key)),
        *("--trust", str(home.folder / "trust.policy"), "--listen", "127.0.0.1:0"),
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            said = (await process.stdout.readline()).decode()
        url = re.findall(r"http://127\.0\.0\.1:\d+", said)[0]
        yield f"{(folder / f'{name}.line').read_text()} {url}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def witnessed(home: Home, service: DeployService, *lines: str, **more: Any) -> Path:
    """Settings with these witnesses, the first as a setting and the others in a policy; and a policy that wants all."""
    names = [line.split()[1] for line in lines]
    pinned = (home.folder / "trust.policy").read_text().splitlines()[0]
    group = f"group all all {' '.join(names)}\nquorum all\n"
    quorum = home.folder / "quorum.policy"
    quorum.write_text("\n".join((pinned, *lines, group)))
    others = home.folder / "witnesses.policy"
    others.write_text("\n".join((pinned, *lines[1:], "quorum none\n")))
    _, _, vkey, url = lines[0].split()
    audit = {
        "checkpoint_interval_seconds": 0.2,
        "seal_interval_seconds": 0.1,
        "witnesses": [{"vkey": vkey, "url": url}],
        "witness_policy": "witnesses.policy",
    }
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit=audit | more)
    return quorum


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


def cosigned(home: Home) -> int:
    """How many signatures of others the newest checkpoint carries."""
    path = home.log_folder() / "checkpoint"
    return path.read_text().count("\N{EM DASH}") - 1 if path.exists() else 0


def size(home: Home) -> int:
    note = (home.log_folder() / "checkpoint").read_text()
    return Checkpoint.from_text(note.partition("\n\n")[0] + "\n").size


def anchor_results(home: Home) -> list[AnchorResult]:
    directory = DiskDirectory(home.log_folder())
    found = []
    for first in segments(directory):
        for chunk in chunks(directory, first):
            for entry in chunk.entries():
                if entry.header.kind == Kind.ANCHOR_RESULT:
                    body = read_body(Kind.ANCHOR_RESULT, entry.body)
                    assert isinstance(body, AnchorResult)
                    found.append(body)
    return found


async def work(api: Inside, *names: str) -> None:
    for name in names:
        assert (await api.begin("deploy", wait=10, name=name))["outcome"] == "success"


def verify(home: Home, policy: Path, *more: str) -> tuple[int, str]:
    done = home.run_audit("verify", str(home.log_folder()), "--trust", str(policy), *more)
    return done.returncode, done.stdout + done.stderr


async def test_two_witnesses_cosign_what_a_quorum_then_proves(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    async with witness(home, tmp_path / "w", "one") as one, witness(home, tmp_path / "w", "two") as two:
        quorum = witnessed(home, service, one, two)
        async with home.running() as api:
            await work(api, "a", "b")
            await until(lambda: cosigned(home) == 2)
            age = api.running.keeper.cosigned_age_seconds()
            first = size(home)
            await work(api, "c")
            await until(lambda: size(home) > first and cosigned(home) == 2)
        code, said = verify(home, quorum)
        folder, at_anchor = home.log_folder(), home.folder / "anchors"

    assert code == 0, said
    # The witnesses are what it rests on: where one more is wanted, the same log proves nothing.
    stranger = Cosigner.generate("stranger", SystemChance().bytes).key
    more = quorum.read_text().replace("group all all", f"witness stranger {stranger}\ngroup all all stranger")
    quorum.write_text(more)
    assert verify(home, quorum)[0] == NOT_PROVEN
    assert age is not None
    assert age < SECONDS
    # The end of the log was cosigned, too, and the anchors hold what the witnesses signed.
    assert cosigned(home) == 2
    assert (at_anchor / "checkpoint").read_bytes() == (folder / "checkpoint").read_bytes()
    # What each anchor did was recorded once, for nothing changed since.
    results = anchor_results(home)
    assert sorted(result.anchor for result in results) == sorted(
        [f"folder {home.folder / 'anchors'}", "witness one", "witness two"]
    )
    assert {result.result for result in results} == {Taken.TAKEN}


async def test_rolled_back_log_is_refused_by_its_witness_and_people_are_told(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    async with witness(home, tmp_path / "w", "one") as one:
        quorum = witnessed(home, service, one)
        async with home.running() as api:
            await work(api, "a")
            await until(lambda: cosigned(home) == 1)
        shutil.copytree(home.folder, backup)
        async with home.running() as api:
            await work(api, *(f"lost-{number}" for number in range(5)))
            await until(lambda: cosigned(home) == 1)
        # Everything on the machine goes back, the anchor folder too: only the witness remembers.
        shutil.rmtree(home.folder)
        shutil.copytree(backup, home.folder)
        async with home.running() as api:
            with api.running.assembly.hub.subscribe(None) as alerts:
                await until(lambda: any(notice.data.get("alert") == "audit_anchor_refused" for notice in alerts.queue))
            (told,) = [notice for notice in alerts.queue if notice.data.get("alert") == "audit_anchor_refused"]
            await until(lambda: any(result.result == Taken.REFUSED for result in anchor_results(home)))
            # What it would do now may have been done already, after the copy was made.
            held = await api.submit("deploy", name="b", key="call-b")
            assert (held.status, held.document["code"]) == (503, "audit_unavailable")
            assert "recover --accept-loss" in held.document["detail"]
        code, said = verify(home, quorum, "--max-anchor-age", "0s")
        doctor = home.run("doctor")

    assert "witness one: answered 409" in told.data["detail"]
    assert "rolled back" in told.data["detail"]
    assert code == NOT_PROVEN, said
    assert "witness" in doctor.stdout


async def test_a_folder_put_back_sends_nothing_where_only_a_witness_knows_of_it(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    async with witness(home, tmp_path / "w", "one") as one:
        witnessed(home, service, one, anchors=[], witness_start_seconds=15.0)
        async with home.running() as api:
            await work(api, "a")
        first = size(home)
        shutil.copytree(home.data, tmp_path / "kept")
        async with home.running() as api:
            await api.begin("deploy", name="lost", key="call-lost", wait=10)
            await until(lambda: size(home) > first and cosigned(home) == 1)
        shutil.rmtree(home.data)
        shutil.copytree(tmp_path / "kept", home.data)
        async with home.running() as api:
            again = await api.submit("deploy", name="lost", key="call-lost", wait=5)
            assert (again.status, again.document["code"]) == (503, "quarantined")
    assert len(sends(service.ledger.entries)) == 2
    doctor = " ".join(home.within("doctor").stdout.split())
    assert "writes are held: the log was rolled back or forked: the witness one has seen" in doctor
    assert "Asked at a start: the log was rolled back" in doctor


async def test_a_start_that_no_witness_could_speak_to_goes_on_and_says_so(home: Home, service: DeployService) -> None:
    key = Cosigner.generate("gone", SystemChance().bytes).key
    witnessed(home, service, f"witness gone {key} http://127.0.0.1:9", anchors=[])
    async with home.running() as api:
        await work(api, "a")
    assert "no witness could say whether this folder is the newest" in " ".join(home.within("doctor").stdout.split())


async def test_witnesses_that_are_away_or_hang_hold_nothing_up(
    home: Home, service: DeployService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office, "LAST_COSIGNATURE_SECONDS", 0.1)
    heard = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set()
        with contextlib.suppress(OSError):
            await reader.read()
        await ended(writer)

    keys = [Cosigner.generate(name, SystemChance().bytes).key for name in ("hangs", "gone")]
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        lines = [f"witness {key.name} {key} http://127.0.0.1:{at}" for key, at in zip(keys, (port, 9), strict=True)]
        witnessed(home, service, *lines)
        async with home.running() as api:
            async with asyncio.timeout(SECONDS):
                await heard.wait()
            await work(api, "a", "b", "c")
            age = api.running.keeper.cosigned_age_seconds()

    assert age == float("inf")
    assert cosigned(home) == 0
    # An anchor told at the start that the folder is the newest.
    assert LogLook(open_settings(home.config, {}), Paths(home.data)).start_witnessed() is None


async def test_checkpoints_are_printed_while_serving_and_by_no_other_command(
    home: Home, service: DeployService, capsys: pytest.CaptureFixture[str]
) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit={"print_checkpoints": True})
    async with home.running() as api:
        await work(api, "a")
    printed = capsys.readouterr().out
    newest = (home.log_folder() / "checkpoint").read_text()
    drained = home.run("audit", "drain", "--json")

    assert f"{newest}\n" in printed
    assert drained.returncode == 0, drained.stderr
    assert "\N{EM DASH}" not in drained.stdout
