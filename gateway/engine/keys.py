"""API keys: made once, shown once, kept as hashes, and turned into who is asking."""

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import structlog

from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.model.operation import Receipt
from gateway.model.principal import Principal, PrincipalKind
from gateway.model.problem import Code, FieldError, Problem
from gateway.store.port import Record, StoredKey, Unavailable

FAILURES_INTERVAL_SECONDS: Final = 60
"""Refused keys are recorded at most this often, as one count: who guesses keys must not be able to fill the log."""

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_HEADER_MAX: Final = 200
_HEADER: Final = re.compile(r"(?i:bearer) gwk_([0-9a-z]{10})_([A-Za-z0-9_-]{43})", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}", re.ASCII)
_NAMED_MAX: Final = 8
_NOBODY: Final = StoredKey("", b"\0" * 32, PrincipalKind.CALLER, "", "", 0, revoked_ms=0)

log = structlog.get_logger(__name__)


class KeyStore(Protocol):
    """The part of the store that keys need."""

    async def put_key(self, key: StoredKey, records: Sequence[Record]) -> None: ...
    async def revoke_key(self, key_id: str, at_ms: int, records: Sequence[Record]) -> bool: ...
    async def keys(self) -> Sequence[StoredKey]: ...
    async def note(self, records: Sequence[Record]) -> Receipt | None: ...


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A key in a list: everything but its secret and the secret's hash. Times are wall-clock milliseconds."""

    key_id: str
    prefix: str
    """The beginning of the key's text, by which its holder recognises it."""
    kind: PrincipalKind
    name: str
    owner: str
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None
    usable: bool


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made. Its text exists here and nowhere else: show it once and forget it."""

    line: KeyLine
    text: str = field(repr=False)


class Keys:
    """All keys of the gateway, indexed in memory by their public id; the store has them for the next start."""

    def __init__(self, store: KeyStore, clock: Clock, chance: Chance) -> None:
        """Call `load` before use: until then no key is known."""
        self._store = store
        self._clock = clock
        self._chance = chance
        self._keys: dict[str, StoredKey] = {}
        self._failures = 0
        self._failed_ids: set[str] = set()
        self._failures_noted_ms: int | None = None
        self._making = asyncio.Lock()
        """Held from the look at the names to the new key: two that are made at once must see each other."""
        self.on_revoked: set[Callable[[str], None]] = set()
        """Called with the key id when a key is revoked, so that streams opened under it end at once."""

    async def load(self) -> None:
        """Read all keys from the store; what was revoked here in the meantime stays revoked."""
        for stored in await self._store.keys():
            known = self._keys.get(stored.key_id)
            if known is None or known.revoked_ms is None:
                self._keys[stored.key_id] = stored

    def authenticate(self, header: str | None) -> Principal:
        """Who holds the key in an `Authorization` header (`Bearer gwk_…`).

        Raises `Problem(unauthenticated)` with one text for every reason: absent, malformed, unknown, wrong, expired and
        revoked keys look the same from outside, and take the same comparison.
        """
        match = _HEADER.fullmatch(header) if header is not None and len(header) <= _HEADER_MAX else None
        key_id, secret = match.groups() if match else ("", "")
        stored = self._keys.get(key_id, _NOBODY)
        # The hash is compared even for a key that does not exist, so that the answer's time does not tell.
        right = hmac.compare_digest(hashlib.sha256(secret.encode()).digest(), stored.secret_sha256)
        if not (right and stored is not _NOBODY and self._usable(stored)):
            self._count_failure(stored)
            raise Problem(
                Code.UNAUTHENTICATED,
                "No valid key came with this request.",
                "Send `Authorization: Bearer` with a key that the gateway's owner made for you.",
            )
        return Principal(stored.kind, stored.name, stored.owner, stored.key_id)

    def is_usable(self, key_id: str) -> bool:
        """Whether a key is still good; streams ask now and then, for a key expires without anybody's doing."""
        stored = self._keys.get(key_id)
        return stored is not None and self._usable(stored)

    async def create(
        self, kind: PrincipalKind, name: str, owner: str, *, by: str, expires_ms: int | None = None
    ) -> NewKey:
        """Make a key for a caller, or for a person, who then is their own owner. `by` is who asked for it.

        Raises `Problem(invalid_input)` for a name that is not one or that belongs to the other kind, for a person with
        another owner, and for an expiry in the past; and what the store raises, after which no key exists.
        """
        async with self._making:
            now_ms = self._clock.wall_ms()
            self._check(kind, name, owner)
            if expires_ms is not None and expires_ms <= now_ms:
                raise _invalid("expires_at", "The key would be expired at once.", "Give a time in the future.")
            key_id = self._new_id()
            secret = base64.urlsafe_b64encode(self._chance.bytes(32)).rstrip(b"=").decode()
            hashed = hashlib.sha256(secret.encode()).digest()
            stored = StoredKey(key_id, hashed, kind, name, owner, now_ms, expires_ms)
            body = {"key_id": key_id, "kind": kind.value, "name": name, "owner": owner, "expires_ms": expires_ms}
            await self._store.put_key(stored, (Record("key_created", {"at": now_ms, **body, "by": by}),))
            self._keys[key_id] = stored
        return NewKey(self._line(stored), f"gwk_{key_id}_{secret}")

    async def revoke(self, key_id: str, *, by: str) -> bool:
        """End a key, here at once, then durably. False if it was revoked before. `key_id` may be the key's prefix.

        Raises `Problem(not_found)`, and what the store raises: the key is dead in this process even then, but must be
        revoked again to stay dead after a restart.
        """
        key_id = key_id.removeprefix("gwk_")[:10]
        stored = self._keys.get(key_id)
        if stored is None:
            raise Problem(Code.NOT_FOUND, "There is no such key.", "List the keys and give the id of one of them.")
        now_ms = self._clock.wall_ms()
        self._keys[key_id] = replace(stored, revoked_ms=stored.revoked_ms or now_ms)
        self._tell(key_id)
        body = {"at": now_ms, "key_id": key_id, "kind": stored.kind.value, "name": stored.name, "by": by}
        return await self._store.revoke_key(key_id, now_ms, (Record("key_revoked", body),))

    def list(self) -> tuple[KeyLine, ...]:
        """Every key ever made, oldest first, without secrets."""
        return tuple(map(self._line, sorted(self._keys.values(), key=lambda key: (key.created_ms, key.key_id))))

    async def note_failures(self) -> None:
        """Record how many keys were refused since the last record. Called regularly; writes only if there is news."""
        now_ms = self._clock.wall_ms()
        last_ms = self._failures_noted_ms
        # abs: a wall clock that was set back must not silence this until it has caught up.
        if not self._failures or (last_ms is not None and abs(now_ms - last_ms) < FAILURES_INTERVAL_SECONDS * 1000):
            return
        count, ids = self._failures, sorted(self._failed_ids)
        try:
            await self._store.note((Record("authentication_failed", {"at": now_ms, "count": count, "key_ids": ids}),))
        except Unavailable:
            return  # still counted; the next call tries again
        self._failures -= count
        self._failed_ids.difference_update(ids)
        self._failures_noted_ms = now_ms

    def _usable(self, stored: StoredKey) -> bool:
        if stored.revoked_ms is not None:
            return False
        return stored.expires_ms is None or self._clock.wall_ms() < stored.expires_ms

    def _count_failure(self, stored: StoredKey) -> None:
        """Only ids of real keys are kept, and few: nothing that a stranger sends gets into a record."""
        self._failures += 1
        if stored is not _NOBODY and len(self._failed_ids) < _NAMED_MAX:
            self._failed_ids.add(stored.key_id)

    def _check(self, kind: PrincipalKind, name: str, owner: str) -> None:
        check_names(kind, name, owner)
        other = {stored.name.casefold(): stored.kind for stored in self._keys.values()}
        # One name for an agent and a person would blur who acted and who decided.
        if other.get(name.casefold(), kind) is not kind:
            raise _invalid("name", "This name belongs to a key of the other kind.", "Choose another name.")
        if other.get(owner.casefold()) is PrincipalKind.CALLER:
            raise _invalid("owner", "This owner is a caller.", "Name the person who answers for the key.")

    def _new_id(self) -> str:
        while True:
            key_id = "".join(_ALPHABET[byte & 31] for byte in self._chance.bytes(10))
            if key_id not in self._keys:
                return key_id

    def _line(self, key: StoredKey) -> KeyLine:
        return KeyLine(
            key.key_id, f"gwk_{key.key_id}", key.kind, key.name, key.owner,
            created_ms=key.created_ms, expires_ms=key.expires_ms, revoked_ms=key.revoked_ms, usable=self._usable(key),
        )  # fmt: skip

    def _tell(self, key_id: str) -> None:
        for listener in tuple(self.on_revoked):
            try:
                listener(key_id)
            except Exception:
                # One stream that fails to end must not keep the others open.
                log.exception("revocation_listener_failed", key_id=key_id)


def check_names(kind: PrincipalKind, name: str, owner: str) -> None:
    """Raise `Problem(invalid_input)` for names that no key may have, whichever others there are."""
    for pointer, text in (("name", name), ("owner", owner)):
        if not _NAME.fullmatch(text):
            raise _invalid(
                pointer, "This is not a usable name.", "Use up to 100 letters, digits and any of . _ @ + - in it."
            )
    if kind is PrincipalKind.PERSON and owner != name:
        raise _invalid("owner", "A person answers for their own key.", "Leave the owner out, or name the person.")
    if kind is PrincipalKind.CALLER and owner.casefold() == name.casefold():
        raise _invalid("owner", "A caller cannot answer for itself.", "Name the person who answers for it.")


def _invalid(pointer: str, detail: str, guidance: str) -> Problem:
    return Problem(
        Code.INVALID_INPUT,
        "The key cannot be made like that.",
        guidance,
        errors=(FieldError(f"/{pointer}", detail, guidance),),
    )
