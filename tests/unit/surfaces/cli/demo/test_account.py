"""The demo's accounting finds what it is there to find."""

from typing import Any

import pytest

from gateway.surfaces.cli.demo.account import contradiction, effects_by_operation, settle_accounts


def operation(identity: str, outcome: str | None, executed: str, **more: Any) -> dict[str, Any]:
    states = {"success": "succeeded", "error": "failed", "unknown": "in_doubt", None: "ready"}
    return {
        "operation_id": identity,
        "action": "deployments.put",
        "state": states[outcome],
        "outcome": outcome,
        "executed": executed,
        **more,
    }


def entry(op: str | None, effect: str, *, fp: str = "f") -> dict[str, Any]:
    return {"op": op, "fp": fp, "effect": effect}


GOOD = ([operation("op_a", "success", "yes"), operation("op_b", "error", "no")], [entry("op_a", "done")])


def test_claims_that_fit_the_ledger_are_fine() -> None:
    totals = settle_accounts(*GOOD, told_unknown={"op_a"}, audit="OK")

    assert totals.fine
    assert totals.to_json() == {
        "operations": 2,
        "success": 1,
        "error": 1,
        "unknown_seen": 1,
        "unsettled": 0,
        "effects": 1,
        "duplicate_effects": 0,
        "wrong_outcomes": 0,
        "audit": "OK",
    }


def test_a_second_effect_is_a_duplicate_and_not_fine() -> None:
    documents, entries = GOOD
    totals = settle_accounts(documents, [*entries, entry("op_a", "dup")], told_unknown=(), audit="OK")

    assert (totals.effects, totals.duplicate_effects, totals.wrong_outcomes) == (2, 1, 0)
    assert not totals.fine
    assert totals.wrong == ("op_a: took effect 2 times.",)


def test_an_effect_that_nobody_asked_for_is_wrong() -> None:
    documents, entries = GOOD
    totals = settle_accounts(documents, [*entries, entry(None, "done", fp="f9")], told_unknown=(), audit="OK")

    assert totals.wrong_outcomes == 1
    assert not totals.fine


@pytest.mark.parametrize(
    ("outcome", "executed", "effects", "fits"),
    [
        ("success", "yes", 1, True),
        ("success", "yes", 0, False),
        ("error", "no", 0, True),
        ("error", "no", 1, False),
        ("error", "yes", 0, False),
        ("error", "yes", 1, True),
        ("error", "unknown", 1, True),
        ("unknown", "unknown", 0, True),
        ("unknown", "unknown", 1, True),
        (None, "no", 1, False),
        (None, "no", 0, True),
    ],
)
def test_a_claim_is_held_against_the_ledger(outcome: str | None, executed: str, effects: int, *, fits: bool) -> None:
    document = operation("op_a", outcome, executed)

    assert (contradiction(document, effects) is None) is fits
    totals = settle_accounts([document], [entry("op_a", "done")] * effects, told_unknown=(), audit="OK")
    assert totals.wrong_outcomes == (not fits)


def test_a_read_that_changed_something_is_wrong() -> None:
    document = operation("op_a", "success", "yes", action="environments.get")

    assert contradiction(document, 0) is None
    assert contradiction(document, 1) is not None


def test_what_is_unsettled_is_not_fine_however_true() -> None:
    totals = settle_accounts([operation("op_a", "unknown", "unknown")], [], told_unknown={"op_a"}, audit="OK")

    assert (totals.unsettled, totals.success, totals.error) == (1, 0, 0)
    assert not totals.fine


@pytest.mark.parametrize("audit", ["TAMPERED", "NOT PROVEN", ""])
def test_a_log_that_does_not_verify_is_not_fine(audit: str) -> None:
    assert not settle_accounts(*GOOD, told_unknown=(), audit=audit).fine


def test_anything_else_that_went_wrong_is_not_fine() -> None:
    totals = settle_accounts(*GOOD, told_unknown=(), audit="OK", wrong=["The gateway did not end in order."])

    assert not totals.fine


def test_unknown_counts_operations_that_exist_once_each() -> None:
    assert settle_accounts(*GOOD, told_unknown=["op_a", "op_a", "op_other"], audit="OK").unknown_seen == 1


def test_effects_without_an_operation_go_by_their_fingerprint() -> None:
    assert effects_by_operation([entry(None, "done", fp="f1"), entry("op_a", "none")]) == {"f1": 1}
