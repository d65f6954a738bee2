"""The workshop as a fixture."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.engine.workshop import Workshop, open_workshop


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    made = await open_workshop()
    yield made
    await made.close()
