"""From a probe's answer to a finding: whatever is not clearly one thing about our operation is inconclusive."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from adapters.contract import Framing, Observation
from gateway.core.matching import answer_of
from gateway.core.reconcile.look import control_holds, read_probe, read_rules
from gateway.model.action import FindingRule, Identify, PositiveControl, Predicate, Reconcile, RequestTemplate
from gateway.model.evidence import Finding
from gateway.model.operation import Executed
from tests.unit.core.builders import LOOK_UP, OP_ID, RULES, STATE, TIMEOUT, answer, operation

VARIABLES = {"operation_id": OP_ID, "revision": "abc1234", "count": 2}


def body(**fields: Any) -> bytes:
    return orjson.dumps({"id": OP_ID, "state": "done"} | fields)


def found(shown: Observation, rules: Reconcile = LOOK_UP, baseline: str | None = None) -> tuple[Finding, str]:
    sighting = read_probe(rules, operation(baseline=baseline), shown, VARIABLES)
    return sighting.finding, sighting.detail


@pytest.mark.parametrize(
    ("shown", "finding"),
    [
        (answer(200, body()), Finding.EXECUTED_OK),
        (answer(200, body(state="broken")), Finding.EXECUTED_FAILED),
        (answer(200, body(state="busy")), Finding.IN_PROGRESS),
        (answer(200, body(state="tombstone")), Finding.FENCED),
        (answer(404), Finding.ABSENT),
        (answer(200, body(state="new to us")), Finding.INCONCLUSIVE),
        (answer(500), Finding.INCONCLUSIVE),
        (answer(401), Finding.INCONCLUSIVE),
        (answer(200, b"<html>"), Finding.INCONCLUSIVE),
        (answer(200, b""), Finding.INCONCLUSIVE),
        (TIMEOUT, Finding.INCONCLUSIVE),
        (answer(404, body_complete=False), Finding.INCONCLUSIVE),
        (answer(404, framing=Framing.UNTIL_CLOSE), Finding.INCONCLUSIVE),
        (answer(404, contradictions=("two lengths",)), Finding.INCONCLUSIVE),
        (answer(200, body(), body_cut=True), Finding.INCONCLUSIVE),
        (answer(404, b"x", body_cut=True), Finding.INCONCLUSIVE),
    ],
)
def test_what_a_probe_shows(shown: Observation, finding: Finding) -> None:
    assert found(shown)[0] is finding


OTHER = "the answer is about another operation"
WHOSE = "the answer does not say whose operation it is"


@pytest.mark.parametrize(
    ("value", "doubt"),
    [
        (OP_ID, None),
        ([OP_ID], None),
        ("op_somebody_elses", OTHER),
        (OP_ID.upper(), OTHER),
        (["op_somebody_elses"], OTHER),
        (None, WHOSE),
        ([], WHOSE),
        ([OP_ID, OP_ID], "2 objects match; one was expected"),
        (["x", OP_ID, "y"], "3 objects match; one was expected"),
        (True, OTHER),
        (7, OTHER),
    ],
)
@pytest.mark.parametrize("state", ["done", "broken", "busy", "tombstone"])
def test_no_finding_but_absent_without_our_name_on_it(value: object, doubt: str | None, state: str) -> None:
    finding, detail = found(answer(200, body(id=value, state=state)))

    assert (finding is Finding.INCONCLUSIVE) is (doubt is not None)
    assert doubt is None or detail == doubt


@pytest.mark.parametrize("path", [None, "nothing.here", "(", "items[*].id"])
def test_an_identity_that_cannot_be_read_is_none(path: str | None) -> None:
    rules = replace(LOOK_UP, identify=Identify(path, "{operation_id}"))

    assert found(answer(200, body()), rules) == (Finding.INCONCLUSIVE, WHOSE)


def test_an_identity_that_names_no_variable_of_ours_matches_nothing() -> None:
    rules = replace(LOOK_UP, identify=Identify("id", "{nothing}"))

    assert found(answer(200, body()), rules) == (Finding.INCONCLUSIVE, OTHER)


def test_the_first_rule_that_matches_wins() -> None:
    first = FindingRule(Predicate(statuses=((200, 200),)), Finding.IN_PROGRESS)

    assert found(answer(200, body()), replace(LOOK_UP, rules=(first, *RULES)))[0] is Finding.IN_PROGRESS
    assert found(answer(200, body()), replace(LOOK_UP, rules=(*RULES, first)))[0] is Finding.EXECUTED_OK
    assert found(answer(200, body()), replace(LOOK_UP, rules=())) == (
        Finding.INCONCLUSIVE,
        "answer 200 matches no rule",
    )


def test_a_rule_may_say_whether_the_work_was_done_before_it_failed() -> None:
    sighting = read_probe(LOOK_UP, operation(), answer(200, body(state="never")), VARIABLES)

    assert (sighting.finding, sighting.executed) == (Finding.EXECUTED_FAILED, Executed.NO)


COMPARE = replace(LOOK_UP, compare=(("revision", "{revision}"), ("count", "{count}"), ("note", "{note}")))


@pytest.mark.parametrize(
    ("fields", "contradiction"),
    [
        ({"revision": "abc1234", "count": 2}, False),
        ({"revision": "abc1234", "count": 2.0, "note": "not asked for"}, False),
        ({"revision": "abc1234", "count": "2"}, True),
        ({"revision": "other", "count": 2}, True),
        ({"count": 2}, True),
    ],
)
def test_an_object_that_differs_from_what_was_asked_for_is_a_contradiction(
    fields: dict[str, Any], contradiction: bool
) -> None:
    sighting = read_probe(COMPARE, operation(), answer(200, body(**fields)), VARIABLES)

    assert sighting.contradiction is contradiction
    assert sighting.finding is (Finding.INCONCLUSIVE if contradiction else Finding.EXECUTED_OK)


def test_a_tombstone_holds_our_name_and_nothing_of_what_was_asked_for() -> None:
    assert found(answer(200, body(state="tombstone")), COMPARE)[0] is Finding.FENCED


@pytest.mark.parametrize(
    ("baseline", "now_found", "finding"),
    [
        ("absent", "done", Finding.EXECUTED_OK),
        ("executed_failed", "done", Finding.EXECUTED_OK),
        ("absent", "broken", Finding.EXECUTED_FAILED),
        ("executed_failed", "broken", Finding.INCONCLUSIVE),
        ("executed_ok", "done", Finding.INCONCLUSIVE),
        ("executed_ok", "broken", Finding.INCONCLUSIVE),
        ("in_progress", "done", Finding.INCONCLUSIVE),
        ("inconclusive", "done", Finding.INCONCLUSIVE),
        (None, "done", Finding.INCONCLUSIVE),
    ],
)
def test_success_by_state_needs_a_look_before_the_first_send_that_clearly_showed_another_state(
    baseline: str | None, now_found: str, finding: Finding
) -> None:
    assert found(answer(200, body(id="nobody", state=now_found)), STATE, baseline)[0] is finding


def test_absence_by_state_needs_no_baseline() -> None:
    assert found(answer(404), STATE)[0] is Finding.ABSENT


CONTROL = replace(
    LOOK_UP,
    positive_control=PositiveControl(
        RequestTemplate("GET", "/known"), Predicate(statuses=((200, 200),), path="visible", equals=(True,))
    ),
)


@pytest.mark.parametrize(
    ("rules", "shown", "holds"),
    [
        (CONTROL, answer(200, b'{"visible": true}'), True),
        (CONTROL, answer(200, b'{"visible": false}'), False),
        (CONTROL, answer(200, b'{"visible": true', body_complete=False), False),
        (CONTROL, answer(404), False),
        (CONTROL, TIMEOUT, False),
        (LOOK_UP, answer(200, b'{"visible": true}'), False),
    ],
)
def test_the_positive_control_must_be_plainly_visible(rules: Reconcile, shown: Observation, holds: bool) -> None:
    assert control_holds(rules, shown, {}) is holds


def test_a_handle_is_read_by_its_rules_alone() -> None:
    shown = answer(200, b'{"state": "done"}')

    assert read_rules(RULES, shown, answer_of(shown), {}).finding is Finding.EXECUTED_OK
