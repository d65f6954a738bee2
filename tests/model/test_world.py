"""Against a service that knows the truth, no claim of the core is ever false, and every operation comes to an end."""

from collections import Counter
from random import Random

import pytest

from gateway.core.agenda import Act, next_item
from tests.model.world import ACTIONS, World, search

SEEDS = 120
REACHED = {
    "plain": {"answer", "unsent", "unresolved"},
    "looked_up": {"answer", "probe", "unresolved"},
    "settled": {"answer", "probe", "absence"},
    "on_absence": {"answer", "probe", "absence"},
    "same_key": {"answer", "probe", "unresolved"},
    "same_key_blind": {"answer", "unresolved"},
    "fence": {"answer", "probe", "fence"},
    "accepted": {"answer", "probe", "handle", "absence", "unresolved"},
    "state": {"answer", "state", "absence"},
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_no_history_shows_a_false_claim_a_second_effect_or_no_end(kind: str) -> None:
    assert search([kind], SEEDS) is None


@pytest.mark.parametrize("kind", ACTIONS)
def test_histories_reach_every_kind_of_end(kind: str) -> None:
    # A world that meets nothing proves nothing.
    ends: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = World(kind, Random(f"ends-{kind}-{seed}")).run()
        ends[world.story.operation.basis or world.story.state.value] += 1
        assert next_item(world.story.action, world.story.operation, world.story.now).act is Act.NOTHING

    assert set(ends) >= REACHED[kind]
