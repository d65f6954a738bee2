"""A fence: may it be tried, and did it occupy the place, or was it taken?"""

from collections.abc import Mapping
from typing import Any

from adapters.contract import Observation
from gateway.core.matching import answer_of, matches
from gateway.core.reconcile.absence import known_to_service
from gateway.model.action import Action, Fence
from gateway.model.operation import AMBIGUOUS_STANDINGS, Kind, Operation, Standing, State

FENCES_MAX = 5
"""A fence may be tried again (it is a put-if-absent under our own name), but not for ever."""

_PLACES = frozenset({Kind.FENCE, Kind.CANCEL})


def read_fence(fence: Fence, observation: Observation, variables: Mapping[str, Any]) -> bool | None:
    """True: won. False: taken, and a look must tell by whom, for it may be our own earlier fence. None: not known."""
    if not observation.answered:
        return None
    answer = answer_of(observation)
    if matches(fence.won, answer, variables):
        return True
    return False if matches(fence.lost, answer, variables) else None


def may_fence(action: Action, operation: Operation) -> bool:
    """Whether occupying the place now can prove that nothing ran.

    Once the service has known the operation, an empty place may mean "removed since", so a fence would prove nothing.
    """
    reconcile = action.reconcile
    return (
        reconcile is not None
        and isinstance(reconcile.absence, Fence)
        and operation.state is State.IN_DOUBT
        and any(item.standing in AMBIGUOUS_STANDINGS for item in operation.sends)
        and sum(1 for item in operation.attempts if item.kind is Kind.FENCE) < FENCES_MAX
        and place_speaks(action, operation)
    )


def place_speaks(action: Action, operation: Operation) -> bool:
    """Whether an empty place proves that nothing ran: not where the service has known the operation before.

    Each step of a job has a place of its own, and one that was ever filled and is empty now contradicts itself
    (`core.steps.merged`); that other steps were seen at work says nothing about it.
    """
    return not operation.contradicted if action.steps else not known_to_service(operation)


def fence_may_stand(operation: Operation) -> bool:
    """Whether a fence of ours may occupy the place; a cancel places one where nothing has begun."""
    return any(item.kind in _PLACES and item.standing is not Standing.UNSENT for item in operation.attempts)


def fence_under_way(operation: Operation) -> bool:
    """Whether a fence was begun and has shown nothing yet."""
    return any(item.kind is Kind.FENCE and item.standing is Standing.OPEN for item in operation.attempts)
