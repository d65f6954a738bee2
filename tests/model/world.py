"""A service that knows the truth, driven by the agenda: the claims of the core are held against what really happened.

Every fate of a request is drawn: lost before or after its effect, held up on the way until long after the time-out,
refused, answered with a 500 either way, accepted and cleared away. No socket and no sleep; one seed is one history.
"""

from dataclasses import dataclass, field, replace
from random import Random

from adapters.contract import Observation
from gateway.core.agenda import Act, Item, next_item
from gateway.core.events import (
    BaselineTaken,
    DeadlinePassed,
    Event,
    FenceObserved,
    Followed,
    HeadSeen,
    LeaseLost,
    Observed,
    Polled,
    Restarted,
    Sighting,
)
from gateway.core.judge import claim
from gateway.model.action import Action, Reconcile, Resend
from gateway.model.evidence import Finding
from gateway.model.operation import FINAL, Executed, State
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    FENCE,
    FENCED,
    LOOK_UP,
    OP_ID,
    SAME_KEY,
    SETTLE,
    STATE,
    TIMEOUT,
    UNSENT,
    Story,
    action,
    answer,
    now,
    probed,
    statuses,
)

HANDLE = "https://svc.example.com/api/jobs/1"
HELD_UP_MAX = 20.0
"""Seconds for which a request can be held up after its socket was closed; the settle time is longer."""
ACTS_MAX = 2000


def watched(reconcile: Reconcile) -> Reconcile:
    """An unresolved operation is watched long enough for everything on its way to arrive."""
    return replace(reconcile, watch_seconds=900.0)


ACTIONS: dict[str, Action] = {
    "plain": action(),
    "looked_up": action(reconcile=watched(LOOK_UP)),
    "settled": action(reconcile=watched(SETTLE)),
    "on_absence": action(reconcile=watched(SETTLE), resend=Resend.ON_ABSENCE, refused_before_work=statuses(429)),
    "same_key": action(reconcile=watched(LOOK_UP), **SAME_KEY),
    "same_key_blind": action(**SAME_KEY),
    "fence": action(reconcile=watched(FENCED)),
    "accepted": action(reconcile=watched(SETTLE), accepted=ACCEPTED, resend=Resend.ON_ABSENCE),
    "state": action("PUT", reconcile=watched(STATE)),
}


class Violation(AssertionError):
    """The core claimed, or did, what the service's truth forbids."""


