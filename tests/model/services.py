"""The services: what they do, remember and show. Their ledger is the truth that every claim is held against."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson

from tests.model.faults import Fate
from tests.model.history import Effect, History
from tests.model.kinds import LAG_SECONDS_MAX, PROCESSING_SECONDS_MAX, Kind
from tests.model.loop import VirtualLoop

FORGET_SECONDS = 6 * 3600.0
"""Records are kept longer than any operation is watched, a clock that is put back included; nothing declares that."""
JOB_SECONDS_MAX = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, before anything happens to it on its way back."""

    status: int
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Copy:
    """A request on its way, or again on its way."""

    number: int
    """Place of its send in the history."""
    op: str
    what: str
    kind: Kind
    fate: Fate
    body: dict[str, Any]
    reply: Callable[[Answer | None], None]
    repeated: bool = False


@dataclass(slots=True)
class _Record:
    op: str
    name: Any
    size: Any
    at: float
    done_at: float
    ends: str
    gone_at: float
    forgets: bool = False
    """Once the gateway knows of it, it is cleared away as soon as it is done."""


@dataclass(slots=True)
class Services:
    """All of them, one per kind; operations keep them apart."""

    loop: VirtualLoop
    random: Random
    history: History
    records: dict[str, _Record] = field(default_factory=dict)
    memory: dict[str, tuple[float, Answer | None]] = field(default_factory=dict)
    """What a remembering service gives back under our value, and until when. None: it still works on it."""
    states: dict[str, list[tuple[float, Any]]] = field(default_factory=dict)

    known: Callable[[str], bool] = field(default=lambda _op: False)
    """Whether the gateway durably knows that the service has it."""
    blind_until: dict[str, float] = field(default_factory=dict)

    # --- writes

    def arrive(self, copy: Copy) -> None:
        """A copy of a request has come."""
        kind, fate, now = copy.kind, copy.fate, self.loop.now
        if copy.what == "fence":
            self._fence(copy)
            return
        if kind.read:
            copy.reply(Answer(fate.status or 200, b'{"state":"there"}'))
            return
        if not fate.effect and not (fate.status == 500 and kind.dedupes_seconds):
            copy.reply(Answer(fate.status) if fate.status else None)
            return
        known = self.memory.get(copy.op)
        if kind.dedupes_seconds is not None:
            if known is not None and now < known[0]:
                self.history.reached("service: repeat met its memory")
                copy.reply(known[1] or Answer(409))
                return
            if known is not None:
                self.history.reached("service: repeat after its memory")
            extra = self.random.choice([0.0, 0.0, 5.0, 1000.0])
            self.memory[copy.op] = (now + kind.dedupes_seconds + extra, None)
        if kind.by_place and copy.op in self.records:
            copy.reply(Answer(fate.status if fate.twice and fate.status else 409))
            return
        limit = PROCESSING_SECONDS_MAX
        self.loop.call_later(limit if fate.slow else self.random.random() * limit * 0.5, self._carry_out, copy)

    def _carry_out(self, copy: Copy) -> None:
        kind, fate, now = copy.kind, copy.fate, self.loop.now
        if kind.by_place and copy.op in self.records:
            copy.reply(Answer(fate.status if fate.twice and fate.status else 409))
            return
        if not fate.effect:
            self._answer(copy, Answer(fate.status or 500))
            return
        if kind.accepts and copy.op in self.records and self.random.random() < 0.5:
            copy.reply(Answer(409))
            return
        if kind.accepts:
            self._accept(copy)
            return
        self.effect(copy)
        name, size = copy.body.get("name"), copy.body.get("size")
        if kind.state:
            self.states.setdefault(copy.body["name"], []).append((now, size))
        else:
            self.records[copy.op] = _Record(copy.op, name, size, now, now, "done", now + FORGET_SECONDS)
        body = orjson.dumps({"key": copy.op, "name": name, "state": "done"})
        self._answer(copy, Answer(fate.status if fate.status and not fate.twice else 201, body))

    def _accept(self, copy: Copy) -> None:
        fate, now = copy.fate, self.loop.now
        took = self.random.random() * JOB_SECONDS_MAX
        done_at = now + took
        made = _Record(
            copy.op, copy.body.get("name"), copy.body.get("size"), now, done_at, fate.job, now + FORGET_SECONDS
        )
        made.forgets = fate.forgets
        self.records[copy.op] = made
        if fate.job == "done":
            self.loop.call_later(took, self.effect, copy)
        status = fate.status if fate.status and not fate.twice else 202
        headers = (("Location", f"/jobs/{copy.op}"),) if status == 202 else ()
        self._answer(copy, Answer(status, b"{}", headers))

    def effect(self, copy: Copy) -> None:
        """It happens."""
        self.history.effects.append(Effect(self.loop.now, copy.op, copy.number, copy.repeated))

    def _answer(self, copy: Copy, answer: Answer) -> None:
        if copy.kind.dedupes_seconds is not None:
            until, _ = self.memory[copy.op]
            self.memory[copy.op] = (until, answer)
        copy.reply(answer)

    def _fence(self, copy: Copy) -> None:
        fate, now = copy.fate, self.loop.now
        if not fate.effect:
            copy.reply(Answer(fate.status) if fate.status else None)
            return
        if copy.op in self.records:
            lost = self.records[copy.op].ends != "tombstone"
            self.history.reached("fence: place taken by the operation" if lost else "fence: place taken by a fence")
            copy.reply(Answer(fate.status or 409))
            return
        self.records[copy.op] = _Record(copy.op, None, None, now, now, "tombstone", now + FORGET_SECONDS)
        copy.reply(Answer(fate.status or 201))

    # --- looks

    def blinded(self, kind: Kind, met: str) -> str:
        """Whoever sees nothing goes on seeing nothing for a while, so that a control right behind a look shows it."""
        if met == "blind" or self.loop.now < self.blind_until.get(kind.name, 0.0):
            self.blind_until[kind.name] = self.loop.now + 3.0
            return "blind"
        return met

    def look(self, kind: Kind, place: str, met: str) -> Answer:
        """What the service's own record shows. `place` is an operation, or a name for looks at a state."""
        if met == "500":
            return Answer(500)
        if met == "401":
            return Answer(401)
        if met == "busy":
            return Answer(429, b"{}", (("Retry-After", "20"),))
        if met in {"blind", "lies"}:
            return Answer(404)
        at = self.loop.now - (LAG_SECONDS_MAX * self.random.random() if met == "stale" else 0.0)
        if kind.state:
            return self._state(place, at)
        record = self.records.get(place)
        if record is None or at < record.at:
            return Answer(404)
        if record.forgets and at > record.done_at + 1.0 and self.known(place):
            self.history.reached("look: forgotten by the service")
            return Answer(404)
        if at >= record.gone_at:
            return Answer(404)
        state = record.ends if at >= record.done_at else "working"
        key: Any = place
        if met == "another's":
            key = place[:-1] + ("0" if place[-1] != "0" else "1")
        elif met == "two of them":
            key = [place, place]
        return Answer(200, orjson.dumps({"key": key, "name": record.name, "state": state}))

    def _state(self, name: str, at: float) -> Answer:
        seen = [size for moment, size in self.states.get(name, ()) if moment <= at]
        return Answer(200, orjson.dumps({"size": seen[-1]})) if seen else Answer(404)
