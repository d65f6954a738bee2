"""Whatever a seed brings, no claim is false, nothing is done twice, everything ends, and the log verifies."""

import sqlite3

import pytest

from tests.model import seeds
from tests.model.cells import missing
from tests.model.checker import Violation
from tests.model.medium import USER_TABLES, ReusedMedium
from tests.model.seeds import run_seeds
from tests.model.simulation import Simulation

CHUNKS = 5
SEEDS_PER_CHUNK = 4000
SOAK_CHUNKS = 100
SOAK_SEEDS_PER_CHUNK = 10_000


@pytest.mark.timeout(900)
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


def test_the_same_seed_is_the_same_run_on_a_fresh_database_and_on_one_that_served_before() -> None:
    first, before, second = Simulation(49), Simulation(12), Simulation(49)
    first.run()
    before.run()
    database = before.medium.connect()
    before.medium.give_back()
    second.run()

    assert second.medium.connect() is database
    assert first.medium.connect() is not database
    assert first.history.timeline() == second.history.timeline()
    assert first.history.sent == second.history.sent


def test_a_database_that_is_given_back_holds_no_row() -> None:
    world = Simulation(11)
    world.run()
    database = world.medium.connect()
    world.medium.give_back()

    names = [name for (name,) in database.execute(USER_TABLES)]

    assert "operations" in names
    assert [name for name in names if database.execute(f'SELECT 1 FROM "{name}"').fetchone()] == []


def test_a_database_ends_with_its_medium_unless_it_was_given_back() -> None:
    kept, given = ReusedMedium(), ReusedMedium()
    closed, open_still = kept.connect(), given.connect()
    given.give_back()

    del kept, given

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        closed.execute("SELECT 1")
    assert open_still.execute("SELECT 1").fetchone() == (1,)


def test_a_failing_seed_names_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "check", lambda _world: [Violation("S0 planted")])

    tally = run_seeds([3, 4])

    assert tally.seeds == 1
    assert tally.failures[0].endswith("python -m tests.model --seed 3")
