import base64
import os
import stat
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.cipher import CannotDecrypt, DataKeyCipher, create_key, load_key, parse_key
from gateway.store.port import Refused

KEY = bytes(range(32))


def made(key: bytes = KEY) -> DataKeyCipher:
    nonces = count()
    return DataKeyCipher(key, lambda size: next(nonces).to_bytes(size, "big"))


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_what_was_encrypted_comes_back_under_the_same_key_and_context(plaintext: bytes, context: bytes) -> None:
    assert made().decrypt(made().encrypt(plaintext, context), context) == plaintext


def test_another_context_key_or_byte_opens_nothing() -> None:
    ciphertext = made().encrypt(b"plain", b"row 1")
    for key, stored, context in (
        (KEY, ciphertext, b"row 2"),
        (bytes(32), ciphertext, b"row 1"),
        (KEY, ciphertext[:-1] + bytes([ciphertext[-1] ^ 1]), b"row 1"),
        (KEY, ciphertext[:10], b"row 1"),
        (KEY, b"", b"row 1"),
        (KEY, b"\x02" + ciphertext[1:], b"row 1"),
    ):
        with pytest.raises(CannotDecrypt):
            made(key).decrypt(stored, context)


def test_equal_plaintexts_have_different_ciphertexts() -> None:
    cipher = made()
    assert cipher.encrypt(b"same", b"c") != cipher.encrypt(b"same", b"c")


def test_each_lot_of_messages_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.cipher.LOT", 2)
    salts = iter([b"1" * 16, b"2" * 16])
    cipher = DataKeyCipher(KEY, lambda size: next(salts) if size == 16 else bytes(size))
    # The same nonce under one key would give equal ciphertexts.
    made = [cipher.encrypt(b"same", b"context") for _ in range(4)]
    assert made[0] == made[1] != made[2] == made[3]
    assert made[0][29:] != made[2][29:]
    assert {cipher.decrypt(one, b"context") for one in made} == {b"same"}


def test_key_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        DataKeyCipher(b"short", bytes)


def test_created_key_is_private_and_loads(tmp_path: Path) -> None:
    path = tmp_path / "data.key"
    create_key(path, lambda size: KEY[:size])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key(path, None, "KEY") == KEY
    with pytest.raises(Refused, match="already"):
        create_key(path, bytes)


def test_environment_comes_before_the_file(tmp_path: Path) -> None:
    text = base64.b64encode(bytes(32)).decode()
    assert load_key(tmp_path / "none", text, "KEY") == bytes(32)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "data.key"
    create_key(path, lambda size: KEY[:size])
    path.chmod(mode)
    with pytest.raises(Refused, match="chmod 0600"):
        load_key(path, None, "KEY")


def test_linked_or_missing_key_file_is_refused(tmp_path: Path) -> None:
    create_key(tmp_path / "data.key", lambda size: KEY[:size])
    (tmp_path / "link").symlink_to(tmp_path / "data.key")
    for name in ("link", "missing"):
        with pytest.raises(Refused, match="and KEY is not set"):
            load_key(tmp_path / name, None, "KEY")


def test_pipe_in_place_of_the_key_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.key", 0o600)
    with pytest.raises(Refused, match="not a plain file"):
        load_key(tmp_path / "data.key", None, "KEY")


@pytest.mark.parametrize("text", ["", "secret-but-wrong", "ü", base64.b64encode(b"short").decode()])
def test_malformed_key_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_key(text, "the variable KEY")
    assert not text or text not in str(caught.value)
