"""Reading a fence's answer, and when a fence may be tried at all."""

from dataclasses import replace

import pytest

from adapters.contract import Framing, Observation
from gateway.core.reconcile.fence import FENCES_MAX, fence_may_stand, fence_under_way, may_fence, read_fence
from gateway.model.action import Fence
from gateway.model.evidence import Evidence, Finding, Source
from gateway.model.operation import Attempt, Kind, Operation, Standing, State
from tests.unit.core.builders import FENCED, SETTLE, T0, TIMEOUT, action, answer, operation


@pytest.mark.parametrize(
    ("shown", "won"),
    [
        (answer(201), True),
        (answer(409), False),
        (answer(200), None),
        (answer(500), None),
        (TIMEOUT, None),
        (answer(201, body_complete=False), None),
        (answer(201, framing=Framing.UNTIL_CLOSE), None),
        (answer(201, contradictions=("the answer came before the request was fully written",)), None),
        (answer(409, body_complete=False), None),
    ],
)
def test_only_a_whole_answer_says_who_has_the_place(shown: Observation, won: bool | None) -> None:
    assert isinstance(FENCED.absence, Fence)
    assert read_fence(FENCED.absence, shown, {}) is won


def tried(*attempts: tuple[Kind, Standing], state: State = State.IN_DOUBT) -> Operation:
    items = [Attempt(n, kind, n, T0, 0, "boot-1", standing) for n, (kind, standing) in enumerate(attempts, 1)]
    return operation(state=state, attempts=tuple(items))


SENT = (Kind.SEND, Standing.DOUBT)
OPEN = (Kind.FENCE, Standing.OPEN)
SEEN = (Evidence(Source.PROBE, Finding.IN_PROGRESS, T0, "running"),)


@pytest.mark.parametrize(
    ("live", "may"),
    [
        (tried(SENT), True),
        (tried(SENT, (Kind.FENCE, Standing.DOUBT)), True),
        (tried(SENT, *[(Kind.FENCE, Standing.DOUBT)] * FENCES_MAX), False),
        (tried((Kind.SEND, Standing.UNSENT)), False),
        (tried(SENT, state=State.UNRESOLVED), False),
        (replace(tried(SENT), evidence=SEEN), False),
        (replace(tried(SENT), outward_id="thing-7"), False),
    ],
)
def test_when_a_fence_can_prove_something(live: Operation, may: bool) -> None:
    assert may_fence(action(reconcile=FENCED), live) is may
    assert not may_fence(action(reconcile=SETTLE), live)
    assert not may_fence(action(), live)


def test_a_fence_may_stand_unless_it_provably_never_left() -> None:
    assert not fence_may_stand(tried(SENT))
    assert not fence_may_stand(tried(SENT, (Kind.FENCE, Standing.UNSENT)))
    assert fence_may_stand(tried(SENT, OPEN))
    assert fence_under_way(tried(SENT, OPEN))
    assert not fence_under_way(tried((Kind.SEND, Standing.OPEN), (Kind.FENCE, Standing.DOUBT)))
