"""A private key is taken whole and without a passphrase, and all that gives it away is known."""

import base64

import asyncssh
import pytest

from gateway.core.privatekey import NoKey, split_key, telling_parts

KEY = asyncssh.generate_private_key("ssh-ed25519", comment="gateway")
TEXT = KEY.export_private_key().decode()
CERTIFICATE = KEY.generate_user_certificate(KEY, "deploys", principals=["deploy"]).export_certificate().decode().strip()


def reason(text: str) -> str:
    with pytest.raises(NoKey) as refused:
        split_key(text)
    assert refused.value.hint
    assert KEY.export_private_key().decode().splitlines()[2] not in f"{refused.value} {refused.value.hint}"
    return refused.value.detail


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
def test_what_ssh_keygen_makes_is_taken(kind: str) -> None:
    text = asyncssh.generate_private_key(kind).export_private_key().decode()

    assert split_key(text) == (text, None)
    assert split_key(text.replace("\n", "\r\n").strip()) == (text, None)


def test_a_certificate_may_stand_below_it() -> None:
    assert split_key(f"{TEXT}\n{CERTIFICATE}\n") == (TEXT, CERTIFICATE)


def test_a_passphrase_is_refused_and_said_so() -> None:
    plain = base64.b64decode("".join(TEXT.splitlines()[1:-1]))
    none, locked = b"\0\0\0\4none\0\0\0\4none\0\0\0\0", b"\0\0\0\x0aaes256-ctr\0\0\0\6bcrypt\0\0\0\4salt"
    assert plain.count(none) == 1
    body = base64.encodebytes(plain.replace(none, locked)).decode()
    text = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}-----END OPENSSH PRIVATE KEY-----\n"

    assert reason(text) == "The private key is protected by a passphrase."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no private key"),
        ("hunter2hunter2", "no private key"),
        (KEY.export_public_key().decode(), "no private key"),
        (TEXT.rsplit("-----END", 1)[0], "not in the form"),
        (TEXT.replace("OPENSSH", "RSA"), "not in the form"),
        (KEY.export_private_key("pkcs8-pem").decode(), "not in the form"),
        ("\n".join(line for index, line in enumerate(TEXT.splitlines()) if index != 3), "not whole"),
        (TEXT.replace("b3Blbn", "c3Blbn"), "not whole"),
        (TEXT.replace("b3Blbn", "!3Blbn"), "not whole"),
        (TEXT + "something else", "no certificate"),
        (f"{TEXT}{CERTIFICATE}\n{CERTIFICATE}", "no certificate"),
        (TEXT + KEY.export_public_key().decode(), "no certificate"),
    ],
    # The texts are made anew at each run: a name that held one would differ from process to process.
    ids=[
        "empty",
        "password",
        "public key",
        "no end",
        "of another form",
        "PKCS 8",
        "a line short",
        "other kind",
        "a character that is none",
        "words below it",
        "two certificates",
        "public key below it",
    ],
)
def test_what_is_no_key_is_refused_with_what_to_do(text: str, said: str) -> None:
    assert said in reason(text)


def test_all_that_gives_it_away_is_named() -> None:
    parts = set(telling_parts(f"{TEXT}{CERTIFICATE}\n"))
    lines = TEXT.splitlines()

    assert {line.encode() for line in lines[1:-1] if len(line) > 16} < parts
    assert "".join(lines[1:-1]).encode() in parts
    assert any(part in base64.b64decode("".join(lines[1:-1])) and len(part) > 64 for part in parts)
    assert b"-----BEGIN OPENSSH PRIVATE KEY-----" not in parts
