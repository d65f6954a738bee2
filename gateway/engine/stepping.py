"""Takes a job through its steps on a host: one question for each, in order, as far as the answers allow.

Why the gateway leads, and not the host. A supervisor on the host that ran all steps in one go would not stop when a
session dies; but it would go on while nobody holds the lease, after a cancel it never heard of, and by success rules
that it would have to be taught. Here each step is a command like any other, with its own gate, begin and exit record
under `OPERATION.STEP`, and the runner needs to know nothing of jobs. A job whose session dies stands still after the
step that was running, until a look has found the first step without a record. Sending that step is safe however often
it was sent before, because every copy of it means the same place on the host, and that place lets one of them in.
Steps that have a record are only ever asked for.
"""

from collections.abc import Awaitable, Callable

from adapters.contract import Clock, HostVerb, Observation
from gateway.core.job import Asked, observe_job
from gateway.core.steps import read_step, steps_of
from gateway.engine.live import Live
from gateway.model.step import StepSeen, StepState

Ask = Callable[[HostVerb, int, StepSeen, float], Awaitable[Observation]]
"""Asks the host about the step at an index, as it is known, within so many seconds."""

SHARE_TO_BEGIN = 0.5
"""Of an attempt's time must be left when another step is begun; else the next attempt begins it, with all of its."""


class Stepping:
    """One pass over the steps of one operation."""

    def __init__(self, live: Live, ask: Ask, clock: Clock) -> None:
        """Nothing is asked yet."""
        self._live = live
        self._ask = ask
        self._clock = clock
        self._steps = list(steps_of(live.action, live.operation))
        self._asked: list[Asked] = []
        self._seconds = live.action.deadlines.request_seconds
        self._until_ms: int | None = clock.boot_ms() + int(self._seconds * 1000)

    async def go(self, verb: HostVerb) -> Observation:
        """Make the pass that a verb means, and say what it showed of the whole job."""
        if verb is HostVerb.RUN:
            return await self._run()
        # Nothing waits for a look, so each of its questions has the time of an attempt: else a job of many steps on a
        # slow host could never be looked at whole.
        self._until_ms = None if verb is HostVerb.STATUS else self._until_ms
        index = await self._look()
        if verb is not HostVerb.STATUS:
            # What has not begun is at the first step without an exit record; nothing after it was ever sent. That may
            # be a later one than was known, so the answer tells of all of them.
            await self._question(verb, index)
        return self._observed(sending=False)

    async def _run(self) -> Observation:
        begun = False
        for index, known in enumerate(self._steps):
            if known.state is StepState.SUCCEEDED:
                await self._question(HostVerb.STATUS, index)
            elif begun and self._left() < self._seconds * SHARE_TO_BEGIN:
                return self._observed(sending=True, stopped="the attempt's time is used up; the next one goes on")
            else:
                begun = True
                await self._question(HostVerb.RUN, index)
            changed = known.state is StepState.SUCCEEDED and self._steps[index] != known
            if changed or not self._answered_well(index):
                break
        return self._observed(sending=True)

    async def _look(self) -> int:
        """Ask for one step after the other up to the first that has not succeeded; its index, or the last one's."""
        index = 0
        for index, known in enumerate(self._steps):
            await self._question(HostVerb.STATUS, index)
            while self._steps[index].marker > known.marker and self._left() > 0:
                # That place gave up by itself; what became of the step stands at the next one.
                known = self._steps[index]  # noqa: PLW2901 - the same step, as it is known by now
                await self._question(HostVerb.STATUS, index)
            if not self._answered_well(index):
                break
        return index

    async def _question(self, verb: HostVerb, index: int) -> None:
        action, known, sent = self._live.action, self._steps[index], verb is HostVerb.RUN
        seen = await self._ask(verb, index, known, max(self._left(), 0.001))
        self._steps[index] = read_step(
            action.steps[index], known, seen, self._live.variables(), marker_max=action.attempts_max, sent=sent
        )
        self._asked.append(Asked(self._steps[index], seen, sent))

    def _answered_well(self, index: int) -> bool:
        """Only the host's own word, now, lets the next step begin: what was known before does not."""
        seen = self._asked[-1].observation
        return self._steps[index].state is StepState.SUCCEEDED and seen.answered and seen.header("Exited") is not None

    def _observed(self, *, sending: bool, stopped: str | None = None) -> Observation:
        return observe_job(self._live.operation.id, tuple(self._steps), self._asked, sending=sending, stopped=stopped)

    def _left(self) -> float:
        return self._seconds if self._until_ms is None else (self._until_ms - self._clock.boot_ms()) / 1000
