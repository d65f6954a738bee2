"""One process's way out: connects, writes, waits and closes in virtual time, and reports as the adapter's port demands.

A closed socket does not call back what has left: a copy may arrive as long after the close as its kind can hold it up.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from adapters.contract import Framing, Head, Hooks, HttpExchange, Observation, Phase
from tests.model.faults import Fate
from tests.model.history import Ended, Sent
from tests.model.kinds import KINDS, Kind
from tests.model.services import Answer, Copy

if TYPE_CHECKING:
    from tests.model.process import Process

LINGER_SECONDS_MAX = 15.0
LINGER_REMEMBERED_MAX = 2.0
"""Where the service forgets our value, its owner's margin covers so much."""


class Network:
    """Implements `adapters.contract.Transport` for one process."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._world = process.world
        self._loop = process.world.loop

    async def attempt(self, exchange: HttpExchange, hooks: Hooks) -> Observation:
        """Carry out one exchange."""
        kind = KINDS[(urlsplit(exchange.url).hostname or "").split(".", maxsplit=1)[0].replace("-", "_")]
        what, place = _address(exchange, kind)
        if what in {"send", "fence"}:
            return await _Write(self._process, exchange, hooks, kind, what).run()
        return await self._look(exchange, hooks, kind, (what, place))

    async def _look(self, exchange: HttpExchange, hooks: Hooks, kind: Kind, at: tuple[str, str]) -> Observation:
        what, place = at
        process, world = self._process, self._world
        met = "down" if process.world.blackout else world.faults.look(kind)
        if kind.control and met not in {"down", "hangs", "500", "401", "cut"}:
            met = world.services.blinded(kind, met)
        world.history.reached(f"look: {met}")
        started = process.clock.wall_ms(), process.clock.boot_ms()
        await process.alive_after(world.random.random() * 0.3)
        refusal = hooks.before_send()
        if met == "down" or refusal is not None:
            return _unsent(process, started, "the connection was refused", Phase.CONNECTING)
        if met == "hangs":
            await process.alive_after(exchange.request_seconds)
            return _unanswered(process, started, "no answer in time")
        control = Answer(404 if met == "blind" else 200)
        answer = control if what == "control" else world.services.look(kind, place, met)
        if met == "lies":
            world.liars.add(place)
        await process.alive_after(world.random.random() * 0.3)
        return _answered(process, started, answer, cut=met == "cut")

    async def self_test(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        """Nothing is pooled."""


class _Write:
    """One attempt of a write, from its connection to its report."""

    def __init__(self, process: "Process", exchange: HttpExchange, hooks: Hooks, kind: Kind, what: str) -> None:
        self.process = process
        self.world = process.world
        self.loop = process.world.loop
        self.exchange = exchange
        self.hooks = hooks
        self.kind = kind
        self.what = what
        self.op = _operation(exchange)
        self.fate = process.world.faults.send(kind, what)
        self.number = 0
        self.started = process.clock.wall_ms(), process.clock.boot_ms()
        self.deadline = self.loop.now + exchange.request_seconds
        self.reply: asyncio.Future[Answer | None] = self.loop.create_future()
        self.held_up: Copy | None = None

    async def run(self) -> Observation:
        fate, process = self.fate, self.process
        self.world.history.reached(f"{'fence' if self.what == 'fence' else 'send'}: {fate.name}")
        if fate.connects == "hangs":
            await process.alive_after(self.exchange.target.connect_seconds)
            return self._report(_unsent(process, self.started, "connecting timed out", Phase.CONNECTING))
        await process.alive_after(self.world.random.random() * 0.5 if self.world.random.random() < 0.7 else 0.0)
        if fate.connects == "refused":
            return self._report(_unsent(process, self.started, "the connection was refused", Phase.CONNECTING))
        refusal = self.hooks.before_send()
        if refusal is not None:
            self.world.history.reached("send: refused before the first byte")
            return self._report(_unsent(process, self.started, refusal, Phase.CONNECTED))
        self._leave()
        return self._report(await self._answer())

    def _leave(self) -> None:
        """The first bytes leave: from here on nobody can call them back."""
        self.process.open_writes.append(self)
        self.number = self.process.note_bytes(self.op, self.what, self.exchange)
        self.world.leaving()
        place = len(self.world.history.sent) - 1
        body = orjson.loads(self.exchange.body) if self.exchange.body else {}
        body.setdefault("name", urlsplit(self.exchange.url).path.rpartition("/")[2])
        first = Copy(place, self.op, self.what, self.kind, self.fate, body, self._got)
        if self.fate.arrives == "promptly":
            way = self.world.random.random()
            self.loop.call_later(way, self.world.services.arrive, first)
            if self.fate.twice:
                first.reply = lambda _answer: None
                second = Copy(place, self.op, self.what, self.kind, self.fate, body, self._got, repeated=True)
                self.loop.call_later(way + 1.5, self.world.services.arrive, second)
        elif self.fate.arrives == "late":
            # What was written is on its way, whatever becomes of this process.
            self.held_up = first

    def closed(self) -> None:
        """The socket is closed, by us or by the end of the process: from now on the time counts that it is held up."""
        if self in self.process.open_writes:
            self.process.open_writes.remove(self)
        copy, self.held_up = self.held_up, None
        if copy is not None:
            most = self.kind.held_max * self.fate.held
            self.loop.call_later(most * self.world.random.choice([0.5, 0.9, 1.0]), self.world.services.arrive, copy)

    def _got(self, answer: Answer | None) -> None:
        if not self.reply.done():
            self.reply.set_result(answer)

    async def _answer(self) -> Observation:
        fate, process = self.fate, self.process
        if fate.answer == "none" and fate.arrives == "never":
            await process.alive_after(0.2)
            return self._broken("the connection was reset")
        left = self.deadline - self.loop.now
        answer: Answer | None = None
        if fate.answer != "hangs":
            try:
                async with asyncio.timeout(left):
                    answer = await process.alive(self.reply)
            except TimeoutError:
                return self._broken("no answer in time")
            if answer is None or fate.answer == "none":
                return self._broken("the connection was reset")
            return await self._read(answer)
        await process.alive_after(left)
        if fate.lingers:
            ended = process.clock.wall_ms()
            most = LINGER_SECONDS_MAX if self.kind.dedupes_seconds is None else LINGER_REMEMBERED_MAX
            await process.alive_after(self.world.random.random() * most)
            return self._broken("no answer in time", ended)
        return self._broken("no answer in time")

    async def _read(self, answer: Answer) -> Observation:
        fate, process = self.fate, self.process
        if self.hooks.on_head is not None and fate.answer != "early":
            await self.hooks.on_head(Head(answer.status, answer.headers))
            await process.alive_after(0.05)
        if fate.answer in {"head", "cut"}:
            return _answered(process, self.started, answer, cut=True)
        if fate.answer == "open":
            return _answered(process, self.started, answer, framing=Framing.UNTIL_CLOSE)
        if fate.answer == "early":
            return _answered(process, self.started, answer, contradictions=("an answer before the whole request",))
        return _answered(process, self.started, answer, complete=not fate.partial)

    def _broken(self, summary: str, ended_ms: int | None = None) -> Observation:
        return _unanswered(
            self.process,
            self.started,
            summary,
            ended_ms=ended_ms,
            complete=not self.fate.partial,
            sure=not self.fate.unsure,
        )

    def _report(self, seen: Observation) -> Observation:
        """The socket is closed by now; one that we are not sure of lives on for a while."""
        if not seen.nothing_left:
            if self.fate.unsure:
                self.loop.call_later(3.0, self.closed)
            else:
                self.closed()
        ended = Ended(
            self.loop.now,
            self.op,
            self.what,
            self.number or self.process.under_way(self.op),
            self.process.number,
            self.fate.name,
            None if seen.closed_boot_ms is None else self.loop.now,
            seen.nothing_left,
        )
        self.world.history.ended.append(ended)
        return seen


def _address(exchange: HttpExchange, kind: Kind) -> tuple[str, str]:
    """What a request is for, and what it is about."""
    path = urlsplit(exchange.url).path
    last = path.rpartition("/")[2]
    if path.endswith("/fence"):
        return "fence", ""
    if exchange.method != "GET" or kind.read:
        return "send", ""
    if path == "/control":
        return "control", "control"
    return ("poll" if path.startswith("/jobs/") else "look"), last


def _operation(exchange: HttpExchange) -> str:
    for name, value in exchange.headers:
        if name == "Idempotency-Key":
            return value
    parts = urlsplit(exchange.url).path.split("/")
    return next(part for part in parts if part.startswith("op_"))


def _unsent(process: "Process", started: tuple[int, int], summary: str, phase: Phase) -> Observation:
    clock = process.clock
    return Observation(
        phase=phase,
        nothing_left=True,
        started_ms=started[0],
        ended_ms=clock.wall_ms(),
        closed_boot_ms=clock.boot_ms(),
        summary=summary,
        bytes_written=0,
    )


def _unanswered(
    process: "Process",
    started: tuple[int, int],
    summary: str,
    *,
    ended_ms: int | None = None,
    complete: bool = True,
    sure: bool = True,
) -> Observation:
    clock = process.clock
    return Observation(
        phase=Phase.REQUEST_WRITTEN if complete else Phase.REQUEST_STARTED,
        nothing_left=False,
        started_ms=started[0],
        ended_ms=clock.wall_ms() if ended_ms is None else ended_ms,
        closed_boot_ms=clock.boot_ms() if sure else None,
        summary=summary,
        bytes_written=200,
        bytes_expected=200 if complete else 400,
        request_complete=complete,
    )


def _answered(
    process: "Process",
    started: tuple[int, int],
    answer: Answer,
    *,
    cut: bool = False,
    complete: bool = True,
    framing: Framing = Framing.LENGTH,
    contradictions: tuple[str, ...] = (),
) -> Observation:
    clock = process.clock
    whole: dict[str, Any] = {"body": answer.body, "body_complete": True}
    if cut:
        whole = {"body": answer.body[:-1], "body_complete": False}
    return Observation(
        phase=Phase.RESPONSE_STARTED if cut else Phase.RESPONSE_COMPLETE,
        nothing_left=False,
        started_ms=started[0],
        ended_ms=clock.wall_ms(),
        closed_boot_ms=clock.boot_ms(),
        summary="the answer was cut" if cut else "answered",
        bytes_written=200,
        bytes_expected=200,
        request_complete=complete,
        status=answer.status,
        headers=answer.headers,
        framing=framing,
        contradictions=contradictions,
        **whole,
    )


__all__ = ["Fate", "Network", "Sent"]