@dataclass
class World:
    """One operation against one service. `effects` is the ledger."""

    kind: str
    random: Random
    effects: int = 0
    place: str | None = None
    known: bool = False
    """The gateway was told that the service has it: from here its record may be cleared away."""
    purged: bool = False
    arrivals: list[int] = field(default_factory=list)
    """Moments at which copies that are on their way take effect."""

    def __post_init__(self) -> None:
        self.story = Story(ACTIONS[self.kind], now=now(jitter=self.random.random()))
        self.dedupes = self.kind.startswith("same_key") or self.kind in {"fence", "state"}

    # --- the service

    def arrive(self) -> bool:
        """A copy of the request reaches the service; whether it has an effect."""
        if self.place is not None and self.dedupes:
            return False
        self.effects += 1
        self.place = "real"
        return True

    def pass_time(self, seconds: float) -> None:
        self.story.wait(seconds)
        moment = self.story.now.wall_ms
        due, self.arrivals = (
            [item for item in self.arrivals if item <= moment],
            [item for item in self.arrivals if item > moment],
        )
        for _ in due:
            self.arrive()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def held_up(self) -> None:
        """A copy stays on its way; without a settle time to break, for as long as it likes."""
        limit = HELD_UP_MAX if self.kind in {"settled", "on_absence", "accepted", "state"} else 500.0
        self.arrivals.append(self.story.now.wall_ms + int(self.random.uniform(0.1, limit) * 1000))

    # --- the gateway's driver

    def run(self) -> "World":
        for _ in range(ACTS_MAX):
            item = next_item(self.story.action, self.story.operation, self.story.now)
            self.check()
            if item.act is Act.NOTHING:
                return self.end()
            if self.chance(0.04) and self.story.state not in FINAL:
                self.restart()
                continue
            self.perform(item)
        raise Violation(f"still {self.story.state.value} after {ACTS_MAX} acts")

    def perform(self, item: Item) -> None:
        match item.act:
            case Act.WAIT:
                if item.at_ms is None:
                    raise Violation("waits for ever")
                self.pass_time(max(item.at_ms - self.story.now.wall_ms, 1) / 1000)
            case Act.BEGIN:
                self.story.tell(BEGIN)
                if self.story.state is State.SENDING:
                    self.send()
            case Act.FENCE:
                self.story.tell(FENCE)
                self.occupy()
            case Act.PROBE:
                self.probe()
            case Act.POLL:
                self.poll()
            case Act.BASELINE:
                found = Finding.INCONCLUSIVE if self.chance(0.3) else Finding.ABSENT
                self.story.tell(BaselineTaken(Sighting(found, "before"), self.story.now.wall_ms))
            case _:
                self.story.tell(_SIMPLE[item.act])

    def restart(self) -> None:
        """The process dies and comes back as another one, at times after a reboot."""
        self.pass_time(self.random.uniform(0.0, 60.0))
        run = f"owner-{self.random.random()}"
        self.story.now = replace(self.story.now, owner=run)
        if self.chance(0.3):
            self.story.now = replace(self.story.now, boot_id=run, boot_ms=int(self.random.uniform(0, 9_000_000)))
        self.story.tell(Restarted())

    def send(self) -> None:
        fates = [self.unsent, self.lost, self.lost_done, self.lost_late, self.dies, self.refused, self.failed_500]
        fates += [self.limited, self.answered, self.answered]
        if self.kind == "accepted":
            fates += [self.accepts, self.accepts, self.head_only]
        self.random.choice(fates)()

    def see(self, observation: Observation, gap: float = 0.0) -> None:
        """The attempt ends, its socket is closed `gap` seconds later, and only then it is reported."""
        number, ended = self.story.operation.attempts[-1].number, self.story.now.wall_ms
        if self.chance(0.1):
            # The lease ran out before the report came.
            self.pass_time(25.0)
            self.story.tell(LeaseLost())
        self.pass_time(gap)
        closed = None if self.chance(0.1) else self.story.now.boot_ms
        observation = replace(
            observation, ended_ms=ended, closed_boot_ms=closed, started_ms=ended - 10_000 if ended > 10_000 else ended
        )
        if self.arrivals and closed is not None:
            # What is on its way left before the close, and is held up from there.
            self.arrivals.pop()
            self.held_up()
        self.story.tell(Observed(number, observation, {"operation_id": OP_ID}))

    def unsent(self) -> None:
        self.see(UNSENT)

    def lost(self) -> None:
        self.pass_time(10)
        self.see(TIMEOUT)

    def lost_done(self) -> None:
        self.arrive()
        self.pass_time(10)
        self.see(TIMEOUT)

    def lost_late(self) -> None:
        self.pass_time(10)
        self.held_up()
        self.see(TIMEOUT, gap=self.random.choice([0.0, 25.0]))

    def dies(self) -> None:
        if self.chance(0.5):
            self.held_up()
        elif self.chance(0.5):
            self.arrive()
        self.restart()

    def refused(self) -> None:
        self.see(answer(409 if self.place else 403))

    def failed_500(self) -> None:
        if self.chance(0.5):
            self.arrive()
        self.see(answer(500))

    def limited(self) -> None:
        self.see(answer(429, b"", ("Retry-After", "7")))

    def answered(self) -> None:
        if self.kind == "fence" and self.place == "tombstone":
            self.refused()
            return
        self.arrive()
        self.see(answer(201))

    def accepts(self) -> None:
        self.arrive()
        self.known = True
        self.see(answer(202, b"", ("Location", HANDLE)))

    def head_only(self) -> None:
        self.arrive()
        self.known = True
        self.story.tell(HeadSeen(self.story.operation.attempts[-1].number, HANDLE, None))
        self.see(TIMEOUT)

    def truth(self) -> Finding:
        if self.known and self.chance(0.3):
            self.purged = True
        if self.purged or self.place is None:
            return Finding.ABSENT
        if self.place == "tombstone":
            return Finding.FENCED
        if self.kind != "state" and self.chance(0.2):
            self.known = self.known or self.kind == "accepted"
            return Finding.IN_PROGRESS
        return Finding.EXECUTED_OK

    def probe(self) -> None:
        begun = self.story.now
        found = Finding.INCONCLUSIVE if self.chance(0.3) else self.truth()
        self.pass_time(self.random.uniform(0.0, 2.0))
        self.story.tell(probed(found, begun))

    def poll(self) -> None:
        found = Finding.INCONCLUSIVE if self.chance(0.3) else self.truth()
        self.story.tell(Polled(Sighting(found, found.value), self.story.now.wall_ms))

    def occupy(self) -> None:
        """Put-if-absent under the operation's own id; its answer may be lost like any other."""
        number = self.story.operation.attempts[-1].number
        if self.chance(0.2):
            self.story.tell(FenceObserved(number, UNSENT, None))
            return
        won = self.place is None
        self.place = self.place or "tombstone"
        if self.chance(0.1):
            self.restart()
        elif self.chance(0.3):
            self.story.tell(FenceObserved(number, TIMEOUT, None))
        else:
            self.story.tell(FenceObserved(number, answer(201 if won else 409), won))

    # --- what must hold

    def check(self) -> None:
        operation, claimed = self.story.operation, claim(self.story.operation)
        if self.effects > 1:
            raise Violation("two effects")
        if operation.state is State.SUCCEEDED and not self.effects:
            raise Violation("success without the effect")
        if claimed.executed is Executed.NO and (self.effects or (self.arrivals and not self.dedupes)):
            raise Violation("claimed as not executed, and it was or will be")
        if len(operation.sends) > self.story.action.attempts_max:
            raise Violation("too many attempts")

    def end(self) -> "World":
        """Whatever is still on its way arrives; then the claim must still be true."""
        self.pass_time(1000)
        self.check()
        return self


_SIMPLE: dict[Act, Event] = {
    Act.FOLLOW: Followed(),
    Act.DEADLINE: DeadlinePassed(),
    Act.LEASE_LOST: LeaseLost(),
}


def search(kinds: list[str], seeds: int) -> str | None:
    """The first violation met in that many histories of each kind, as a sentence; None if there is none."""
    for kind in kinds:
        for seed in range(seeds):
            world = World(kind, Random(f"{kind}-{seed}"))
            try:
                world.run()
            except Violation as violation:
                return f"{kind} {seed}: {violation}: {' '.join(world.story.path)}"
    return None
