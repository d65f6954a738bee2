"""One process's way to hosts: the port of `adapters.contract_ssh` in virtual time, below the shipped transport.

A session shows how far it got and what came over it; whether the command ran is known to the host alone.
"""

import asyncio
from typing import TYPE_CHECKING

from adapters.contract import Hooks
from adapters.contract_ssh import STAGE_ORDER, Capture, SshExchange, SshObservation, Stage
from tests.model.calls import call_in
from tests.model.history import Ended
from tests.model.host_faults import HostFate
from tests.model.hosts import SimHost
from tests.model.kinds import KINDS, Kind

if TYPE_CHECKING:
    from tests.model.process import Process

_DEAF = frozenset({"none", "unframed"})


class Sessions:
    """All sessions of one process."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    async def attempt(self, exchange: SshExchange, hooks: Hooks) -> SshObservation:
        """One command on one host."""
        return await _Session(self._process, exchange, hooks).run()

    async def close(self) -> None:
        """Nothing is pooled."""


class _Session:
    def __init__(self, process: "Process", exchange: SshExchange, hooks: Hooks) -> None:
        self.process, self.world, self.loop = process, process.world, process.world.loop
        self.exchange, self.hooks = exchange, hooks
        self.kind: Kind = KINDS[exchange.route.address.partition(".")[0].replace("-", "_")]
        self.host: SimHost = self.world.host(self.kind.name)
        self.call = call_in(exchange.stdin)
        self.what = self._what()
        self.fate: HostFate = self.world.faults.host(self.kind, self.what, blackout=self.world.blackout)
        self.number = 0
        self.place = -1
        self.started = process.clock.wall_ms()
        self.deadline = self.loop.now + exchange.run_seconds
        self.reply: asyncio.Future[bytes | None] = self.loop.create_future()
        self.is_held = False

    def _what(self) -> str:
        match self.call.verb:
            case "run":
                return "send"
            case "probe":
                return "look" if self.call.argv[0] == "status" else "send"
            case "fence" | "cancel" as verb:
                return verb
            case _:
                return "look"

    async def run(self) -> SshObservation:
        fate, process = self.fate, self.process
        self.world.history.reached(f"{self.what}: {fate.name}")
        early = await self._connect()
        if early is not None:
            return self._report(early)
        refusal = self.hooks.before_send()
        if refusal is not None:
            self.world.history.reached("send: refused before the first byte")
            return self._report(self._seen(Stage.OPENED, refusal, unsent=True))
        if fate.refused:
            await process.alive_after(0.1)
            return self._report(self._seen(Stage.ASKED, "the host refused the command", unsent=True))
        self._leave()
        return self._report(await self._listen())

    async def _connect(self) -> SshObservation | None:
        """How it ended before anything was asked, if it did."""
        fate, process, limits = self.fate, self.process, self.exchange.limits
        if self._below(Stage.ASKED):
            most = limits.login_seconds if fate.until is Stage.CONNECTING else limits.open_seconds
            seconds = min(most, self.exchange.run_seconds) if fate.hangs else 0.2
            await process.alive_after(seconds)
            return self._seen(fate.until, "no session could be had", unsent=True)
        await process.alive_after(self.world.random.random() * 0.3)
        return None

    def _below(self, stage: Stage) -> bool:
        return STAGE_ORDER.index(self.fate.until) < STAGE_ORDER.index(stage)

    def _leave(self) -> None:
        """The command is written: from here on nobody can call it back."""
        process, fate = self.process, self.fate
        if self.what != "look":
            # A fence that takes the places of later attempts as well is one fence.
            self.number = process.note_call(self.call, self.what)
            self.place = len(self.world.history.sent) - 1
        if self.what == "send":
            self.world.leaving()
        if fate.arrives == "promptly":
            self.loop.call_later(self.world.random.random() * 0.4, self._arrive)
        elif fate.arrives == "late":
            self.is_held = True
            process.open_writes.append(self)

    def _arrive(self) -> None:
        self.host.serve(self.call, self.fate, self.place, self._got)

    def closed(self) -> None:
        """Our end is closed, or its process is dead: what is held arrives some time after."""
        if self in self.process.open_writes:
            self.process.open_writes.remove(self)
        if self.is_held:
            self.is_held = False
            most = self.kind.held_max * self.fate.held
            self.loop.call_later(most * self.world.random.choice([0.5, 0.9, 1.0]), self._arrive)

    def _got(self, text: bytes | None) -> None:
        if not self.reply.done():
            self.reply.set_result(text)

    async def _listen(self) -> SshObservation:
        fate, process = self.fate, self.process
        left = self.deadline - self.loop.now
        if fate.hangs:
            await process.alive_after(left)
            return self._seen(fate.until, "the deadline passed before the command's end was reported")
        if fate.arrives != "promptly" or (fate.answer in _DEAF and fate.until is not Stage.ENDED):
            await process.alive_after(min(left, self.world.random.random() * 1.5))
            return self._seen(fate.until, "the session ended", b"done\n" if fate.answer == "unframed" else b"")
        try:
            async with asyncio.timeout(left):
                text = await process.alive(self.reply)
        except TimeoutError:
            return self._seen(Stage.ACCEPTED, "the deadline passed before the command's end was reported")
        if text is None:
            return self._seen(Stage.ACCEPTED, "the connection ended before the command's end was reported")
        if fate.answer in {"whole", "noisy"} and b'"phase": "exited"' in text:
            self.host.gateway_saw_the_end(self.call, process.clock.wall_ms())
        return self._seen(fate.until, "the command ended", self._over_the_channel(text))

    def _over_the_channel(self, text: bytes) -> bytes:
        match self.fate.answer:
            case "none":
                return b""
            case "torn":
                return text[: len(text) * 2 // 3]
            case "noisy":
                return b'Welcome!\n{"phase": "exited"}\n' + text + b"bye\n"
            case "twice":
                return text + text
            case "another's":
                return text.replace(self.call.words["nonce"].encode(), b"0123456789abcdef")
            case _:
                return text

    def _seen(self, stage: Stage, summary: str, output: bytes = b"", *, unsent: bool = False) -> SshObservation:
        fate, clock = self.fate, self.process.clock
        ended = stage is Stage.ENDED
        return SshObservation(
            stage=stage,
            nothing_left=unsent,
            started_ms=self.started,
            ended_ms=clock.wall_ms(),
            closed_boot_ms=None if ended else clock.boot_ms(),
            summary=summary,
            exit_status=fate.status if ended else None,
            exit_signal=fate.signal if ended else None,
            stdout=Capture(count=len(output), head=output),
            output_complete=ended,
            input_complete=not unsent,
            host_key_refused=fate.untrusted,
        )

    def _report(self, seen: SshObservation) -> SshObservation:
        self.closed()
        if self.what == "send":
            number = self.number or self.process.under_way(self.call.op)
            closed = None if seen.closed_boot_ms is None else self.loop.now
            self.world.history.ended.append(
                Ended(self.loop.now, self.call.op, self.what, number, self.process.number, self.fate.name, closed,
                      seen.nothing_left)
            )  # fmt: skip
        return seen
