"""Which of the keys in the file is the log's: the store says so, and what it says must be there."""

from pathlib import Path

import pytest

from audit.note import NoteSigner
from audit.rotate import Rotated, policy_after
from audit.trust import TrustPolicy
from gateway.engine.log_keys import KeyFile, held_keys
from gateway.store.port import Refused
from tests.unit.audit.logs import ORIGIN, entropy

FIRST, SECOND, THIRD = (NoteSigner.generate(ORIGIN, entropy(name)) for name in ("one", "two", "three"))
OTHER = NoteSigner.generate("gw.example/other", entropy("other"))
ONE = TrustPolicy((FIRST.key,))
TWO = policy_after(ONE, Rotated(7, False, FIRST.key, SECOND.key))
THREE = policy_after(TWO, Rotated(9, False, SECOND.key, THIRD.key))


def file_with(folder: Path, *signers: NoteSigner) -> KeyFile:
    file = KeyFile(folder / "log.key")
    file.write(signers)
    return file


def stored(policy: TrustPolicy) -> bytes:
    return policy.to_text().encode()


def test_without_a_change_the_first_key_of_the_log_is_its_key(tmp_path: Path) -> None:
    file = file_with(tmp_path, OTHER, FIRST, SECOND)
    for said in (None, stored(TrustPolicy((OTHER.key,)))):
        held = held_keys(file, ORIGIN, said)
        assert (held.signer, held.signers, held.old, held.policy) == (FIRST, (FIRST,), (), ONE)


def test_the_store_s_word_decides_not_the_order_in_the_file(tmp_path: Path) -> None:
    held = held_keys(file_with(tmp_path, SECOND, OTHER, FIRST), ORIGIN, stored(TWO))
    assert (held.signer, held.signers) == (SECOND, (FIRST, SECOND))
    assert held.cut_after(FIRST) == 7
    held = held_keys(file_with(tmp_path, THIRD), ORIGIN, stored(THREE))
    assert (held.signers, [key.public for key in held.old]) == ((THIRD,), [FIRST.key.public, SECOND.key.public])


def test_a_key_that_is_missing_or_a_word_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="holds no key"):
        held_keys(file_with(tmp_path, OTHER), ORIGIN, None)
    with pytest.raises(Refused, match="lacks the key"):
        held_keys(file_with(tmp_path, FIRST), ORIGIN, stored(TWO))
    with pytest.raises(Refused, match="cannot be read"):
        held_keys(file_with(tmp_path, FIRST), ORIGIN, b"log nonsense")
    (tmp_path / "log.key").write_text("nonsense\n")
    with pytest.raises(Refused, match="cannot be used"):
        KeyFile(tmp_path / "log.key").read()
    with pytest.raises(Refused, match="cannot be read"):
        KeyFile(tmp_path / "gone.key").read()


def test_keys_are_kept_for_their_owner_alone_and_forgotten_by_log(tmp_path: Path) -> None:
    file = file_with(tmp_path, OTHER, FIRST)
    file.add(SECOND)
    assert file.of(ORIGIN) == [FIRST, SECOND]
    assert (tmp_path / "log.key").stat().st_mode & 0o777 == 0o600
    file.keep(ORIGIN, [SECOND.key])
    assert file.read() == [OTHER, SECOND]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.key"]
