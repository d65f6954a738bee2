"""Keys are shown once, kept as hashes, refused with one text for every reason, and end at once when revoked."""

import asyncio
import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.engine import keys as keys_module
from gateway.engine.keys import FAILURES_INTERVAL_SECONDS, Keys, NewKey
from gateway.model.principal import Principal, PrincipalKind
from gateway.model.problem import Code, Problem
from gateway.store.port import Record, StoredKey, Unavailable
from tests.canary import Canaries
from tests.unit.engine.keeping import CountedChance, DictStore, HandClock

CALLER, PERSON = PrincipalKind.CALLER, PrincipalKind.PERSON


class Desk:
    def __init__(self) -> None:
        self.store, self.clock = DictStore(), HandClock()
        self.keys = Keys(self.store, self.clock, CountedChance())

    async def make(self, name: str = "agent-a", owner: str = "ann", **more: Any) -> NewKey:
        return await self.keys.create(more.pop("kind", CALLER), name, owner, by="ann", **more)

    def refusal(self, header: str | None) -> Problem:
        with pytest.raises(Problem) as refused:
            self.keys.authenticate(header)
        assert refused.value.code is Code.UNAUTHENTICATED
        return refused.value


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_new_key_says_who_asks(desk: Desk) -> None:
    agent = await desk.make()
    ann = await desk.make("ann", kind=PERSON)

    assert desk.keys.authenticate(f"Bearer {agent.text}") == Principal(CALLER, "agent-a", "ann", agent.line.key_id)
    assert desk.keys.authenticate(f"bearer {ann.text}").is_person
    assert len(agent.text) == 4 + 10 + 1 + 43
    assert agent.text.startswith(agent.line.prefix + "_")


async def test_the_secret_is_in_the_new_key_and_nowhere_else(desk: Desk, canaries: Canaries) -> None:
    new = await desk.make()
    secret = new.text.rpartition(new.line.prefix + "_")[2]
    canaries.watch_secret("a key", secret)

    for label, shown in (("the key", new), ("the store", vars(desk.store)), ("the list", desk.keys.list())):
        canaries.watch_text(repr(shown), label)
    assert "sha256" not in repr(desk.keys.list())
    stored = desk.store.stored_keys[new.line.key_id]
    assert stored.secret_sha256 == hashlib.sha256(secret.encode()).digest()
    assert [record.event for record in desk.store.records] == ["key_created"]
    assert desk.store.records[0].body["by"] == "ann"


async def test_every_reason_for_refusal_reads_the_same(desk: Desk) -> None:
    text = (await desk.make(expires_ms=desk.clock.now_ms + 1000)).text
    revoked = await desk.make()
    await desk.keys.revoke(revoked.line.key_id, by="ann")
    other = await desk.make("agent-b")
    swapped = text[:15] + other.text[15:]
    headers = [
        None, "", "Bearer", "Bearer ", text, f"Basic {text}", f"Bearer  {text}", f"Bearer {text} ", f"Bearer {text}\n",
        f"Bearer {text}\x00", f"Bearer {text[:-1]}", f"Bearer {text}A", f"Bearer {text.upper()}", f"Bearer {swapped}",
        f"Bearer gwk_{'0' * 10}_{'A' * 43}", f"Bearer {revoked.text}", f"Bearer gwk_' OR '1'='1_{'A' * 43}",
        "Bearer gwk_0000000000'--_" + "A" * 40, f"Bearer gwk__{'A' * 43}", f"Bearer {text}, Bearer {text}",
        "Bearer " + "A" * 1_000_000, "Bearer gwk_" + "é" * 54, "Bearer gwk_" + "٣" * 10 + "_" + "A" * 43,
        "Bearer \ud800", f"Bearer gwk_{'0' * 10}_{'A' * 42}\n",
    ]  # fmt: skip

    refusals = [desk.refusal(header) for header in headers]
    desk.clock.now_ms += 1000
    refusals.append(desk.refusal(f"Bearer {text}"))

    assert len({(str(problem), problem.guidance, repr(problem.extra)) for problem in refusals}) == 1
    assert desk.keys.authenticate(f"Bearer {other.text}").name == "agent-b"


async def test_no_hash_is_compared_but_in_constant_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    class Watched:
        @staticmethod
        def compare_digest(left: bytes, right: bytes) -> bool:
            compared.append((left, right))
            return hmac.compare_digest(left, right)

    text = (await desk.make()).text
    monkeypatch.setattr(keys_module, "hmac", Watched)
    desk.keys.authenticate(f"Bearer {text}")
    desk.refusal(f"Bearer {text[:-1]}A")
    desk.refusal(f"Bearer gwk_{'0' * 10}_{'A' * 43}")
    desk.refusal(None)

    assert len(compared) == 4
    assert all(len(left) == len(right) == 32 for left, right in compared)


async def test_the_empty_key_is_not_nobodys_key(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hmac, "compare_digest", lambda left, right: True)

    desk.refusal(None)
    desk.refusal(f"Bearer gwk_{'0' * 10}_{'A' * 43}")


async def test_revoking_ends_a_key_and_its_streams_at_once(desk: Desk) -> None:
    new = await desk.make()
    ended: list[str] = []

    def fails(key_id: str) -> None:
        raise RuntimeError(key_id)

    desk.keys.on_revoked |= {fails, ended.append}

    assert await desk.keys.revoke(new.line.prefix, by="ann")
    assert ended == [new.line.key_id]
    desk.refusal(f"Bearer {new.text}")
    assert not desk.keys.is_usable(new.line.key_id)
    assert not await desk.keys.revoke(new.line.key_id, by="ann")
    assert [record.event for record in desk.store.records] == ["key_created", "key_revoked"]


