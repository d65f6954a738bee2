"""The one place that reads an outcome out of an observation, and the one that says what may be claimed.

A time-out, a cut or a reset is an observation. It never becomes "error" here: only proof that nothing left, or a whole
answer that the action (or the default table below) names a definite refusal, does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from adapters.contract import Observation
from gateway.core.follow import handle_url
from gateway.core.matching import MISSING, Answer, answer_of, matches
from gateway.core.waits import wait_seconds
from gateway.model.action import Action, Predicate
from gateway.model.operation import AMBIGUOUS_STANDINGS, Executed, Kind, Operation, Outcome, Standing, State

UNDONE = frozenset({400, 401, 402, 403, 405, 406, 411, 413, 414, 415, 417, 422, 423, 426, 428, 431, 501, 505})
"""A whole answer with one of these means that the request was refused (RFC 9110 section 15.5)."""
CLUES = frozenset({404, 410, 412})
"""Refusals of a first POST or read. After PUT, PATCH or DELETE they may speak of our own, repeated effect."""
NEW_CONNECTION = frozenset({421, 425})
"""Not executed by definition (RFC 9110 section 15.5.20, RFC 8470 section 5.2)."""
SPEAKS_OF_STATE = CLUES | {422}
"""Refusals that depend on what is there, so after an attempt that reached the service they may be its own doing."""
CLUE_METHODS = frozenset({"PUT", "DELETE", "PATCH"})


class Reading(StrEnum):
    """What one observation says about its own attempt."""

    UNSENT = "unsent"
    REFUSED_BEFORE_WORK = "refused_before_work"
    SUCCESS = "success"
    REJECTED = "rejected"
    FAILED = "failed"
    """Carried out, and failed."""
    ACCEPTED = "accepted"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A reading with its reason, and what it carries along."""

    reading: Reading
    reason: str
    status: int | None = None
    wait_seconds: float | None = None
    handle: str | None = None
    in_progress: bool = False
    """The service knows the operation and works on it, though nothing was accepted."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """What else was tried for the operation, as far as it bears on what this answer can mean."""

    alone: bool
    """No other attempt may have been carried out, so a refusal speaks of the whole operation."""
    single: bool
    """No other attempt was ever taken up by the service: "not there" cannot be our own effect."""


_FIRST: Final = _Setting(alone=True, single=True)


def judge(
    action: Action, operation: Operation, number: int, observation: Observation, variables: Mapping[str, Any]
) -> Judgement:
    """Read what attempt `number` of `operation` showed. Pure: the same evidence always gives the same reading.

    `variables` are those of the request (`core.placeholders.variables_of`), for rules that name an argument.
    """
    if observation.nothing_left:
        if observation.bytes_written:
            return Judgement(Reading.DOUBT, "nothing is said to have left, yet bytes were written", observation.status)
        # Whoever cannot prove to be the declared service is not asked again: that is for people.
        final = observation.untrusted and _setting(action, operation, number).alone
        return Judgement(Reading.REJECTED if final else Reading.UNSENT, observation.summary)
    setting = _setting(action, operation, number)
    if not observation.answered:
        return _unanswered(observation, setting)
    answer = answer_of(observation)
    return _declared(action, operation, observation, _Read(answer, variables, setting)) or _by_table(
        action, answer, setting
    )


def _setting(action: Action, operation: Operation, number: int) -> _Setting:
    if len(operation.attempts) == 1:
        return _FIRST
    # Reads change nothing, so no earlier read can be what a later answer speaks of.
    others = [] if action.is_read else [item for item in operation.sends if item.number != number]
    return _Setting(
        alone=action.is_read or not ambiguous_besides(operation, number),
        single=all(item.standing in {Standing.UNSENT, Standing.REFUSED} for item in others),
    )


def _unanswered(observation: Observation, setting: _Setting) -> Judgement:
    status = observation.status
    gave_up = status == 408 and observation.body_complete and not observation.request_complete
    if gave_up and setting.alone and not observation.contradictions:
        # The server gave up waiting for the rest of a message that we never finished (RFC 9110 section 15.5.9).
        return Judgement(Reading.REJECTED, "the service timed out waiting for the rest of the request", status)
    return Judgement(Reading.DOUBT, observation.summary, status)


@dataclass(frozen=True, slots=True)
class _Read:
    """An answer with what its predicates may name."""

    answer: Answer
    variables: Mapping[str, Any]
    setting: _Setting

    def hits(self, predicates: tuple[Predicate, ...]) -> bool:
        return bool(predicates) and any(matches(predicate, self.answer, self.variables) for predicate in predicates)


def _declared(action: Action, operation: Operation, observation: Observation, read: _Read) -> Judgement | None:
    """What the action's own lists say, before the default table.

    Every way of saying "no" or "perhaps" comes before success: many services refuse with a 200 and a body that says so,
    and a success rule that names only statuses would take that for the effect.
    """
    answer, status = read.answer, read.answer.status
    if read.hits(action.exists):
        return Judgement(Reading.DOUBT, "it already exists at the service; a look-up must tell whose it is", status)
    if read.hits(action.in_flight):
        wait = wait_seconds(action, answer)
        reason = f"the {action.service.noun} is still working on it"
        return Judgement(Reading.DOUBT, reason, status, wait, in_progress=True)
    if read.hits(action.refused_before_work):
        reason = "the service refused before any work"
        return Judgement(Reading.REFUSED_BEFORE_WORK, reason, status, wait_seconds(action, answer))
    refusal = _refusal(action, read)
    if refusal is not None:
        return refusal
    if action.rate_limit is not None and read.hits(action.rate_limit.when):
        return Judgement(Reading.DOUBT, "the service limits the rate", status, wait_seconds(action, answer))
    if _hides_refusal(action, observation, answer):
        return Judgement(Reading.DOUBT, f"the body of answer {status} cannot be read, and it might refuse", status)
    if action.accepted is not None and matches(action.accepted.when, answer, read.variables):
        return _accepted(action, operation, answer)
    if _succeeded(action, answer, read.variables):
        return Judgement(Reading.SUCCESS, f"the {action.service.noun}'s own answer", status)
    if read.hits(action.failed):
        # Of a job every attempt means the same places, so the record of a step speaks for all of them.
        how = observation.summary if action.service.host is not None else ""
        return _failed(status, how, alone=read.setting.alone or bool(action.steps))
    return None


def _failed(status: int | None, how: str, *, alone: bool) -> Judgement:
    """`how` it failed: a host's record says more than its exit status, for example that it was told to stop."""
    if not alone:
        # It speaks of this attempt only; another one may have run as well.
        how = how or f"it failed with {status}"
        return Judgement(Reading.DOUBT, f"{how}; another attempt may have run too", status)
    return Judgement(Reading.FAILED, how or f"it was carried out and failed with {status}", status)


