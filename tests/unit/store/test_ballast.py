import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.store import points
from gateway.store.ballast import LEAST_BYTES, NO_ROOM, Ballast, FolderDisk, need_bytes
from gateway.store.items import Admit, Alter, Item, Note, Observe
from gateway.store.port import PayloadKind, Unavailable
from gateway.store.records import drafts
from gateway.store.threaded import Limits, Ports, SqlStore
from tests.unit.store.kit import START_MS, admission, attach, change, cipher, ended, operation, record

MIB = 1024 * 1024
SIZE, RESERVE = 2 * MIB, 4 * MIB


class Disk:
    """So much space besides the ballast."""

    def __init__(self, folder: Path, besides: int) -> None:
        self.path = folder / "ballast"
        self.besides = besides

    def free_bytes(self) -> int:
        held = self.path.stat().st_size if self.path.exists() else 0
        return self.besides - held


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


def admits() -> Sequence[Item]:
    return [Admit(admission(operation()))]


def outcome(size: int = 10) -> Sequence[Item]:
    return [Alter(change(operation(), payloads={PayloadKind.RESULT: bytes(size)}))]


def ballast(folder: Path, disk: Any) -> Ballast:
    return Ballast(folder, disk, size_bytes=SIZE, reserve_bytes=RESERVE)


def test_ballast_is_real_bytes(folder: Path) -> None:
    assert ballast(folder, Disk(folder, 100 * MIB)).held
    status = (folder / "ballast").stat()
    assert status.st_size == SIZE
    assert status.st_blocks * 512 >= SIZE


def test_with_space_for_everything_there_is_room(folder: Path) -> None:
    kept = ballast(folder, Disk(folder, 100 * MIB))
    assert kept.room(admits()) is None
    assert kept.shortage() is None


def test_below_the_reserve_nothing_new_is_admitted_and_the_ballast_is_kept(folder: Path) -> None:
    disk = Disk(folder, 100 * MIB)
    kept = ballast(folder, disk)
    disk.besides = SIZE + RESERVE - 1
    assert kept.room(admits()) == kept.shortage() == NO_ROOM
    assert kept.room(outcome()) is None
    assert kept.held


def test_outcome_that_would_not_fit_gets_the_ballast(folder: Path) -> None:
    disk = Disk(folder, 100 * MIB)
    kept = ballast(folder, disk)
    disk.besides = SIZE
    kept.room(outcome())
    assert not kept.held
    assert (folder / "ballast").stat().st_size == 0
    assert disk.free_bytes() == SIZE > need_bytes(outcome())
    assert kept.room(admits()) == kept.shortage() == NO_ROOM


def test_ballast_is_taken_again_when_space_returns(folder: Path) -> None:
    disk = Disk(folder, 100 * MIB)
    kept = ballast(folder, disk)
    disk.besides = SIZE
    kept.room(outcome())
    disk.besides = SIZE + RESERVE - 1
    assert kept.room(admits()) == NO_ROOM
    disk.besides = SIZE + RESERVE
    assert kept.shortage() is None
    assert kept.room(admits()) is None
    assert kept.held


def test_disk_that_fills_while_the_ballast_is_written_leaves_no_half(folder: Path, monkeypatch: Any) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    kept = ballast(folder, Disk(folder, 100 * MIB))
    assert not kept.held
    assert (folder / "ballast").stat().st_size == 0
    assert kept.room(admits()) == NO_ROOM


def test_start_on_a_full_disk_gives_the_ballast_up(folder: Path) -> None:
    disk = Disk(folder, 100 * MIB)
    ballast(folder, disk)
    disk.besides = SIZE
    assert not ballast(folder, disk).held


SMALL = SIZE + RESERVE - 1
"""Of a disk that has no space for the ballast beside the reserve, and never will have."""


def test_on_a_disk_too_small_for_it_a_part_is_kept_and_given_up_to_start_once_that_is_full(folder: Path) -> None:
    disk = Disk(folder, SMALL)
    kept = ballast(folder, disk)
    assert (kept.held, (folder / "ballast").stat().st_size) == (False, LEAST_BYTES)
    assert kept.room(admits()) == kept.shortage() == NO_ROOM
    assert kept.room(outcome()) is None

    disk.besides = LEAST_BYTES
    assert disk.free_bytes() == 0
    again = ballast(folder, disk)
    assert disk.free_bytes() == LEAST_BYTES > 2 * need_bytes(outcome())
    assert again.room(admits()) == again.shortage() == NO_ROOM
    assert again.room(outcome()) is None
    # Where little is free it is left free.
    assert (folder / "ballast").stat().st_size == 0

    disk.besides = SMALL
    assert again.room(admits()) == NO_ROOM
    assert (folder / "ballast").stat().st_size == LEAST_BYTES
    disk.besides = SIZE + RESERVE
    assert again.room(admits()) is again.shortage() is None
    assert (folder / "ballast").stat().st_size == SIZE


