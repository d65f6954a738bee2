"""Public keys of hosts in OpenSSH's one-line form: what kind, and the fingerprint by which people compare them."""

import base64
import binascii
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostKey:
    """One key. Equal keys have equal fingerprints, whatever stands behind them on their line."""

    algorithm: str
    line: str
    """`ssh-ed25519 AAAA…`, without a comment: what a catalog's `host_keys` takes."""
    fingerprint: str
    """`SHA256:` and the unpadded base64 of the digest, as `ssh-keygen -l` prints it."""


def host_key(line: str) -> HostKey:
    """The key on a line. Raises `ValueError` for what is none."""
    algorithm, _, rest = line.strip().partition(" ")
    text = rest.split(" ", maxsplit=1)[0]
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        data = b""
    kind = algorithm.encode()
    if not kind or data[: 4 + len(kind)] != len(kind).to_bytes(4) + kind:
        raise ValueError("not a public key")
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return HostKey(algorithm, f"{algorithm} {text}", f"SHA256:{digest}")
