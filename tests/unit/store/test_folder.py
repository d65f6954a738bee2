import errno
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from gateway.store.lock import DataFolder, check_folder, open_private, why_not
from gateway.store.port import Refused
from gateway.store.sqlite import damage_refused
from gateway.store.threaded import Limits, Ports, SqlStore, database_path
from tests.unit.store.kit import START_MS, admission, attach, cipher, operation

PAGE_BYTES = 4096
SMALL = Limits(ballast_bytes=4096, reserve_bytes=0)


def ports() -> Ports:
    return Ports(cipher(), lambda: START_MS, lambda: 0.0)


def clock() -> int:
    return START_MS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


def test_folder_is_made_private(tmp_path: Path) -> None:
    DataFolder.open(tmp_path / "new", clock).close()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new" / "lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_folder_that_others_can_enter_is_refused_with_the_cure(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(Refused, match=f"chmod 0700 {folder}"):
        check_folder(folder)


def test_link_to_a_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(Refused, match="name the folder itself"):
        check_folder(tmp_path / "link")


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="cannot be made"):
        check_folder(tmp_path / "file")


def test_file_that_others_can_read_is_refused_with_the_cure(folder: Path) -> None:
    (folder / "gateway.db").touch(mode=0o600)
    (folder / "gateway.db").chmod(0o640)
    with pytest.raises(Refused, match="chmod 0600"):
        open_private(folder / "gateway.db")


def test_link_in_place_of_a_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch(mode=0o600)
    (folder / "gateway.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="Links are not followed"):
        open_private(folder / "gateway.db")


def test_links_are_told_of_only_where_one_was_met() -> None:
    assert why_not(OSError(errno.ELOOP, "Too many links")).endswith("Links are not followed here.")
    assert why_not(OSError(errno.EROFS, "Read-only")) == "Read-only. The gateway writes there: make its disk writable."
    assert why_not(OSError(errno.EMFILE, "Too many open files")) == "Too many open files."


def test_pipe_in_place_of_a_file_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "gateway.db", 0o600)
    with pytest.raises(Refused, match="not a plain file"):
        open_private(folder / "gateway.db")


def test_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(Refused, match="belongs to user id"):
        check_folder(folder)


def test_second_opening_in_the_same_process_is_refused_and_names_the_holder(folder: Path) -> None:
    held = DataFolder.open(folder, clock)
    with pytest.raises(
        Refused, match=rf"in use by another gateway .*pid {os.getpid()}, since \d{{4}}-\d\d-\d\dT[0-9:]{{8}}\+00:00"
    ):
        DataFolder.open(folder, clock)
    # The refused opening has closed its own descriptor; with record locks that would have freed the folder.
    with pytest.raises(Refused):
        DataFolder.open(folder, clock)
    held.close()
    held.close()
    DataFolder.open(folder, clock).close()


async def test_two_stores_on_one_folder_are_refused(folder: Path) -> None:
    store = await SqlStore.open(f"sqlite:///{folder}/gateway.db", ports(), SMALL)
    with pytest.raises(Refused, match="in use"):
        await SqlStore.open(f"sqlite:///{folder}/other.db", ports(), SMALL)
    await store.close()


async def test_every_file_of_a_store_is_private_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        store = await SqlStore.open(f"sqlite:///{folder}/gateway.db", ports(), SMALL)
        await attach(store)
        await store.admit(admission(operation()))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        await store.close()
    finally:
        os.umask(before)
    assert set(modes) == {"gateway.db", "gateway.db-wal", "gateway.db-shm", "lock", "ballast"}
    assert set(modes.values()) == {0o600}


async def test_refused_store_lets_go_of_the_folder(folder: Path) -> None:
    (folder / "gateway.db").write_bytes(b"no database" * 100)
    (folder / "gateway.db").chmod(0o600)
    with pytest.raises(Refused, match="cannot be opened as a database"):
        await SqlStore.open(f"sqlite:///{folder}/gateway.db", ports(), SMALL)
    DataFolder.open(folder, clock).close()


async def test_damaged_page_is_refused_in_words_and_lets_go_of_the_folder(folder: Path) -> None:
    url, file = f"sqlite:///{folder}/gateway.db", folder / "gateway.db"
    await (await SqlStore.open(url, ports(), SMALL)).close()
    whole = file.read_bytes()
    refusals = []
    for start in range(PAGE_BYTES, len(whole), PAGE_BYTES):
        file.write_bytes(whole[:start] + bytes(PAGE_BYTES) + whole[start + PAGE_BYTES :])
        # A page that the start does not read is found by whoever reads it; the others must not end in a traceback.
        try:
            await (await SqlStore.open(url, ports(), SMALL)).close()
        except Refused as refused:
            refusals.append(str(refused))
        for beside in ("gateway.db-wal", "gateway.db-shm"):
            (folder / beside).unlink(missing_ok=True)
    assert refusals
    assert all("cannot be opened as a database: database disk image is malformed" in said for said in refusals)
    assert all("put back a copy" in said for said in refusals)
    DataFolder.open(folder, clock).close()


def test_disk_that_fails_is_not_taken_for_a_damaged_file() -> None:
    with pytest.raises(Refused, match="disk is full, failing") as told, damage_refused(Path("x.db")):
        raise sqlite3.OperationalError("disk I/O error")
    assert "put back a copy" not in str(told.value)


async def test_store_says_what_durability_is_in_force(folder: Path) -> None:
    store = await SqlStore.open(f"sqlite:///{folder}/gateway.db", ports(), SMALL)
    assert store.durability == {"journal_mode": "wal", "synchronous": "full"}
    await store.close()


@pytest.mark.parametrize(
    "url", ["http://a:b:c", "postgresql://host/db", "sqlite://", "sqlite:///a.db?mode=ro", "nonsense"]
)
def test_address_that_is_no_sqlite_file_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="sqlite:////absolute"):
        database_path(url)


def test_address_of_a_file_is_made_absolute() -> None:
    assert database_path("sqlite:////var/lib/gw.db") == Path("/var/lib/gw.db")
    assert database_path("sqlite:///gw.db") == Path.cwd() / "gw.db"
