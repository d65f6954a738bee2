"""A job of three steps for tests of the core, and a host in memory that keeps a record of each place."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from adapters.contract import HostVerb, Observation
from gateway.core.events import CancelBegun, CancelObserved, Event, FenceObserved, Probed, Restarted
from gateway.core.reconcile.fence import read_fence
from gateway.core.reconcile.look import read_probe
from gateway.core.steps import found_steps
from gateway.core.template import Rendered
from gateway.engine.live import Live
from gateway.engine.stepping import Stepping
from gateway.model.action import Action, Fence
from gateway.model.operation import Operation
from gateway.model.step import StepSeen
from tests.unit.catalog.commands import COMMAND, compiled
from tests.unit.core.builders import BEGIN, FENCE, OP_ID, TIMEOUT, UNSENT, Story, answer, operation

NAMES = ("backup", "migrate", "restart")
STEPS = "    steps:\n" + "".join(f"      - {{name: {name}, command: [/bin/{name}]}}\n" for name in NAMES)


def job(more: str = "") -> Action:
    return compiled((COMMAND, STEPS + more))


def told(phase: str, code: int | None = None, **more: Any) -> Observation:
    """The runner's answer about one step."""
    body = {"phase": phase, "exit": code, **more}
    headers = [("Content-Type", "application/json"), ("Phase", phase)]
    if code is not None:
        headers.append(("Exited", str(code)))
    summary = f"the host says {phase}" + (f" for {more['reason']}" if "reason" in more else "")
    return answer(code or 0, json.dumps(body).encode(), *headers, summary=summary)


GAVE_UP = replace(UNSENT, headers=(("Phase", "fenced"), ("Reason", "lock_busy")), summary="lock busy")
"""What the adapter makes of the runner's answer to a delivery whose place was used up without a run."""
LOST = replace(TIMEOUT, headers=(("Phase", "lost"),))

Fault = Callable[["Asking"], str | None]
"""`before`: the question is lost on its way; `after`: its answer is; `held`: it arrives later, or never."""


@dataclass(frozen=True, slots=True)
class Asking:
    number: int
    verb: HostVerb
    name: str


@dataclass
class MemoryHost:
    """Runs a command at once when it is told to, as the runner would: at most once in each place."""

    exits: dict[str, int] = field(default_factory=dict)
    fault: Fault = lambda _asking: None
    records: dict[tuple[str, int], str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    held: list[tuple[str, int]] = field(default_factory=list)
    asked: list[Asking] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    """Steps whose lock is taken: a delivery gives up, and its place is used up."""

    async def ask(self, verb: HostVerb, index: int, known: StepSeen, _seconds: float) -> Observation:
        place = (NAMES[index], known.marker)
        asking = Asking(len(self.asked), verb, known.name)
        self.asked.append(asking)
        fault = self.fault(asking)
        if fault == "unsent":
            return UNSENT
        if fault == "held":
            if verb is HostVerb.RUN:
                self.held.append(place)
            return TIMEOUT
        if fault == "before":
            return TIMEOUT
        seen = self._do(verb, place)
        return TIMEOUT if fault == "after" else seen

    def arrive(self) -> None:
        """What was held on its way arrives now."""
        for place in self.held:
            self._do(HostVerb.RUN, place)
        self.held.clear()

    def runs_at_once(self, name: str) -> None:
        """A delivery that somebody sent arrives."""
        self._do(HostVerb.RUN, (name, 1))

    def _do(self, verb: HostVerb, place: tuple[str, int]) -> Observation:
        if verb is HostVerb.RUN and place not in self.records:
            if place[0] in self.busy:
                self.records[place] = "lock_busy"
            else:
                self.runs.append(place[0])
                self.records[place] = "exited"
        if verb in {HostVerb.FENCE, HostVerb.CANCEL}:
            self.records.setdefault(place, "fence")
        match self.records.get(place):
            case None:
                return told("absent")
            case "exited":
                return told("exited", self.exits.get(place[0], 0))
            case "lost":
                return LOST if verb is HostVerb.RUN else told("lost")
            case "running":
                return told("running")
            case reason:
                return GAVE_UP if verb is HostVerb.RUN else told("fenced", reason=reason)


def at(verb: HostVerb, name: str, fault: str, *, times: int = 1) -> MemoryHost:
    """A host on which questions of one kind about one step meet a fault."""
    left = [times]

    def strike(asking: Asking) -> str | None:
        if (asking.verb, asking.name) != (verb, name) or left[0] == 0:
            return None
        left[0] -= 1
        return fault

    return MemoryHost(fault=strike)


class Still:
    """A clock that stands, as far as a pass is concerned."""

    def boot_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0


def live_of(action: Action, at: Operation, words: bytes = b"") -> Live:
    return Live(at, action, {"version": "7", "list": []}, Rendered("RUN", "ssh://x", (), words))


class JobStory(Story):
    """A job's life on a host in memory, driven as the driver would."""

    host: MemoryHost

    @classmethod
    def on(cls, host: MemoryHost, action: Action | None = None) -> "JobStory":
        made = cls(action or job(), operation(id=OP_ID))
        made.host = host
        return made

    def _pass(self, verb: HostVerb) -> Observation:
        live = live_of(self.action, self.operation)
        return asyncio.run(Stepping(live, self.host.ask, Still()).go(verb))

    def tell(self, *events: Event, after: float = 0.0) -> "JobStory":
        super().tell(*events, after=after)
        return self

    def wait(self, seconds: float) -> "JobStory":
        super().wait(seconds)
        return self

    def run_attempt(self) -> "JobStory":
        self.tell(BEGIN)
        if self.state.value != "sending":
            return self
        self.observe(self._pass(HostVerb.RUN))
        return self

    def crash(self) -> "JobStory":
        """Begin an attempt whose gateway dies: what it did on the host stays."""
        self.tell(BEGIN)
        self._pass(HostVerb.RUN)
        self.tell(Restarted())
        return self

    def probe(self) -> "JobStory":
        seen = self._pass(HostVerb.STATUS)
        reconcile = self.action.reconcile
        assert reconcile is not None
        sighting = read_probe(reconcile, self.operation, seen, {"operation_id": OP_ID})
        sighting = replace(sighting, steps=found_steps(self.action, seen))
        self.tell(Probed(sighting, self.now.wall_ms, self.now.boot_ms))
        return self

    def fence(self) -> "JobStory":
        self.tell(FENCE)
        seen = self._pass(HostVerb.FENCE)
        assert self.action.reconcile is not None
        assert isinstance(self.action.reconcile.absence, Fence)
        won = read_fence(self.action.reconcile.absence, seen, {})
        self.tell(FenceObserved(self.operation.attempts[-1].number, seen, won))
        return self

    def cancel(self) -> "JobStory":
        self.tell(CancelBegun("agent", "TERM"))
        seen = self._pass(HostVerb.CANCEL)
        fenced = seen.header("Phase") == "fenced" if seen.answered else None
        return self.tell(CancelObserved(len(self.operation.attempts), seen, fenced))

    @property
    def states(self) -> list[str]:
        return [item.state.value for item in self.operation.steps]
