"""The demo's cases are told apart by the fault kit, and hide what happened in twins."""

from fixtures.alphabet import ALPHABET
from fixtures.proxy.toxics import TOXICS
from gateway.surfaces.cli.demo.cases import BY_NAME, CASES


def test_names_and_paths_tell_the_cases_apart() -> None:
    assert len(BY_NAME) == len(CASES) == len({case.path for case in CASES})


def test_faults_are_those_of_the_kit() -> None:
    assert {case.fault for case in CASES if case.fault} <= set(ALPHABET)
    assert {case.toxic for case in CASES if case.toxic} <= set(TOXICS)


def test_lost_answers_come_in_twins_that_end_differently() -> None:
    planned = {case.fault: case for case in CASES if case.fault and case.action != "deployments.put_again"}
    pairs = [(case, planned[twin]) for case in planned.values() if (twin := ALPHABET[case.fault or ""].twin) in planned]

    assert {case.fault for case, _ in pairs} >= {"commit_then_drop", "commit_then_cut_body", "500_with_effect"}
    assert all(
        {case.ends, twin.ends} == {"success", "error"} for case, twin in pairs if case.action != "deployments.put_far"
    )


def test_all_three_outcomes_and_both_endings_occur() -> None:
    assert {case.ends for case in CASES} == {"success", "error"}
    assert {case.doubtful for case in CASES} == {True, False}
    assert {case.stage for case in CASES} == {"together", "in_flight", "afterwards"}
