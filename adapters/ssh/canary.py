"""What a host's store must still know: operations that were seen to have ended there.

A snapshot that is put back, or a cloned disk, takes the store with it, under its old identity. It then lacks what ran
since, and a fence that is placed in it proves nothing about that. Only what the gateway itself saw there can show it.
"""

from dataclasses import dataclass

from adapters.contract import HostExchange, Observation
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
    """What this process saw, in its order, for each store."""

    def __init__(self) -> None:
        """Nothing was seen yet; what an earlier process saw is not known."""
        self._seen: dict[tuple[str, int, str], dict[tuple[str, int], Canary]] = {}

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
        others = [item for item in self._known(exchange).values() if item.operation != exchange.operation]
        before = [item for item in others if item.seen_ms <= exchange.issued_ms]
        after = [item for item in others if item.seen_ms > exchange.issued_ms]
        return (*before[-1:], *after[:1])

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
        self._known(exchange).pop((canary.operation, canary.attempt), None)
        return None

    def _known(self, exchange: HostExchange) -> dict[tuple[str, int], Canary]:
        return self._seen.get(_store(exchange), {})


def _store(exchange: HostExchange) -> tuple[str, int, str]:
    return exchange.target.address, exchange.target.port, exchange.store_id
