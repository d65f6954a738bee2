"""Logs and disclosures written by earlier versions get the verdict they got then, from both verifiers."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from audit.disclosure_check import check_disclosure
from audit.disk import DiskDirectory
from audit.trust import TrustPolicy
from audit.verify import VerifyOptions, verify
from tests.unit.audit.oracle import oracle, oracle_disclosure

FOLDER = Path(__file__).parents[2] / "golden" / "audit"
MANIFEST: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))


def _name(case: dict[str, Any]) -> str:
    return " ".join(str(value) for name, value in case.items() if name not in {"now_ms", "now_s"})


@pytest.mark.parametrize("case", MANIFEST["logs"], ids=_name)
def test_both_verifiers_say_of_a_log_what_the_manifest_says(case: dict[str, Any]) -> None:
    folder = FOLDER / case["log"]
    policy = (FOLDER / case["policy"]).read_text(encoding="utf-8")
    anchors = [] if case["anchor"] is None else [FOLDER / case["anchor"]]
    options = VerifyOptions(unsealed_max=case["unsealed_max"], accept_unanchored=case["accept_unanchored"])
    report = verify(
        DiskDirectory(folder),
        policy=TrustPolicy.parse(policy),
        anchors=anchors,
        now_ms=case["now_ms"],
        options=options,
    )
    assert report.exit == case["exit"], report.to_lines()
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    told = oracle(
        files,
        policy,
        [path.read_bytes() for path in anchors],
        case["now_ms"],
        unsealed_max=case["unsealed_max"],
        unanchored=case["accept_unanchored"],
    )
    assert told == case["exit"]


@pytest.mark.parametrize("case", MANIFEST["disclosures"], ids=_name)
def test_both_verifiers_say_of_a_disclosure_what_the_manifest_says(case: dict[str, Any]) -> None:
    text = (FOLDER / case["disclosure"]).read_bytes()
    policy = "" if case["policy"] is None else (FOLDER / case["policy"]).read_text(encoding="utf-8")
    pinned = TrustPolicy.parse(policy) if policy else None
    assert check_disclosure(io.BytesIO(text), pinned, case["now_s"]).exit == case["exit"]
    assert oracle_disclosure(text, policy, case["now_s"]) == case["exit"]


def test_every_verdict_stands_for_at_least_one_log_and_all_stay_small() -> None:
    assert {case["exit"] for case in MANIFEST["logs"]} == {0, 1, 3, 4, 5}
    assert {case["exit"] for case in MANIFEST["disclosures"]} == {0, 1, 3, 4}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 200_000
