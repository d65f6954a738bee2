"""The transition table: every arrow an operation may take, as data. What is not listed is refused.

`core.lifecycle` decides which arrow to take; this table decides whether it exists. The diagram in gateway/README.md is
generated from here, so it cannot disagree with the code.
"""

from dataclasses import dataclass
from typing import Final

from gateway.model.operation import FINAL, State


@dataclass(frozen=True, slots=True)
class Arrow:
    """One permitted move. `when` says in words what must hold; the handlers in `core.lifecycle` enforce it."""

    source: State
    event: str
    target: State
    when: str


class IllegalMoveError(Exception):
    """The move is not in the table or its condition does not hold. The operation is unchanged."""

    def __init__(self, state: State, event: str, reason: str) -> None:
        """`reason` is a plain sentence for people."""
        super().__init__(f"{event} is not possible while {state.value}: {reason}")
        self.state = state
        self.event = event
        self.reason = reason


def _arrows(sources: str, event: str, target: str, when: str) -> tuple[Arrow, ...]:
    return tuple(Arrow(State(source), event, State(target), when) for source in sources.split())


def _loops(states: str, event: str, when: str) -> tuple[Arrow, ...]:
    return tuple(Arrow(State(state), event, State(state), when) for state in states.split())


ARROWS: Final[tuple[Arrow, ...]] = (
    *_arrows("ready", "begin", "sending", "in time, and repeat.py agrees for every attempt but the first"),
    *_arrows("held ready", "start_by", "cancelled", "never begun, and too late to start"),
    *_arrows("held ready", "cancel", "cancelled", "not ambiguous"),
    *_arrows("ready", "baseline", "ready", "the look before a first send whose success is proven by state"),
    *_arrows("ready", "restored", "in_doubt", "the store was restored: it may have been sent since"),
    *_arrows("ready", "repeat_refused", "in_doubt", "ambiguous, and a repeat is no longer allowed"),
    *_arrows("ready", "repeat_refused", "failed", "not ambiguous, and no attempt is left"),
    *_arrows("sending", "answer", "succeeded", "a whole answer that meets the success rule"),
    *_arrows("sending", "refused", "failed", "a definite refusal, and not ambiguous before this attempt"),
    *_arrows("sending", "failed", "failed", "a whole answer that says: carried out, and failed"),
    *_arrows("sending", "accepted", "accepted", "a handle on the service's own origin"),
    *_arrows("sending", "nothing_left", "ready", "no request byte left, and repeat.py agrees"),
    *_arrows("sending", "nothing_left", "failed", "no request byte left, and no attempt is left"),
    *_arrows("sending", "refused_before_work", "ready", "declared to come before any work, and repeat.py agrees"),
    *_arrows("sending", "refused_before_work", "failed", "declared to come before any work, and no repeat is allowed"),
    *_arrows("sending", "doubt", "in_doubt", "everything else: time-out, cut, contradiction, lost result"),
    *_arrows("sending", "restart", "in_doubt", "the process that sent it is dead"),
    *_arrows("sending", "lease_lost", "in_doubt", "the lease ran out and nothing was reported"),
    *_loops("ready sending accepted in_doubt unresolved", "head", "a handle or an id stood in the head of the answer"),
    *_arrows("in_doubt", "follow", "accepted", "a handle is stored"),
    *_arrows("accepted unresolved", "polled", "succeeded", "the handle says done"),
    *_arrows("accepted unresolved", "polled", "failed", "the handle says failed"),
    *_arrows("accepted", "handle_lost", "in_doubt", "the handle is gone (404, 410)"),
    *_arrows("accepted", "polled", "accepted", "in progress or inconclusive"),
    *_arrows("in_doubt unresolved", "found", "succeeded", "the look names our operation: executed"),
    *_arrows("in_doubt unresolved", "found", "failed", "the look names our operation: failed"),
    *_arrows("in_doubt unresolved", "absence", "failed", "conclusive absence, and no repeat is allowed"),
    *_arrows("in_doubt", "absence", "ready", "conclusive absence, and repeat.py agrees"),
    *_arrows("in_doubt", "looked", "in_doubt", "in progress, inconclusive, or absent but not yet conclusive"),
    *_arrows("in_doubt", "repeat_allowed", "ready", "repeat.py agrees: same value, same bytes"),
    *_arrows("in_doubt", "cleared", "failed", "no attempt is ambiguous any more, and no repeat is allowed"),
    *_arrows("in_doubt", "fence_begun", "in_doubt", "the place is about to be occupied; raises the fence"),
    *_arrows("in_doubt", "fence_seen", "in_doubt", "the fence's answer proves nothing, or the place was taken"),
    *_arrows("in_doubt unresolved", "fenced", "failed", "our fence holds the place"),
    *_loops("sending in_doubt unresolved", "cancel_begun", "a host's runner can fence or signal the command"),
    *_loops("sending in_doubt unresolved", "cancel_seen", "what the host answered; the end is its record's to tell"),
    *_arrows("in_doubt accepted ready", "deadline", "unresolved", "ambiguous at the recovery deadline"),
    *_arrows("in_doubt", "no_way_to_know", "unresolved", "neither handle, look-up, fence nor permitted repeat"),
    *_arrows("ready", "deadline", "failed", "not ambiguous at the recovery deadline"),
    *_arrows("ready accepted in_doubt sending", "read_over", "failed", "a read whose budget or deadline is out"),
    *_loops("ready accepted in_doubt unresolved", "restart", "a new owner takes it over"),
    *_loops("unresolved", "looked", "watched: nothing new"),
    *_loops("unresolved", "polled", "watched: nothing new"),
    *_arrows("unresolved", "attest", "succeeded", "a person settles it without proof"),
    *_arrows("unresolved", "attest", "failed", "a person settles it without proof"),
    *_loops("ready sending accepted in_doubt unresolved", "late", "an answer of an earlier attempt is kept"),
    *_arrows("ready sending accepted", "late", "succeeded", "an answer of an earlier attempt proves it"),
    *_arrows("in_doubt unresolved", "late", "succeeded", "an answer of an earlier attempt proves it"),
    *_arrows("unresolved", "late", "failed", "an answer of an earlier attempt clears the last doubt, or says: failed"),
    *_arrows("ready accepted in_doubt", "late", "failed", "an answer of an earlier attempt says: it failed"),
    *_loops("succeeded failed cancelled", "late", "appended, and an alarm if it contradicts"),
)

_TABLE: Final = frozenset((arrow.source, arrow.event, arrow.target) for arrow in ARROWS)


def permitted(source: State, event: str, target: State) -> bool:
    """Whether the table holds this arrow."""
    return (source, event, target) in _TABLE


def diagram() -> str:
    """The table as a Mermaid state diagram, one line per pair of states, loops left out."""
    events: dict[tuple[State, State], list[str]] = {}
    for arrow in ARROWS:
        if arrow.source is not arrow.target:
            names = events.setdefault((arrow.source, arrow.target), [])
            if arrow.event not in names:
                names.append(arrow.event)
    lines = ["stateDiagram-v2", "    [*] --> ready: admit"]
    lines += [f"    {pair[0].value} --> {pair[1].value}: {', '.join(names)}" for pair, names in events.items()]
    lines += [f"    {state.value} --> [*]" for state in State if state in FINAL]
    return "\n".join(lines) + "\n"
