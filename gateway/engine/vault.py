"""Credentials: encrypted at rest, bound to one origin, joined to a request last, and never shown again."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from adapters.contract import Secret
from gateway.core.credential import Credential, CredentialKind, check
from gateway.core.redact import Mask
from gateway.core.strictjson import canonical
from gateway.core.template import origin_of
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.vaultkey import VARIABLE
from gateway.model.problem import Code, Problem
from gateway.store.cipher import CannotDecrypt, DataKeyCipher
from gateway.store.port import Record, Refused, StoredCredential

_KEY_ID_BYTES: Final = 8


class CredentialStore(Protocol):
    """The part of the store that the vault needs."""

    async def put_credential(self, credential: StoredCredential, records: Sequence[Record]) -> None: ...
    async def remove_credential(self, name: str, records: Sequence[Record]) -> bool: ...
    async def credentials(self) -> Sequence[StoredCredential]: ...


@dataclass(frozen=True, slots=True)
class CredentialLine:
    """A credential in a list: where it goes and how, never what it is."""

    name: str
    kind: str
    origin: str
    changed_ms: int
    readable: bool
    """False: the stored bytes were changed by somebody else; the credential must be set again."""


@dataclass(frozen=True, slots=True)
class _Entry:
    line: CredentialLine
    credential: Credential | None = field(repr=False)


class Vault:
    """All credentials, decrypted in memory, and the mask that keeps them out of everything else."""

    def __init__(
        self, store: CredentialStore, key: bytes, clock: Clock, chance: Chance, *, also: Iterable[bytes] = ()
    ) -> None:
        """`also` are secrets from elsewhere to be masked with the rest. Call `load` before use."""
        self._store = store
        self._clock = clock
        self._cipher = DataKeyCipher(key, chance.bytes)
        self._key_id = hashlib.sha256(b"vault key\0" + key).digest()[:_KEY_ID_BYTES]
        self._entries: dict[str, _Entry] = {}
        # Values that were replaced stay: a service may still echo them in a late answer.
        self._values = {key, *also}
        self._mask = Mask(self._values)
        self._changing = asyncio.Lock()

    def __repr__(self) -> str:
        """Counts, never values."""
        return f"Vault({len(self._entries)} credentials)"

    async def load(self) -> None:
        """Read and decrypt all credentials. Raises `store.port.Refused` if they were encrypted under another key.

        A single entry that does not open was tampered with: it is listed as unreadable and never sent.
        """
        entries = {stored.name: self._opened(stored) for stored in await self._store.credentials()}
        self._entries = entries
        self._know(entry.credential for entry in entries.values() if entry.credential is not None)

    async def set(
        self, name: str, kind: str, value: str | bytes, *, origin: str, by: str, header_name: str | None = None
    ) -> CredentialLine:
        """Store a credential, durably, in the place of one of the same name.

        `origin` is written down with it: whatever the catalog says later, the value is sent nowhere else. `header_name`
        names the header or the query parameter for these two kinds. Raises `Problem(invalid_input)`, and what the store
        raises, after which the old credential holds.
        """
        credential = check(name, kind, value, origin=origin, header_name=header_name)
        self._know((credential,))  # before anything can fail: an error must not show it either
        describes = {"kind": credential.kind.value, "origin": credential.origin, "carrier": credential.carrier}
        sealed = self._key_id + self._cipher.encrypt(credential.value.encode(), _context(name, describes))
        async with self._changing:
            now_ms = self._clock.wall_ms()
            stored = StoredCredential(name, sealed, describes, now_ms)
            body = {"at": now_ms, "name": name, "kind": kind, "origin": credential.origin, "by": by}
            await self._store.put_credential(stored, (Record("credential_set", body),))
            line = _line(stored, readable=True)
            self._entries[name] = _Entry(line, credential)
        return line

    async def remove(self, name: str, *, by: str) -> bool:
        """Forget a credential; False if there is none. Raises what the store raises, after which it is still there."""
        async with self._changing:
            body = {"at": self._clock.wall_ms(), "name": name, "by": by}
            removed = await self._store.remove_credential(name, (Record("credential_removed", body),))
            self._entries.pop(name, None)
        return removed

    def secret_for(self, name: str, origin: str) -> Secret:
        """The credential of this name, for a request to this origin.

        Raises `Problem(credential_missing)` if there is none, if it was set for another origin, or if it does not open.
        There is no second choice: an action whose credential is missing is not sent.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise _missing(f"The credential {name} is not in the vault.")
        if entry.credential is None:
            raise _missing(f"The credential {name} cannot be read any more and must be set again.")
        if entry.credential.origin != _normal(origin):
            raise _missing(f"The credential {name} was set for another origin than the one that this action calls.")
        return entry.credential.secret()

    def list(self) -> tuple[CredentialLine, ...]:
        """Name, kind, origin and time of change of each, by name."""
        return tuple(self._entries[name].line for name in sorted(self._entries))

    def values(self) -> tuple[bytes, ...]:
        """Every value to be masked; `Mask` derives the encodings."""
        return tuple(self._values)

    @property
    def mask(self) -> Mask:
        """The mask over all values as of now. Ask each time: it is replaced when a credential changes."""
        return self._mask

    def _know(self, credentials: Iterable[Credential]) -> None:
        known = self._values.union(part for credential in credentials for part in credential.parts())
        if known != self._values:
            self._values = known
            self._mask = Mask(known)

    def _opened(self, stored: StoredCredential) -> _Entry:
        key_id, sealed = stored.ciphertext[:_KEY_ID_BYTES], stored.ciphertext[_KEY_ID_BYTES:]
        if key_id != self._key_id:
            raise Refused(
                f"The credential {stored.name} was encrypted under another vault key. Start with the key that it was "
                f"set under ({VARIABLE} or the key file), or restore that key file from a backup."
            )
        try:
            value = self._cipher.decrypt(sealed, _context(stored.name, stored.describes)).decode()
            credential = Credential(
                stored.name,
                CredentialKind(stored.describes["kind"]),
                stored.describes["origin"],
                stored.describes["carrier"],
                value,
            )
        except (CannotDecrypt, UnicodeDecodeError, KeyError, ValueError):
            return _Entry(_line(stored, readable=False), None)
        return _Entry(_line(stored, readable=True), credential)


def _context(name: str, describes: Mapping[str, str]) -> bytes:
    """What the ciphertext is bound to: with another name, kind, header or origin it does not open."""
    return b"credential\0" + canonical([name, dict(describes)])


def _line(stored: StoredCredential, *, readable: bool) -> CredentialLine:
    describes = stored.describes
    return CredentialLine(
        stored.name, describes.get("kind", "?"), describes.get("origin", "?"), stored.changed_ms, readable
    )


def _normal(origin: str) -> str | None:
    try:
        return origin_of(origin)
    except ValueError:
        return None


def _missing(detail: str) -> Problem:
    return Problem(
        Code.CREDENTIAL_MISSING,
        detail,
        "Nothing was sent. Ask the gateway's operator to set it with `gateway credentials set`.",
    )
