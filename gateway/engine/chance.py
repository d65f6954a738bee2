"""The one door to randomness: ids, nonces and jitter."""

import random
import secrets
from typing import Protocol

from gateway.core.ids import format_id
from gateway.engine.clock import Clock


class Chance(Protocol):
    """Unpredictable bytes and harmless jitter."""

    def bytes(self, count: int) -> bytes:
        """That many bytes from a cryptographic source."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1) for spreading delays; not for secrets."""
        ...


class SystemChance:
    """The operating system's randomness."""

    def bytes(self, count: int) -> bytes:
        """Bytes from the kernel."""
        return secrets.token_bytes(count)

    def jitter(self) -> float:
        """Pseudo-random; only spreads load."""
        return random.random()  # noqa: S311 - spreads delays, guards nothing


class Ids:
    """Makes operation ids: UUIDv7 (RFC 9562 section 5.7), so that ids sort by time of creation."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        """Both are ports."""
        self._clock = clock
        self._chance = chance

    def operation_id(self) -> str:
        """A new `op_` id."""
        return format_id(uuid7(self._clock.wall_ms(), self._chance.bytes(10)))

    def token(self) -> str:
        """Sixteen random bytes in hex: names a process's run, a trace, a minted key."""
        return self._chance.bytes(16).hex()


def uuid7(wall_ms: int, noise: bytes) -> bytes:
    """The sixteen bytes of a UUIDv7 from a time and ten random bytes."""
    raw = bytearray(wall_ms.to_bytes(6, "big") + noise[:10])
    raw[6] = 0x70 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    return bytes(raw)
