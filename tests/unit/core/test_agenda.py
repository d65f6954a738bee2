"""What comes next for an operation, told by its state, its clocks and what was seen last."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.core.agenda import Act, Item, next_item
from gateway.core.events import DeadlinePassed, HeadSeen, Polled, Sighting
from gateway.model.evidence import Finding
from gateway.model.operation import State
from tests.unit.core.builders import BEGIN, STATE, T0, UNSENT, Story, action, operation
from tests.unit.core.stories import (
    HANDLE,
    accepted,
    fence_declared,
    fence_under_way,
    followed,
    looked_up,
    lost_lease,
    plain,
    repeating,
    unresolved,
)

ABSENT = Finding.ABSENT


def held() -> Story:
    return Story(action(), operation(state=State.HELD))


def by_state() -> Story:
    return Story(action(reconcile=STATE))


def _watched_handle() -> Story:
    return accepted().tell(DeadlinePassed(), after=400)


def _handle_gone() -> Story:
    story = _watched_handle()
    return story.tell(Polled(Sighting(ABSENT, "gone"), story.now.wall_ms))


def _watch_over() -> Story:
    story = unresolved()
    story.operation = replace(story.operation, watch_until_ms=story.now.wall_ms)
    return story.look(ABSENT)


TABLE: list[tuple[str, Callable[[], Story], float, Act]] = [
    ("waits for a person", held, 0, Act.NOTHING),
    ("fresh", plain, 0, Act.BEGIN),
    ("fresh, too late", plain, 3600, Act.DEADLINE),
    ("fresh, needs a baseline", by_state, 0, Act.BASELINE),
    ("needs a baseline, too late", by_state, 3600, Act.DEADLINE),
    ("unsent, a moment later", lambda: plain().send(UNSENT), 0, Act.WAIT),
    ("unsent, due", lambda: plain().send(UNSENT), 1, Act.BEGIN),
    ("unsent, deadline", lambda: plain().send(UNSENT), 300, Act.DEADLINE),
    ("repeat due", repeating, 1, Act.BEGIN),
    ("repeat, deadline", repeating, 300, Act.DEADLINE),
    ("under way", lambda: plain().tell(BEGIN), 19.9, Act.WAIT),
    ("lease over", lambda: plain().tell(BEGIN), 20, Act.LEASE_LOST),
    ("accepted, a moment later", accepted, 0, Act.WAIT),
    ("accepted, due", accepted, 1, Act.POLL),
    ("accepted, one look at the deadline itself", accepted, 400, Act.POLL),
    ("in doubt, due", lambda: looked_up().in_doubt(), 0.001, Act.PROBE),
    ("in doubt, looked", lambda: looked_up().in_doubt().look(ABSENT), 0, Act.WAIT),
    ("in doubt, one look at the deadline itself", lambda: looked_up().in_doubt(), 400, Act.PROBE),
    ("in doubt with a handle", lambda: lost_lease(followed()).tell(HeadSeen(1, HANDLE, None)), 0, Act.FOLLOW),
    ("a look found nothing, a fence is declared", lambda: fence_declared().in_doubt().look(ABSENT), 0, Act.FENCE),
    ("a fence is under way", fence_under_way, 1, Act.WAIT),
    ("a fence's lease is over", fence_under_way, 20, Act.FENCE),
    ("a fence is under way at the deadline", fence_under_way, 400, Act.DEADLINE),
    ("watched", unresolved, 0, Act.WAIT),
    ("watched, due", unresolved, 60, Act.PROBE),
    ("watched by its handle", _watched_handle, 60, Act.POLL),
    ("watched, its handle is gone", _handle_gone, 60, Act.PROBE),
    ("nothing to watch", lambda: plain().in_doubt(), 60, Act.NOTHING),
    ("watch over", _watch_over, 0, Act.NOTHING),
    ("succeeded", lambda: looked_up().in_doubt().look(Finding.EXECUTED_OK), 0, Act.NOTHING),
]


@pytest.mark.parametrize(("story", "later", "act"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_comes_next(story: Callable[[], Story], later: float, act: Act) -> None:
    told = story().wait(later)

    assert next_item(told.action, told.operation, told.now).act is act


def test_a_wait_says_until_when() -> None:
    story = plain().tell(BEGIN)

    assert next_item(story.action, story.operation, story.now) == Item(Act.WAIT, T0 + 20_000)


def test_doubt_without_any_way_to_look_waits_for_its_deadline() -> None:
    # Not reached by a step, but a definition that lost its look-up must not make the driver spin.
    story = looked_up().in_doubt()

    assert next_item(action(), story.operation, story.now) == Item(Act.WAIT, T0 + 300_000)
    assert next_item(action(), story.operation, story.wait(300).now) == Item(Act.DEADLINE)


def test_a_clock_that_stepped_back_means_waiting_and_nothing_else() -> None:
    story = looked_up().in_doubt().look(ABSENT)
    past = replace(story.now, wall_ms=story.now.wall_ms - 3_600_000)

    item = next_item(story.action, story.operation, past)

    assert item == Item(Act.WAIT, story.operation.next_ms)
