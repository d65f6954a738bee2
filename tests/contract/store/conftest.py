"""Every test runs on each kind of store."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.store.inloop import Medium
from tests.contract.store.places import PLACES, Place


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
