"""Reading the answer of a fence: did we occupy the place, or was it taken?"""

from collections.abc import Mapping
from typing import Any

from adapters.contract import Observation
from gateway.core.matching import answer_of, matches
from gateway.model.action import Fence


def read_fence(fence: Fence, observation: Observation, variables: Mapping[str, Any]) -> bool | None:
    """True: won. False: taken, and a look must tell by whom, for it may be our own earlier fence. None: not known."""
    if not observation.answered:
        return None
    answer = answer_of(observation)
    if matches(fence.won, answer, variables):
        return True
    return False if matches(fence.lost, answer, variables) else None
