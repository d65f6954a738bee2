"""What every store must do, asked of each of them in the same words."""

import asyncio
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.core.identity import Rivals, Ruling, Verdict
from gateway.model.operation import Executed, Lease, Operation, State
from gateway.model.principal import PrincipalKind
from gateway.model.problem import BrokenInvariantError, Code
from gateway.store import points, reading
from gateway.store.cipher import CannotDecrypt, DataKeyCipher
from gateway.store.inloop import InLoopStore, Medium
from gateway.store.points import Crash
from gateway.store.port import (
    Filter,
    LostOperation,
    PayloadKind,
    Record,
    StoredCredential,
    StoredKey,
    StoredSubject,
    StoreUnknown,
    TailFrame,
    Unavailable,
)
from gateway.store.records import RecordTooLarge
from gateway.store.threaded import Limits, Ports, SqlStore
from tests.unit.store.kit import (
    ORIGIN,
    START_MS,
    PlainHead,
    PlainSealer,
    admission,
    attach,
    change,
    check_tail,
    cipher,
    ended,
    new_id,
    operation,
    record,
)

BEFORE = (points.BEGIN, points.RULED)
AFTER = (points.SEALED, points.WRITTEN, points.COMMITTED, points.REPLYING)
DURABLE = (points.COMMITTED, points.REPLYING)


class Trip:
    """Raises once at the named place, when armed."""

    def __init__(self, name: str = "", error: BaseException | None = None) -> None:
        self.name = name
        self.error: BaseException | None = error
        self.seen: list[str] = []

    def arm(self, name: str, error: BaseException) -> None:
        self.name, self.error = name, error

    def hit(self, name: str) -> None:
        self.seen.append(name)
        if name == self.name and self.error is not None:
            error, self.error = self.error, None
            raise error


class FakeDisk:
    def __init__(self) -> None:
        self.free = 1 << 40

    def free_bytes(self) -> int:
        return self.free