def test_a_part_of_it_is_given_up_for_an_outcome_as_well(folder: Path) -> None:
    disk = Disk(folder, SMALL)
    kept = ballast(folder, disk)
    disk.besides = LEAST_BYTES
    kept.room(outcome())

    assert (disk.free_bytes(), (folder / "ballast").stat().st_size) == (LEAST_BYTES, 0)


def test_ballast_of_another_size_is_made_anew(folder: Path) -> None:
    disk = Disk(folder, 100 * MIB)
    Ballast(folder, disk, size_bytes=MIB, reserve_bytes=0)
    assert ballast(folder, disk).held
    assert (folder / "ballast").stat().st_size == SIZE


def test_need_grows_with_what_is_written() -> None:
    of = operation()
    small = need_bytes([])
    large = {PayloadKind.RESULT: bytes(MIB)}
    assert need_bytes(outcome(MIB)) - need_bytes(outcome(0)) == 3 * MIB
    assert need_bytes([Admit(admission(of, payloads=large))]) > small + 3 * MIB
    assert need_bytes([Observe(of.id, bytes(MIB))]) == small + 3 * MIB
    assert need_bytes([Note(drafts=drafts([record(of, text="x" * 60_000)]))]) > small + 180_000


def test_free_space_is_that_of_the_file_system(folder: Path) -> None:
    assert FolderDisk(folder).free_bytes() > 0


class Where:
    """On which thread the last batch was ruled on."""

    def __init__(self) -> None:
        self.thread = 0

    def hit(self, name: str) -> None:
        if name == points.RULED:
            self.thread = threading.get_ident()


async def test_store_recovers_without_a_restart_and_without_the_loop(folder: Path) -> None:
    disk, where = Disk(folder, 100 * MIB), Where()
    ports = Ports(cipher(), lambda: START_MS, lambda: 0.0, points=where, disk=disk)
    store = await SqlStore.open(f"sqlite:///{folder}/gateway.db", ports, Limits(SIZE, RESERVE))
    await attach(store)
    of = operation()
    await store.admit(admission(of))
    disk.besides = SIZE
    assert (await store.change(ended(of))).won
    assert (folder / "ballast").stat().st_size == 0
    with pytest.raises(Unavailable) as caught:
        await store.admit(admission(operation()))
    assert caught.value.audit
    assert store.room() == NO_ROOM
    disk.besides = 100 * MIB
    assert store.room() is None
    assert (await store.admit(admission(operation()))).receipt is not None
    assert (folder / "ballast").stat().st_size == SIZE
    # Writing the ballast takes long; whoever waits for nothing of the store must not wait for that.
    assert where.thread != threading.get_ident()
    assert (await store.admit(admission(operation()))).receipt is not None
    assert where.thread == threading.get_ident()
    await store.close()


async def test_a_store_on_a_small_disk_starts_once_that_is_full_and_settles_what_it_has(folder: Path) -> None:
    disk = Disk(folder, 100 * MIB)
    ports, url = Ports(cipher(), lambda: START_MS, lambda: 0.0, disk=disk), f"sqlite:///{folder}/gateway.db"
    store = await SqlStore.open(url, ports, Limits(SIZE, RESERVE))
    await attach(store)
    of = operation()
    await store.admit(admission(of))
    await store.close()
    # The same folder, moved to a disk where little else has space; then something fills it.
    (folder / "ballast").unlink()
    disk.besides = SMALL
    await (await SqlStore.open(url, ports, Limits(SIZE, RESERVE))).close()
    disk.besides = LEAST_BYTES
    assert disk.free_bytes() == 0

    store = await SqlStore.open(url, ports, Limits(SIZE, RESERVE))
    await attach(store)
    assert disk.free_bytes() == LEAST_BYTES
    with pytest.raises(Unavailable) as caught:
        await store.admit(admission(operation()))
    assert caught.value.reason == store.room() == NO_ROOM
    (left,) = await store.unsettled()
    assert (await store.change(ended(left))).won
    assert await store.unsettled() == []
    await store.close()
