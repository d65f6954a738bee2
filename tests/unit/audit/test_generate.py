from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from audit.disk import DiskDirectory
from audit.generate import generate, plaintext_of, repeatable_entropy
from audit.keyfiles import read_recipient_key
from audit.report import Exit
from audit.show import read_document
from audit.trust import TrustPolicy
from audit.verify import Extra, verify


def test_a_generated_log_verifies_with_and_without_its_key(tmp_path: Path) -> None:
    told: list[int] = []
    made = generate(tmp_path / "new", 2500, record_bytes=300, progress=told.append)
    report = verify(
        DiskDirectory(made.log),
        policy=TrustPolicy.parse(made.trust.read_text()),
        anchors=[made.anchor],
        now_ms=made.end_ms,
        extra=Extra(key=read_recipient_key(made.key)),
    )
    assert report.exit is Exit.OK, report.to_lines()
    assert (report.data_records, report.contents_checked, told) == (2500, 2500, [1000, 2000])
    with pytest.raises(FileExistsError):
        generate(tmp_path / "new", 1)


def test_records_are_documents_of_the_size_asked_for() -> None:
    for number in (0, 9, 1234):
        text = plaintext_of(number, 600)
        assert len(text) == 600
        assert read_document(text)["op_n"] == number % 10
    assert "op_final" in read_document(plaintext_of(9, 600))


def test_entropy_repeats_and_never_runs_dry() -> None:
    first, second = repeatable_entropy("a"), repeatable_entropy("a")
    assert [first(40_000) for _ in range(4)] == [second(40_000) for _ in range(4)]
    assert first(32) != first(32)


def test_generator_runs_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "audit.generate", str(tmp_path / "log"), "--records", "20"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    check = subprocess.run([sys.executable, "-m", *done.stdout.split()], capture_output=True, check=False, text=True)
    assert check.returncode == 0, check.stdout
