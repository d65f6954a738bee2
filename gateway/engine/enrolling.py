"""Learning which keys a host has: fetched, shown, and believed only once a person has confirmed what was shown.

The only place where a key is ever learned. What is confirmed goes into the audit log and is remembered, and a person
puts it into the catalog: the gateway itself never widens what a host is believed by.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from adapters.contract import HostKeys, HostPlace, HostTarget
from gateway.catalog.declared_hosts import DeclaredHosts
from gateway.core.acl import require_deed
from gateway.core.hostkey import HostKey, host_key
from gateway.core.strictjson import digest
from gateway.engine.clock import Clock
from gateway.engine.outbound import target_of_host
from gateway.engine.ports import Credentials
from gateway.model.action import Host
from gateway.model.principal import Deed, Principal
from gateway.model.problem import Code, FieldError, Problem
from gateway.store.port import Record, Store

CONNECT_SECONDS: Final = 10.0
SECONDS: Final = 30.0
_META: Final = "host_keys:"
"""With the host's name behind it: the keys that were last confirmed for it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host is that no catalog declares yet."""

    address: str
    port: int = 22
    allow_private: bool = False
    jump: str | None = None
    """A declared host to go through."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a host presents, held against what it is believed by. `digest` is what a person confirms."""

    host: str
    address: str
    port: int
    keys: Sequence[HostKey]
    believed: Sequence[str]
    """Fingerprints: by the catalog, else those last confirmed."""
    digest: str = ""
    authorities: Sequence[str] = ()
    """Fingerprints of the authorities whose certificates it is believed by, with these keys or others."""

    @property
    def missing(self) -> Sequence[str]:
        """Fingerprints that it is believed by and does not present: its key has changed."""
        shown = {key.fingerprint for key in self.keys}
        return [fingerprint for fingerprint in self.believed if fingerprint not in shown]


