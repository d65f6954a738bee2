"""Fixtures of the scenarios: a gateway's home, and the service that keeps the ledger."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.service.server import DeployService
from tests.scenario.kit import Home


@pytest.fixture(scope="session")
def first_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.found(tmp_path_factory.mktemp("found") / "home")


@pytest.fixture
def home(first_home: Home, tmp_path: Path) -> Home:
    """A gateway of this test's own."""
    return first_home.copy_to(tmp_path / "home")


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[DeployService]:
    async with DeployService(tmp_path / "ledger") as running:
        yield running
