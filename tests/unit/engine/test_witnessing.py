"""Asking witnesses: what they cosign counts once, and whoever did not is asked again, more and more seldom."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from audit import trust
from audit.checkpoint import Checkpoint, Published, Publisher
from audit.cosign import Cosigner, cosigned_at
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.witness import Witness, request_of
from audit.witness_client import Refusal
from audit.witness_server import witness_app
from gateway.engine.anchoring import Taken
from gateway.engine.log_rollback import is_rollback
from gateway.engine.witnessing import AGAIN_SECONDS, Heard, Witnesses, _refused, hear
from tests.unit.audit.logs import ORIGIN, Journal, entropy
from tests.unit.engine.keeping import HandClock

NAMES = ("one", "two")


@dataclass
class Hall:
    """A log, two witnesses that serve, and how many requests each got. What is in `closed` answers 500."""

    journal: Journal = field(default_factory=Journal)
    clock: HandClock = field(default_factory=HandClock)
    closed: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    servers: dict[str, TestServer] = field(default_factory=dict)
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.publisher = Publisher(self.journal.directory, self.journal.signer)

    def cosigner(self, name: str) -> Cosigner:
        return Cosigner.generate(f"witness.test/{name}", entropy(name))

    async def open(self, name: str, *, stranger: bool = False) -> None:
        known = NoteSigner.generate(ORIGIN, entropy("stranger")) if stranger else self.journal.signer
        witness = Witness(MemoryDirectory(), self.cosigner(name), [known.key])
        app = witness_app(witness, lambda: self.clock.wall_ms() // 1000)

        @web.middleware
        async def counted(request: web.Request, handler: object) -> web.StreamResponse:
            self.asked.append(name)
            if name in self.closed:
                return web.Response(status=500, text="closed\n")
            return await handler(request)  # type: ignore[operator, no-any-return]  # aiohttp's own handler type

        app.middlewares.append(counted)
        self.servers[name] = TestServer(app)
        await self.servers[name].start_server()

    def known(self) -> dict[str, trust.Witness]:
        return {
            name: trust.Witness(self.cosigner(name).key, str(server.make_url("")).rstrip("/"))
            for name, server in self.servers.items()
        }

    def witnesses(self) -> Witnesses:
        return Witnesses(self.journal.directory, self.known(), self.clock)

    async def heard(self, *, seconds: float = 15.0) -> Heard:
        """What they say at a start of the log as it is now."""
        keys, now_s = [self.journal.signer.key], self.clock.wall_ms() // 1000
        head = self.journal.sealer.head
        said = await hear(self.journal.directory, head, keys, self.known(), now_s=now_s, seconds=seconds)
        assert said is not None
        return said

    def put_back(self, kept: dict[str, bytes]) -> None:
        for name in self.journal.directory.files():
            self.journal.directory.remove(name)
        for name, data in kept.items():
            self.journal.directory.put(name, data)

    def grow(self) -> Published:
        self.journal.records(3)
        self.journal.export()
        published = self.publisher.publish()
        assert published is not None
        return published


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    made = Hall()
    for name in NAMES:
        await made.open(name)
    yield made
    for server in made.servers.values():
        await server.close()


async def test_all_cosign_once_and_are_left_alone_until_the_log_has_grown(hall: Hall) -> None:
    witnesses, published = hall.witnesses(), hall.grow()
    assert witnesses.wants(published)

    cosigned = await witnesses.ask(published)

    text = published.checkpoint.to_text()
    assert [answer.taken for answer in cosigned.answers] == [Taken.TAKEN, Taken.TAKEN]
    for line, name in zip(cosigned.lines.splitlines(), NAMES, strict=True):
        assert cosigned_at(line, text, hall.cosigner(name).key) == hall.clock.wall_ms() // 1000
    assert witnesses.newest_ms == hall.clock.wall_ms()
    assert not witnesses.wants(published)
    hall.publisher.add_signatures(cosigned.lines)
    assert hall.witnesses().newest_ms == hall.clock.wall_ms()
    assert witnesses.wants(hall.grow())


# -- at a start -------------------------------------------------------------------------------------------------------


async def test_witnesses_that_know_no_more_than_the_log_let_it_go_on(hall: Hall) -> None:
    key = hall.journal.signer.key
    nothing = await hear(MemoryDirectory(), hall.journal.sealer.head, [key], hall.known(), now_s=0, seconds=15.0)
    assert (nothing, hall.asked) == (None, []), "nothing was signed yet"
    published = hall.grow()
    # Nobody has seen it; then one has, and its line below the checkpoint is no hindrance; then the log has grown.
    assert (await hall.heard()).contradiction is None
    cosigned = await hall.witnesses().ask(published)
    hall.publisher.add_signatures(cosigned.lines)
    heard = await hall.heard()
    hall.journal.records(3)
    assert await hall.heard() == heard == Heard(None, heard.sentence)
    assert "(one, two)" in heard.sentence
    hall.grow()
    assert (await hall.heard()).contradiction is None


async def test_a_witness_that_has_seen_more_than_the_folder_says_that_it_was_put_back(hall: Hall) -> None:
    hall.grow()
    kept, head = hall.journal.directory.files(), hall.journal.sealer.head
    await hall.witnesses().ask(hall.grow())
    seen = hall.journal.sealer.head.size
    hall.put_back(kept)
    hall.closed = {"one"}
    heard = await hear(hall.journal.directory, head, [hall.journal.signer.key], hall.known(), now_s=0, seconds=15.0)
    assert heard is not None
    assert is_rollback(heard.contradiction)
    assert f"the witness two has seen {seen} entries, this log has {head.size}" in (heard.contradiction or "")
    # It is no contradiction where the store has all of it and only the files and their checkpoint lag.
    assert (await hall.heard()).contradiction is None


async def test_a_witness_that_has_seen_other_entries_says_that_the_log_was_forked(hall: Hall) -> None:
    published = hall.grow()
    size = published.checkpoint.size
    forged = hall.journal.signer.sign(Checkpoint(ORIGIN, size, bytes(32)).to_text())
    async with ClientSession() as session:
        url = str(hall.servers["one"].make_url("/add-checkpoint"))
        async with session.post(url, data=request_of(0, (), forged)) as answer:
            assert answer.status == 200
    heard = await hall.heard()
    assert is_rollback(heard.contradiction)
    assert f"the witness one has seen other entries among the first {size}" in (heard.contradiction or "")


async def test_a_start_goes_on_where_no_witness_says_anything_in_time(hall: Hall) -> None:
    hall.grow()
    hall.closed = set(NAMES)
    refused = await hall.heard()
    await hall.servers["two"].close()
    silent = asyncio.Event()

    async def hangs(_request: web.Request) -> web.Response:
        await silent.wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/add-checkpoint", hangs)
    hall.servers["two"] = TestServer(app)
    await hall.servers["two"].start_server()
    late = await hall.heard(seconds=0.05)
    silent.set()

    assert refused.contradiction is late.contradiction is None
    assert "writes went on" in refused.sentence
    assert "one: answered 500: closed" in refused.sentence
    assert "two: no answer within 0.05 s" in late.sentence


async def test_a_log_that_nobody_cosigned_yet_has_no_newest_cosignature(hall: Hall) -> None:
    hall.grow()
    assert hall.witnesses().newest_ms is None


async def test_whoever_did_not_cosign_is_asked_again_and_only_its_line_is_new(hall: Hall) -> None:
    witnesses, published = hall.witnesses(), hall.grow()
    hall.closed = {"two"}
    first = await witnesses.ask(published)
    assert not witnesses.wants(published)
    # The one that did cosign is no reason to let a newer checkpoint wait.
    hall.clock.now_ms += 1000
    newer = hall.grow()
    assert witnesses.wants(newer)
    second = await witnesses.ask(newer)
    hall.clock.now_ms += int(AGAIN_SECONDS * 2000)
    assert witnesses.wants(newer)
    hall.closed = set()
    third = await witnesses.ask(newer)

    assert [(answer.anchor, answer.taken) for answer in first.answers] == [
        ("witness one", Taken.TAKEN),
        ("witness two", Taken.REFUSED),
    ]
    assert "one" in second.lines
    assert [answer.anchor for answer in third.answers] == ["witness two"]
    assert third.lines.count("\n") == 1
    assert "witness.test/two" in third.lines
    assert not witnesses.wants(newer)


async def test_when_nobody_answers_the_pause_doubles_up_to_a_bound_also_for_newer_checkpoints(hall: Hall) -> None:
    witnesses, published = hall.witnesses(), hall.grow()
    for server in hall.servers.values():
        await server.close()
    pauses = []
    for _ in range(7):
        answer = await witnesses.ask(published)
        assert {item.taken for item in answer.answers} == {Taken.NOT_REACHED}
        published = hall.grow()
        before = hall.clock.now_ms
        while not witnesses.wants(published):
            hall.clock.now_ms += 1000
        pauses.append((hall.clock.now_ms - before) // 1000)

    assert pauses == [60, 120, 240, 480, 900, 900, 900]


async def test_a_witness_that_has_seen_more_says_that_the_log_was_rolled_back(hall: Hall) -> None:
    witnesses, first = hall.witnesses(), hall.grow()
    await witnesses.ask(first)
    await witnesses.ask(hall.grow())
    restored = hall.witnesses()

    answers = (await restored.ask(first)).answers

    assert [answer.taken for answer in answers] == [Taken.REFUSED, Taken.REFUSED]
    assert all("rolled back" in answer.detail and answer.contradicts for answer in answers)


async def test_a_witness_that_does_not_know_the_log_refuses_and_nothing_is_said_of_a_roll_back(hall: Hall) -> None:
    await hall.open("three", stranger=True)

    answers = {answer.anchor: answer for answer in (await hall.witnesses().ask(hall.grow())).answers}

    assert answers["witness three"].taken is Taken.REFUSED
    assert "403" in answers["witness three"].detail
    assert "rolled back" not in answers["witness three"].detail
    assert not answers["witness three"].contradicts


@pytest.mark.parametrize(
    ("reason", "contradicts"),
    [
        ("answered 409: 51", True),
        ("answered 409: 50", True),
        ("answered 409: 49", False),
        ("answered 409: many", False),
        ("answered 422: the proof does not hold", True),
        ("answered 403: unknown log", False),
    ],
)
def test_only_a_larger_or_another_tree_contradicts_a_log(reason: str, contradicts: bool) -> None:
    assert _refused(Refusal("one", reason, reached=True), 50).contradicts is contradicts


async def test_files_that_do_not_hold_the_log_are_no_witness_s_fault_and_no_error(hall: Hall) -> None:
    published = hall.grow()
    witnesses = hall.witnesses()
    witnesses._submitter._directory = MemoryDirectory()

    answers = (await witnesses.ask(published)).answers

    assert {answer.taken for answer in answers} <= {Taken.NOT_REACHED, Taken.TAKEN}
    assert hall.asked in ([], list(NAMES))
