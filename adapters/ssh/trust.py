"""Whom we believe, and as whom we come: pinned host keys, authorities and the caller's key, all from text in hand."""

import base64
import hashlib
from collections.abc import Iterable

import asyncssh

from adapters.contract_ssh import SshCredential, SshPins
from adapters.http.refusals import Refused

Known = tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]
Identity = asyncssh.SSHKey | tuple[asyncssh.SSHKey, asyncssh.SSHCertificate]


def known_hosts(pins: SshPins) -> Known:
    """Keys, authorities and revoked keys for the library, as lists that no file or address can widen.

    Raises:
        Refused: nothing is pinned, or a line is no public key.
    """
    if not pins.keys and not pins.authorities:
        raise Refused("no key is pinned for this host")
    return _public_keys(pins.keys), _public_keys(pins.authorities), _public_keys(pins.revoked)


def _public_keys(lines: Iterable[str]) -> list[asyncssh.SSHKey]:
    try:
        return [asyncssh.import_public_key(line) for line in lines]
    except (asyncssh.KeyImportError, ValueError):
        raise Refused("a key pinned for this host cannot be read") from None


def identity_of(credential: SshCredential) -> Identity:
    """The credential in the library's form. Not kept: a key must not outlive its use here.

    Raises:
        Refused: it cannot be used; the sentence says why and holds nothing of it.
    """
    try:
        key = asyncssh.import_private_key(credential.private_key)
    except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError, ValueError) as error:
        locked = isinstance(error, asyncssh.KeyEncryptionError) or "assphrase" in str(error)
        why = "is protected by a passphrase" if locked else "cannot be read"
        raise Refused(f"the private key {why}") from None
    if credential.certificate is None:
        return key
    try:
        certificate = asyncssh.import_certificate(credential.certificate)
    except (asyncssh.KeyImportError, ValueError):
        raise Refused("the certificate of the private key cannot be read") from None
    if certificate.key.public_data != key.public_data:
        raise Refused("the certificate belongs to another private key")
    return key, certificate


class Gatekeeper(asyncssh.SSHClient):
    """Sees which key a host presents, adds what the library leaves out, and notes when the connection is lost."""

    def __init__(self) -> None:
        self.presented: str | None = None
        self.lost = False

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Stand before the library's check, which lets a host certificate without principals speak for any host."""
        check = conn.validate_server_host_key

        def strict(key_data: bytes) -> asyncssh.SSHKey:
            self.presented = _fingerprint(key_data)
            _demand_principals(key_data)
            return check(key_data)

        conn.validate_server_host_key = strict  # type: ignore[method-assign]  # no hook sees the certificate

    def connection_lost(self, exc: Exception | None) -> None:
        """Called in the same step in which the channels of the connection are told."""
        self.lost = True

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Never: this call cannot tell a new key from a changed one."""
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Never, as above."""
        return False


def _fingerprint(key_data: bytes) -> str:
    certificate = _certificate(key_data)
    if certificate is not None:
        return str(certificate.key.get_fingerprint())
    digest = base64.b64encode(hashlib.sha256(key_data).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def _demand_principals(key_data: bytes) -> None:
    certificate = _certificate(key_data)
    if certificate is not None and not getattr(certificate, "principals", None):
        raise asyncssh.HostKeyNotVerifiable("a host certificate must name the hosts it is for")


def _certificate(key_data: bytes) -> asyncssh.SSHCertificate | None:
    algorithm = key_data[4 : 4 + int.from_bytes(key_data[:4])]
    if b"-cert-" not in algorithm:
        return None
    try:
        return asyncssh.import_certificate(algorithm + b" " + base64.b64encode(key_data))
    except (asyncssh.KeyImportError, ValueError):
        raise asyncssh.HostKeyNotVerifiable("the host certificate cannot be read") from None