def _refusal(action: Action, read: _Read) -> Judgement | None:
    on_any, on_first = read.hits(action.rejected_any), read.hits(action.rejected_first)
    if not on_any and not on_first:
        return None
    status = read.answer.status
    if (on_any and read.setting.alone) or (on_first and read.setting.alone and read.setting.single):
        return Judgement(Reading.REJECTED, f"the service refused it with {status}", status)
    return _clue(status)


def _clue(status: int | None) -> Judgement:
    reason = f"{status} may speak of an earlier attempt's effect; a look-up must tell"
    return Judgement(Reading.DOUBT, reason, status)


def _hides_refusal(action: Action, observation: Observation, answer: Answer) -> bool:
    """Whether a predicate that could say "no" to this status looks into a body that came but cannot be read."""
    if answer.body is not MISSING or not (observation.body or observation.body_cut):
        return False
    signals = (
        *action.exists, *action.in_flight, *action.refused_before_work, *action.rejected_any, *action.rejected_first,
        *(action.rate_limit.when if action.rate_limit is not None else ()),
    )  # fmt: skip
    return any(
        signal.path is not None and matches(replace(signal, path=None, header=None), answer, {}) for signal in signals
    )


def _accepted(action: Action, operation: Operation, answer: Answer) -> Judgement:
    url = handle_url(action, operation, answer)
    if url is None:
        return Judgement(Reading.DOUBT, "accepted, but the answer names no usable place to follow it", answer.status)
    return Judgement(Reading.ACCEPTED, "the service accepted it and works on it", answer.status, handle=url)


def _succeeded(action: Action, answer: Answer, variables: Mapping[str, Any]) -> bool:
    if not matches(action.success, answer, variables):
        return False
    statuses = action.success.statuses
    if not statuses and not (answer.status is not None and 200 <= answer.status < 300):
        # A rule about the body alone did not mean to find success in an error page.
        return False
    # A 202 says "later, perhaps". A success rule that covers it only as part of a range did not mean it.
    return answer.status != 202 or (202, 202) in statuses


def _by_table(action: Action, answer: Answer, setting: _Setting) -> Judgement:
    status = answer.status
    if status in NEW_CONNECTION:
        return Judgement(Reading.REFUSED_BEFORE_WORK, f"the service refused the connection with {status}", status)
    if status in UNDONE or status in CLUES:
        return _by_refusal(action, answer, setting)
    if status is not None and 300 <= status < 400:
        return Judgement(Reading.DOUBT, f"the service pointed elsewhere with {status}, which is never followed", status)
    return Judgement(
        Reading.DOUBT, f"answer {status} does not say whether it was carried out", status, wait_seconds(action, answer)
    )


def _by_refusal(action: Action, answer: Answer, setting: _Setting) -> Judgement:
    status = answer.status
    if not setting.alone or (status in SPEAKS_OF_STATE and not setting.single):
        return _clue(status)
    # Something on the way may have sent it twice: then this is the answer to the second copy. A declared condition that
    # failed is an answer of its own.
    by_method = action.request.method in CLUE_METHODS and not action.is_read
    condition_failed = status == 412 and action.precondition is not None
    if status in CLUES and by_method and not condition_failed and action.reconcile is not None:
        reason = f"{status} may speak of this request's own effect; a look-up must tell"
        return Judgement(Reading.DOUBT, reason, status)
    return Judgement(Reading.REJECTED, f"the service refused it with {status}", status)


def ambiguous_besides(operation: Operation, number: int) -> bool:
    """Whether an attempt other than `number` may have been carried out. A cancel carries out nothing."""
    return any(
        item.standing in AMBIGUOUS_STANDINGS
        for item in operation.attempts
        if item.number != number and item.kind is not Kind.CANCEL
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """What may be claimed about an operation now. `outcome` None: not sent, nothing was executed."""

    outcome: Outcome | None
    executed: Executed


def claim(operation: Operation) -> Claim:
    """The only source of `outcome` and `executed` for every surface (table in gateway/README.md)."""
    match operation.state:
        case State.SUCCEEDED:
            return Claim(Outcome.SUCCESS, operation.executed)
        case State.FAILED:
            return Claim(Outcome.ERROR, operation.executed)
        case State.CANCELLED:
            return Claim(Outcome.ERROR, Executed.NO)
        case State.HELD | State.READY if not operation.ambiguous:
            return Claim(None, Executed.NO)
        case _:
            return Claim(Outcome.UNKNOWN, Executed.UNKNOWN)