class Place(ABC):
    """Where one test's store lives; opens it as often as the test likes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gateway.db"
        self.points = Trip()
        self.disk = FakeDisk()
        self.cipher = cipher()
        self._opened = AsyncExitStack()

    async def open(self, *, attached: bool = True, origin: str = ORIGIN) -> Any:
        store = await self._open()
        self._opened.push_async_callback(store.close)
        if attached:
            head = await store.head()
            known = None if head is None else PlainHead.from_bytes(head)
            await attach(store, PlainSealer(known if known and known.origin == origin else PlainHead(origin)))
        return store

    @abstractmethod
    async def _open(self) -> Any: ...

    @abstractmethod
    async def dead(self, store: Any) -> None:
        """Wait until the store has met its end."""

    async def close(self) -> None:
        await self._opened.aclose()


class ThreadedPlace(Place):
    async def _open(self) -> SqlStore:
        ports = Ports(self.cipher, lambda: START_MS, lambda: 0.0, self.points, self.disk)
        return await SqlStore.open(f"sqlite:///{self.path}", ports, Limits(ballast_bytes=4096, reserve_bytes=8192))

    async def dead(self, store: Any) -> None:
        await store.wait_failed()
        await store.close()


class InLoopPlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.medium = Medium(self.path)

    async def _open(self) -> InLoopStore:
        def room(_items: Sequence[Any]) -> str | None:
            return None if self.disk.free > 8192 else "The disk is nearly full."

        return InLoopStore(self.medium, self.cipher, wall_ms=lambda: START_MS, points=self.points, room=room)

    async def dead(self, store: Any) -> None:
        while not (store.crashed or store.failed):
            await asyncio.sleep(0)
        await store.close()


class MemoryPlace(InLoopPlace):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.medium = Medium()


PLACES: dict[str, Callable[[Path], Place]] = {"sqlite": ThreadedPlace, "in-loop": InLoopPlace, "memory": MemoryPlace}


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Migrated once; the migration has tests of its own."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    Medium(path).connect().close()
    return path


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> AsyncIterator[Place]:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    shutil.copy(empty_database, folder / "gateway.db")
    (folder / "gateway.db").chmod(0o600)
    made = PLACES[request.param](folder)
    yield made
    await made.close()


@pytest.fixture
async def store(place: Place) -> Any:
    return await place.open()


async def admit(store: Any, of: Operation, **more: Any) -> Verdict:
    admitted = await store.admit(admission(of, **more))
    verdict: Verdict = admitted.verdict
    assert (admitted.receipt is not None) == (verdict.ruling is Ruling.CREATE)
    return verdict


async def end(store: Any, of: Operation, **more: Any) -> Operation:
    wanted = ended(of, **more)
    assert (await store.change(wanted)).won
    return wanted.operation


async def bodies(store: Any) -> list[dict[str, Any]]:
    return check_tail(await store.tail(10_000), await store.head())


async def kinds(store: Any) -> list[str]:
    return [frame.frame.split(b'"')[3].decode() for frame in await store.tail(10_000)]


# Admission


async def test_new_operation_is_stored_with_all_that_came_along(store: Any) -> None:
    of = operation(key="task-9", run="run-1", conflict_key="deploy:prod", lease=Lease("me", START_MS + 1))
    admitted = await store.admit(admission(of, payloads={PayloadKind.REQUEST: b"\x00\xff"}))
    assert admitted.verdict == Verdict(Ruling.CREATE)
    assert await store.get(of.id) == of
    assert await store.by_key(of.caller, of.action, "task-9") == of
    assert await store.payload(of.id, PayloadKind.REQUEST) == b"\x00\xff"
    assert await store.payload(of.id, PayloadKind.RESULT) is None
    assert await store.definition(of.definition) == b'{"name":"deployments.create"}'
    assert await store.receipt(of.id) == admitted.receipt


async def test_unknown_names_are_none_and_no_error(store: Any) -> None:
    assert await store.get(new_id()) is None
    assert await store.get("op_nonsense") is None
    assert await store.receipt("op_nonsense") is None
    assert await store.by_key("a", "b", "c") is None
    assert await store.payload("op_nonsense", PayloadKind.RESULT) is None
    assert await store.observations("op_nonsense") == []
    assert await store.definition("sha256:none") is None
    assert await store.meta("none") is None


async def test_same_key_and_request_joins_while_unsettled(store: Any) -> None:
    first = operation(key="k", fingerprint="f")
    await admit(store, first)
    assert await admit(store, operation(key="k", fingerprint="f")) == Verdict(Ruling.JOIN, operation=first)


async def test_same_key_and_request_replays_when_final(store: Any) -> None:
    first = operation(key="k", fingerprint="f")
    await admit(store, first)
    final = await end(store, first)
    assert await admit(store, operation(key="k", fingerprint="f")) == Verdict(Ruling.REPLAY, operation=final)


@pytest.mark.parametrize("final", [False, True])
async def test_same_key_with_another_request_is_refused_and_changes_nothing(store: Any, final: bool) -> None:
    first = operation(key="k", fingerprint="f")
    await admit(store, first)
    if final:
        first = await end(store, first)
    before = await bodies(store)
    other = operation(key="k", fingerprint="g")
    assert await admit(store, other) == Verdict(Ruling.REFUSE, Code.KEY_REUSED, first)
    assert await store.get(first.id) == first
    assert await store.get(other.id) is None
    assert await bodies(store) == before


@pytest.mark.parametrize("other", [{"caller": "agent-b"}, {"action": "deployments.delete"}])
async def test_a_key_means_nothing_to_another_caller_or_action(store: Any, other: dict[str, str]) -> None:
    await admit(store, operation(key="k", fingerprint="f"))
    assert await admit(store, operation(key="k", fingerprint="g", **other)) == Verdict(Ruling.CREATE)


async def test_same_request_without_key_joins_the_unsettled_one(store: Any) -> None:
    first = operation(fingerprint="f", key="k")
    await admit(store, first)
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.JOIN, operation=first)


async def test_same_request_under_another_key_is_refused_while_unsettled(store: Any) -> None:
    first = operation(fingerprint="f", key="k")
    await admit(store, first)
    refused = Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, first)
    assert await admit(store, operation(fingerprint="f", key="l")) == refused


async def test_same_request_of_another_caller_is_another_operation(store: Any) -> None:
    await admit(store, operation(fingerprint="f"))
    assert await admit(store, operation(fingerprint="f", caller="agent-b")) == Verdict(Ruling.CREATE)


async def test_conflict_key_is_held_by_anyone_until_settled(store: Any) -> None:
    first = operation(conflict_key="deploy:prod")
    await admit(store, first)
    other = operation(conflict_key="deploy:prod", caller="agent-b", action="rollback")
    assert await admit(store, other) == Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, first)
    assert await admit(store, operation(conflict_key="deploy:test")) == Verdict(Ruling.CREATE)
    await end(store, first)
    assert await admit(store, other) == Verdict(Ruling.CREATE)


async def test_finished_and_delivered_request_is_a_probable_repeat(store: Any) -> None:
    first = operation(fingerprint="f")
    await admit(store, first)
    final = await end(store, first, delivered=True)
    again = operation(fingerprint="f", created_ms=START_MS + 2000)
    assert await admit(store, again) == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, final)


async def test_finished_but_undelivered_request_is_replayed(store: Any) -> None:
    first = operation(fingerprint="f")
    await admit(store, first)
    final = await end(store, first)
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.REPLAY, operation=final)


async def test_delivery_that_still_waits_for_a_transaction_counts_in_rulings(store: Any) -> None:
    first = operation(fingerprint="f")
    await admit(store, first)
    final = await end(store, first)
    await store.mark_delivered(first.id)
    verdict = await admit(store, operation(fingerprint="f"))
    assert verdict == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, replace(final, delivered=True))


@pytest.mark.parametrize(
    ("executed", "again", "is_read"),
    [
        (Executed.NO, {}, False),
        (Executed.YES, {"created_ms": START_MS + 1000 + 600_001}, False),
        (Executed.YES, {"key": "new"}, False),
        (Executed.YES, {"caller": "agent-b"}, False),
        (Executed.YES, {}, True),
    ],
    ids=["never executed", "after the window", "a key given on purpose", "another caller", "a read"],
)
async def test_request_that_is_no_repeat_is_new(
    store: Any, executed: Executed, again: dict[str, Any], is_read: bool
) -> None:
    first = operation(fingerprint="f", effect="read" if is_read else "irreversible")
    await admit(store, first, is_read=is_read)
    await end(store, first, executed=executed, delivered=True)
    assert await admit(store, operation(fingerprint="f", **again), is_read=is_read) == Verdict(Ruling.CREATE)


async def test_the_newest_of_many_finished_ones_decides(store: Any) -> None:
    finals = []
    for at in range(3):
        one = operation(fingerprint="f", key=f"k{at}")
        await admit(store, one)
        finals.append(await end(store, one, at_ms=START_MS + at, delivered=True))
    assert (await admit(store, operation(fingerprint="f"))).operation == finals[-1]


@pytest.mark.parametrize("later", [True, False])
async def test_the_newest_decides_also_if_one_of_them_finishes_in_the_same_batch(store: Any, later: bool) -> None:
    stored, under_way = operation(fingerprint="f", key="a"), operation(fingerprint="f", key="b")
    await admit(store, stored)
    first = await end(store, stored, at_ms=START_MS + 500)
    await admit(store, under_way)
    last = ended(under_way, at_ms=START_MS + (1000 if later else 100))
    _, verdict = await asyncio.gather(store.change(last), admit(store, operation(fingerprint="f")))
    assert verdict == Verdict(Ruling.REPLAY, operation=last.operation if later else first)


async def test_fifty_identical_keyless_requests_at_once_make_one_operation(store: Any) -> None:
    several = [operation(fingerprint="f") for _ in range(50)]
    verdicts = await asyncio.gather(*(admit(store, one) for one in several))
    assert [verdict.ruling for verdict in verdicts] == [Ruling.CREATE] + [Ruling.JOIN] * 49
    assert {verdict.operation.id for verdict in verdicts[1:] if verdict.operation} == {several[0].id}
    assert len((await store.list(Filter())).operations) == 1


async def test_fifty_identical_keyed_requests_at_once_make_one_operation(store: Any) -> None:
    verdicts = await asyncio.gather(*(admit(store, operation(fingerprint="f", key="k")) for _ in range(50)))
    assert sorted(verdict.ruling for verdict in verdicts) == [Ruling.CREATE] + [Ruling.JOIN] * 49


async def test_one_conflict_key_wanted_twice_at_once_is_had_once(store: Any) -> None:
    both = [operation(conflict_key="c"), operation(conflict_key="c", caller="agent-b")]
    first, second = await asyncio.gather(*(admit(store, one) for one in both))
    assert first == Verdict(Ruling.CREATE)
    assert second == Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, both[0])


async def test_one_key_given_to_two_requests_at_once_is_reused(store: Any) -> None:
    both = [operation(key="k", fingerprint="f"), operation(key="k", fingerprint="g")]
    _, second = await asyncio.gather(*(admit(store, one) for one in both))
    assert second == Verdict(Ruling.REFUSE, Code.KEY_REUSED, both[0])


async def test_names_freed_in_a_batch_are_free_in_it(store: Any) -> None:
    old = operation(fingerprint="f", conflict_key="c")
    await admit(store, old)
    new = operation(fingerprint="f", conflict_key="c", key="on-purpose")
    _, verdict = await asyncio.gather(store.change(ended(old)), admit(store, new))
    assert verdict == Verdict(Ruling.CREATE)


async def test_operation_may_begin_and_end_in_one_batch(store: Any) -> None:
    one = operation(fingerprint="f")
    done = ended(one, delivered=True)
    again = operation(fingerprint="f")
    created, changed, repeat = await asyncio.gather(admit(store, one), store.change(done), admit(store, again))
    assert (created, changed.won) == (Verdict(Ruling.CREATE), True)
    assert repeat == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, done.operation)
    assert await store.get(one.id) == done.operation
    assert [(body["ev"], body["op_n"]) for body in await bodies(store)] == [("admitted", 0), ("ended", 1)]


@pytest.mark.parametrize("name", ["key", "fingerprint", "conflict_key"])
async def test_indexes_hold_where_the_ruling_fails(
    place: Place, store: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lenient(_candidate: Operation, _rivals: Rivals, **_how: Any) -> Verdict:
        return Verdict(Ruling.CREATE)

    monkeypatch.setattr("gateway.store.items.decide", lenient)
    first = operation(**{name: "same"})
    await admit(store, first)
    with pytest.raises(StoreUnknown):
        await admit(store, operation(**{name: "same"}))
    await place.dead(store)
    again = await place.open()
    assert [one.id for one in (await again.list(Filter())).operations] == [first.id]
    assert len(await bodies(again)) == 1


# Superseding


async def unresolved(store: Any, **names: Any) -> Operation:
    of = operation(**names)
    await admit(store, of)
    moved = change(of, state=State.UNRESOLVED, watch_until_ms=START_MS + 1)
    assert (await store.change(moved)).won
    return moved.operation


async def test_unresolved_operation_is_superseded_and_stays_watched(store: Any) -> None:
    old = await unresolved(store, fingerprint="f", conflict_key="c")
    new = operation(fingerprint="f", conflict_key="c", supersedes=old.id)
    both = (record(new, "admitted"), record(old, "superseded"))
    admitted = await store.admit(admission(new, records=both))
    assert admitted.verdict == Verdict(Ruling.CREATE)
    assert admitted.receipt == await store.receipt(new.id)
    assert await store.get(old.id) == replace(old, superseded=True, version=old.version + 1)
    assert [one.id for one in await store.watched()] == [old.id]
    assert [one.id for one in await store.unsettled()] == [old.id, new.id]
    assert [(body["op"], body["op_n"]) for body in await bodies(store)][-2:] == [(new.id, 0), (old.id, 2)]


async def test_operation_is_superseded_once(store: Any) -> None:
    old = await unresolved(store)
    twice = [operation(supersedes=old.id), operation(supersedes=old.id)]
    first, second = await asyncio.gather(*(admit(store, one) for one in twice))
    assert first == Verdict(Ruling.CREATE)
    assert (second.ruling, second.code) == (Ruling.REFUSE, Code.WRONG_STATE)


async def test_only_what_is_unresolved_can_be_superseded(store: Any) -> None:
    ready = operation()
    await admit(store, ready)
    refused = Verdict(Ruling.REFUSE, Code.WRONG_STATE, ready)
    assert await admit(store, operation(supersedes=ready.id)) == refused
    assert await admit(store, operation(supersedes=new_id())) == Verdict(Ruling.REFUSE, Code.WRONG_STATE)


async def test_refused_successor_leaves_the_old_one_as_it_was(store: Any) -> None:
    old = await unresolved(store, fingerprint="f")
    await admit(store, operation(conflict_key="c"))
    verdict = await admit(store, operation(fingerprint="f", conflict_key="c", supersedes=old.id))
    assert verdict.code is Code.PREDECESSOR_UNSETTLED
    assert await store.get(old.id) == old


# Changes


async def test_change_is_stored_with_its_record(store: Any) -> None:
    of = operation()
    await admit(store, of)
    wanted = change(of, "begun", state=State.SENDING, fence=1, next_ms=START_MS + 5)
    changed = await store.change(wanted)
    assert changed.won
    assert changed.receipt == await store.receipt(of.id)
    assert await store.get(of.id) == wanted.operation
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "begun"]


async def test_loser_learns_what_is_stored_and_is_not_sealed(store: Any) -> None:
    of = operation()
    await admit(store, of)
    both = [change(of, "first", fence=1), change(of, "second", fence=2, payloads={PayloadKind.RESULT: b"no"})]
    first, second = await asyncio.gather(*map(store.change, both))
    assert first.won
    assert (second.won, second.receipt, second.current) == (False, None, both[0].operation)
    assert await store.get(of.id) == both[0].operation
    assert await store.payload(of.id, PayloadKind.RESULT) is None
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "first"]


async def test_changes_of_one_operation_are_applied_in_order_of_submission(store: Any) -> None:
    of = operation()
    await admit(store, of)
    steps = [change(of)]
    for _ in range(9):
        steps.append(change(steps[-1].operation))
    results = await asyncio.gather(*map(store.change, steps))
    assert all(result.won for result in results)
    assert (await store.get(of.id)).version == 10
    await bodies(store)


async def test_change_of_an_unknown_operation_is_lost(store: Any) -> None:
    changed = await store.change(change(operation()))
    assert (changed.won, changed.current) == (False, None)


async def test_change_must_raise_the_version_by_one(store: Any) -> None:
    of = operation()
    await admit(store, of)
    with pytest.raises(BrokenInvariantError):
        await store.change(replace(change(of), expect_version=5))
    assert store.failed is None


async def test_leaving_a_final_state_ends_the_store_and_not_the_state(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    final = await end(store, of)
    with pytest.raises(StoreUnknown):
        await store.change(change(final, state=State.READY))
    await place.dead(store)
    assert await (await place.open()).get(of.id) == final


async def test_final_operation_may_be_contradicted(store: Any) -> None:
    of = operation()
    await admit(store, of)
    wanted = change(await end(store, of), contradicted=True)
    assert (await store.change(wanted)).won
    assert await store.get(of.id) == wanted.operation


async def test_payload_may_be_replaced(store: Any) -> None:
    of = operation()
    await admit(store, of)
    wanted = change(of, payloads={PayloadKind.RESULT: b"1"})
    await store.change(wanted)
    await store.change(change(wanted.operation, payloads={PayloadKind.RESULT: b"2"}))
    assert await store.payload(of.id, PayloadKind.RESULT) == b"2"


async def test_delivered_is_kept_by_images_that_have_not_heard_of_it(store: Any) -> None:
    of = operation()
    await admit(store, of)
    final = await end(store, of)
    await store.mark_delivered(of.id)
    await store.note(())
    assert (await store.get(of.id)) == replace(final, delivered=True)
    await store.change(change(final, contradicted=True))
    assert (await store.get(of.id)).delivered


async def test_payloads_of_twenty_megabytes_come_back(store: Any) -> None:
    of, large = operation(), bytes(range(256)) * 80_000
    await admit(store, of, payloads={PayloadKind.ARGUMENTS: large})
    assert await store.payload(of.id, PayloadKind.ARGUMENTS) == large


async def test_payload_moved_to_another_row_cannot_be_read(place: Place, store: Any) -> None:
    one, other = operation(), operation()
    await admit(store, one, payloads={PayloadKind.REQUEST: b"one"})
    await admit(store, other, payloads={PayloadKind.REQUEST: b"other"})
    await store.close()
    driver = place.medium.connect() if isinstance(place, InLoopPlace) else sqlite3.connect(place.path)
    driver.execute("UPDATE payloads SET body = (SELECT body FROM payloads ORDER BY operation_id LIMIT 1)")
    driver.commit()
    if not isinstance(place, MemoryPlace):
        driver.close()
    again = await place.open()
    with pytest.raises(CannotDecrypt):
        await again.payload(other.id, PayloadKind.REQUEST)


# Records


async def test_observations_are_kept_in_order_whatever_the_version(store: Any) -> None:
    of = operation()
    await admit(store, of)
    receipt = await store.observe(of.id, {"status": 200}, [record(of, "observed")])
    await end(store, of)
    await store.observe(of.id, {"status": 500}, ())
    assert await store.observations(of.id) == [{"status": 200}, {"status": 500}]
    assert [(body["ev"], body["op_n"]) for body in await bodies(store)] == [
        ("admitted", 0),
        ("observed", 1),
        ("ended", 2),
    ]
    assert receipt is not None


async def test_observation_of_nothing_leaves_nothing(store: Any) -> None:
    of = operation()
    assert await store.observe(of.id, {}, [record(of)]) is None
    assert await bodies(store) == []


async def test_note_of_no_operation_is_sealed_with_a_receipt(store: Any) -> None:
    receipt = await store.note([record(None, "started", by="me")])
    assert await bodies(store) == [{"ev": "started", "action": "deployments.create", "by": "me"}]
    frames = await store.tail(10)
    assert (receipt.origin, receipt.seq) == (ORIGIN, frames[-1].seq)


async def test_record_of_an_operation_that_is_not_stored_says_what_it_is_about(store: Any) -> None:
    of = operation()
    await store.note([record(of, "refused")])
    (body,) = await bodies(store)
    assert (body["about"], "op" in body) == (of.id, False)


async def test_record_without_a_body_is_still_json(store: Any) -> None:
    await store.note([Record("stopped", {})])
    assert await bodies(store) == [{"ev": "stopped"}]


async def test_bad_record_hurts_its_caller_alone(store: Any) -> None:
    good = asyncio.ensure_future(store.note([record(None, "good")]))
    with pytest.raises(TypeError):
        await store.note([record(None, bad=object())])
    with pytest.raises(BrokenInvariantError):
        await store.note([record(None, op_n=1)])
    with pytest.raises(RecordTooLarge):
        await store.note([record(None, text="x" * 65_000)])
    await good
    assert [body["ev"] for body in await bodies(store)] == ["good"]


async def test_seal_now_closes_its_transaction_with_a_seal(store: Any) -> None:
    of = operation()
    await admit(store, of, seal_now=True)
    await store.change(change(of, seal_now=True))
    assert await kinds(store) == ["open", "data", "seal", "data", "seal"]


async def test_seal_signs_only_what_is_unsealed(store: Any) -> None:
    await store.seal()
    await store.seal()
    assert await kinds(store) == ["open", "seal"]


async def test_heartbeat_is_sealed(store: Any) -> None:
    await store.heartbeat()
    assert await kinds(store) == ["open", "heartbeat", "seal"]


async def test_without_a_log_records_are_refused_and_the_rest_is_taken(place: Place) -> None:
    store = await place.open(attached=False)
    with pytest.raises(Unavailable) as caught:
        await store.admit(admission(operation()))
    assert caught.value.audit
    await store.put_meta("quarantine", b"1", ())
    assert await store.meta("quarantine") == b"1"
    assert (await store.head(), await store.tail(5)) == (None, [])
    await attach(store)
    await admit(store, operation())


async def test_log_goes_on_where_the_stored_head_says(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    await store.close()
    again = await place.open()
    await end(again, of)
    assert await kinds(again) == ["open", "data", "close", "seal", "open", "data"]
    assert [body["op_n"] for body in await bodies(again)] == [0, 1]


async def test_prune_forgets_exported_frames_with_the_next_transaction(store: Any) -> None:
    for at in range(4):
        await store.note([record(None, f"e{at}")])
    await store.prune(2)
    await store.note([record(None, "e4")])
    assert [frame.seq for frame in await store.tail(10)] == [3, 4, 5]
    assert [frame.seq for frame in await store.tail(2)] == [3, 4]


async def test_prune_inside_the_frames_of_one_transaction_keeps_the_rest(place: Place, store: Any) -> None:
    await store.note([record(None, f"e{at}") for at in range(1, 6)])
    await store.prune(3)
    await store.note([record(None, "e6")])
    assert [frame.seq for frame in await store.tail(10)] == [4, 5, 6]
    assert [body["ev"] for body in await bodies(store)] == ["e4", "e5", "e6"]
    await store.close()
    again = await place.open(attached=False)
    assert [frame.seq for frame in await again.tail(10)] == [4, 5, 6, 7, 8]
    await again.prune(4)
    await again.note(())
    assert [frame.seq for frame in await again.tail(2)] == [5, 6]
    await again.prune(8)
    await again.note(())
    assert await again.tail(10) == []


async def test_frames_are_told_once_though_a_prune_cuts_their_row_between_two_pages(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.note([record(None, f"e{at}") for at in range(1, 6)])
    await store.note([record(None, "e6")])
    await store.prune(2)
    fetch, pages = store._fetch, []

    async def cut_after_the_first(statement: Any, values: Any) -> Any:
        rows = await fetch(statement, values)
        pages.append(rows)
        if len(pages) == 1:
            await store.note(())
        return rows

    monkeypatch.setattr(reading, "CHUNKS_MIN", 1)
    monkeypatch.setattr(store, "_fetch", cut_after_the_first)
    assert [frame.seq for frame in await store.tail(10)] == [3, 4, 5, 6]
    assert len(pages) > 1


async def test_change_that_was_refused_before_it_was_written_is_forgotten(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    place.points.arm(points.RULED, RuntimeError("no"))
    with pytest.raises(Unavailable):
        await store.change(change(of, "first", fence=9))
    assert (await store.change(change(of, "second", fence=1))).won
    assert (await store.get(of.id)).fence == 1
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "second"]


async def test_pruned_frames_are_not_shown_while_their_deletion_waits(store: Any) -> None:
    await store.note([record(None)])
    await store.prune(0)
    assert [frame.seq for frame in await store.tail(1)] == [1]
    await store.prune(1)
    assert await store.tail(1) == []


async def test_log_ends_before_the_store_so_that_its_end_can_be_exported(place: Place, store: Any) -> None:
    await store.note([record(None)])
    await store.close_log()
    assert (await kinds(store))[-2:] == ["close", "seal"]
    with pytest.raises(Unavailable) as caught:
        await store.note([record(None)])
    assert caught.value.audit
    await store.prune(3)
    await store.close()
    again = await place.open(attached=False)
    assert await again.tail(10) == []


async def test_frames_of_an_earlier_log_wait_beside_those_of_the_new_one(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    old_receipt = await store.receipt(of.id)
    await store.close()
    again = await place.open(origin="gw.example/audit/next")
    assert await again.receipt(of.id) == old_receipt
    frames: list[TailFrame] = list(await again.tail(10))
    assert [(frame.origin, frame.seq) for frame in frames] == [
        *((ORIGIN, seq) for seq in range(4)),
        ("gw.example/audit/next", 0),
    ]
    assert [frame.seq for frame in await again.tail(10, origin=ORIGIN)] == [0, 1, 2, 3]
    assert [frame.seq for frame in await again.tail(1, origin="gw.example/audit/next")] == [0]
    assert await again.tail(10, origin="gw.example/audit/never") == []
    await again.prune(3, ORIGIN)
    await again.prune(0, "gw.example/audit/never")
    await again.note(())
    assert [frame.origin for frame in await again.tail(10)] == ["gw.example/audit/next"]


# Lists


async def test_list_is_newest_first_in_pages(store: Any) -> None:
    several = [operation() for _ in range(5)]
    for one in several:
        await admit(store, one)
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.list(Filter(limit=2, cursor=cursor))
        seen += [one.id for one in page.operations]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [one.id for one in reversed(several)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(caller="agent-b"), "b"),
        (Filter(action="other"), "b"),
        (Filter(run="run-1"), "a"),
        (Filter(key="k"), "a"),
        (Filter(key="k", caller="agent-b"), ""),
        (Filter(states=("ready", "held")), "b"),
        (Filter(outcome="success"), "a"),
        (Filter(since_ms=START_MS + 10), "b"),
        (Filter(), "ba"),
        (Filter(limit=0), "b"),
    ],
)
async def test_list_filters(store: Any, wanted: Filter, found: str) -> None:
    a = operation(run="run-1", key="k")
    b = operation(caller="agent-b", action="other", created_ms=START_MS + 10)
    await admit(store, a)
    await admit(store, b)
    await end(store, a)
    names = {a.id: "a", b.id: "b"}
    assert "".join(names[one.id] for one in (await store.list(wanted)).operations) == found


async def test_cursor_that_is_none_is_an_error_of_the_caller(store: Any) -> None:
    with pytest.raises(ValueError, match="operation id"):
        await store.list(Filter(cursor="'; DROP TABLE operations"))


async def test_unsettled_are_all_but_final_ones_oldest_first(store: Any) -> None:
    several = [operation(state=state) for state in (State.READY, State.HELD, State.SENDING)]
    for one in several:
        await admit(store, one)
    await end(store, several[1])
    assert list(await store.unsettled()) == [several[0], several[2]]


async def test_counts_follow_every_change(place: Place, store: Any) -> None:
    several = [operation() for _ in range(3)]
    for one in several:
        await admit(store, one)
    await end(store, several[0])
    await end(store, several[1])
    assert {name: number for name, number in (await store.counts()).items() if number} == {"ready": 1, "succeeded": 2}
    await store.close()
    again = await place.open()
    await again.retire(START_MS + 10_000_000, 1)
    await admit(again, operation())
    assert {name: number for name, number in (await again.counts()).items() if number} == {"ready": 2, "succeeded": 1}


# Retention


async def test_retired_operation_leaves_its_names_and_nothing_else(store: Any) -> None:
    of = operation(key="k", fingerprint="f")
    await admit(store, of)
    await store.observe(of.id, {"seen": 1}, ())
    await end(store, of, payloads={PayloadKind.RESULT: b"r"})
    assert await store.retire(START_MS + 3_600_000, 10) == 1
    assert await store.get(of.id) is None
    assert await store.observations(of.id) == []
    assert await store.payload(of.id, PayloadKind.RESULT) is None
    again = Verdict(Ruling.REPLAY, expired_id=of.id)
    assert await admit(store, operation(key="k", fingerprint="f")) == again
    assert (await admit(store, operation(key="k", fingerprint="g"))).code is Code.KEY_REUSED
    assert await admit(store, operation(key="k", fingerprint="f", caller="agent-b")) == Verdict(Ruling.CREATE)


def lost(of: Operation, outcome: str | None = "success", *, executed: bool = True) -> LostOperation:
    return LostOperation(of.id, of.caller, of.action, of.fingerprint, of.key, outcome, executed)


async def test_a_lost_operation_with_personal_arguments_is_known_by_the_mark_that_the_log_carries(store: Any) -> None:
    forgotten = operation(fingerprint="mark")
    await store.bury([lost(forgotten)], (record(None, "operations_lost"),))
    again = operation(fingerprint="f")
    refused = await store.admit(admission(again, mark="mark"))
    assert refused.verdict.code is (await admit(store, operation(fingerprint="mark"))).code is not None
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.CREATE)


async def test_lost_operations_keep_their_names_once_and_over_a_new_start(place: Place, store: Any) -> None:
    stored, forgotten = operation(key="k0", fingerprint="f0"), operation(key="k", fingerprint="f")
    await admit(store, stored)
    before = len(await bodies(store))
    assert await store.bury([lost(stored), lost(forgotten)], (record(None, "operations_lost"),)) == 1
    assert await store.bury([lost(stored), lost(forgotten)], (record(None, "operations_lost"),)) == 0
    assert len(await bodies(store)) == before + 1
    again = store
    for at in range(2):
        again = store if at == 0 else await reopened(place, store)
        same = await admit(again, operation(key="k", fingerprint="f"))
        assert same == Verdict(Ruling.REPLAY, expired_id=forgotten.id)
        keyless = await admit(again, operation(fingerprint="f"))
        assert keyless == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, expired_id=forgotten.id)
        assert (await admit(again, operation(key="k", fingerprint="g"))).code is Code.KEY_REUSED
        theirs = operation(key=f"k{at + 1}", fingerprint="f", caller="agent-b")
        assert await admit(again, theirs) == Verdict(Ruling.CREATE)
        await end(again, theirs)
    assert await admit(again, operation(key="of its own", fingerprint="f")) == Verdict(Ruling.CREATE)


async def reopened(place: Place, store: Any) -> Any:
    await store.close()
    return await place.open()


async def test_what_was_lost_unsettled_is_refused_under_every_key_until_a_person_replaces_it(
    place: Place, store: Any
) -> None:
    forgotten = operation(key="k", fingerprint="f")
    await store.bury([lost(forgotten, None)], ())
    refused = Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, expired_id=forgotten.id)
    for key in ("k", "another", None):
        assert await admit(store, operation(key=key, fingerprint="f")) == refused
    theirs = operation(caller="ada", fingerprint="of ada", supersedes=forgotten.id)
    assert (await store.admit(admission(theirs))).verdict == Verdict(Ruling.CREATE)
    again = await reopened(place, store)
    assert await admit(again, operation(key="another", fingerprint="f")) == Verdict(Ruling.CREATE)
    once_more = operation(caller="ada", fingerprint="of ada, too", supersedes=forgotten.id)
    assert (await again.admit(admission(once_more))).verdict.code is Code.WRONG_STATE


async def test_what_was_lost_and_never_executed_keeps_its_key_only(store: Any) -> None:
    forgotten = operation(key="k", fingerprint="f")
    await store.bury([lost(forgotten, "error", executed=False)], ())
    assert (await admit(store, operation(key="k", fingerprint="f"))).expired_id == forgotten.id
    assert await admit(store, operation(fingerprint="f")) == Verdict(Ruling.CREATE)


async def test_a_key_that_something_newer_bears_stays_with_it(store: Any) -> None:
    first, second, newer = (operation(key=key, fingerprint=name) for key, name in (("k", "f"), ("k", "g"), ("l", "h")))
    await admit(store, newer)
    assert await store.bury([lost(first), lost(second), lost(operation(key="l", fingerprint="i"))], ()) == 3
    assert (await admit(store, operation(key="k", fingerprint="f"))).expired_id == first.id
    assert (await admit(store, operation(key="l", fingerprint="h"))).operation == newer


async def test_unsettled_and_recent_operations_are_not_retired(store: Any) -> None:
    await admit(store, operation())
    recent = operation()
    await admit(store, recent)
    await end(store, recent, at_ms=START_MS + 5_000)
    assert await store.retire(START_MS + 5_000, 10) == 0
    assert await store.retire(-1, 10) == 0


async def test_retiring_is_bounded_and_never_counts_twice(store: Any) -> None:
    for _ in range(5):
        of = operation()
        await admit(store, of)
        await end(store, of)
    first, second = await asyncio.gather(store.retire(START_MS + 9_000, 3), store.retire(START_MS + 9_000, 3))
    assert first == 3
    assert second <= 2
    while await store.retire(START_MS + 9_000, 3):
        pass
    assert (await store.list(Filter())).operations == ()


# Keys, credentials, named values


async def test_keys_are_listed_and_revoked_once(store: Any) -> None:
    one = StoredKey("k1", b"h" * 32, PrincipalKind.CALLER, "agent-a", "ann", START_MS)
    two = StoredKey("k2", b"i" * 32, PrincipalKind.PERSON, "ann", "ann", START_MS + 1, START_MS + 2)
    await store.put_key(two, [record(None, "key created")])
    await store.put_key(one, ())
    assert list(await store.keys()) == [one, two]
    assert await store.revoke_key("k1", START_MS + 9, [record(None, "key revoked")])
    assert not await store.revoke_key("k1", START_MS + 10, [record(None, "not said")])
    assert not await store.revoke_key("none", START_MS + 10, ())
    assert list(await store.keys()) == [replace(one, revoked_ms=START_MS + 9), two]
    assert [body["ev"] for body in await bodies(store)] == ["key created", "key revoked"]


async def test_credentials_are_replaced_and_removed(store: Any) -> None:
    one = StoredCredential("deploy", b"\x01\x02", {"kind": "bearer"}, START_MS)
    await store.put_credential(one, ())
    await store.put_credential(replace(one, ciphertext=b"\x03"), ())
    assert list(await store.credentials()) == [replace(one, ciphertext=b"\x03")]
    assert await store.remove_credential("deploy", ())
    assert not await store.remove_credential("deploy", ())
    assert list(await store.credentials()) == []


async def test_credential_put_again_in_the_batch_of_its_removal_is_there(store: Any) -> None:
    one = StoredCredential("deploy", b"\x01", {}, START_MS)
    await store.put_credential(one, ())
    await asyncio.gather(store.remove_credential("deploy", ()), store.put_credential(one, ()))
    assert list(await store.credentials()) == [one]


def subject(name: str, wrapped: bytes = b"w" * 60) -> StoredSubject:
    return StoredSubject(sha256(name.encode()).digest(), sha256(wrapped).digest(), wrapped)


async def test_a_person_has_one_key_and_its_record_names_it(store: Any) -> None:
    one = subject("ann")
    assert await store.put_subject(one, [record(None, "kept")])
    assert not await store.put_subject(subject("ann", b"x" * 60), [record(None, "not said")])
    assert await store.subject(one.handle) == await store.subject_of_tag(one.tag) == one
    assert await store.subject(b"h" * 32) is None
    assert [body["ev"] for body in await bodies(store)] == ["kept"]


async def test_an_erased_key_is_gone_and_the_log_says_so_under_a_seal_in_the_same_transaction(store: Any) -> None:
    one, two = subject("ann"), subject("bob", b"b" * 60)
    await store.put_subject(one, ())
    await store.put_subject(two, ())
    assert await store.erase_subject(one.handle, "operator", [record(None, "erased")]) == one.tag
    assert await store.erase_subject(one.handle, "operator", [record(None, "not said")]) is None
    assert await store.subject(one.handle) is None
    assert await store.subject(two.handle) == two
    frames = [orjson.loads(item.frame) for item in await store.tail(100)]
    assert [frame["kind"] for frame in frames][-3:] == ["data", "erasure", "seal"]
    assert frames[-2]["body"] == {"tag": one.tag.hex(), "by": "operator"}


async def test_who_comes_back_gets_a_new_key_even_in_the_batch_of_the_erasure(store: Any) -> None:
    old, new = subject("ann"), subject("ann", b"x" * 60)
    await store.put_subject(old, ())
    erased, put = await asyncio.gather(
        store.erase_subject(old.handle, "operator", [record(None, "erased")]), store.put_subject(new, ())
    )
    assert (erased, put) == (old.tag, True)
    assert await store.subject(old.handle) == new
    put, erased = await asyncio.gather(
        store.put_subject(subject("cat", b"c" * 60), ()),
        store.erase_subject(subject("cat").handle, "operator", [record(None, "erased")]),
    )
    assert (erased, put) == (subject("cat", b"c" * 60).tag, True)
    assert await store.subject(subject("cat").handle) is None


async def test_nothing_is_erased_that_the_log_could_not_say(store: Any) -> None:
    one = subject("ann")
    await store.put_subject(one, ())
    for by, said in (("operator", []), ("x" * 256, [record(None, "erased")])):
        with pytest.raises(BrokenInvariantError):
            await store.erase_subject(one.handle, by, said)
    await store.close_log()
    with pytest.raises(Unavailable):
        await store.erase_subject(one.handle, "operator", [record(None, "erased")])
    assert await store.subject(one.handle) == one


async def test_a_change_of_the_log_s_key_and_what_is_kept_of_it_are_one_transaction(place: Place) -> None:
    store, sealer = await place.open(attached=False), PlainSealer()
    await attach(store, sealer)

    def work(now_ms: int) -> tuple[Sequence[Any], dict[str, bytes]]:
        return [*sealer.seal(now_ms), *sealer.start(now_ms)], {"log_keys": b"second"}

    assert await store.rekey(work, [record(None, "changed")])
    assert await store.meta("log_keys") == b"second"
    frames = [orjson.loads(item.frame) for item in await store.tail(100)]
    assert [frame["kind"] for frame in frames] == ["open", "data", "seal", "open"]
    assert [body["ev"] for body in await bodies(store)] == ["changed"]
    # Two that meet in one transaction: the later one is turned away, whole. In two, both are made.
    said, not_said = [record(None, "once more")], [record(None, "and again")]
    first, second = await asyncio.gather(store.rekey(work, said), store.rekey(work, not_said))
    told = [body["ev"] for body in await bodies(store)]
    assert (first, second) == (True, told == ["changed", "once more", "and again"])
    opened = [item for item in await store.tail(100) if b'"open"' in item.frame]
    assert len(opened) == 1 + len(told)
    with pytest.raises(BrokenInvariantError):
        await store.rekey(work, [])
    await store.close_log()
    with pytest.raises(Unavailable):
        await store.rekey(work, not_said)


async def test_a_change_of_the_log_s_key_that_fails_ends_the_store_and_leaves_nothing(place: Place, store: Any) -> None:
    def broken(_now_ms: int) -> tuple[Sequence[Any], dict[str, bytes]]:
        raise ValueError("planted")

    with pytest.raises(StoreUnknown):
        await store.rekey(broken, [record(None, "changed")])
    await place.dead(store)
    assert await bodies(await place.open()) == []


async def test_key_put_and_revoked_in_one_batch_ends_as_the_last_call_says(store: Any) -> None:
    one = StoredKey("k1", b"h" * 32, PrincipalKind.CALLER, "agent-a", "ann", START_MS)
    _, revoked = await asyncio.gather(store.put_key(one, ()), store.revoke_key("k1", START_MS + 9, ()))
    assert revoked
    assert list(await store.keys()) == [replace(one, revoked_ms=START_MS + 9)]
    await store.put_key(one, ())
    await asyncio.gather(store.revoke_key("k1", START_MS + 9, ()), store.put_key(one, ()))
    assert list(await store.keys()) == [one]


async def test_named_values_are_set_and_removed(store: Any) -> None:
    await store.put_meta("quarantine", b"\x00", [record(None, "quarantined")])
    assert await store.meta("quarantine") == b"\x00"
    await store.put_meta("quarantine", None, ())
    assert await store.meta("quarantine") is None
    with pytest.raises(BrokenInvariantError):
        await store.put_meta("audit.head", b"", ())


# Room


async def test_without_room_nothing_new_is_admitted_and_outcomes_go_through(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    place.disk.free = 8000
    outcome = asyncio.ensure_future(store.change(ended(of)))
    with pytest.raises(Unavailable) as caught:
        await store.admit(admission(operation()))
    assert caught.value.audit
    assert (await outcome).won
    place.disk.free = 1 << 40
    await admit(store, operation())


# Ends


async def test_what_was_stored_is_there_after_opening_again(place: Place, store: Any) -> None:
    of = operation(key="k")
    await admit(store, of)
    await store.close()
    again = await place.open()
    assert await again.get(of.id) == of
    assert await admit(again, replace(of, id=new_id())) == Verdict(Ruling.JOIN, operation=of)


async def test_closed_store_takes_nothing_and_has_closed_its_log(place: Place, store: Any) -> None:
    delivered = operation()
    await admit(store, delivered)
    await store.mark_delivered(delivered.id)
    await store.close()
    await store.close()
    for call in (store.note(()), store.get(new_id()), store.mark_delivered(new_id())):
        with pytest.raises(Unavailable):
            await call
    again = await place.open(attached=False)
    assert (await kinds(again))[-2:] == ["close", "seal"]
    assert (await again.get(delivered.id)).delivered


async def test_what_was_submitted_before_the_close_is_finished_and_nothing_after_it(store: Any) -> None:
    before = [asyncio.ensure_future(store.admit(admission(operation()))) for _ in range(5)]
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await store.note([record(None)])
    await closing
    assert all(one.receipt for one in await asyncio.gather(*before))


async def test_cancelled_wait_cancels_nothing(store: Any) -> None:
    of = operation()
    waiting = asyncio.ensure_future(store.admit(admission(of)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.note(())
    assert await store.get(of.id) == of


@pytest.mark.parametrize("name", BEFORE)
async def test_failure_before_the_first_write_changes_nothing(place: Place, store: Any, name: str) -> None:
    of = operation()
    await admit(store, of)
    await store.mark_delivered(of.id)
    place.points.arm(name, sqlite3.OperationalError("disk I/O error"))
    with pytest.raises(Unavailable) as caught:
        await store.change(ended(of))
    assert not caught.value.audit
    assert store.failed is None
    assert (await store.change(ended(of))).won
    assert (await store.get(of.id)).delivered
    assert [body["ev"] for body in await bodies(store)] == ["admitted", "ended"]


@pytest.mark.parametrize("name", AFTER)
async def test_later_failure_is_unknown_and_ends_the_store(place: Place, store: Any, name: str) -> None:
    of = operation()
    await admit(store, of)
    place.points.arm(name, sqlite3.OperationalError("disk I/O error"))
    calls = (store.change(ended(of)), store.admit(admission(operation())), store.note(()))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(result) for result in results} == {StoreUnknown}
    await place.dead(store)
    for call in (store.note(()), store.get(of.id)):
        with pytest.raises((StoreUnknown, Unavailable)):
            await call
    again = await place.open()
    assert (await again.get(of.id)).final == (name in DURABLE)
    assert len(await bodies(again)) in {1, 2, 3}


@pytest.mark.parametrize("name", points.POINTS)
async def test_crash_leaves_a_whole_batch_or_none_of_it(place: Place, store: Any, name: str) -> None:
    of = operation()
    await admit(store, of)
    place.points.arm(name, Crash())
    fresh = [operation() for _ in range(3)]
    calls = [store.change(ended(of)), *(store.admit(admission(one)) for one in fresh)]
    waiting = [asyncio.ensure_future(call) for call in calls]
    await place.dead(store)
    for task in waiting:
        task.cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} <= {StoreUnknown, asyncio.CancelledError}
    again = await place.open()
    there = [(await again.get(of.id)).final, *[await again.get(one.id) is not None for one in fresh]]
    first = there[0]
    assert first == (name in DURABLE)
    assert len(await bodies(again)) == 1 + sum(there)
    # The thread may have begun before everything was submitted; what came later was in no batch.
    assert there == sorted(there, reverse=True)
    assert isinstance(place, ThreadedPlace) or there == [first] * 4


async def test_every_point_is_met_in_order(place: Place, store: Any) -> None:
    place.points.seen.clear()
    await store.note([record(None)])
    assert tuple(place.points.seen) == points.POINTS


async def test_another_data_key_reads_no_payload(place: Place, store: Any) -> None:
    of = operation()
    await admit(store, of)
    await store.close()
    place.cipher = DataKeyCipher(b"x" * 32, bytes)
    again = await place.open()
    with pytest.raises(CannotDecrypt):
        await again.payload(of.id, PayloadKind.REQUEST)


async def test_nothing_confidential_is_readable_in_the_files(place: Place, store: Any) -> None:
    secret = b"SaltwaterCanary" * 4
    of = operation()
    await admit(store, of, payloads=dict.fromkeys(PayloadKind, secret))
    await store.observe(of.id, {"body": secret.decode()}, ())
    found = [path.name for path in place.path.parent.iterdir() if b"SaltwaterCanary" in path.read_bytes()]
    assert found == []
    await store.close()
    assert b"SaltwaterCanary" not in place.path.read_bytes()
