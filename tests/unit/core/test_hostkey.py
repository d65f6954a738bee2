"""Keys of hosts as people compare them."""

import subprocess
from pathlib import Path

import pytest

from gateway.core.hostkey import host_key
from tests.unit.adapters.ssh_stand import new_key, public_text
from tests.unit.catalog.commands import KEY


def test_the_fingerprint_is_the_one_that_ssh_keygen_prints(tmp_path: Path) -> None:
    line = public_text(new_key())
    (tmp_path / "key.pub").write_text(line)
    printed = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(tmp_path / "key.pub")], capture_output=True, text=True, check=True
    )

    assert host_key(line).fingerprint == printed.stdout.split()[1]


def test_a_comment_makes_no_other_key() -> None:
    found = host_key(f"{KEY} somebody@somewhere\n")

    assert (found.line, found.algorithm) == (KEY, "ssh-ed25519")
    assert found == host_key(KEY)


@pytest.mark.parametrize("line", ["", "ssh-ed25519", "ssh-rsa " + KEY.split()[1], "ssh-ed25519 !!!!", "AAAA AAAA"])
def test_what_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a public key"):
        host_key(line)
