"""Turns a finished attempt into its observation. Words are fixed sentences: nothing that a host sent is in them.

Exceptions are read for their class and their numbers only; the texts are the host's.
"""

import errno
import socket

import asyncssh

from adapters.contract_ssh import SshObservation, Stage
from adapters.http.refusals import Stop
from adapters.ssh.flight import Flight
from adapters.ssh.stages import Proof, is_refusal, proof_of

_Sentences = tuple[tuple[type[BaseException], str], ...]
_CONNECTING: _Sentences = (
    (asyncssh.HostKeyNotVerifiable, "{host}'s key is none of those it is believed by"),
    (asyncssh.PermissionDenied, "{host} did not accept the credential"),
    (asyncssh.KeyExchangeFailed, "{host} and the gateway share no algorithm"),
    (asyncssh.ChannelOpenError, "the jump host did not reach the host behind it"),
    (asyncssh.DisconnectError, "{host} ended the connection before the login was complete"),
    (socket.gaierror, "{host}'s name could not be resolved"),
    (ConnectionRefusedError, "{host} refused the connection"),
    (TimeoutError, "the time for connecting and logging in passed{there}"),
    (ConnectionError, "the connection ended before the login was complete{there}"),
)
_OPENING: _Sentences = (
    (asyncssh.ChannelOpenError, "the host opened no session"),
    (TimeoutError, "the host opened no session in time"),
)
_ASKING: _Sentences = (
    (TimeoutError, "the host did not say in time whether it accepted the command"),
    (asyncssh.ChannelOpenError, "the session ended before the host said whether it accepted the command"),
    (OSError, "the connection ended before the host said whether it accepted the command"),
    (asyncssh.DisconnectError, "the connection ended before the host said whether it accepted the command"),
)
_RUNNING: _Sentences = (
    (TimeoutError, "the deadline passed before the command's end was reported"),
    (OSError, "the connection ended before the command's end was reported"),
    (asyncssh.DisconnectError, "the connection ended before the command's end was reported"),
)


def observe(
    flight: Flight, error: Exception | None, *, started_ms: int, ended_ms: int, closed_boot_ms: int | None
) -> SshObservation:
    """Everything the attempt showed, after its connection was given back."""
    line = flight.line
    proof = proof_of(flight.stage, flight.signs(error))
    shown = error or flight.loss
    return SshObservation(
        stage=flight.stage,
        nothing_left=proof is Proof.NEVER_EXECUTED,
        started_ms=started_ms,
        ended_ms=ended_ms,
        closed_boot_ms=closed_boot_ms,
        summary=_summary(flight, error, proof),
        exit_status=flight.exit_status,
        exit_signal=flight.exit_signal,
        stdout=flight.stdout.taken(),
        stderr=flight.stderr.taken(),
        output_complete=flight.stage is Stage.ENDED and flight.output_ended,
        input_complete=flight.input_complete,
        reused=flight.reused,
        error_class=None if shown is None else type(shown).__name__,
        error_code=shown.code if isinstance(shown, asyncssh.ChannelOpenError) else None,
        error_cause=None if shown is None else _cause(shown),
        peer=None if line is None else line.peer,
        host_key=None if line is None else line.gatekeeper.presented,
        host_key_refused=isinstance(error, asyncssh.HostKeyNotVerifiable),
        hops_short=flight.hops_short,
        contradictions=_contradictions(flight, error),
    )


def _contradictions(flight: Flight, error: Exception | None) -> tuple[str, ...]:
    found = list(flight.contradictions)
    if flight.stage is Stage.ENDED and is_refusal(error):
        found.append("the host refused the command and reported its end")
    elif flight.stage is Stage.ENDED and not flight.accepted:
        found.append("the host reported the command's end without having accepted it")
    return tuple(found)


def _summary(flight: Flight, error: Exception | None, proof: Proof) -> str:
    there = " at the jump host" if flight.hops_short else ""
    if isinstance(error, Stop):
        return f"{error.sentence}{there}"
    match flight.stage:
        case Stage.PREPARED | Stage.CONNECTING:
            said = _pick(_CONNECTING, error, "the connection could not be made{there}")
            return said.format(host="the jump host" if there else "the host", there=there)
        case Stage.CONNECTED | Stage.OPENED:
            return _pick(_OPENING, error, "no session could be had")
        case Stage.ASKED:
            if proof is Proof.NEVER_EXECUTED:
                return "the host refused the command"
            return _pick(_ASKING, error, "nobody said whether the command was accepted")
        case Stage.ACCEPTED:
            return _pick(_RUNNING, error or flight.loss, "the session ended without a status")
        case Stage.ENDED:
            return _ended(flight)


def _ended(flight: Flight) -> str:
    how = "the command was ended by a signal" if flight.exit_signal is not None else "the command ended"
    return how if flight.output_ended else f"{how}; its output may be incomplete"


def _pick(table: _Sentences, error: Exception | None, otherwise: str) -> str:
    return next((sentence for kind, sentence in table if isinstance(error, kind)), otherwise)


def _cause(error: Exception) -> str | None:
    """The system's name of what lies below, for example `ECONNRESET`."""
    number = error.errno if isinstance(error, OSError) else None
    return None if number is None else errno.errorcode.get(number, str(number))
