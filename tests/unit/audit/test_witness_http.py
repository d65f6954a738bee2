"""Witnesses over HTTP: what is asked of them, what they answer, and what is said of what they refuse."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from audit.checkpoint import Publisher
from audit.keyfiles import write_key
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.report import Exit
from audit.seal import SegmentLimits
from audit.trust import TrustPolicy
from audit.trust import Witness as Trusted
from audit.witness import SIZE_TYPE, Witness, request_of
from audit.witness_client import Gathered, Submitter, leaves_of
from audit.witness_server import TOLD_MAX, Refusals, witness_app
from tests.unit.audit.logs import ORIGIN, Journal, entries_of, entropy
from tests.unit.audit.witnesses import NOW_S, Log, cosigner, policy_of, published, witness_of


def trusted(name: str, url: str) -> Trusted:
    return Trusted(cosigner(name).key, url)


async def test_two_witnesses_cosign_a_growing_log_over_http() -> None:
    journal = Journal()
    publisher = Publisher(journal.directory, journal.signer)
    servers = [
        TestServer(witness_app(Witness(MemoryDirectory(), cosigner(name), [journal.signer.key]), lambda: NOW_S))
        for name in ("w1", "w2")
    ]
    for server in servers:
        await server.start_server()
    urls = [str(server.make_url("/")) for server in servers]
    try:
        async with aiohttp.ClientSession() as session:
            submitter = Submitter(
                journal.directory,
                {"w1": trusted("w1", urls[0]), "w2": trusted("w2", urls[1]), "off": trusted("w3", "")},
            )
            for _ in range(3):
                journal.records(30)
                journal.seal()
                journal.export()
                found = publisher.publish()
                assert found is not None
                gathered = await submitter.gather(session, found, NOW_S)
                assert gathered.refusals == ()
                publisher.add_signatures(gathered.lines)
            # Another process knows nothing of what the witnesses have seen, and is told.
            fresh = Submitter(journal.directory, {"w1": trusted("w1", urls[0])})
            journal.records(1)
            journal.export()
            found = publisher.publish()
            assert found is not None
            again = await fresh.gather(session, found, NOW_S)
            assert (again.refusals, again.lines.count("\n")) == ((), 1)
    finally:
        for server in servers:
            await server.close()
    report = journal.verify(anchored=False, policy=policy_of(journal))
    assert report.exit is Exit.OK, report.to_lines()
    assert report.anchors[-1].checked >= 3


async def test_a_log_without_its_beginning_is_cosigned_by_witnesses_that_saw_what_is_left() -> None:
    journal = Journal()
    publisher = Publisher(journal.directory, journal.signer)
    witness = Witness(MemoryDirectory(), cosigner("w1"), [journal.signer.key])
    late = Witness(MemoryDirectory(), cosigner("w2"), [journal.signer.key])
    results: list[Gathered] = []
    async with (
        TestServer(witness_app(witness, lambda: NOW_S)) as server,
        TestServer(witness_app(late, lambda: NOW_S)) as away,
        aiohttp.ClientSession() as session,
    ):
        known = {"w1": trusted("w1", str(server.make_url("/"))), "w2": trusted("w2", str(away.make_url("/")))}
        for count in (20, 30, 5):
            journal.records(count)
            journal.export()
            found = publisher.publish()
            assert found is not None
            asked = known if count != 30 else {"w1": known["w1"]}
            if count == 5:
                for first in segments(journal.directory)[:4]:
                    journal.directory.remove(segment_name(first))
            results.append(await Submitter(journal.directory, asked).gather(session, found, NOW_S))
    assert [result.lines.count("\n") for result in results] == [2, 1, 1]
    (refusal,) = results[-1].refusals
    assert refusal.witness == "w2"
    assert "were dropped" in refusal.reason


async def test_witnesses_follow_one_submitter_whatever_retention_drops_between_two_checkpoints() -> None:
    """What is needed again for a proof may have gone, from a tree that began at any entry: it is made anew."""
    journal = Journal(limits=SegmentLimits(entries_max=40))
    publisher = Publisher(journal.directory, journal.signer)
    witnesses = {
        name: Witness(MemoryDirectory(), cosigner(name), [journal.signer.key]) for name in ("w1", "w2", "w3", "w4")
    }
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        known = {}
        for name, witness in witnesses.items():
            server = await stack.enter_async_context(TestServer(witness_app(witness, lambda: NOW_S)))
            known[name] = trusted(name, str(server.make_url("/")))
        submitter = Submitter(journal.directory, known)
        for count in (300, 130, 300, 7, 600, 41, 1):
            journal.records(count)
            journal.export()
            found = publisher.publish()
            assert found is not None
            gathered = await submitter.gather(session, found, NOW_S)
            assert (gathered.refusals, gathered.lines.count("\n")) == ((), len(known)), count
            # All that no witness asks for any more, as retention does it.
            for first in segments(journal.directory)[:-1]:
                journal.directory.remove(segment_name(first))


async def test_a_witness_that_fails_is_named_and_the_others_count() -> None:
    journal = Journal()
    _, _ = published(journal)
    publisher = Publisher(journal.directory, journal.signer)
    publisher.publish()
    journal.records(2)
    journal.export()
    found = publisher.publish()
    assert found is not None
    stranger = Witness(MemoryDirectory(), cosigner("w1"), [NoteSigner.generate(ORIGIN, entropy("no")).key])
    wrong = Witness(MemoryDirectory(), cosigner("impostor"), [journal.signer.key])
    async with (
        TestServer(witness_app(stranger, lambda: NOW_S)) as refusing,
        TestServer(witness_app(wrong, lambda: NOW_S)) as impostor,
        aiohttp.ClientSession() as session,
    ):
        submitter = Submitter(
            journal.directory,
            {
                "refuses": trusted("w1", str(refusing.make_url("/"))),
                "impostor": trusted("w2", str(impostor.make_url("/"))),
                "gone": trusted("w3", "http://127.0.0.1:9/"),
            },
        )
        gathered = await submitter.gather(session, found, NOW_S)
    assert gathered.lines == ""
    reasons = {refusal.witness: refusal for refusal in gathered.refusals}
    assert [reasons[name].reached for name in ("refuses", "impostor", "gone")] == [True, True, False]
    assert "403" in reasons["refuses"].reason
    assert "no cosignature" in reasons["impostor"].reason


async def test_the_server_speaks_as_the_specification_says() -> None:
    log, directory = Log(), MemoryDirectory()
    witness = witness_of(log, directory)
    async with TestClient(TestServer(witness_app(witness, lambda: NOW_S))) as client:
        answer = await client.post("/add-checkpoint", data=log.request(0, 8))
        assert (answer.status, (await answer.text())[:2]) == (200, "\N{EM DASH} ")
        answer = await client.post("/add-checkpoint", data=log.request(0, 12))
        assert (answer.status, answer.content_type, await answer.text()) == (409, SIZE_TYPE, "8\n")
        assert (await client.get("/add-checkpoint")).status == 405
        assert (await client.post("/add-checkpoint", data=b"x" * 100_000)).status == 400
        directory.hook = _broken
        assert (await client.post("/add-checkpoint", data=log.request(8, 12))).status == 500


async def test_each_refusal_is_told_with_what_it_means() -> None:
    log, other, directory, told = Log(), Log("other"), MemoryDirectory(), list[str]()
    witness = witness_of(log, directory)
    async with TestClient(TestServer(witness_app(witness, lambda: NOW_S, told.append))) as client:

        async def post(data: bytes, status: int) -> str:
            answer = await client.post("/add-checkpoint", data=data)
            assert answer.status == status, await answer.text()
            return told.pop() if told else ""

        assert await post(log.request(0, 8), 200) == ""
        facts = "on top of 0, while 8 were cosigned"
        for size, word in ((12, "out of step"), (5, "rolled back")):
            line = await post(log.request(0, size), 409)
            assert line == f"refused {ORIGIN}: {word}: a checkpoint of {size} entries {facts} (409)"
        assert "rolled back: a checkpoint of 5 entries on top of 8" in await post(request_of(8, [], log.note(5)), 400)
        assert "forked: a checkpoint of 8 entries" in await post(other.request(8, 8), 409)
        assert "forked, or a wrong proof: a checkpoint of 12 entries on top of 8" in await post(
            other.request(8, 12), 422
        )
        stranger = log.request(8, 12).replace(ORIGIN.encode(), b"x" * 500 + b"\x1b[31m")
        assert len(line := await post(stranger, 404)) < 300, line
        unsigned = await post(log.request(8, 12).rpartition(b"\n\n")[0] + b"\n\n\xe2\x80\x94 x AAAAAAAA\n", 403)
        assert unsigned.endswith(f"no signature by a key of that log: {ORIGIN}, 12 entries (403)")
        assert "too large (400)" in await post(b"x" * 100_000, 400)
        directory.hook = _broken
        assert "cannot use its records: [Errno 5] Input/output error (500)" in await post(log.request(8, 12), 500)


def test_a_flood_of_refusals_is_counted_and_hides_none_of_a_known_log() -> None:
    told = list[str]()
    refusals = Refusals(told.append)
    for _ in range(10_000):
        refusals.take(404, "stranger", "", NOW_S)
    refusals.take(409, "rolled back", ORIGIN, NOW_S)
    assert told == ["refused -: stranger (404)"] * TOLD_MAX + [f"refused {ORIGIN}: rolled back (409)"]
    refusals.take(404, "stranger", "", NOW_S + 60)
    assert told[-2:] == ["refused -: 9990 more, which were not told one by one", "refused -: stranger (404)"]


def test_a_line_that_nobody_takes_stops_no_witness() -> None:
    def closed(_line: str) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    Refusals(closed).take(409, "rolled back", ORIGIN, NOW_S)


def _broken(_operation: str, _name: str, _length: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_leaves_come_out_of_the_files_for_any_range() -> None:
    journal = Journal()
    journal.records(40)
    journal.export()
    leaves = [entry.leaf for entry in entries_of(journal.directory)]
    for start, end in ((0, 1), (3, 30), (0, len(leaves)), (len(leaves) - 1, len(leaves)), (5, 5)):
        assert leaves_of(journal.directory, start, end) == leaves[start:end]
    with pytest.raises(LookupError):
        leaves_of(journal.directory, 0, len(leaves) + 1)


async def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    log = Log()
    trust, key = tmp_path / "trust", tmp_path / "key"
    trust.write_text(TrustPolicy((log.signer.key,)).to_text())
    write_key(key, cosigner().to_line())
    command = ["witness", "serve", str(tmp_path / "state"), "--key", str(key), "--trust", str(trust)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "audit", *command, "--listen", "127.0.0.1:0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    # What it prints is what policies and settings want of it.
    url = (await process.stdout.readline()).decode().split()[-1] + "/add-checkpoint"
    async with aiohttp.ClientSession() as session, session.post(url, data=log.request(0, 8)) as answer:
        assert answer.status == 200
    async with aiohttp.ClientSession() as session, session.post(url, data=log.request(0, 5)) as answer:
        assert answer.status == 409
    assert b"rolled back: a checkpoint of 5 entries" in await process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
