"""Whatever a seed brings, no claim is false, nothing is done twice, everything ends, and the log verifies."""

import pytest

from tests.model.cells import missing
from tests.model.seeds import run_seeds
from tests.model.simulation import Simulation

CHUNKS = 4
SEEDS_PER_CHUNK = 3000
SOAK_CHUNKS = 100
SOAK_SEEDS_PER_CHUNK = 10_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_shows_a_violation_and_every_cell_is_reached(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK

    tally = run_seeds(range(first, first + SEEDS_PER_CHUNK))

    assert not tally.failures, tally.failures[0]
    assert missing(tally.cells) == []


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(SOAK_CHUNKS))
def test_no_seed_of_a_million_shows_a_violation(chunk: int) -> None:
    first = 1_000_000 + chunk * SOAK_SEEDS_PER_CHUNK

    tally = run_seeds(range(first, first + SOAK_SEEDS_PER_CHUNK))

    assert not tally.failures, tally.failures[0]
    assert missing(tally.cells) == []


def test_the_same_seed_is_the_same_run() -> None:
    first, second = Simulation(11), Simulation(11)
    first.run()
    second.run()

    assert first.history.timeline() == second.history.timeline()
    assert first.history.sent == second.history.sent
