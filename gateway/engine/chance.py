"""The one door to randomness: ids, nonces and jitter."""

import random
import secrets
from typing import Protocol

from gateway.core.ids import format_id
from gateway.engine.clock import Clock

PIECE_BYTES = 16
PIECES = 256


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

    def __init__(self) -> None:
        """Nothing is drawn yet."""
        self._pieces: list[bytes] = []

    def bytes(self, count: int) -> bytes:
        """Bytes from the kernel. Short ones, which are ids and nonces and no secrets, are drawn many at a time.

        Every call to the kernel gives up the interpreter's lock, and two busy threads wait for it longer than the
        call takes. Each piece is given out once; taking one off a list is safe between threads.
        """
        if count > PIECE_BYTES:
            return secrets.token_bytes(count)
        try:
            piece = self._pieces.pop()
        except IndexError:
            drawn = secrets.token_bytes(PIECE_BYTES * PIECES)
            self._pieces.extend(drawn[at : at + PIECE_BYTES] for at in range(PIECE_BYTES, len(drawn), PIECE_BYTES))
            piece = drawn[:PIECE_BYTES]
        return piece[:count]

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
