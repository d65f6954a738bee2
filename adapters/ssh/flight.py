"""One attempt under way: how far it got, the clock of its stage, and everything its observation will say."""

import asyncio

import asyncssh

from adapters.contract import Hooks
from adapters.contract_ssh import STAGE_ORDER, SshExchange, Stage
from adapters.http.refusals import SendRefused
from adapters.ssh.capture import Capturing
from adapters.ssh.line import Line
from adapters.ssh.stages import Signs, is_refusal

_RANK = {stage: rank for rank, stage in enumerate(STAGE_ORDER)}


class Flight:
    """State of one attempt.

    One clock serves all stages: it is set on whenever a stage is reached, and never beyond the attempt's own deadline
    but for the grace after the end.
    """

    def __init__(self, exchange: SshExchange, hooks: Hooks) -> None:
        self._loop = asyncio.get_running_loop()
        self.deadline = self._loop.time() + exchange.run_seconds
        self.clock = asyncio.timeout_at(self.deadline)
        self.exchange = exchange
        self.hooks = hooks
        self.stage = Stage.PREPARED
        self.running = False
        self.reused = False
        self.line: Line | None = None
        self.hops_short = 0
        """How many hosts before the one that was meant the connecting ended."""
        self.channel: asyncssh.SSHClientChannel[bytes] | None = None
        self.accepted = False
        self.exit_status: int | None = None
        self.exit_signal: str | None = None
        limits = (exchange.head_bytes_max, exchange.tail_bytes_max)
        self.stdout, self.stderr = Capturing(*limits), Capturing(*limits)
        self.output_ended = False
        self.input_complete = False
        self.contradictions: list[str] = []
        self.loss: Exception | None = None
        self.lost_at_raise = False
        self.over = asyncio.Event()
        """Set when the command's end was reported or the channel is lost, whichever comes first."""
        self.closed = asyncio.Event()
        """Set when the channel is lost."""

    def begin(self) -> None:
        """The clock runs: from here on stages set it."""
        self.running = True
        self.reach(Stage.CONNECTING)

    def start_over(self) -> None:
        """Connect anew. Only before a channel was confirmed, where nothing of the command can have left."""
        if self.stage is not Stage.CONNECTED:
            raise RuntimeError("an attempt whose channel stood is never begun again")
        self.stage = Stage.CONNECTING

    def give_up(self) -> None:
        """Let the current stage end now, as if its time were over."""
        self._allow_until(self._loop.time())

    def signs(self, error: BaseException | None) -> Signs:
        """What was seen beside the stage."""
        return Signs(refused=is_refusal(error), channel_lost=self.lost_at_raise, signalled=self.exit_signal is not None)

    def reach(self, stage: Stage) -> None:
        """Note a stage and start its clock. Stages only go forward: a status may come before the acceptance."""
        if _RANK[stage] <= _RANK[self.stage]:
            return
        self.stage = stage
        limits = self.exchange.limits
        match stage:
            case Stage.CONNECTED:
                self.allow(limits.open_seconds)
            case Stage.ASKED:
                self.allow(limits.reply_seconds)
            case Stage.ACCEPTED:
                self.allow(self.exchange.run_seconds)
            case Stage.ENDED:
                self._allow_until(self._loop.time() + limits.grace_seconds)
            case _:
                pass

    def allow(self, seconds: float) -> None:
        """Give the current stage this long."""
        self._allow_until(min(self.deadline, self._loop.time() + seconds))

    def _allow_until(self, when: float) -> None:
        if self.running and not self.clock.expired():
            self.clock.reschedule(when)


class CommandSession(asyncssh.SSHClientSession[bytes]):
    """Told by the library what happens on one channel; what it is told is the record."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The channel stands. The library writes the command right after this returns, so this is the last word.

        Raises:
            SendRefused: the owner's check said no; the command is not written then.
        """
        flight = self._flight
        flight.channel = chan
        flight.reach(Stage.OPENED)
        try:
            sentence = flight.hooks.before_send()
        except Exception as exc:  # the owner's check is foreign code; its failure must refuse, not send
            raise SendRefused("the check before sending failed") from exc
        if sentence is not None:
            raise SendRefused(sentence)
        flight.reach(Stage.ASKED)

    def session_started(self) -> None:
        """The command was accepted: give it its input, and the end of it."""
        flight, channel = self._flight, self._flight.channel
        flight.accepted = True
        flight.reach(Stage.ACCEPTED)
        if channel is None or channel.is_closing():
            return
        channel.write(flight.exchange.stdin)
        channel.write_eof()
        self._note_input()

    def pause_writing(self) -> None:
        """The library keeps what the host does not take yet; it is bounded by the size of our own input."""

    def resume_writing(self) -> None:
        """As above."""

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Drain, always: with a full window the command on the host would stand still for ever."""
        (self._flight.stderr if datatype == asyncssh.EXTENDED_DATA_STDERR else self._flight.stdout).feed(data)
        self._note_input()

    def eof_received(self) -> bool:
        """The output is at its end; our side of the channel stays as it is."""
        self._flight.output_ended = True
        self._note_input()
        return True

    def exit_status_received(self, status: int) -> None:
        """The command ended by itself."""
        self._flight.exit_status = status
        self._ended()

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:  # noqa: FBT001 (the library calls it so)
        """The command was ended; the message is the host's own text and goes no further."""
        self._flight.exit_signal = signal if signal.isalnum() and len(signal) <= 16 else "unknown"
        self._ended()

    def _ended(self) -> None:
        self._note_input()
        self._flight.reach(Stage.ENDED)
        self._flight.over.set()

    def _note_input(self) -> None:
        flight = self._flight
        if flight.channel is not None and flight.accepted:
            flight.input_complete |= flight.channel.get_write_buffer_size() == 0

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is no more, in peace (None) or not."""
        flight = self._flight
        flight.loss = exc
        if flight.stage is Stage.ENDED and isinstance(exc, asyncssh.ProtocolError):
            flight.contradictions.append("the host broke the protocol after it had reported the command's end")
        flight.over.set()
        flight.closed.set()
