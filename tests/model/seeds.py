"""Runs of many seeds: what they reached, and the story of the first that shows a violation."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import pytest

from audit import ledger, note
from audit.keyring import signature_fits
from tests.model.checker import check, story
from tests.model.simulation import Simulation


@dataclass(slots=True)
class Tally:
    """What a run of seeds adds up to."""

    seeds: int = 0
    operations: int = 0
    effects: int = 0
    settled: int = 0
    left: int = 0
    """Unresolved operations that no evidence could settle."""
    seconds: float = 0.0
    """Of virtual time."""
    cells: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run_seeds(seeds: Iterable[int], *, failures_max: int = 1) -> Tally:
    """Run and check each; stop at `failures_max` stories."""
    tally = Tally()
    with _rare_sweeps(), _signatures_remembered():
        for seed in seeds:
            _run_one(seed, tally)
            if len(tally.failures) >= failures_max:
                break
    return tally


@contextmanager
def _rare_sweeps() -> Iterator[None]:
    """What is there already stays; what a seed leaves behind is collected in few large sweeps."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _signatures_remembered() -> Iterator[None]:
    """The same checkpoint is read again by publisher and verifier: same key, signature and text, same answer."""
    fits = lru_cache(maxsize=1024)(signature_fits)
    with pytest.MonkeyPatch.context() as patch:
        for reader in (note, ledger):
            patch.setattr(reader, "signature_fits", fits)
        yield


def _run_one(seed: int, tally: Tally) -> None:
    world = Simulation(seed)
    try:
        history = world.run()
        found = check(world)
    except Exception as error:
        error.add_note(f"python -m tests.model --seed {seed}")
        raise
    tally.seeds += 1
    tally.operations += len(history.kind_of)
    tally.effects += len(history.effects)
    tally.seconds += world.loop.now
    left = history.cells["end: unresolved by None"]
    tally.left += left
    tally.settled += len(history.kind_of) - left
    tally.cells.update(history.cells)
    if found:
        tally.failures.append(story(world, found))
    world.medium.give_back()
