"""A founded folder, a service with a ledger, and a running gateway; whatever it says is searched for its secrets."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fixtures.service.server import DeployService
from tests.canary import Canaries
from tests.unit.surfaces.door import Door, Home, found_in, open_door


@pytest.fixture(scope="session")
def first_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = found_in(tmp_path_factory.mktemp("founded") / "home")
    return Home(made.config.parent, made.caller_key, made.person_key)


@pytest.fixture
def home(first_home: Home, tmp_path: Path, canaries: Canaries) -> Iterator[Home]:
    """A folder of this test's own. Its keys must not be found in what the gateway wrote or said."""
    mine = first_home.copy_to(tmp_path / "home")
    canaries.watch_secret("caller key", mine.caller_key)
    canaries.watch_secret("person key", mine.person_key)
    yield mine
    canaries.watch_folder(mine.folder / "data")
    canaries.watch_text(b"\n".join(mine.heard), "answers and log")
    said = b"\n".join(mine.heard)
    assert b"Traceback" not in said


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[DeployService]:
    async with DeployService(tmp_path / "ledger") as running:
        yield running


@pytest.fixture
async def door(home: Home, service: DeployService) -> AsyncIterator[Door]:
    async with open_door(home, service) as opened:
        yield opened
