"""Random cuts of real sessions: what is concluded is what the host did, and a blind repeat never runs it twice."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Hooks, HostVerb, Observation
from adapters.ssh.runner_wire import RemotePhase
from fixtures.proxy.server import FaultProxy
from fixtures.proxy.session import Passed
from tests.contract.ssh_world import REQUEST_SECONDS, World, standing_host

TRIALS = 60
TRIALS_SOAK = 500
AT_ONCE = 6
MOMENT_SECONDS_MAX = 0.12
"""About as long as a delivery and its run take."""
ASKING_BYTES = 200
ANSWER_BYTES = (700, 250)
"""So many bytes before the end of what a host sends, its answer is under way and not yet whole."""
LOOK_SECONDS = 0.02

Streams = tuple[str, ...]
UP, DOWN = ("upstream",), ("downstream",)
BOTH = (*UP, *DOWN)
HOWS = ("reset", "fin", "drop", "hold")
# How, in which direction, and within which part of what passes there. A moment is a time instead of a byte.
CUTS: tuple[tuple[str, Streams, str], ...] = (
    *((how, UP, part) for part in ("login", "asking", "delivery") for how in HOWS),
    *((how, DOWN, part) for part in ("login", "answer") for how in HOWS),
    *((how, BOTH, "moment") for how in ("reset", "fin", "drop")),
    *[("hold", UP, "moment")] * 2,
    *[("hold", UP, "delivery")] * 4,
    ("none", UP, "login"),
)

LEAST = {"answered": 1, "ran and lost": 4, "never left": 4, "never ran": 16, "late": 6, "late into a fence": 1}
"""Of a turn through all cuts. What is held may arrive torn: its end follows so closely that the host drops the rest."""


@dataclass(frozen=True)
class Spans:
    """Where in the bytes of a session its parts lie, as one that was left alone has shown."""

    login: dict[str, int]
    total: dict[str, int]

    def position(self, stream: str, part: str, share: float) -> int:
        login, total = self.login[stream], self.total[stream]
        first, last = {
            "login": (0, login),
            "asking": (login, login + ASKING_BYTES),
            "delivery": (login + ASKING_BYTES, total - ASKING_BYTES),
            "answer": (total - ANSWER_BYTES[0], total - ANSWER_BYTES[1]),
        }[part]
        return first + int(share * (last - first))


@dataclass
class Trial:
    """One operation whose only delivery is harmed."""

    operation: str
    how: str
    streams: Streams
    part: str
    share: float
    nonce: str = ""
    sent: Observation | None = None
    """None where whoever sent it had to go before it saw anything."""
    concluded: str = ""
    """`never_left`, or the phase that a fence told."""
    repeated: str = ""
    runs_before_repeat: int = 0
    late: bool = False
    """Bytes of it reached the host only after the conclusion."""

    @property
    def answered(self) -> bool:
        return self.sent is not None and self.sent.header("Phase") is not None

    @property
    def ran(self) -> bool:
        return self.concluded == RemotePhase.EXITED


async def _measure(world: World, command: tuple[str, ...]) -> Spans:
    """A session that nobody harms."""
    login: dict[str, int] = {}
    async with FaultProxy(world.daemon.address) as proxy:

        def note() -> str | None:
            (passed,) = proxy.connections
            login.update(upstream=passed.from_client, downstream=passed.from_upstream)
            return None

        way = world.transport()
        exchange = world.exchange(HostVerb.RUN, "op_whole", command, replace(world.target, port=_port(proxy)))
        seen = await way.attempt(exchange, Hooks(note))
        assert seen.header("Phase") == RemotePhase.EXITED, seen
        (passed,) = proxy.connections
        return Spans(login, {"upstream": passed.from_client, "downstream": passed.from_upstream})


def _port(proxy: FaultProxy) -> int:
    return int(proxy.address.rpartition(":")[2])


class Series:
    """Trials on one host, several at once."""

    def __init__(self, world: World, spans: Spans, command: tuple[str, ...]) -> None:
        self.world = world
        self.spans = spans
        self.command = command
        self.asker = world.transport()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def run(self, trial: Trial) -> None:
        async with self._room, FaultProxy(self.world.daemon.address) as proxy:
            await self._deliver(trial, proxy)
            await self._conclude(trial)
            await self._release(trial, proxy)
            trial.runs_before_repeat = self.world.host.executions(trial.operation)
            await self._repeat(trial)

    async def _repeat(self, trial: Trial) -> None:
        while trial.repeated in {"", RemotePhase.RUNNING}:
            seen = await self.world.ask(self.asker, HostVerb.RUN, trial.operation, self.command)
            refused = RemotePhase.FENCED if "will not" in seen.summary else ""
            trial.repeated = seen.header("Phase") or refused

    def _plan(self, trial: Trial, proxy: FaultProxy) -> None:
        for stream in trial.streams if trial.how != "none" else ():
            where: dict[str, Any] = {"stage": "moment"}
            if trial.part != "moment":
                where = {"bytes": self.spans.position(stream, trial.part, trial.share)}
            if trial.how in {"reset", "fin"}:
                proxy.toxics.add("cut_at", stream=stream, attributes={**where, "close": trial.how})
            else:
                proxy.toxics.add(f"{trial.how}_at", stream=stream, attributes=where)

    async def _deliver(self, trial: Trial, proxy: FaultProxy) -> None:
        self._plan(trial, proxy)
        moment = asyncio.Event()

        def strike() -> None:
            proxy.announce("moment")
            moment.set()

        def before_send() -> str | None:
            if trial.part == "moment":
                asyncio.get_running_loop().call_later(trial.share * MOMENT_SECONDS_MAX, strike)
            return None

        def token() -> str:
            made = self.world.tokens()
            trial.nonce = trial.nonce or made
            return made

        target = replace(self.world.target, port=_port(proxy))
        exchange = self.world.exchange(HostVerb.RUN, trial.operation, self.command, target)
        way = self.world.transport(token)
        sending = asyncio.create_task(way.attempt(exchange, Hooks(before_send)))
        if trial.how in {"drop", "hold"}:
            await self._until_silence(trial, proxy, sending, moment)
            sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            trial.sent = await sending
        await way.close()

    async def _until_silence(
        self, trial: Trial, proxy: FaultProxy, sending: asyncio.Task[Observation], moment: asyncio.Event
    ) -> None:
        """Until nothing more can come of it: whoever goes on waiting would wait for its deadline."""
        (stream, *_) = trial.streams
        if trial.part == "moment":
            silent: asyncio.Task[Any] = asyncio.create_task(moment.wait())
        else:
            position = self.spans.position(stream, trial.part, trial.share)

            def struck(passed: Passed) -> bool:
                return (passed.from_client if stream == "upstream" else passed.from_upstream) > position

            silent = asyncio.create_task(proxy.wait_for(struck, timeout_seconds=REQUEST_SECONDS))
        await asyncio.wait({silent, sending}, return_when=asyncio.FIRST_COMPLETED)
        silent.cancel()

    async def _conclude(self, trial: Trial) -> None:
        if trial.sent is not None and trial.sent.nothing_left:
            trial.concluded = "never_left"
            return
        while True:
            seen = await self.world.ask(self.asker, HostVerb.FENCE, trial.operation, self.command)
            trial.concluded = seen.header("Phase") or ""
            if trial.concluded not in {"", RemotePhase.RUNNING}:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _release(self, trial: Trial, proxy: FaultProxy) -> None:
        (passed,) = proxy.connections
        before = passed.to_upstream
        if proxy.release() and trial.how == "hold":
            await proxy.wait_for(lambda passed: passed.closed is not None, timeout_seconds=REQUEST_SECONDS)
        trial.late = passed.to_upstream > before and trial.part in {"asking", "delivery", "moment"}


async def _trials(folder: Path, number: int) -> None:
    seed = random.getrandbits(32)  # the same again with the seed of pytest-randomly
    chance = random.Random(seed)
    async with standing_host(folder) as world:
        command = ("sh", "-c", f'echo "$GATEWAY_OPERATION" >>{world.host.ledger}')
        series = Series(world, await _measure(world, command), command)
        trials = [Trial(f"op_{i}", *CUTS[i % len(CUTS)], chance.random()) for i in range(number)]
        chance.shuffle(trials)
        async with asyncio.TaskGroup() as group:
            for trial in trials:
                group.create_task(series.run(trial))
        await series.asker.close()
        await world.falls_silent()
        said = [path.read_text(errors="replace") for path in world.answers.iterdir()]
        wrong = [trial for trial in trials if not _true(trial, world.host.executions(trial.operation))]
        assert wrong == [], f"seed {seed}"
        _mixed(trials, said, f"seed {seed}")


def _true(trial: Trial, runs: int) -> bool:
    """What was concluded is what the host did, before and after the repeat."""
    match trial.concluded:
        case "never_left":
            return (trial.runs_before_repeat, runs, trial.repeated) == (0, 1, "exited")
        case RemotePhase.EXITED:
            return (trial.runs_before_repeat, runs, trial.repeated) == (1, 1, "exited")
        case RemotePhase.FENCED:
            return (trial.runs_before_repeat, runs, trial.repeated) == (0, 0, "fenced") and not trial.answered
        case _:
            return False


def _mixed(trials: Sequence[Trial], said: Sequence[str], seed: str) -> None:
    """Each thing that can happen did: otherwise the trials prove less than they claim."""
    met = {trial.nonce for trial in trials if any(_met(trial, text) for text in said)}
    seen = Counter(
        {
            "answered": sum(trial.answered for trial in trials),
            "ran and lost": sum(trial.ran and not trial.answered for trial in trials),
            "never left": sum(trial.concluded == "never_left" for trial in trials),
            "never ran": sum(trial.concluded == RemotePhase.FENCED for trial in trials),
            "late": sum(trial.late for trial in trials),
            "late into a fence": sum(trial.late and trial.nonce in met for trial in trials),
        }
    )
    turns = len(trials) // len(CUTS)
    assert {name: seen[name] for name, least in LEAST.items() if seen[name] < turns * least} == {}, (seed, seen)


def _met(trial: Trial, answer: str) -> bool:
    return f"@gw1 {trial.nonce} " in answer and '"verb":"run","phase":"fenced"' in answer


async def test_whatever_is_cut_the_conclusion_is_the_hosts_truth_and_nothing_runs_twice(tmp_path: Path) -> None:
    await _trials(tmp_path, TRIALS)


@pytest.mark.soak
async def test_in_many_cuts_the_conclusion_is_the_hosts_truth(tmp_path: Path) -> None:
    await _trials(tmp_path, TRIALS_SOAK)
