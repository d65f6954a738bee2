"""Identity rules 4 to 8: is a submission new, the same one again, or a repeat that must be refused?

Pure: the store finds the rivals and asks here inside the writing transaction, so that two submissions at once meet the
same answer. The unique indexes of the store stand behind these rules, not instead of them.
"""

from dataclasses import dataclass
from enum import StrEnum

from gateway.core.ids import is_minted
from gateway.model.operation import Executed, Operation
from gateway.model.problem import Code


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is kept of an operation after its retention: its names, so that a key is never quietly used again."""

    operation_id: str
    fingerprint: str
    outcome: str | None
    lost: bool = False
    """Not retired but lost with a restored store; the audit log alone knows of it, and it may have been executed."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """Earlier operations that a candidate may be a repeat of. Superseded operations are no rivals."""

    same_key: Operation | Tombstone | None = None
    """Same caller, action and key, in any state."""
    same_fingerprint: Operation | None = None
    """Unsettled, same caller and fingerprint."""
    same_conflict_key: Operation | None = None
    """Unsettled, of anyone."""
    lost: Tombstone | None = None
    """Lost with a restored store, same caller and fingerprint."""
    last_final: Operation | None = None
    """The newest final one with the same caller and fingerprint that may have been executed."""


class Ruling(StrEnum):
    """What becomes of a submission."""

    CREATE = "create"
    JOIN = "join"
    """The same operation, still unsettled: the caller is joined to it."""
    REPLAY = "replay"
    """The same operation, final: its stored outcome is the answer."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ruling and the earlier operation it rests on."""

    ruling: Ruling
    code: Code | None = None
    operation: Operation | None = None
    expired_id: str | None = None
    """Set when only a tombstone is left of the operation that the ruling rests on."""


def decide(candidate: Operation, rivals: Rivals, *, repeat_window_ms: int, is_read: bool) -> Verdict:
    """Rule on one candidate. The order matters: a key speaks first, then the arguments, then the conflict key."""
    if rivals.same_key is not None:
        return _same_key(candidate, rivals.same_key)
    if rivals.same_fingerprint is not None:
        if not is_keyed(candidate):
            return Verdict(Ruling.JOIN, operation=rivals.same_fingerprint)
        return Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, rivals.same_fingerprint)
    if rivals.same_conflict_key is not None:
        return Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, rivals.same_conflict_key)
    if rivals.lost is not None and not is_read and (refused := _lost(candidate, rivals.lost)) is not None:
        return refused
    last = rivals.last_final
    if (
        last is not None
        and not is_keyed(candidate)
        and not is_read
        and may_be_repeat(last, candidate, repeat_window_ms)
    ):
        if last.delivered:
            return Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, last)
        return Verdict(Ruling.REPLAY, operation=last)
    return Verdict(Ruling.CREATE)


def is_keyed(candidate: Operation) -> bool:
    """Whether its caller chose a key for it. A tool mints a new one for each call, so that says nothing of repeats."""
    return candidate.key is not None and not is_minted(candidate.key)


def may_be_repeat(last: Operation, candidate: Operation, repeat_window_ms: int) -> bool:
    """Whether a keyless candidate comes so soon after an equal finished operation that it is probably a repeat.

    Counted from the end of the earlier one (rule 8), since a long operation would otherwise outlive its own window.
    What was called not executed and contradicted since may have been executed all the same.
    """
    if last.final_ms is None or (last.executed is Executed.NO and not last.contradicted):
        return False
    return candidate.created_ms - last.final_ms <= repeat_window_ms


def _lost(candidate: Operation, lost: Tombstone) -> Verdict | None:
    """Of what was lost unsettled nobody knows whether it was executed; what was settled is a repeat without a key."""
    if lost.outcome is None:
        return Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, expired_id=lost.operation_id)
    if not is_keyed(candidate):
        return Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, expired_id=lost.operation_id)
    return None


def _same_key(candidate: Operation, rival: Operation | Tombstone) -> Verdict:
    if rival.fingerprint != candidate.fingerprint:
        named = rival if isinstance(rival, Operation) else None
        return Verdict(Ruling.REFUSE, Code.KEY_REUSED, named)
    if isinstance(rival, Tombstone) and rival.lost and (refused := _lost(candidate, rival)) is not None:
        return refused
    if isinstance(rival, Tombstone):
        return Verdict(Ruling.REPLAY, expired_id=rival.operation_id)
    return Verdict(Ruling.REPLAY if rival.final else Ruling.JOIN, operation=rival)
