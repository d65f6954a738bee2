"""A host with OpenSSH, the runner's store on it, and the gateway's own way to ask it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import asyncssh
import psutil

from adapters.contract import Hooks, HostExchange, HostTarget, HostVerb, Observation, Secret
from adapters.ssh.client import SshAdapter
from adapters.ssh.transport import RunnerTransport
from tests.contract.ssh_daemon import Daemon, running_daemon
from tests.processes import ends, processes_of
from tests.unit.adapters.remote_host import Host, program
from tests.unit.adapters.ssh_stand import agreed, public_text

CONNECT_SECONDS = 50.0
REQUEST_SECONDS = 55.0
"""Long: whoever sends gives up because of what was cut, never because of a clock."""
# What a login finds under the name of sh: the shell, and a record of what it said, whether or not anybody was there to
# hear it.
RECORDING = """\
[ "$*" = -s ] || exec {shell} "$@"
{shell} -s >"{folder}/$$"
cat "{folder}/$$"
"""


class Clock:
    def wall_ms(self) -> int:
        return 1

    def boot_ms(self) -> int:
        return 2


@dataclass
class Tokens:
    """Words that no other call has."""

    numbers: Iterator[int] = field(default_factory=lambda: count(10_000_000))

    def __call__(self) -> str:
        return f"token{next(self.numbers)}"


def exchange_of(
    host: Host, target: HostTarget, verb: HostVerb, operation: str, command: tuple[str, ...]
) -> HostExchange:
    """The first attempt of an operation, or a question about it."""
    return HostExchange(
        verb=verb,
        argv=command if verb is HostVerb.RUN else (),
        command=command,
        target=target,
        store=host.store,
        store_id=str(host.store_id),
        operation=operation,
        attempt=1,
        attempts_max=1,
        issued_ms=1,
        connect_seconds=CONNECT_SECONDS,
        request_seconds=REQUEST_SECONDS,
    )


def target_of(port: int, user: str, host_key: asyncssh.SSHKey, client_key: asyncssh.SSHKey) -> HostTarget:
    """A host on this machine, believed by its key."""
    return HostTarget(
        name="web-1",
        address="127.0.0.1",
        port=port,
        user=user,
        credential=Secret("ssh_key", "", client_key.export_private_key().decode()),
        host_keys=(public_text(host_key),),
        allow_private=True,
    )


@dataclass(frozen=True)
class World:
    daemon: Daemon
    host: Host
    target: HostTarget
    tokens: Tokens
    stack: AsyncExitStack

    def transport(self, token: Callable[[], str] | None = None) -> RunnerTransport:
        """A way of its own, with no connection yet."""
        made = RunnerTransport(SshAdapter(Clock()), Clock(), token or self.tokens)
        self.stack.push_async_callback(made.close)
        return made

    def exchange(self, verb: HostVerb, operation: str, command: tuple[str, ...], target: HostTarget) -> HostExchange:
        return exchange_of(self.host, target, verb, operation, command)

    async def ask(
        self, way: RunnerTransport, verb: HostVerb, operation: str, command: tuple[str, ...], hooks: Hooks | None = None
    ) -> Observation:
        """Ask on a line that nobody harms."""
        return await way.attempt(self.exchange(verb, operation, command, self.target), hooks or Hooks(agreed))

    @property
    def answers(self) -> Path:
        return self.host.folder / "answers"

    async def falls_silent(self) -> None:
        """Wait until nothing of any session is under way on the host."""
        listener = psutil.Process(self.daemon.pid)
        while under_way := [
            *(child.pid for child in listener.children(recursive=True)),
            *processes_of(self.host.folder),
        ]:
            await asyncio.gather(*(asyncio.to_thread(ends, process) for process in under_way))


@asynccontextmanager
async def standing_host(folder: Path, shell: str = "dash", *, recording: bool = True) -> AsyncIterator[World]:
    """Ends with the context. Recording costs each session a shell of its own."""
    for name in ("sshd", "host"):
        (folder / name).mkdir()
    host = Host(folder / "host", shell)
    host.init()
    (host.folder / "answers").mkdir()
    if recording:
        host.stub("sh", RECORDING.format(shell=program(shell), folder=host.folder / "answers"))
    options = {
        # A home without a profile: what some login reads there is no part of this.
        "SetEnv": f"PATH={host.environment['PATH']} HOME={host.folder}",
        "MaxStartups": "500",
        "MaxSessions": "100",
    }
    with running_daemon(folder / "sshd", options) as daemon:
        target = target_of(daemon.port, daemon.user, daemon.host_key, daemon.client_key)
        async with AsyncExitStack() as stack:
            yield World(daemon, host, target, Tokens(), stack)
