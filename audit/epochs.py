"""Evolving seal keys: each epoch's key is named by the last seal of the epoch before, then the old one is erased."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.chain import ZERO_HASH
from audit.disk import Directory, write_whole
from audit.head import Head
from audit.keyring import Entropy, KeyProblem, SealKey


@dataclass(frozen=True, slots=True)
class EpochLimits:
    """When the next seal hands over to a new key: after that many milliseconds or entries, whichever comes first."""

    age_max_ms: int = 60_000
    entries_max: int = 4096


class SealKeyStore(Protocol):
    """Keeps the private seal keys of logs. Both methods raise OSError."""

    def load(self, origin: str) -> tuple[SealKey, ...]:
        """The keys of one log, in order of their epochs: the one in force, and perhaps its successor."""
        ...

    def save(self, origin: str, keys: Sequence[SealKey]) -> None:
        """Put these in the place of that log's keys, in one step; return when that survives a loss of power."""
        ...


class SealKeyFile:
    """Seal keys in one file, a line a key; lines of other logs are kept as they are."""

    def __init__(self, directory: Directory, name: str) -> None:
        self._directory = directory
        self._name = name

    def load(self, origin: str) -> tuple[SealKey, ...]:
        keys = [key for line in self._lines() if (key := SealKey.parse(line)).origin == origin]
        return tuple(sorted(keys, key=lambda key: key.epoch))

    def save(self, origin: str, keys: Sequence[SealKey]) -> None:
        kept = [line for line in self._lines() if SealKey.parse(line).origin != origin]
        lines = [*kept, *(key.to_line() for key in keys)]
        write_whole(self._directory, self._name, "".join(f"{line}\n" for line in lines).encode())

    def _lines(self) -> list[str]:
        try:
            raw = self._directory.read(self._name, 0, self._directory.size(self._name))
        except FileNotFoundError:
            return []
        return [line for line in raw.decode(errors="replace").splitlines() if line.strip()]


class KeyLost(KeyProblem):
    """The key that must sign the next seal is not here; the log key can certify a new one of a later epoch."""


@dataclass(frozen=True, slots=True)
class _HandOver:
    """A successor in use that the store still keeps as pending; `size`: entries up to the seal that names it."""

    key: SealKey
    size: int


class EpochKeys:
    """The seal keys of one log and their hand-over.

    The order makes every crash harmless: the successor is stored as pending, a seal names it, that seal becomes
    durable, and only then (`confirm`) the old key is dropped. A start looks at the log's head: whichever of the two
    keys it names is in force.
    """

    def __init__(self, store: SealKeyStore, origin: str, limits: EpochLimits | None = None) -> None:
        self._store = store
        self._limits = limits or EpochLimits()
        self._lock = threading.Lock()
        """Held while the store is changed: the writer, the exporter and whoever changes the log key all do it."""
        self._waiting: _HandOver | None = None
        self._prepared: SealKey | None = None
        self._since_ms: int | None = None
        self._since_size = 0
        self.origin = origin
        self.trouble: str | None = None
        """Why the last hand-over had to be put off, or None. The present key goes on signing meanwhile."""

    def resolve(self, head: Head) -> SealKey:
        """The key in force at the stored head; a pending one that the head names is promoted, any other dropped.

        Raises:
            KeyLost: neither stored key is the one in force.
            OSError: the keys could not be read or written.
        """
        stored = self._store.load(self.origin)
        if not stored:
            raise KeyLost(f"there is no seal key for {self.origin}")
        # A head that names no key is that of a new log, or was stored before heads named it.
        named = [stored[0]] if head.epoch_key == ZERO_HASH else _of(stored, head)
        certified = [key for key in stored if key.certified and key.epoch > head.epoch]
        if not named and not certified:
            raise KeyLost(f"the key of epoch {head.epoch}, which must seal {self.origin} next, is not here")
        key = (named or certified)[0]
        if stored != (key,):
            self._store.save(self.origin, [key])
        self._waiting = self._prepared = self._since_ms = None
        return key

    def successor(self, current: SealKey, t_ms: int, size: int, entropy: Entropy) -> SealKey | None:
        """The next epoch's key, stored as pending, if the epoch is over; None while `current` goes on.

        It is in force only once a seal that names it is returned to the caller: then call `handed_over`.
        """
        if self._since_ms is None:
            self._since_ms, self._since_size = t_ms, size
        over = t_ms - self._since_ms >= self._limits.age_max_ms or size - self._since_size >= self._limits.entries_max
        # One hand-over at a time: the store has room for one successor, and until the seal that names it is durable
        # the old key may still be needed.
        with self._lock:
            if not over or self._waiting is not None or self._prepared is not None:
                return None
            following = current.successor(entropy)
            try:
                self._store.save(self.origin, [current, following])
            except OSError as error:
                self.trouble = error.strerror or str(error)
                return None
            self.trouble = None
            return following

    def prepare(self, log_key: Ed25519PrivateKey, entropy: Entropy) -> SealKey:
        """A key of a later epoch that a new log key vouches for, stored beside those in use.

        No other hand-over begins until it is in force (`handed_over`) or given up (`withdraw`). A start that finds it
        drops it unless the log's head names it.

        Raises:
            OSError: it could not be stored.
        """
        with self._lock:
            stored = self._store.load(self.origin)
            epoch = max(key.epoch for key in stored) + 1 if stored else 0
            fresh = SealKey.issue(log_key, self.origin, entropy, epoch)
            self._store.save(self.origin, [*stored, fresh])
            self._prepared = fresh
            return fresh

    def withdraw(self) -> None:
        """A prepared key will not be used; it leaves the store with the next change."""
        with self._lock:
            self._prepared = None

    def handed_over(self, key: SealKey, t_ms: int, size: int) -> None:
        """A seal naming `key` is the last of `size` entries; durable or not is said later."""
        with self._lock:
            self._waiting = _HandOver(key, size)
            self._prepared = None
        self._since_ms, self._since_size = t_ms, size

    def confirm(self, durable_size: int) -> None:
        """The first `durable_size` entries survive a loss of power: drop a key that they replaced.

        May be called from another thread than the sealer's. A store that fails is tried again at the next call.
        """
        with self._lock:
            waiting = self._waiting
            if waiting is None or waiting.size > durable_size:
                return
            kept = [waiting.key] if self._prepared is None else [waiting.key, self._prepared]
            try:
                self._store.save(self.origin, kept)
            except OSError as error:
                self.trouble = error.strerror or str(error)
                return
            self.trouble = None
            self._waiting = None


def _of(stored: Sequence[SealKey], head: Head) -> list[SealKey]:
    return [key for key in stored if (key.epoch, key.public) == (head.epoch, head.epoch_key)]
