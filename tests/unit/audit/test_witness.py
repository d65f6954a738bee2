"""Witnesses: what they refuse, what their word is worth to a verifier, and the whole way over HTTP."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from audit.chain import CompactRange
from audit.checkpoint import CHECKPOINT, Checkpoint, Publisher
from audit.cosign import Cosigner, CosignerKey, cosigned_at, signature_lines
from audit.disk import LogError, LogLocked
from audit.keyfiles import write_key
from audit.keyring import KeyProblem
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.note import BadNote, NoteSigner
from audit.proofs import HashTree
from audit.report import Exit
from audit.trust import BadPolicy, TrustPolicy
from audit.trust import Witness as Trusted
from audit.verify import VerifyOptions, verify
from audit.witness import SIZE_TYPE, Witness, request_of
from audit.witness_client import Gathered, Submitter, leaves_of
from audit.witness_server import TOLD_MAX, Refusals, witness_app
from tests.unit.audit.logs import ORIGIN, START_MS, Journal, entries_of, entropy, sign_checkpoint
from tests.unit.audit.test_proofs import numbered

NOW_S = START_MS // 1000
# The example of c2sp.org/tlog-cosignature: its key is not published, so only its form can be compared.
EXAMPLE_LINE = (
    "\N{EM DASH} witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZ"
    "qhf5nNo0xUe+mbIUBkBIfZ+qnA=="
)


def cosigner(name: str = "w1") -> Cosigner:
    return Cosigner.generate(f"witness.example/{name}", entropy(name))


class Log:
    """A log seen from a witness: leaves and a key."""

    def __init__(self, seed: str = "log") -> None:
        self.signer = NoteSigner.generate(ORIGIN, entropy("witnessed"))
        self.leaves = [leaf + seed.encode() for leaf in numbered(40)]
        self.leaves = [leaf[:32] if seed == "log" else leaf[-32:] for leaf in self.leaves]
        self.tree = HashTree(lambda start, end: self.leaves[start:end])
        self.tree.extend(self.leaves)

    def note(self, size: int) -> str:
        return sign_checkpoint(self.signer, size, self.tree.root(size)).decode()

    def request(self, old: int, size: int) -> bytes:
        return request_of(old, self.tree.consistency(old, size), self.note(size))


def witness_of(log: Log, directory: MemoryDirectory | None = None) -> Witness:
    return Witness(directory or MemoryDirectory(), cosigner(), [log.signer.key])


def test_a_cosignature_has_the_form_of_the_specification() -> None:
    text = Checkpoint(ORIGIN, 3, bytes(32)).to_text()
    line = cosigner().cosign(text, NOW_S)
    assert line.endswith("\n")
    assert cosigned_at(line[:-1], text, cosigner().key) == NOW_S
    assert cosigned_at(line[:-1], text + "x\n", cosigner().key) is None
    assert cosigned_at(line[:-1], text, cosigner("other").key) is None
    raw = base64.b64decode(EXAMPLE_LINE.split()[2])
    assert (len(raw), int.from_bytes(raw[4:12], "big")) == (76, 1679315147)
    late = cosigner().cosign(text, (1 << 63) - 1)
    assert cosigned_at(late[:-1], text, cosigner().key) == (1 << 63) - 1
    with pytest.raises(BadNote):
        cosigned_at("no signature", text, cosigner().key)
    with pytest.raises(BadNote):
        list(signature_lines(text))


def test_witness_keys_survive_their_lines() -> None:
    assert Cosigner.parse(cosigner().to_line()) == cosigner()
    assert CosignerKey.parse(str(cosigner().key)) == cosigner().key
    assert cosigner().private.hex() not in repr(cosigner())
    log_key = NoteSigner.generate("x", entropy("x"))
    for bad in ("", "x", str(log_key.key), str(cosigner().key)[:-4], str(cosigner().key).replace("w1", "w2")):
        with pytest.raises(KeyProblem):
            CosignerKey.parse(bad)
    for bad in ("", str(cosigner().key), log_key.to_line(), cosigner().to_line().replace("w1", "w2")):
        with pytest.raises(KeyProblem):
            Cosigner.parse(bad)


def test_a_witness_follows_a_log_that_grows() -> None:
    log = Log()
    witness = witness_of(log)
    for old, size in ((0, 3), (3, 3), (3, 8), (8, 40)):
        answer = witness.add(log.request(old, size), NOW_S)
        assert answer.status == 200, answer.body
        text = Checkpoint(ORIGIN, size, log.tree.root(size)).to_text()
        assert cosigned_at(answer.body[:-1], text, cosigner().key) == NOW_S
    latest = witness.latest(ORIGIN)
    assert latest is not None
    assert latest.size == 40


def test_what_a_witness_refuses() -> None:
    log, other = Log(), Log("another tree")
    witness = witness_of(log)
    assert witness.add(log.request(0, 8), NOW_S).status == 200
    stranger = NoteSigner.generate(ORIGIN, entropy("stranger"))
    unknown = NoteSigner.generate("gw.example/else", entropy("else"))
    good = log.request(8, 12)
    foreign = request_of(8, [], sign_checkpoint(stranger, 12, log.tree.root(12)).decode())
    elsewhere = request_of(0, [], sign_checkpoint(unknown, 1, bytes(32), "gw.example/else").decode())
    cases = [
        (elsewhere, 404),
        (foreign, 403),
        (good.replace(b"\n12\n", b"\n13\n"), 403),
        (log.request(0, 12), 409),
        (log.request(7, 12), 409),
        (request_of(8, [], log.note(5)), 400),
        (other.request(8, 12), 422),
        (request_of(8, log.tree.consistency(8, 12)[:-1], log.note(12)), 422),
        (request_of(8, [*log.tree.consistency(8, 12), bytes(32)], log.note(12)), 422),
        (other.request(8, 8), 409),
        (b"", 400),
        (b"old 8\n", 400),
        (good.replace(b"old 8", b"old 08"), 400),
        (good.replace(b"old 8", b"old -8"), 400),
        (good.replace(b"old 8", b"older 8"), 400),
        (good.replace(b"old 8\n", b"old 8\nnot base64\n"), 400),
        (request_of(8, [bytes(32)] * 64, log.note(12)), 400),
        (good[:-1], 400),
        (good.replace(b"\n", b"\r\n"), 400),
        (b"old 8\n\n\xff\xff", 404),
    ]
    for request, status in cases:
        answer = witness.add(request, NOW_S)
        assert answer.status == status, (request, answer)
        if status == 409:
            assert (answer.body, answer.content_type) == ("8\n", SIZE_TYPE)
    assert witness.add(good, NOW_S).status == 200


def test_an_empty_old_tree_takes_no_proof() -> None:
    log = Log()
    assert witness_of(log).add(request_of(0, [bytes(32)], log.note(8)), NOW_S).status == 422


def test_what_was_cosigned_is_stored_before_it_is_given_out() -> None:
    log, directory = Log(), MemoryDirectory()
    witness = witness_of(log, directory)

    def full(operation: str, _name: str, _length: int) -> None:
        if operation == "sync":
            raise OSError(errno.ENOSPC, "No space left on device")

    directory.hook = full
    with pytest.raises(OSError, match="space"):
        witness.add(log.request(0, 8), NOW_S)
    directory.hook = None
    assert witness.add(log.request(0, 12), NOW_S).status == 200
    # The power goes right after the answer: the next process must still know.
    again = witness_of(log, directory.after_power_loss(lambda _: 0))
    assert again.add(log.request(0, 8), NOW_S).body == "12\n"


def test_one_witness_at_a_time_uses_a_folder_and_a_damaged_record_stops_it() -> None:
    log, directory = Log(), MemoryDirectory()
    witness = witness_of(log, directory)
    with pytest.raises(LogLocked):
        witness_of(log, directory)
    assert witness.add(log.request(0, 8), NOW_S).status == 200
    (name,) = directory.files()
    directory.put(name, b"damaged")
    with pytest.raises(LogError, match="damaged"):
        witness.add(log.request(8, 12), NOW_S)
    witness.close()
    witness_of(log, directory)


def policy_of(journal: Journal, quorum: str = "both", names: tuple[str, ...] = ("w1", "w2")) -> TrustPolicy:
    lines = [f"log {journal.signer.key}"]
    lines += [f"witness {name} {cosigner(name).key} https://witness.example/{name}" for name in names]
    lines += [f"group both all {' '.join(names)}", f"quorum {quorum}"]
    return TrustPolicy.parse("\n".join(lines))


def published(journal: Journal) -> tuple[Publisher, str]:
    journal.records(6)
    journal.seal()
    journal.export()
    publisher = Publisher(journal.directory, journal.signer)
    found = publisher.publish()
    assert found is not None
    return publisher, found.note


@pytest.mark.parametrize(
    ("lines", "exit_code"),
    [
        ("w1 w2", Exit.OK),
        ("", Exit.NOT_PROVEN),
        ("w1", Exit.NOT_PROVEN),
        ("w1 w1", Exit.NOT_PROVEN),
        ("w1 w2:future", Exit.NOT_PROVEN),
        ("w1 w2:origin", Exit.NOT_PROVEN),
        ("w1 w2:soon", Exit.OK),
        ("w1 w3", Exit.NOT_PROVEN),
        ("w1 w2:renamed", Exit.NOT_PROVEN),
    ],
)
def test_25_only_a_quorum_of_different_witnesses_anchors_a_log(lines: str, exit_code: Exit) -> None:
    journal = Journal()
    publisher, note = published(journal)
    text = note.partition("\n\n")[0] + "\n"
    journal.now_ms = START_MS
    made = ""
    for item in lines.split():
        name, _, fault = item.partition(":")
        time_s = NOW_S + {"future": 100_000, "soon": 60}.get(fault, 0)
        body = text.replace("test-1", "test-2") if fault == "origin" else text
        signer = Cosigner("witness.example/w3", cosigner(name).private) if fault == "renamed" else cosigner(name)
        made += signer.cosign(body, time_s)
    publisher.add_signatures(made)
    report = journal.verify(anchored=False, policy=policy_of(journal))
    assert report.exit is exit_code, report.to_lines()
    assert journal.verify(anchored=False).exit is Exit.NOT_PROVEN


def test_an_anchor_without_the_witnesses_asked_for_still_shows_a_rollback() -> None:
    journal = Journal()
    published(journal)
    journal.anchor.put(CHECKPOINT, journal.directory.files()[CHECKPOINT])
    policy = policy_of(journal)
    assert journal.verify(policy=policy).exit is Exit.NOT_PROVEN
    journal.anchor.put(CHECKPOINT, sign_checkpoint(journal.signer, 999, bytes(32)))
    assert journal.verify(policy=policy).exit is Exit.TAMPERED


def test_policies_with_witnesses_are_read_and_bad_ones_refused() -> None:
    journal = Journal()
    policy = policy_of(journal)
    assert TrustPolicy.parse(policy.to_text()) == policy
    base = f"log {journal.signer.key}\nwitness a {cosigner('a').key}\nwitness b {cosigner('b').key}\n"
    for good in ("quorum a", "quorum none", "group g any a b\nquorum g", "group g 2 a b\ngroup h all g\nquorum h"):
        TrustPolicy.parse(base + good)
    nested = TrustPolicy.parse(base + f"witness c {cosigner('c').key}\ngroup g any a b\ngroup h all g c\nquorum h")
    assert [nested.met_by(found) for found in ({"a", "c"}, {"b", "c"}, {"a", "b"}, {"c"}, set[str]())] == [
        True, True, False, False, False,
    ]  # fmt: skip
    for bad in (
        "",
        "quorum c",
        "quorum",
        "quorum a\nquorum a",
        "quorum g\ngroup g any a",
        "group g any\nquorum a",
        "group g 0 a\nquorum g",
        "group g 3 a b\nquorum g",
        "group g any a a\nquorum g",
        "group g any a\ngroup h any a b\nquorum h",
        "group g any c\nquorum g",
        "group g some a\nquorum g",
        "group none any a\nquorum a",
        "group a any b\nquorum a",
        f"witness a {cosigner('d').key}\nquorum a",
        f"witness d {cosigner('a').key}\nquorum a",
        f"witness none {cosigner('d').key}\nquorum a",
        "witness d\nquorum a",
        "mirror x\nquorum a",
    ):
        with pytest.raises(BadPolicy):
            TrustPolicy.parse(base + bad)


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


def test_a_sink_gets_each_checkpoint_once_and_its_failure_is_named() -> None:
    journal = Journal()
    printed: list[str] = []

    def broken(_note: str) -> None:
        raise OSError(errno.EPIPE, "Broken pipe")

    publisher = Publisher(journal.directory, journal.signer, [journal.anchor], [printed.append, broken])
    journal.export()
    found = publisher.publish()
    assert found is not None
    assert found.failed == ((2, "Broken pipe"),)
    assert publisher.publish() is None
    assert printed == [found.note]
    tree = CompactRange()
    tree.extend([entry.leaf for entry in entries_of(journal.directory)])
    assert found.checkpoint.root == tree.root()
    publisher.add_signatures("")
    with pytest.raises(BadNote):
        publisher.add_signatures("no signature\n")


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


def test_options_of_a_verifier_do_not_replace_witnesses() -> None:
    journal = Journal()
    published(journal)
    options = VerifyOptions(accept_unanchored=True)
    report = verify(journal.directory, policy=policy_of(journal), now_ms=journal.now_ms, options=options)
    assert report.exit is Exit.OK
    assert any("cosignatures" in note for note in report.notes)
