"""Takes an output stream of any length: counts and hashes all of it, keeps its head and its tail."""

import hashlib
from collections import deque

from adapters.contract_ssh import Capture


class Capturing:
    """Memory is bounded by the two limits and one chunk. The sender is never paused: undrained, it would never end."""

    def __init__(self, head_bytes_max: int, tail_bytes_max: int) -> None:
        self._head = bytearray()
        self._head_max = head_bytes_max
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._tail_max = tail_bytes_max
        self._hash = hashlib.sha256()
        self._count = 0

    def feed(self, data: bytes) -> None:
        self._count += len(data)
        self._hash.update(data)
        room = self._head_max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._keep_end(data)

    def _keep_end(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_max:
            self._tail_bytes -= len(self._tail.popleft())

    def taken(self) -> Capture:
        """What was seen so far."""
        tail = b"".join(self._tail)
        return Capture(
            count=self._count,
            head=bytes(self._head),
            tail=tail[max(0, len(tail) - self._tail_max) :],
            sha256=self._hash.hexdigest() if self._count else None,
        )
