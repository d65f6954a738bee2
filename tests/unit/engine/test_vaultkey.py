"""The vault's key comes from the environment or from a file that is its owner's alone; anything else is refused."""

import base64
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.engine.chance import SystemChance
from gateway.engine.vaultkey import VARIABLE, create_vault_key, load_vault_key
from gateway.store.port import Refused
from tests.canary import Canaries

KEY = bytes(range(32))
TEXT = base64.b64encode(KEY).decode()


def test_the_environment_comes_first(tmp_path: Path) -> None:
    assert load_vault_key(tmp_path / "absent", TEXT) == KEY
    assert load_vault_key(tmp_path / "absent", f" {TEXT}\n") == KEY


@pytest.mark.parametrize("text", ["", "abc", TEXT[:-4], TEXT + "AAAA", TEXT.replace("A", "!", 1), "é" * 44])
def test_a_malformed_key_is_refused_without_being_shown(text: str, tmp_path: Path) -> None:
    path = tmp_path / "vault.key"
    path.write_text(text)
    path.chmod(0o600)
    for from_environment, place in ((text, VARIABLE), (None, str(path))):
        with pytest.raises(Refused) as refused:
            load_vault_key(path, from_environment)
        assert place in str(refused.value)
        assert not text or text not in str(refused.value)


def test_a_made_key_is_private_and_never_overwritten(tmp_path: Path, canaries: Canaries) -> None:
    path = tmp_path / "vault.key"
    create_vault_key(path, SystemChance())
    canaries.watch_secret("the vault's key", path.read_text().strip())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = load_vault_key(path, None)
    assert len(key) == 32
    with pytest.raises(Refused, match="already") as refused:
        create_vault_key(path, SystemChance())
    canaries.watch_text(str(refused.value))
    assert load_vault_key(path, None) == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o666, 0o620, 0o610, 0o601, 0o700])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "vault.key"
    path.write_text(TEXT)
    path.chmod(mode)

    with pytest.raises(Refused, match="chmod 0600"):
        load_vault_key(path, None)


def _link(path: Path) -> None:
    real = path.with_suffix(".real")
    real.write_text(TEXT)
    real.chmod(0o600)
    path.symlink_to(real)


@pytest.mark.parametrize("make", [_link, Path.mkdir, os.mkfifo])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "vault.key"
    make(path)

    with pytest.raises(Refused):
        load_vault_key(path, None)


def test_no_key_at_all_names_both_places(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=VARIABLE):
        load_vault_key(tmp_path / "vault.key", None)
