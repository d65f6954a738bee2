"""Exchanges for hosts, and the way to them without a network: scripted, or the shipped runner under a local shell."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from adapters.contract import Hooks, HostExchange, HostTarget, HostVerb, Observation, Secret
from adapters.contract_ssh import Capture, SshExchange, SshObservation, Stage
from adapters.ssh.transport import RunnerTransport
from tests.unit.adapters.remote_host import Host

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nxyz\n-----END OPENSSH PRIVATE KEY-----\n"
TARGET = HostTarget("web-1", "192.0.2.7", 22, "deploy", Secret("ssh_key", "", KEY + "cert AAAA\n"), ("ssh-ed25519 A",))
HOOKS = Hooks(lambda: None)
NUMBERS = {"v": 1, "store_id": "s1", "machine": "m", "boot": "b", "uid": 0}
PRINTED = {"out_bytes": 0, "out_head": "", "out_tail": "", "err_bytes": 0, "err_head": "", "err_tail": ""}
CLAIMED = {**PRINTED, "output_complete": True, "digest": "", "began": 1, "cancel_asked": False, "timed_out": False}
OURS = {"operation": "op_1", "attempt": 1}


@dataclass
class Session:
    """Stands where SSH would: whatever is put on the standard input of a shell, `reply` says what comes of it."""

    reply: Callable[[SshExchange], SshObservation]
    asked: list[SshExchange] = field(default_factory=list)

    async def attempt(self, exchange: SshExchange, hooks: Hooks) -> SshObservation:
        self.asked.append(exchange)
        return self.reply(exchange)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Watch:
    now_ms: int = 5_000

    def wall_ms(self) -> int:
        return self.now_ms

    def boot_ms(self) -> int:
        return self.now_ms


def tokens() -> Callable[[], str]:
    made = iter(range(10_000_000, 20_000_000))
    return lambda: f"token{next(made)}"


def ended(output: bytes, **changes: Any) -> SshObservation:
    plain = SshObservation(
        stage=Stage.ENDED,
        nothing_left=False,
        started_ms=1,
        ended_ms=2,
        closed_boot_ms=None,
        summary="the command ended",
        exit_status=0,
        stdout=Capture(count=len(output), head=output),
        output_complete=True,
    )
    return replace(plain, **changes)


def exchange(verb: HostVerb = HostVerb.RUN, **changes: Any) -> HostExchange:
    words = ("true",)
    plain = HostExchange(
        verb=verb,
        argv=words if verb in {HostVerb.RUN, HostVerb.PROBE, HostVerb.ASK} else (),
        command=words,
        target=TARGET,
        store="/var/lib/gateway-runner",
        store_id="s1",
        operation="op_1",
        attempt=1,
        attempts_max=1,
        issued_ms=1_000,
        connect_seconds=2.0,
        request_seconds=9.0,
    )
    return replace(plain, **changes)


class OnHost:
    """The runner itself, on this machine, asked without SSH between."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.watch = Watch()
        self.transport = RunnerTransport(Session(self._run), self.watch, tokens())

    def _run(self, sent: SshExchange) -> SshObservation:
        output, _ = self.host.start(sent.stdin).communicate(timeout=40)
        return ended(output)

    async def ask(self, verb: HostVerb, *argv: str, **changes: Any) -> Observation:
        words = argv or ("sh", "-c", f'echo x >>"{self.host.ledger}"; echo out; echo err >&2; exit 3')
        asked = exchange(verb, store=self.host.store, store_id=self.host.store_id, command=words)
        if asked.argv:
            asked = replace(asked, argv=words)
        return await self.transport.attempt(replace(asked, **{"request_seconds": 45.0, **changes}), HOOKS)
