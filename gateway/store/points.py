"""Named places in the writer where a test may raise, crash or fail the disk; free when nobody listens."""

from typing import Final, Protocol

BEGIN: Final = "store.begin"
"""Before the transaction is begun: nothing was read or written."""
RULED: Final = "store.ruled"
"""Every item is ruled on; nothing was sealed or written."""
SEALED: Final = "store.sealed"
"""Records are sealed, the ratchet has moved; nothing was written."""
WRITTEN: Final = "store.written"
"""Every statement ran; the commit comes next."""
COMMITTED: Final = "store.committed"
"""On disk; nobody was told."""
REPLYING: Final = "store.replying"
"""Replies are made and about to be handed to their callers."""

POINTS: Final = (BEGIN, RULED, SEALED, WRITTEN, COMMITTED, REPLYING)
"""Every name, in the order in which one batch meets them."""


class Crash(BaseException):
    """Raised by a point to say that the process dies here. Not an `Exception`: nothing may handle it and go on."""


class Points(Protocol):
    """What a test hangs on the named places."""

    def hit(self, name: str) -> None:
        """Called at each place. Whatever it raises happens there."""
        ...


class Unwatched:
    """Nobody listens."""

    def hit(self, name: str) -> None:
        """Go on."""