async def test_a_revocation_that_cannot_be_stored_holds_here_and_can_be_repeated(desk: Desk) -> None:
    new = await desk.make()
    desk.store.full = True
    with pytest.raises(Unavailable):
        await desk.keys.revoke(new.line.key_id, by="ann")
    desk.refusal(f"Bearer {new.text}")
    await desk.keys.load()
    desk.refusal(f"Bearer {new.text}")

    desk.store.full = False
    assert await desk.keys.revoke(new.line.key_id, by="ann")
    again = Keys(desk.store, desk.clock, CountedChance())
    await again.load()
    assert not again.is_usable(new.line.key_id)


async def test_a_key_that_could_not_be_stored_does_not_exist(desk: Desk) -> None:
    desk.store.full = True

    with pytest.raises(Unavailable):
        await desk.make()
    assert desk.keys.list() == ()


async def test_keys_live_on_after_a_restart(desk: Desk) -> None:
    new = await desk.make()
    again = Keys(desk.store, desk.clock, CountedChance())
    with pytest.raises(Problem):
        again.authenticate(f"Bearer {new.text}")

    await again.load()

    assert again.authenticate(f"Bearer {new.text}").name == "agent-a"
    assert again.list() == desk.keys.list()


async def test_a_key_expires_on_time(desk: Desk) -> None:
    new = await desk.make(expires_ms=desk.clock.now_ms + 1)
    assert desk.keys.is_usable(new.line.key_id)
    assert desk.keys.list()[0].usable

    desk.clock.now_ms += 1
    assert not desk.keys.is_usable(new.line.key_id)
    assert not desk.keys.list()[0].usable


@pytest.mark.parametrize(
    ("kind", "name", "owner", "expires_in_ms"),
    [
        (CALLER, "", "ann", None),
        (CALLER, "agent *", "ann", None),
        (CALLER, "*", "ann", None),
        (CALLER, "agent\n", "ann", None),
        (CALLER, "аgent", "ann", None),
        (CALLER, "a" * 101, "ann", None),
        (CALLER, "agent-b", "", None),
        (CALLER, "agent-b", "agent-b", None),
        (CALLER, "agent-b", "agent-a", None),
        (CALLER, "Ann", "bob", None),
        (PERSON, "agent-a", "agent-a", None),
        (PERSON, "bob", "ann", None),
        (CALLER, "agent-b", "ann", 0),
        (CALLER, "agent-b", "ann", -1),
    ],
)
async def test_a_key_without_a_sound_holder_is_refused(
    desk: Desk, kind: PrincipalKind, name: str, owner: str, expires_in_ms: int | None
) -> None:
    await desk.make("ann", kind=PERSON)
    await desk.make("agent-a")
    expires_ms = None if expires_in_ms is None else desk.clock.now_ms + expires_in_ms

    with pytest.raises(Problem) as refused:
        await desk.keys.create(kind, name, owner, by="ann", expires_ms=expires_ms)

    assert refused.value.code is Code.INVALID_INPUT
    assert refused.value.errors
    assert len(desk.keys.list()) == 2


class SlowStore(DictStore):
    """Keeps a key only once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Event()

    async def put_key(self, key: StoredKey, records: Sequence[Record]) -> None:
        await self.may.wait()
        await super().put_key(key, records)


async def test_of_two_kinds_of_key_made_at_once_under_one_name_there_is_one() -> None:
    store = SlowStore()
    keys = Keys(store, HandClock(), CountedChance())
    made = [
        asyncio.ensure_future(keys.create(CALLER, "twin", "ann", by="ann")),
        asyncio.ensure_future(keys.create(PERSON, "Twin", "Twin", by="ann")),
    ]
    await asyncio.sleep(0)
    store.may.set()
    _first, second = await asyncio.gather(*made, return_exceptions=True)

    assert isinstance(second, Problem)
    assert [line.kind for line in keys.list()] == [CALLER]


async def test_an_unknown_key_cannot_be_revoked(desk: Desk) -> None:
    with pytest.raises(Problem) as refused:
        await desk.keys.revoke("0123456789", by="ann")
    assert refused.value.code is Code.NOT_FOUND


async def test_guessing_is_recorded_as_a_count_and_repeats_nothing_of_the_guess(desk: Desk) -> None:
    text = (await desk.make()).text
    for guess in ("Bearer evil-input", f"Bearer gwk_evilevilev_{'A' * 43}", f"Bearer {text[:15]}{'A' * 43}"):
        for _ in range(1000):
            desk.refusal(guess)
    await desk.keys.note_failures()
    desk.refusal("Bearer evil-input")
    await desk.keys.note_failures()

    notes = [record for record in desk.store.records if record.event == "authentication_failed"]
    assert [note.body["count"] for note in notes] == [3000]
    assert notes[0].body["key_ids"] == [text[4:14]]
    assert "evil" not in repr(notes)

    desk.clock.now_ms += FAILURES_INTERVAL_SECONDS * 1000
    desk.store.full = True
    await desk.keys.note_failures()
    desk.store.full = False
    await desk.keys.note_failures()
    await desk.keys.note_failures()
    assert [note.body["count"] for note in desk.store.records if note.event == "authentication_failed"] == [3000, 1]


async def test_a_colliding_id_is_drawn_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([b"\1" * 10, b"\2" * 32, b"\1" * 10, b"\3" * 10, b"\4" * 32])
    monkeypatch.setattr(CountedChance, "bytes", lambda self, count: next(draws))

    first, second = await desk.make(), await desk.make()

    assert first.line.key_id == "1" * 10
    assert second.line.key_id == "3" * 10
