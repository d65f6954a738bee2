"""What a host's store must still know: operations that were seen to have ended there.

A snapshot that is put back, or a cloned disk, takes the store with it, under its old identity. It then lacks what ran
since, and a fence that is placed in it proves nothing about that. Only what the gateway itself saw there can show it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from adapters.contract import HostEnd, HostExchange, Observation
from adapters.ssh.runner_wire import Answer, RemotePhase

RESTS_ON_ABSENCE = frozenset({RemotePhase.ABSENT.value, RemotePhase.FENCED.value})
"""What a host says of an attempt that it holds no run of."""
FORGOTTEN = "the host's store no longer knows what ended there before: it was put back, so what it lacks proves nothing"
UNSEEN = "whether the host's store still knows what ended there before could not be seen"
KEPT_MAX = 256
"""For each store."""


@dataclass(frozen=True, slots=True)
class Canary:
    """An attempt that was seen to have ended, by the names under which the host holds it."""

    operation: str
    attempt: int
    issued_ms: int
    seen_ms: int
    """When its end was first seen, by the gateway's clock."""


class Canaries:
    """What this process saw, in its order, for each store; and, kept apart from it, what earlier ones wrote down.

    Those are asked about as well, and never instead: with them a store is doubted more often, and never less.
    """

    def __init__(self) -> None:
        """Nothing was seen yet, and nothing is known of what an earlier process saw."""
        self._seen: dict[tuple[str, int, str], dict[tuple[str, int], Canary]] = {}
        self._earlier: dict[tuple[str, int, str], dict[tuple[str, int], Canary]] = {}

    def remember(self, ends: Iterable[HostEnd]) -> None:
        """Ends that an earlier process saw. Of each store the newest are kept."""
        for end in sorted(ends, key=lambda item: item.seen_ms):
            known = self._earlier.setdefault((end.address, end.port, end.store_id), {})
            known[end.operation, end.attempt] = Canary(end.operation, end.attempt, end.issued_ms, end.seen_ms)
            if len(known) > KEPT_MAX:
                del known[next(iter(known))]

    def saw(self, exchange: HostExchange, answer: Answer | None, now_ms: int) -> None:
        """Remember an answer that tells of an end."""
        if answer is None or answer.phase is not RemotePhase.EXITED:
            return
        known = self._seen.setdefault(_store(exchange), {})
        name = exchange.operation, exchange.attempt
        if name not in known:
            known[name] = Canary(*name, exchange.issued_ms, now_ms)
            if len(known) > KEPT_MAX:
                del known[next(iter(known))]

    def beside(self, exchange: HostExchange, seen: Observation) -> tuple[Canary, ...]:
        """What to ask for as well before this is believed; nothing where it rests on no absence.

        Whoever put the store back to a time before this operation lost with it the first that ended after it was
        begun, unless that ended after the store was put back; and then the last before, unless that is older still.
        """
        if seen.header("Phase") not in RESTS_ON_ABSENCE or not seen.body_complete:
            return ()
        before, after = _around(self._seen, exchange)
        earlier_before, earlier_after = _around(self._earlier, exchange)
        # Of what earlier processes saw the newest as well: whatever the store was put back to while nobody looked, it
        # lacks that one first.
        earlier = (*earlier_after[:1], *earlier_after[1:][-1:])
        return (*(before or earlier_before)[-1:], *earlier, *(item for item in after[:1] if item not in earlier))

    def judge(self, exchange: HostExchange, canary: Canary, answer: Answer | None) -> str | None:
        """Why the store is not to be believed about what it lacks, from its answer about one of these; None: it is.

        One that was collected since shows nothing and is given up: whoever collects raises the floor first.
        """
        if answer is None or answer.phase is RemotePhase.REFUSED:
            return UNSEEN
        if answer.phase is not RemotePhase.ABSENT:
            return None
        if answer.fields["authoritative"]:
            return FORGOTTEN
        for known in (self._seen, self._earlier):
            known.get(_store(exchange), {}).pop((canary.operation, canary.attempt), None)
        return None


def _around(
    kept: dict[tuple[str, int, str], dict[tuple[str, int], Canary]], exchange: HostExchange
) -> tuple[list[Canary], list[Canary]]:
    """Other operations that were seen to have ended there: before this one was begun, and since."""
    others = [item for item in kept.get(_store(exchange), {}).values() if item.operation != exchange.operation]
    before = [item for item in others if item.seen_ms <= exchange.issued_ms]
    return before, [item for item in others if item.seen_ms > exchange.issued_ms]


def _store(exchange: HostExchange) -> tuple[str, int, str]:
    return exchange.target.address, exchange.target.port, exchange.store_id