class Enrolment:
    """Fetches and confirms keys of hosts. One per process."""

    def __init__(
        self, hosts: DeclaredHosts, credentials: Credentials, reader: HostKeys, store: Store, clock: Clock
    ) -> None:
        """`credentials` are for hosts on the way; the host itself is only asked for its keys."""
        self._hosts = hosts
        self._credentials = credentials
        self._reader = reader
        self._store = store
        self._clock = clock

    async def offer(self, principal: Principal, name: str, place: Place | None = None) -> Offer:
        """The keys that the host presents now. Changes nothing. Raises Problem."""
        require_deed(principal, Deed.ADMINISTER)
        host = self._hosts.get(name)
        where = self._where(host, place)
        seen = await self._reader.presented(where, connect_seconds=CONNECT_SECONDS, seconds=SECONDS)
        if seen.failure is not None:
            raise Problem(
                Code.HOST_UNAVAILABLE,
                f"The host's keys could not be fetched: {seen.failure}. Nothing was recorded.",
                _where_to_look(where, seen.hops_short),
            )
        keys = tuple(host_key(line) for line in seen.keys)
        self._refuse_revoked(host, keys)
        found = Offer(
            name,
            where.address,
            where.port,
            keys,
            await self._believed(name, host),
            authorities=[host_key(line).fingerprint for line in (() if host is None else host.host_authorities)],
        )
        shown = {
            "host": name,
            "address": where.address,
            "port": where.port,
            "keys": [key.line for key in keys],
            "believed": list(found.believed),
        }
        return replace(found, digest=digest(shown))

    async def confirm(
        self,
        principal: Principal,
        name: str,
        place: Place | None = None,
        *,
        seen: str,
        replaces: Sequence[str] = (),
    ) -> Offer:
        """Record that a person believes the keys with this digest, if the host still presents them. Raises Problem.

        `replaces` are the fingerprints that it was believed by and no longer presents, each of them: a changed key is
        never taken for a new one.
        """
        found = await self.offer(principal, name, place)
        if found.digest != seen:
            raise Problem(
                Code.STALE_DIGEST,
                "The host presents other keys than those that were shown, or is believed by others now; nothing was"
                " recorded.",
                "Fetch them again and compare before you confirm.",
                extra={"digest": found.digest},
            )
        if set(replaces) != set(found.missing):
            raise _changed(found) if found.missing else _nothing_to_replace()
        now_ms = self._clock.wall_ms()
        body: dict[str, Any] = {
            "at": now_ms,
            "host": name,
            "address": found.address,
            "port": found.port,
            "keys": [{"algorithm": key.algorithm, "fingerprint": key.fingerprint} for key in found.keys],
            "replaces": list(found.missing),
            "digest": found.digest,
            "by": principal.name,
            "session": principal.key_id,
        }
        kept = orjson.dumps([key.line for key in found.keys])
        await self._store.put_meta(f"{_META}{name}", kept, (Record("host_enrolled", body),))
        return found

    def _where(self, host: Host | None, place: Place | None) -> HostPlace:
        if host is None:
            if place is None:
                detail = "No host of that name is declared in the catalog that the gateway was started with."
                error = FieldError("/address", detail, "Give its address.")
                raise Problem(Code.INVALID_INPUT, detail, error.guidance, errors=(error,))
            return HostPlace(place.address, place.port, place.allow_private, self._way(place.jump))
        if place is not None and (place.address, place.port) != (host.address, host.port):
            detail = "The catalog declares another address for this host."
            error = FieldError("/address", detail, "Leave it out, or change the catalog first.")
            raise Problem(Code.INVALID_INPUT, detail, error.guidance, errors=(error,))
        jump = None if host.jump is None else target_of_host(host.jump, self._credentials)
        return HostPlace(host.address, host.port, host.allow_private, jump)

    def _way(self, jump: str | None) -> HostTarget | None:
        if jump is None:
            return None
        host = self._hosts.get(jump)
        if host is None:
            error = FieldError("/jump", "No host of that name is declared.", "Enrol and declare it first.")
            raise Problem(Code.INVALID_INPUT, error.detail, error.guidance, errors=(error,))
        return target_of_host(host, self._credentials)

    async def _believed(self, name: str, host: Host | None) -> Sequence[str]:
        lines: Sequence[str] = () if host is None else host.host_keys
        if not lines:
            kept = await self._store.meta(f"{_META}{name}")
            lines = () if kept is None else orjson.loads(kept)
        return tuple(host_key(line).fingerprint for line in lines)

    @staticmethod
    def _refuse_revoked(host: Host | None, keys: Sequence[HostKey]) -> None:
        revoked = set() if host is None else {host_key(line).fingerprint for line in host.revoked_keys}
        for key in keys:
            if key.fingerprint in revoked:
                raise Problem(
                    Code.WRONG_STATE,
                    f"The host presents a key that the catalog revokes ({key.fingerprint}); nothing was recorded.",
                    "Do not believe it: ask the host's owner, by another way, what happened.",
                )


def _where_to_look(where: HostPlace, hops_short: int) -> str:
    at: HostPlace | HostTarget = where
    for _ in range(hops_short):
        at = at.jump or at
    host = f"the jump host {at.name}: " if isinstance(at, HostTarget) else ""
    return f"Look at {host}address ({at.address}), port ({at.port}), and the way there."


def _changed(found: Offer) -> Problem:
    old, new = ", ".join(found.missing), ", ".join(key.fingerprint for key in found.keys)
    return Problem(
        Code.WRONG_STATE,
        f"The host does not present the key that it is believed by ({old}), but {new}. Nothing was recorded.",
        "Somebody may stand in between. Only if its owner says, by another way, that the key was changed: confirm again"
        f" and name what is replaced (`--replaces {' --replaces '.join(found.missing)}`).",
    )


def _nothing_to_replace() -> Problem:
    detail = "The host presents every key that it is believed by, so there is nothing to replace."
    error = FieldError("/replaces", detail, "Leave it out.")
    return Problem(Code.INVALID_INPUT, detail, error.guidance, errors=(error,))
