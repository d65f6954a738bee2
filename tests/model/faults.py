"""The fault alphabet: every fate that a request or a look can meet. The gate of cells asks for each."""

from dataclasses import dataclass
from random import Random

from tests.model.host_faults import FINE_HOST, HOST_FENCES, HOST_LOOKS, HOST_SENDS, HostFate, host_lawful
from tests.model.kinds import Kind


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one request on its way there and back."""

    name: str
    connects: str = "yes"
    """yes, refused, hangs."""
    arrives: str = "promptly"
    """promptly, never, late: some time after our socket was closed, at most as long as the kind allows."""
    held: float = 0.0
    """Share of that longest time, for `late`."""
    status: int | None = None
    """What the service answers in place of its own answer."""
    effect: bool = True
    """Whether it does what was asked for all the same."""
    answer: str = "whole"
    """whole, none: the connection breaks; hangs; head: breaks behind the head; cut; open: its end is the connection's
    end; early: comes before the request was written."""
    lingers: bool = False
    """Our socket is closed some time after the deadline, and bytes leave until then."""
    unsure: bool = False
    """Whether the socket was closed is not known."""
    partial: bool = False
    """Only a part of the request was written."""
    twice: bool = False
    """Something on the way sends it again and hands back the answer to the second copy."""
    job: str = "done"
    """What becomes of accepted work: done, failed."""
    forgets: bool = False
    """The handle vanishes once the work is done."""
    slow: bool = False
    """Processing takes as long as it may."""


FINE = Fate("fine")
_SENDS = (
    FINE,
    Fate("slow", slow=True),
    Fate("refused", connects="refused"),
    Fate("connect hangs", connects="hangs"),
    Fate("lost", arrives="never", answer="hangs"),
    Fate("lost, reset", arrives="never", answer="none"),
    Fate("read, dropped", effect=False, answer="none"),
    Fate("done, dropped", answer="none"),
    Fate("done, silent", answer="hangs"),
    Fate("late", arrives="late", held=0.05, answer="hangs"),
    Fate("later", arrives="late", held=0.5, answer="hangs"),
    Fate("latest", arrives="late", held=1.0, answer="hangs"),
    Fate("late, socket lingers", arrives="late", held=0.95, answer="hangs", lingers=True),
    Fate("late, close unsure", arrives="late", held=0.6, answer="hangs", unsure=True),
    Fate("500", status=500, effect=False),
    Fate("500, done", status=500),
    Fate("502, done", status=502),
    Fate("503", status=503, effect=False),
    Fate("503, done", status=503),
    Fate("504, done", status=504),
    Fate("408", status=408, effect=False),
    Fate("408, done", status=408),
    Fate("408 for a part", status=408, effect=False, partial=True),
    Fate("425", status=425, effect=False),
    Fate("429", status=429, effect=False),
    Fate("429, done", status=429),
    Fate("403", status=403, effect=False),
    Fate("422", status=422, effect=False),
    Fate("cut behind the head", answer="head"),
    Fate("body cut", answer="cut"),
    Fate("answer without end", answer="open"),
    Fate("answer too early", answer="early"),
    Fate("partly written", arrives="never", partial=True, answer="none"),
    Fate("sent twice on the way", twice=True),
    Fate("404 for the second copy", twice=True, status=404),
    Fate("412 for the second copy", twice=True, status=412),
    Fate("work fails", job="failed"),
    Fate("work fails, cut", job="failed", answer="head"),
    Fate("handle vanishes", forgets=True),
    Fate("handle vanishes, cut", forgets=True, answer="head"),
)
SENDS: dict[str, Fate] = {fate.name: fate for fate in _SENDS}

LOOKS = (
    "seen", "stale", "down", "hangs", "500", "401", "cut", "another's", "two of them", "blind", "lies", "busy",
)  # fmt: skip
"""What a look meets. `blind`: it sees nothing, and the positive control shows that; `lies`: it denies what is there."""

_WORK_ONLY = frozenset({"work fails", "work fails, cut", "handle vanishes", "handle vanishes, cut"})
_SECOND = frozenset({"404 for the second copy", "412 for the second copy"})
_REFUSALS = frozenset({425, 403, 422})


def lawful(kind: Kind, fate: Fate, what: str) -> bool:
    """Whether an honest service of that kind can meet with it."""
    if kind.host is not None:
        return False
    if fate.effect and fate.status in kind.before_work and not fate.twice:
        return False
    if fate.name in _WORK_ONLY:
        return kind.accepts and what == "send"
    if fate.name in _SECOND:
        # On a POST, "not there" is taken for a refusal; only a method that changes a named thing may hear it of itself.
        return kind.method == "PUT" and kind.looks and what == "send"
    if fate.twice or fate.status == 422:
        return what == "send"
    return not (fate.slow and kind.read)


class Faults:
    """Draws fates. `level` is the share of requests that meet trouble; `queue` says what comes first."""

    def __init__(self, random: Random, level: float) -> None:
        self.random = random
        self.level = level
        self.queue: list[str] = []
        self.looks: list[str] = []
        self.fences: list[str] = []
        self._lawful: dict[tuple[str, str], list[Fate]] = {}
        self._lawful_there: dict[tuple[str, str], list[HostFate]] = {}

    def send(self, kind: Kind, what: str) -> Fate:
        """The fate of a write, a fence, or a read that an agent asked for."""
        queue = self.fences if what == "fence" and self.fences else self.queue
        while queue:
            fate = SENDS.get(queue.pop(0))
            if fate is not None and lawful(kind, fate, what):
                return fate
        if self.random.random() >= self.level:
            return FINE
        fates = self._lawful.get((kind.name, what))
        if fates is None:
            fates = self._lawful[kind.name, what] = [fate for fate in _SENDS if lawful(kind, fate, what)]
        return self.random.choice(fates)

    def look(self, kind: Kind) -> str:
        """What a look meets."""
        wanted = next((name for name in iter(self._next_look, "") if name in LOOKS), None)
        if wanted is None:
            if self.random.random() >= self.level:
                return "seen"
            wanted = self.random.choice(LOOKS)
        if (wanted == "blind" and not kind.control) or (wanted == "lies" and not kind.lies):
            return "down"
        return wanted

    def _next_look(self) -> str:
        return self.looks.pop(0) if self.looks else ""

    def host(self, kind: Kind, what: str, *, blackout: bool) -> HostFate:
        """The fate of a session on a host: of a send, a fence, a cancel or a look."""
        known = _THERE[what]
        if what == "look" and blackout:
            return known["ssh: connection refused"]
        queue = {"look": self.looks, "fence": self.fences}.get(what, self.queue)
        while queue:
            fate = known.get(queue.pop(0))
            if fate is not None and host_lawful(kind, fate, what):
                return fate
        if self.random.random() >= self.level:
            return FINE_HOST
        fates = self._lawful_there.get((kind.name, what))
        if fates is None:
            fates = [fate for fate in known.values() if host_lawful(kind, fate, what)]
            self._lawful_there[kind.name, what] = fates
        return self.random.choice(fates)


_THERE = {"send": HOST_SENDS, "fence": HOST_FENCES, "cancel": HOST_FENCES, "look": HOST_LOOKS}
