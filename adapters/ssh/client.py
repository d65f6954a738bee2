"""The SSH adapter: carries out one command on one host and reports what was seen; it decides and repeats nothing."""

import asyncio

import asyncssh

from adapters.contract import Clock, Hooks
from adapters.contract_ssh import SshExchange, SshObservation, Stage
from adapters.http.refusals import Refused, Stop
from adapters.http.resolver import Lookup, system_lookup
from adapters.http.sockets import Denied
from adapters.ssh import report
from adapters.ssh.flight import CommandSession, Flight
from adapters.ssh.line import Dialler, Line
from adapters.ssh.pool import AGE_SECONDS, IDLE_SECONDS, Pool
from adapters.ssh.recipe import SESSION, quiet_library
from adapters.ssh.stages import Proof, proof_of

COMMAND_BYTES_MAX = 100_000
"""Above 128 KiB the login shell cannot be started with it, which looks like an error of the command; more, and the host
ends the connection."""


class SshAdapter:
    """Implements `adapters.contract_ssh.HostTransport`. One per event loop.

    `denied` names the gateway's own listeners; `lookup` replaces the system's name look-up.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        denied: Denied | None = None,
        lookup: Lookup = system_lookup,
        idle_seconds: float = IDLE_SECONDS,
        age_seconds: float = AGE_SECONDS,
    ) -> None:
        self._clock = clock
        self._pool = Pool(Dialler(lookup, denied), idle_seconds=idle_seconds, age_seconds=age_seconds)
        self._flights: set[Flight] = set()
        self._closed = False
        self._landed = asyncio.Condition()
        quiet_library()

    async def attempt(self, exchange: SshExchange, hooks: Hooks) -> SshObservation:
        """One command, asked for once. Raises nothing but `CancelledError`, after giving its channel up."""
        started_ms = self._clock.wall_ms()
        flight = Flight(exchange, hooks)
        error: Exception | None = None
        closed_boot_ms: int | None = None
        self._flights.add(flight)
        try:
            check(exchange, closed=self._closed)
            async with flight.clock:
                flight.begin()
                await self._converse(flight)
        except Exception as exc:  # noqa: BLE001 (whatever broke is an observation; a verdict needs every attempt's end)
            # The grace after the end may pass without the host closing the channel: that is no failure.
            error = None if flight.stage is Stage.ENDED and isinstance(exc, TimeoutError) else exc
        finally:
            flight.running = False
            line = self._leave(flight, error)
            self._flights.discard(flight)
            if line is None or line.closing:
                if line is not None:
                    await line.gone.wait()
                closed_boot_ms = self._clock.boot_ms()
            async with self._landed:
                self._landed.notify_all()
        return report.observe(
            flight, error, started_ms=started_ms, ended_ms=self._clock.wall_ms(), closed_boot_ms=closed_boot_ms
        )

    async def _converse(self, flight: Flight) -> None:
        while True:
            await self._pool.take(flight)
            flight.reach(Stage.CONNECTED)
            try:
                await self._ask(flight)
            except asyncssh.ChannelOpenError:
                # A pooled connection that had died unnoticed: no channel stood, so nothing was asked, and a new one
                # may be dialled. Whoever asks anew after a channel stood would be repeating the command.
                if not await self._was_dead(flight):
                    raise
            else:
                return
            flight.start_over()

    async def _was_dead(self, flight: Flight) -> bool:
        line = flight.line
        if line is None or not flight.reused or flight.stage is not Stage.CONNECTED:
            return False
        # The library refuses a channel as soon as it has dropped its transport, and says so in the loop's next turn.
        await asyncio.sleep(0)
        if not line.gatekeeper.lost:
            return False
        self._pool.give_back(line, keep=False, hard=True)
        flight.line = None
        return True

    @staticmethod
    async def _ask(flight: Flight) -> None:
        line = flight.line
        if line is None:
            raise RuntimeError("no connection was taken")
        try:
            await line.last.create_session(lambda: CommandSession(flight), flight.exchange.command, **SESSION)
        except asyncssh.ChannelOpenError:
            flight.lost_at_raise = flight.closed.is_set()
            raise
        await flight.over.wait()
        if flight.stage is Stage.ENDED:
            await flight.closed.wait()
            # A host that closes the channel has nothing more to say on it; one that is lost may have had.
            flight.output_ended |= flight.loss is None and not line.gatekeeper.lost

    def _leave(self, flight: Flight, error: Exception | None) -> Line | None:
        """Give the connection back; returns it, None if there was none."""
        line = flight.line
        if line is None:
            return None
        proven = proof_of(flight.stage, flight.signs(error)) is not Proof.UNKNOWN
        channel = flight.channel
        if channel is not None and not flight.closed.is_set():
            channel.abort()
        if isinstance(error, asyncssh.ChannelOpenError) and flight.stage is Stage.CONNECTED and line.sessions > 1:
            line.sessions_max = line.sessions - 1
        self._pool.give_back(line, keep=proven and _in_order(flight, error), hard=flight.stage is not Stage.ENDED)
        return line

    async def close(self) -> None:
        """Abort every attempt under way and release the pool."""
        self._closed = True
        for flight in tuple(self._flights):
            flight.give_up()
        async with self._landed:
            await self._landed.wait_for(lambda: not self._flights)
        await self._pool.close()


def _in_order(flight: Flight, error: Exception | None) -> bool:
    """Whether nothing about the connection is in doubt: an answer came, to the end, and it was one that fits."""
    if flight.line is None or not flight.line.alive or flight.exchange.fresh or flight.contradictions:
        return False
    if flight.stage is Stage.ENDED:
        return error is None and flight.accepted and flight.closed.is_set()
    return isinstance(error, asyncssh.ChannelOpenError | Stop)


def check(exchange: SshExchange, *, closed: bool) -> None:
    """Raises `Refused` for what is not fit to be sent."""
    if closed:
        raise Refused("the adapter is closed")
    command = exchange.command
    if not command or not command.isascii() or not command.isprintable():
        raise Refused("the command is not a line of printable ASCII")
    if len(command) > COMMAND_BYTES_MAX:
        raise Refused(f"the command is longer than {COMMAND_BYTES_MAX} bytes")
    if exchange.head_bytes_max < 0 or exchange.tail_bytes_max < 0:
        raise Refused("a bound of the output is negative")
