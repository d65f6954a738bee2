"""The keys for personal data of an installation: one a log, in a file for its owner alone."""

from pathlib import Path

import pytest

from gateway.engine.subjects import personal_keys
from gateway.store.port import Refused
from tests.unit.engine.keeping import CountedChance


def test_each_log_gets_one_key_and_the_present_one_comes_last(tmp_path: Path) -> None:
    path, chance = tmp_path / "personal.key", CountedChance()
    (one,) = personal_keys(path, "gw.test/audit", chance)
    assert personal_keys(path, "gw.test/audit", chance) == [one]
    _, two = personal_keys(path, "gw.test/audit/2", chance)
    assert personal_keys(path, "gw.test/audit/2", chance) == [one, two]
    assert personal_keys(path, "gw.test/audit", chance) == [two, one]
    assert path.stat().st_mode & 0o777 == 0o600
    assert one.private != two.private


def test_a_file_that_is_open_to_others_or_damaged_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "personal.key"
    personal_keys(path, "gw.test/audit", CountedChance())
    before = path.read_bytes()
    path.chmod(0o644)
    with pytest.raises(Refused):
        personal_keys(path, "gw.test/audit", CountedChance())
    path.chmod(0o600)
    path.write_bytes(before[:-9])
    with pytest.raises(Refused, match="cannot be used"):
        personal_keys(path, "gw.test/audit", CountedChance())
    assert path.read_bytes() == before[:-9]
