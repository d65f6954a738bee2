"""From the answer of a probe to a finding. Whatever is not clearly one thing is inconclusive."""

from collections.abc import Mapping
from typing import Any

from adapters.contract import Observation
from gateway.core.events import Sighting
from gateway.core.matching import Answer, answer_of, json_equal, matches, read_path
from gateway.core.placeholders import ABSENT, render_value
from gateway.model.action import FindingRule, Identify, Reconcile
from gateway.model.evidence import Finding
from gateway.model.operation import Executed, Operation

_HTTP_STATUS_MIN = 100


def read_probe(
    reconcile: Reconcile, operation: Operation, observation: Observation, variables: Mapping[str, Any]
) -> Sighting:
    """Read a probe of the service's record. `variables` hold the arguments and the operation's identity."""
    answer = answer_of(observation)
    sighting = read_rules(reconcile.rules, observation, answer, variables)
    if sighting.finding in (Finding.INCONCLUSIVE, Finding.ABSENT):
        return sighting
    doubt = _identity_doubt(reconcile.identify, answer, variables)
    if doubt is None and reconcile.identify.state:
        doubt = _state_doubt(operation, sighting.finding)
    if doubt is not None:
        return Sighting(Finding.INCONCLUSIVE, doubt)
    if sighting.finding is Finding.FENCED:
        # A tombstone holds our name and nothing of what was asked for.
        return sighting
    return _compare(reconcile, sighting, answer, variables)


def read_rules(
    rules: tuple[FindingRule, ...], observation: Observation, answer: Answer, variables: Mapping[str, Any]
) -> Sighting:
    """First match wins; an incomplete answer matches nothing. Also reads handles, which identify by their place."""
    if not observation.answered:
        return Sighting(Finding.INCONCLUSIVE, observation.summary)
    if observation.body_cut:
        return Sighting(Finding.INCONCLUSIVE, f"answer {answer.status} was longer than may be read")
    for rule in rules:
        if matches(rule.when, answer, variables):
            executed = Executed(rule.executed) if rule.executed is not None else None
            return Sighting(rule.finding, f"{_told(observation)}: {rule.finding.value}", executed)
    return Sighting(Finding.INCONCLUSIVE, _unread(observation))


def _told(observation: Observation) -> str:
    # A host's answer has an exit status or none in this place, and a sentence of its own.
    return observation.summary if _from_a_host(observation) else f"the service answered {observation.status}"


def _unread(observation: Observation) -> str:
    if _from_a_host(observation):
        return f"{observation.summary}; no rule fits"
    return f"answer {observation.status} matches no rule"


def _from_a_host(observation: Observation) -> bool:
    """Exit statuses reach to 255, so one alone may look like HTTP's; beside it the host says that it is one."""
    status = observation.status or 0
    return status < _HTTP_STATUS_MIN or observation.header("Exited") == str(status)


def _state_doubt(operation: Operation, finding: Finding) -> str | None:
    """Why a state says nothing about our operation, or None if it does.

    Only a look before the first send that clearly showed another state makes the change ours (a conflict key keeps
    others out). A look that failed showed nothing, and "in progress" then was somebody else's work.
    """
    if operation.baseline == finding.value:
        return "the state was already so before the first send"
    if operation.baseline not in {Finding.ABSENT.value, Finding.EXECUTED_FAILED.value}:
        return "no look before the first send showed another state, so the state proves nothing"
    return None


def _identity_doubt(identify: Identify, answer: Answer, variables: Mapping[str, Any]) -> str | None:
    """Why the object found is not known to be ours, or None if it is."""
    if identify.state:
        return None
    found = read_path(identify.path or "", answer.body)
    wanted = render_value(identify.equals, variables)
    if isinstance(found, list):
        if len(found) > 1:
            return f"{len(found)} objects match; one was expected"
        found = found[0] if found else None
    if found is None:
        return "the answer does not say whose operation it is"
    return None if json_equal(found, wanted) else "the answer is about another operation"


def _compare(reconcile: Reconcile, sighting: Sighting, answer: Answer, variables: Mapping[str, Any]) -> Sighting:
    # A service that silently replays an old object under our value would otherwise pass for success.
    for path, template in reconcile.compare:
        wanted = render_value(template, variables)
        # An optional argument that was not given asked for nothing that could differ.
        if wanted is not ABSENT and not json_equal(read_path(path, answer.body), wanted):
            detail = f"the object found differs from what was asked for at {path}"
            return Sighting(Finding.INCONCLUSIVE, detail, contradiction=True)
    return sighting


def control_holds(reconcile: Reconcile, observation: Observation, variables: Mapping[str, Any]) -> bool:
    """Whether the positive control was visible; without it, "not there" may only mean "cannot see"."""
    control = reconcile.positive_control
    return control is not None and observation.answered and matches(control.when, answer_of(observation), variables)
