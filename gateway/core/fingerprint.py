"""The fingerprint of a request: equal exactly when the same caller asks for the same action with the same arguments."""

from hashlib import sha256

from gateway.core.strictjson import Json, canonical

_DOMAIN = b"action-gateway fingerprint 1"
"""Keeps these hashes apart from every other use of SHA-256 here, and from a later way of computing them."""


def fingerprint(caller: str, action: str, arguments: Json) -> str:
    """SHA-256, hex, over length-prefixed parts: caller, action name and the arguments as submitted.

    Neither defaults nor the definition take part, so that a catalog edit never turns a repeat into a new operation.
    Types count as in JSON: `1`, `true` and `"1"` differ; `1` and `1.0` are one JSON number and RFC 8785 writes both as
    `1`, so they are equal here too. Raises `JsonError` for arguments without a canonical form.
    """
    return fingerprint_of(caller, action, canonical(arguments))


def fingerprint_of(caller: str, action: str, arguments: bytes) -> str:
    """The same, for arguments whose canonical bytes are at hand."""
    # Without the lengths, caller "a" with action "bc" would hash like caller "ab" with action "c".
    whole = b"".join(
        [len(part).to_bytes(8, "big") + part for part in (_DOMAIN, caller.encode(), action.encode(), arguments)]
    )
    return sha256(whole).hexdigest()
