"""The one place that reads an outcome out of an observation, and the one that says what may be claimed.

A time-out, a cut or a reset is an observation. It never becomes "error" here: only proof that nothing left, or a whole
answer that the action (or the default table below) names a definite refusal, does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from adapters.contract import Observation
from gateway.core.follow import handle_url
from gateway.core.matching import Answer, answer_of, matches
from gateway.core.waits import wait_seconds
from gateway.model.action import Action, Predicate
from gateway.model.operation import AMBIGUOUS_STANDINGS, Executed, Operation, Outcome, State

UNDONE = frozenset({400, 401, 402, 403, 405, 406, 411, 413, 414, 415, 417, 422, 423, 426, 428, 431, 501, 505})
"""A whole answer with one of these means that the request was refused (RFC 9110 section 15.5)."""
CLUES = frozenset({404, 410, 412})
"""Refusals of a first POST or read. After PUT, PATCH or DELETE they may speak of our own, repeated effect."""
NEW_CONNECTION = frozenset({421, 425})
"""Not executed by definition (RFC 9110 section 15.5.20, RFC 8470 section 5.2)."""
CLUE_METHODS = frozenset({"PUT", "DELETE", "PATCH"})


class Reading(StrEnum):
    """What one observation says about its own attempt."""

    UNSENT = "unsent"
    REFUSED_BEFORE_WORK = "refused_before_work"
    SUCCESS = "success"
    REJECTED = "rejected"
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


def judge(
    action: Action, operation: Operation, number: int, observation: Observation, variables: Mapping[str, Any]
) -> Judgement:
    """Read what attempt `number` of `operation` showed. Pure: the same evidence always gives the same reading.

    `variables` are those of the request (`core.placeholders.variables_of`), for rules that name an argument.
    """
    if observation.nothing_left:
        return Judgement(Reading.UNSENT, observation.summary)
    answer = answer_of(observation)
    if not observation.answered:
        return _unanswered(observation)
    declared = _declared(action, operation, number, answer, variables)
    if declared is not None:
        return declared
    # No other attempt may have been carried out, so an answer speaks of this one alone.
    alone = not ambiguous_besides(operation, number)
    return _by_table(action, answer, alone=alone)


def _unanswered(observation: Observation) -> Judgement:
    status = observation.status
    if status == 408 and observation.body_complete and not observation.request_complete:
        # The server gave up waiting for the rest of a message that we never finished (RFC 9110 section 15.5.9).
        return Judgement(Reading.REJECTED, "the service timed out waiting for the rest of the request", status)
    return Judgement(Reading.DOUBT, observation.summary, status)


def _declared(
    action: Action, operation: Operation, number: int, answer: Answer, variables: Mapping[str, Any]
) -> Judgement | None:
    """What the action's own lists say; they come before the default table, clues and waits before everything."""

    def hit(predicates: tuple[Predicate, ...]) -> bool:
        return any(matches(predicate, answer, variables) for predicate in predicates)

    status = answer.status
    if hit(action.exists):
        return Judgement(Reading.DOUBT, "it already exists at the service; a look-up must tell whose it is", status)
    if hit(action.in_flight):
        return Judgement(Reading.DOUBT, "the service is still working on it", status, wait_seconds(action, answer))
    if hit(action.refused_before_work):
        reason = "the service refused before any work"
        return Judgement(Reading.REFUSED_BEFORE_WORK, reason, status, wait_seconds(action, answer))
    if action.accepted is not None and matches(action.accepted.when, answer, variables):
        return _accepted(action, operation, answer)
    if _succeeded(action, answer, variables):
        return Judgement(Reading.SUCCESS, "the service's own answer", status)
    if hit(action.rejected_any) or (number == 1 and hit(action.rejected_first)):
        return Judgement(Reading.REJECTED, f"the service refused it with {status}", status)
    if action.rate_limit is not None and hit(action.rate_limit.when):
        return Judgement(Reading.DOUBT, "the service limits the rate", status, wait_seconds(action, answer))
    return None


def _accepted(action: Action, operation: Operation, answer: Answer) -> Judgement:
    url = handle_url(action, operation, answer)
    if url is None:
        return Judgement(Reading.DOUBT, "accepted, but the answer names no usable place to follow it", answer.status)
    return Judgement(Reading.ACCEPTED, "the service accepted it and works on it", answer.status, handle=url)


def _succeeded(action: Action, answer: Answer, variables: Mapping[str, Any]) -> bool:
    if not matches(action.success, answer, variables):
        return False
    # A 202 says "later, perhaps". A success rule that covers it only as part of a range did not mean it.
    return answer.status != 202 or (202, 202) in action.success.statuses


def _by_table(action: Action, answer: Answer, *, alone: bool) -> Judgement:
    status = answer.status
    if status in NEW_CONNECTION:
        return Judgement(Reading.REFUSED_BEFORE_WORK, f"the service refused the connection with {status}", status)
    if status in UNDONE and alone:
        return Judgement(Reading.REJECTED, f"the service refused it with {status}", status)
    if status in CLUES and alone:
        if action.request.method in CLUE_METHODS and action.reconcile is not None:
            reason = f"{status} may speak of this request's own effect; a look-up must tell"
            return Judgement(Reading.DOUBT, reason, status)
        return Judgement(Reading.REJECTED, f"the service refused it with {status}", status)
    if status is not None and 300 <= status < 400:
        return Judgement(Reading.DOUBT, f"the service pointed elsewhere with {status}, which is never followed", status)
    return Judgement(
        Reading.DOUBT, f"answer {status} does not say whether it was carried out", status, wait_seconds(action, answer)
    )


def ambiguous_besides(operation: Operation, number: int) -> bool:
    """Whether an attempt other than `number` may have been carried out."""
    return any(item.standing in AMBIGUOUS_STANDINGS for item in operation.attempts if item.number != number)


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
