"""What tests of keys and credentials stand on: a clock set by hand, predictable bytes, a store in a dict."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from gateway.model.operation import Receipt
from gateway.store.port import Record, StoredCredential, StoredKey, Unavailable


class HandClock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    @property
    def boot_id(self) -> str:
        return "boot"

    def wall_ms(self) -> int:
        return self.now_ms

    def boot_ms(self) -> int:
        return self.now_ms

    async def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


class CountedChance:
    """Different bytes each time, the same in each run."""

    def __init__(self) -> None:
        self.calls = 0

    def bytes(self, count: int) -> bytes:
        self.calls += 1
        return hashlib.shake_256(b"%d" % self.calls).digest(count)

    def jitter(self) -> float:
        return 0.5


class DictStore:
    """Keeps keys and credentials as the port promises; refuses everything while `full`."""

    def __init__(self) -> None:
        self.full = False
        self.records: list[Record] = []
        self.stored_keys: dict[str, StoredKey] = {}
        self.stored_credentials: dict[str, StoredCredential] = {}

    def _take(self, records: Sequence[Record]) -> None:
        if self.full:
            raise Unavailable("the disk is full")
        self.records += records

    async def note(self, records: Sequence[Record]) -> Receipt | None:
        self._take(records)
        return None

    async def put_key(self, key: StoredKey, records: Sequence[Record]) -> None:
        self._take(records)
        self.stored_keys[key.key_id] = key

    async def revoke_key(self, key_id: str, at_ms: int, records: Sequence[Record]) -> bool:
        if self.stored_keys[key_id].revoked_ms is not None:
            return False
        self._take(records)
        self.stored_keys[key_id] = replace(self.stored_keys[key_id], revoked_ms=at_ms)
        return True

    async def keys(self) -> Sequence[StoredKey]:
        return list(self.stored_keys.values())

    async def put_credential(self, credential: StoredCredential, records: Sequence[Record]) -> None:
        self._take(records)
        self.stored_credentials[credential.name] = credential

    async def remove_credential(self, name: str, records: Sequence[Record]) -> bool:
        if name not in self.stored_credentials:
            return False
        self._take(records)
        del self.stored_credentials[name]
        return True

    async def credentials(self) -> Sequence[StoredCredential]:
        return list(self.stored_credentials.values())
