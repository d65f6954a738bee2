"""Every arrow of the table is reached by a story, every other pair of state and event is refused."""

import re
from dataclasses import replace

import pytest

from gateway.core import draft
from gateway.core.events import (
    BaselineTaken,
    Cancelled,
    CancelObserved,
    DeadlinePassed,
    Event,
    FenceObserved,
    Followed,
    HeadSeen,
    LeaseLost,
    Observed,
    Polled,
    Probed,
    Restarted,
    Sighting,
)
from gateway.core.lifecycle import step
from gateway.core.transitions import ARROWS, IllegalMoveError, diagram, permitted
from gateway.model.evidence import Finding
from gateway.model.operation import FINAL, State
from tests.unit.core.builders import BEGIN, FENCE, T0, TIMEOUT, Story, action, operation
from tests.unit.core.stories import ATTEST_ERROR, CANCEL, HANDLE, STORIES

Moves = list[tuple[str, str, str]]
TABLE = [(arrow.source.value, arrow.event, arrow.target.value) for arrow in ARROWS]


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> Moves:
    """Every arrow that is taken while the test runs."""
    taken: Moves = []

    def recorded(source: State, event: str, target: State) -> bool:
        allowed = permitted(source, event, target)
        if allowed:
            taken.append((source.value, event, target.value))
        return allowed

    monkeypatch.setattr(draft, "permitted", recorded)
    return taken


def test_every_arrow_has_a_story_and_every_story_its_arrow() -> None:
    assert set(STORIES) == set(TABLE)
    assert len(TABLE) == len(set(TABLE))


@pytest.mark.parametrize("arrow", TABLE, ids=" ".join)
def test_the_story_takes_its_arrow(arrow: tuple[str, str, str], moves: Moves) -> None:
    story = STORIES[arrow]()

    assert arrow in moves
    assert story.operation.version == len(story.steps)


def test_no_arrow_leaves_a_final_state_and_none_leads_from_unresolved_to_ready() -> None:
    left = {(arrow.source, arrow.target) for arrow in ARROWS}

    assert {target for source, target in left if source in FINAL and target is not source} == set()
    assert (State.UNRESOLVED, State.READY) not in left


def test_every_arrow_says_what_must_hold() -> None:
    assert all(len(arrow.when) > 10 for arrow in ARROWS)


_LOOK = Sighting(Finding.INCONCLUSIVE, "503")
_EVENTS: dict[str, Event] = {
    "begin": BEGIN,
    "observed": Observed(1, TIMEOUT, {}),
    "head": HeadSeen(1, HANDLE, None),
    "restarted": Restarted(),
    "lease_lost": LeaseLost(),
    "followed": Followed(),
    "probed": Probed(_LOOK, T0, 0),
    "polled": Polled(_LOOK, T0),
    "baseline": BaselineTaken(_LOOK, T0),
    "fence_begun": FENCE,
    "fence_observed": FenceObserved(1, TIMEOUT, None),
    "cancel_begun": CANCEL,
    "cancel_observed": CancelObserved(1, TIMEOUT, None),
    "deadline": DeadlinePassed(),
    "cancelled": Cancelled("agent"),
    "attested": ATTEST_ERROR,
}
_PLACES: dict[str, Story] = {
    "held": Story(action(), operation(state=State.HELD)),
    "ready": Story(action()),
    "sending": STORIES["ready", "begin", "sending"](),
    "accepted": STORIES["sending", "accepted", "accepted"](),
    "in_doubt": STORIES["sending", "doubt", "in_doubt"](),
    "unresolved": STORIES["in_doubt", "deadline", "unresolved"](),
    "succeeded": STORIES["sending", "answer", "succeeded"](),
    "failed": STORIES["sending", "refused", "failed"](),
    "cancelled": STORIES["ready", "cancel", "cancelled"](),
}
_TAKEN = {
    "held": {"cancelled"},
    "ready": {"begin", "restarted", "baseline", "cancelled"},
    "sending": {"observed", "head", "restarted", "lease_lost"},
    "accepted": {"restarted", "polled"},
    "in_doubt": {"restarted", "probed"},
    "unresolved": {"restarted", "probed", "polled", "attested"},
    "succeeded": {"probed"},
    "failed": {"probed"},
    "cancelled": {"probed"},
}


@pytest.mark.parametrize("event", _EVENTS)
@pytest.mark.parametrize("place", _PLACES)
def test_an_event_that_does_not_fit_is_refused_and_changes_nothing(place: str, event: str) -> None:
    story = _PLACES[place]
    before = replace(story.operation)

    if event in _TAKEN[place]:
        assert step(story.action, story.operation, _EVENTS[event], story.now).operation.version == before.version + 1
    else:
        with pytest.raises(IllegalMoveError) as refused:
            step(story.action, story.operation, _EVENTS[event], story.now)
        assert refused.value.state.value == place
        assert re.fullmatch(r"\w+ is not possible while \w+: .+", str(refused.value))
    assert story.operation == before


def test_the_diagram_is_drawn_from_the_table() -> None:
    text = diagram()

    assert text.startswith("stateDiagram-v2\n    [*] --> ready: admit\n")
    assert "    ready --> sending: begin\n" in text
    assert "    succeeded --> [*]\n" in text
    for arrow in ARROWS:
        assert arrow.source is arrow.target or f"    {arrow.source.value} --> {arrow.target.value}: " in text
