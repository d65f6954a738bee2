"""Fixtures of the scenarios: a gateway's home, and the service that keeps the ledger."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from audit.patience import PatientExporter
from fixtures.service.server import DeployService
from gateway.engine import log_opening
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


@pytest.fixture(autouse=True)
def unhurried_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the disk of the log a minute to answer a gateway in this process, where a user's has two seconds.

    On a busy machine those pass while the disk is well, and what comes next is refused (`audit_unavailable`). The
    tests whose subject that is have the short time back.
    """
    monkeypatch.setattr(log_opening, "PatientExporter", partial(PatientExporter, seconds=60.0))
