"""A turn of the writer: riders, refusals and ends reach whom they concern, whichever part of it fails."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.store import points, schema, sqlite
from gateway.store.items import Item, Note, PutMeta
from gateway.store.port import StoreUnknown, Unavailable
from gateway.store.turns import Turn, begin_turn, commit_turn, end_turn, settle, take_turn
from gateway.store.writer import Writer
from tests.contract.store.places import Trip
from tests.unit.store.kit import START_MS, cipher


def named(name: str) -> Item:
    return PutMeta(name, b"value")


@pytest.fixture
def trip() -> Trip:
    return Trip()


@pytest.fixture
def writer(tmp_path: Path, trip: Trip) -> Iterator[Writer]:
    driver = sqlite.open_writer(tmp_path / "store.db")
    schema.prepare(driver)
    made = Writer(sqlite.link_to(driver), cipher(), wall_ms=lambda: START_MS, room=lambda _: None, listener=trip)
    yield made
    made.close()


def stored(folder: Path) -> set[str]:
    with closing(sqlite3.connect(folder / "store.db")) as other:
        return {name for (name,) in other.execute("SELECT name FROM meta") if len(name) == 1}


def test_riders_go_along_and_have_no_reply(writer: Writer, tmp_path: Path) -> None:
    riders = deque([named("a"), named("b")])
    turn = take_turn(writer, riders, [named("c")])
    assert (turn.riders, turn.replies, turn.refusal, turn.failure) == (2, [None], None, None)
    assert not riders
    assert stored(tmp_path) == {"a", "b", "c"}


def test_what_is_begun_is_on_disk_only_after_its_commit(writer: Writer, tmp_path: Path) -> None:
    turn = begin_turn(writer, deque(), [named("a")])
    assert turn.commits
    assert stored(tmp_path) == set()
    commit_turn(writer, turn)
    assert stored(tmp_path) == {"a"}
    end_turn(writer, turn)
    assert turn.replies == [None]


def test_riders_of_a_batch_that_was_refused_wait_for_the_next_in_their_order(
    writer: Writer, trip: Trip, tmp_path: Path
) -> None:
    riders = deque([named("a"), named("b")])
    trip.arm(points.RULED, MemoryError())
    turn = take_turn(writer, riders, [named("c"), named("d")])
    assert isinstance(turn.refusal, Unavailable)
    assert turn.replies == [turn.refusal] * 2
    assert turn.failure is None
    assert [item.name for item in riders if isinstance(item, PutMeta)] == ["a", "b"]
    assert stored(tmp_path) == set()
    assert take_turn(writer, riders, [Note()]).failure is None
    assert stored(tmp_path) == {"a", "b"}


@pytest.mark.parametrize("place", [points.SEALED, points.WRITTEN, points.COMMITTED, points.REPLYING])
def test_after_the_sealer_was_used_every_failure_is_the_end_for_all(writer: Writer, trip: Trip, place: str) -> None:
    trip.arm(place, MemoryError())
    turn = take_turn(writer, deque([named("a")]), [named("b"), named("c")])
    assert turn.failure == "a transaction failed: MemoryError"
    assert [type(reply) for reply in turn.replies] == [StoreUnknown] * 2
    assert not turn.commits


def test_what_writes_nothing_has_nothing_to_commit(writer: Writer) -> None:
    turn = begin_turn(writer, deque(), [Note()])
    assert not turn.commits
    end_turn(writer, turn)
    assert turn.replies == [None]


async def test_who_was_cancelled_is_left_alone_and_the_others_are_told() -> None:
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(3)]
    waiting[0].cancel()
    settle(waiting, ["a", Unavailable("no"), "c"])
    assert waiting[0].cancelled()
    assert isinstance(waiting[1].exception(), Unavailable)
    assert waiting[2].result() == "c"


def test_a_turn_that_failed_fails_for_everybody() -> None:
    turn = Turn(3)
    turn.fail("the disk is gone")
    assert [str(reply) for reply in turn.replies] == ["the disk is gone"] * 3
