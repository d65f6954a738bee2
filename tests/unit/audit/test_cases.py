"""The forty tamper and fault cases that a verifier of this log has to catch, each with the tests that show it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

# number -> what happens, the exit or the behaviour it must give, and who shows it: file::function, or file::"row" of a
# table of cases
CASES: dict[int, tuple[str, str, tuple[str, ...]]] = {
    1: ("one bit of a ciphertext", "1", ('test_tamper::"01 bit in ciphertext"',)),
    2: ("one bit of a time", "1", ('test_tamper::"02 bit in time"',)),
    3: (
        "one bit of a trailer",
        "1, named",
        ('test_tamper::"03 bit in trailer"', "test_tamper::test_damage_is_located_and_explained"),
    ),
    4: ("length one more or less", "1", ('test_tamper::"04 length one more"', 'test_tamper::"04 length one less"')),
    5: ("edit, links repaired to the end", "1", ('test_tamper::"05 edit, rechained"',)),
    6: ("a record deleted", "1", ('test_tamper::"06 delete"', 'test_tamper::"06 delete, rechained"')),
    7: ("two records swapped", "1", ('test_tamper::"07 swap"', 'test_tamper::"07 swap, rechained"')),
    8: ("a record doubled", "1", ('test_tamper::"08 duplicate"', 'test_tamper::"08 duplicate, rechained"')),
    9: ("ciphertexts swapped", "1", ('test_tamper::"09 ciphertexts swapped, rechained"',)),
    10: (
        "record or segment of another origin",
        "1",
        ('test_tamper::"10 segment of another origin"', 'test_tamper::"10 record of another origin, rechained"'),
    ),
    11: (
        "unsealed tail cut",
        "0 with a note; 1 with a receipt or anchor behind it",
        (
            'test_tamper::"11 unsealed tail cut"',
            "test_verify_extra::test_11_a_receipt_catches_a_cut_of_the_unsealed_tail",
        ),
    ),
    12: ("cut between seals", "3, 1 with an anchor", ('test_tamper::"12 cut between seals"',)),
    13: ("cut at an old seal", "4, 1 with an anchor", ('test_tamper::"13 cut at an old seal"',)),
    14: (
        "yesterday's folder restored",
        "as 13; refused by the stored head",
        (
            "test_tamper::test_restoring_the_whole_old_directory_is_caught_by_the_anchor",
            "test_recover::test_gaps_and_differences_contradict",
        ),
    ),
    15: (
        "empty, missing, nothing in it",
        "4 or 5, 1 with an anchor, never 0",
        (
            'test_tamper::"15 emptied"',
            'test_tamper::"15 empty file"',
            'test_tamper::"15 zeros"',
            "test_verify_files::test_missing_folder_is_not_ok",
        ),
    ),
    16: (
        "a segment removed",
        "3 or 1",
        (
            'test_tamper::"16 first segment removed"',
            'test_tamper::"16 middle segment removed"',
            'test_tamper::"16 last segment removed"',
        ),
    ),
    17: ("a segment under two names", "1", ('test_tamper::"17 segment twice"',)),
    18: (
        "all seals stripped",
        "3, 1 with an anchor",
        (
            'test_tamper::"18 seals stripped, rechained"',
            "test_tamper::test_a_log_without_any_seal_is_a_gap_under_every_limit",
        ),
    ),
    19: (
        "forged with the forger's own keys",
        "4, 1 if the true key is pinned",
        ("test_tamper::test_log_forged_with_own_keys_is_caught_by_the_pinned_key",),
    ),
    20: (
        "old range signed with a later epoch's key",
        "1",
        (
            'test_tamper::"20 resealed by a later epoch"',
            'test_tamper::"20 resealed by another key of the epoch"',
            "test_epochs::test_20_an_old_range_signed_again_with_a_later_epochs_key",
        ),
    ),
    21: (
        "epoch skipped, hand-over broken",
        "1",
        (
            "test_epochs::test_21_a_skipped_epoch",
            "test_epochs::test_21_a_hand_over_to_another_key_breaks_every_seal_after_it",
        ),
    ),
    22: ("well signed seal over another root", "1", ('test_tamper::"22 seal of another root, signature right"',)),
    23: (
        "two checkpoints of one size, a bad consistency proof",
        "1, both shown; refused",
        (
            'test_tamper::"23 own checkpoint of equal size, other root"',
            "test_tamper::test_two_anchors_of_one_size_with_different_roots_are_both_shown",
            "test_witness::test_what_a_witness_refuses",
        ),
    ),
    24: (
        "checkpoint in another form",
        "refused",
        (
            "test_checkpoint::test_checkpoint_in_any_other_form_is_refused",
            "test_checkpoint::test_unknown_signer_is_told_from_a_bad_signature",
        ),
    ),
    25: (
        "cosignature of the future, for another log, or twice",
        "4",
        ("test_witness::test_25_only_a_quorum_of_different_witnesses_anchors_a_log",),
    ),
    26: (
        "odd leaf doubled, node for a leaf",
        "1",
        (
            "test_proofs::test_26_a_node_is_no_leaf_and_a_leaf_is_not_doubled",
            "test_chain::test_doubling_the_odd_leaf_changes_the_root",
            "test_chain::test_a_node_cannot_pass_for_an_entry",
        ),
    ),
    27: (
        "proof for another size",
        "refused",
        (
            "test_proofs::test_27_a_proof_holds_for_its_own_size_and_place_only",
            "test_proofs::test_27_an_empty_old_tree_needs_no_proof_and_takes_none",
        ),
    ),
    28: (
        "torn last frame at every offset",
        "3, recovery idempotent",
        (
            "test_recover::test_torn_frame_at_every_offset_is_incomplete_then_recovered",
            "test_recover::test_recovery_twice_is_recovery_once",
        ),
    ),
    29: (
        "bytes behind zeros, garbage at the end",
        "1; zeros alone 0",
        (
            'test_tamper::"29 bytes behind zeros"',
            'test_tamper::"29 zeros alone"',
            'test_tamper::"29 trailing garbage"',
            "test_recover::test_29_space_written_ahead_is_given_back_and_recorded_as_nothing",
        ),
    ),
    30: (
        "two writers",
        "second refused, forged file 1",
        (
            'test_tamper::"30 forked"',
            "test_recover::test_second_writer_is_refused_while_the_first_lives",
            "test_export::test_foreign_writer_stops_the_exporter_for_good",
        ),
    ),
    31: (
        "crash in recovery, hand-over, publishing",
        "restart clean",
        (
            "test_recover::test_crash_at_every_step_of_recovery_ends_the_same",
            "test_epochs::test_31_a_crash_at_any_step_of_a_hand_over_is_harmless",
            "test_checkpoint::test_crash_at_every_step_of_publishing_restarts_clean",
        ),
    ),
    32: (
        "short write, full disk",
        "nothing begins, every outcome kept",
        (
            "test_matrix::test_32_a_disk_that_refuses_at_every_step",
            "test_matrix::test_32_a_process_whose_files_may_not_grow_keeps_every_outcome",
            "test_matrix::test_a_device_that_is_always_full_is_an_error_not_a_loop",
        ),
    ),
    33: (
        "killed between intent and outcome",
        "3 or 0, the operation unknown",
        (
            "test_matrix::test_33_killed_at_every_step",
            "test_matrix::test_33_a_process_killed_at_a_named_point",
            "test_verify_extra::test_33_a_writer_killed_between_intent_and_outcome_leaves_the_intent",
        ),
    ),
    34: (
        "disclosure with a second key",
        "1",
        ('test_disclosure::"34 second key"', 'test_disclosure::"34 second key with its own commitment"'),
    ),
    35: (
        "disclosure without one record",
        "1",
        ('test_disclosure::"35 first record left out"', 'test_disclosure::"35 middle record left out"'),
    ),
    36: (
        "blob missing, cut at a border, swapped",
        "3 or 1",
        (
            "test_holdings::test_36_a_blob_missing_cut_or_swapped",
            "test_holdings::test_36_processes_that_read_ahead_hand_on_what_is_named",
            "test_blobs::test_a_changed_file_is_refused_even_under_a_fitting_name",
        ),
    ),
    37: ("unknown version or kind", "5", ('test_tamper::"37 newer version"', 'test_tamper::"37 newer kind"')),
    38: (
        "symlink, FIFO, no permission",
        "5",
        (
            "test_verify_files::test_segment_that_is_no_regular_file_is_unreadable",
            "test_verify_files::test_permission_refused_is_unreadable",
        ),
    ),
    39: (
        "sealed secret moved to another segment",
        "1; does not open",
        (
            'test_tamper::"39 share moved, rechained"',
            "test_seal::test_a_share_moved_to_another_place_does_not_open",
            "test_verify_extra::test_the_key_alone_sees_a_repaired_edit",
        ),
    ),
    40: (
        "verified while it is written",
        "0, no false alarm in a thousand runs",
        (
            "test_verify_files::test_40_verifying_while_the_writer_runs_gives_no_false_alarm",
            "test_verify_files::test_40_any_steps_of_the_writer_give_no_false_alarm",
            "test_verify_files::test_40_verifying_a_real_folder_while_a_thread_writes_it",
        ),
    ),
}

HERE = Path(__file__).parent
_NUMBERED_TEST = re.compile(r"test_(\d\d)_")
_NUMBERED_ROW = re.compile(r"(\d\d) \w")


def _shown(path: Path) -> tuple[set[str], set[str]]:
    """Names of a file's tests, and the texts that begin its tables' rows."""
    tree = ast.parse(path.read_text())
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    rows = {
        str(node.elts[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant)
    }
    return {name for name in tests if name.startswith("test_")}, rows


def test_every_case_has_a_number_and_a_test() -> None:
    assert sorted(CASES) == list(range(1, 41))
    assert [number for number, (_, _, tests) in CASES.items() if not tests] == []


@pytest.mark.parametrize("number", CASES)
def test_the_tests_of_a_case_exist(number: int) -> None:
    for place in CASES[number][2]:
        file, _, name = place.partition("::")
        tests, rows = _shown(HERE / f"{file}.py")
        found = name.strip('"') in rows if name.startswith('"') else name in tests
        assert found, f"case {number}: {place} is not there"


def test_what_bears_a_number_stands_in_the_table() -> None:
    for path in sorted(HERE.glob("test_*.py")):
        if path == Path(__file__):
            continue
        tests, rows = _shown(path)
        numbered = {(int(match[1]), f"{path.stem}::{name}") for name in tests if (match := _NUMBERED_TEST.match(name))}
        numbered |= {(int(match[1]), f'{path.stem}::"{row}"') for row in rows if (match := _NUMBERED_ROW.match(row))}
        assert {place for number, place in numbered if place not in CASES[number][2]} == set()
