"""The ways to hosts, and what people can ask and have done there, put together from their parts.

SSH is brought in only where it is used: most commands start without it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from adapters.contract import HostEnd, HostKeys, HostTransport
from gateway.catalog.declared_hosts import DeclaredHosts
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.enrolling import Enrolment
from gateway.engine.gateway import Gateway
from gateway.engine.host_desk import HostDesk
from gateway.engine.host_ends import ends_on_hosts
from gateway.engine.ports import Credentials, Definitions
from gateway.engine.revive import Revival
from gateway.engine.upkeep import HostServices, Upkeep
from gateway.store.port import Store

Denied = Callable[[str, int], bool]
"""Whether an address is one of the gateway's own listeners."""


@dataclass(frozen=True, slots=True)
class HostWays:
    """How hosts are reached."""

    commands: HostTransport
    keys: HostKeys
    remember: Callable[[Sequence[HostEnd]], None] | None = None
    """Takes what earlier processes saw there; None where nothing is made of it."""


def ways_to_hosts(clock: Clock, chance: Chance, denied: Denied) -> HostWays:
    """The real ones, over SSH."""
    from adapters.ssh.client import SshAdapter  # noqa: PLC0415 - see above
    from adapters.ssh.host_keys import HostKeyReader  # noqa: PLC0415 - see above
    from adapters.ssh.transport import RunnerTransport  # noqa: PLC0415 - see above

    sessions = SshAdapter(clock, denied=denied)
    commands = RunnerTransport(sessions, clock, lambda: chance.bytes(16).hex())
    return HostWays(commands, HostKeyReader(denied=denied), commands.remember)


def built_in(hosts: DeclaredHosts) -> Iterator[bytes]:
    """The definitions of the gateway's own actions on each host."""
    if not hosts.names:
        return iter(())
    from adapters.ssh.upkeep import upkeep_words  # noqa: PLC0415 - see above

    return hosts.built_in(upkeep_words)


@dataclass(frozen=True, slots=True)
class Desk:
    """What questions to hosts rest on."""

    hosts: DeclaredHosts
    ways: HostWays
    credentials: Credentials
    store: Store
    clock: Clock

    def ask(self) -> HostDesk:
        """Questions."""
        return HostDesk(self.hosts, self.credentials, self.ways.commands, self.clock)

    def enrol(self) -> Enrolment:
        """Keys of hosts."""
        return Enrolment(self.hosts, self.credentials, self.ways.keys, self.store, self.clock)

    async def remember(self, definitions: Definitions) -> None:
        """Before anything is asked: tell the way to hosts what was seen to have ended there, as the store has it."""
        if self.ways.remember is not None and self.hosts.names:
            self.ways.remember(await ends_on_hosts(self.store, Revival(self.store, definitions), self.hosts.names))

    def serve(self, gateway: Gateway, definitions: Definitions) -> HostServices:
        """Everything, on a gateway that runs."""
        asked = self.ask()
        upkeep = Upkeep(
            gateway,
            asked,
            definitions=definitions,
            store=self.store,
            revival=Revival(self.store, definitions),
            clock=self.clock,
        )
        return HostServices(asked, self.enrol(), upkeep)
