"""The way to hosts: one question as a call of the runner over one SSH session, and its answer as an observation."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from adapters.contract import Clock, Framing, Hooks, HostEnd, HostExchange, HostTarget, HostVerb, Observation, Phase
from adapters.contract_ssh import HostTransport as Session
from adapters.contract_ssh import SshCredential, SshExchange, SshLimits, SshObservation, SshPins, SshRoute, Stage
from adapters.ssh.canary import Canaries, Canary
from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import EXEC_LINE, RunnerCall, Verb, stdin_text
from adapters.ssh.runner_command import UnfitCall, command_of
from adapters.ssh.runner_wire import Answer, Meaning, Output, RemotePhase, meaning, read_answer

KEEP_BYTES = 8192
HEAD_BYTES = 65_536
TAIL_BYTES = 524_288
"""The frame is the last line and at most a quarter of this; what a login prints before it may be cut."""
ANSWER_SECONDS = 3
"""Kept free of a request's deadline for connecting, and for the answer to travel."""
LOCK_SECONDS = 60
"""Within this a lock stays with its holder even if that is dead."""
_END = "-----END OPENSSH PRIVATE KEY-----\n"
_VERBS = {
    HostVerb.RUN: Verb.RUN,
    HostVerb.PROBE: Verb.PROBE,
    HostVerb.ASK: Verb.PROBE,
    HostVerb.STATUS: Verb.STATUS,
    HostVerb.FENCE: Verb.FENCE,
    HostVerb.CANCEL: Verb.CANCEL,
    HostVerb.CHECK: Verb.CHECK,
    HostVerb.LIST: Verb.LIST,
    HostVerb.LOCK: Verb.LOCK,
}
_ABOUT_THE_HOST = frozenset({HostVerb.CHECK, HostVerb.LIST, HostVerb.LOCK})
_CLOSING = frozenset({HostVerb.FENCE, HostVerb.CANCEL})
_PHASES = {
    Stage.PREPARED: Phase.PREPARED,
    Stage.CONNECTING: Phase.CONNECTING,
    Stage.CONNECTED: Phase.CONNECTED,
    Stage.OPENED: Phase.CONNECTED,
    Stage.ASKED: Phase.REQUEST_STARTED,
    Stage.ACCEPTED: Phase.REQUEST_WRITTEN,
    Stage.ENDED: Phase.RESPONSE_STARTED,
}
_TAKEN_UP = "accepted"
"""Running, and not begun: a fence can still come first, so it is no sign that the command ever ran."""
_SAID: dict[str, str] = {
    _TAKEN_UP: "the host took it up and has not begun it so far",
    RemotePhase.ABSENT: "the host knows nothing of it so far",
    RemotePhase.RUNNING: "the host says that it is running",
    RemotePhase.FENCED: "the host says that it never ran and never will",
    RemotePhase.LOST: "the host began it and has no record of its end",
    RemotePhase.UNVERIFIABLE: "the host began it, and whether it still runs cannot be seen from this login",
}


_NOT_FOUND = 127
"""What shells give where they do not find a program. A command may give it, too: it is no proof that nothing ran."""
_REASONS: dict[str, str] = {
    "lock_busy": "another command holds its lock; `gateway host unlock {host} {lock} --reason TEXT` shows who",
    "store_write": "the host could not write in its store; `gateway host check {host}` says why",
    "store_mismatch": "the store there is not the declared one, or another user's; see `gateway host check {host}`",
    "below_gc_floor": "it is older than what the host still keeps records of, and such late ones are refused",
    "payload_digest": "what arrived at the host was not what was sent",
    "no_digest_tool": "the host has no program for digests; `gateway host check {host}` names what is missing",
    "launch_failed": "the host could not start the command; `gateway host check {host}` looks at what it needs",
}
"""What the runner's reasons mean. `fence` is left out: that is our own doing."""


class RunnerTransport:
    """Implements `adapters.contract.HostTransport` on top of sessions.

    `token` gives 16 to 64 letters and digits by chance, new ones each time: an answer is known by them.
    """

    def __init__(self, sessions: Session, clock: Clock, token: Callable[[], str]) -> None:
        self._sessions = sessions
        self._clock = clock
        self._token = token
        self._canaries = Canaries()

    def remember(self, ends: Iterable[HostEnd]) -> None:
        """What earlier processes saw hosts to have ended: a store that knows nothing of it was put back."""
        self._canaries.remember(ends)

    async def attempt(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        """One call of the runner; a fence or cancel is one for each attempt that may be on its way, known or not."""
        begun_ms = self._clock.boot_ms()
        seen = await self._once(exchange, hooks)
        for later in range(exchange.attempt + 1, exchange.attempts_max + 1):
            if exchange.verb not in _CLOSING or seen.header("Phase") != RemotePhase.FENCED:
                break
            left = self._left(exchange, begun_ms)
            if left <= 0:
                return replace(seen, body_complete=False, summary="the time for the fence passed before it was whole")
            seen = await self._once(replace(exchange, attempt=later, request_seconds=left), hooks)
        for canary in self._canaries.beside(exchange, seen):
            left = max(self._left(exchange, begun_ms), 0.0)
            doubt = await self._doubt(canary, replace(exchange, request_seconds=left), hooks)
            if doubt is not None:
                # Without its head and body it is no answer: neither "not there" nor "it never will".
                return replace(seen, headers=(), body=b"", body_complete=False, summary=doubt)
        return seen

    def _left(self, exchange: HostExchange, begun_ms: int) -> float:
        return exchange.request_seconds - (self._clock.boot_ms() - begun_ms) / 1000

    async def _doubt(self, canary: Canary, exchange: HostExchange, hooks: Hooks) -> str | None:
        """Why what the store lacks proves nothing; None if it still knows what it knew before."""
        question = replace(
            exchange,
            verb=HostVerb.STATUS,
            argv=(),
            operation=canary.operation,
            attempt=canary.attempt,
            issued_ms=canary.issued_ms,
            lock=None,
        )
        _, answer = await self._call(question, hooks)
        return self._canaries.judge(exchange, canary, answer)

    async def _once(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        """A call that the runner would not take is never sent."""
        try:
            shown, answer = await self._call(exchange, hooks)
        except UnfitCall:
            return self._unfit()
        self._canaries.saw(exchange, answer, self._clock.wall_ms())
        return observation_of(exchange, shown, answer)

    async def _call(self, exchange: HostExchange, hooks: Hooks) -> tuple[SshObservation, Answer | None]:
        """One session. Raises `UnfitCall`, and then nothing was sent."""
        call = call_of(exchange, self._token())
        text = stdin_text(call, load_runner(), self._token())
        seen = await self._sessions.attempt(
            SshExchange(
                route=route_of(exchange.target),
                command=EXEC_LINE,
                stdin=text,
                run_seconds=exchange.request_seconds,
                limits=SshLimits(connect_seconds=exchange.connect_seconds, login_seconds=exchange.connect_seconds),
                head_bytes_max=HEAD_BYTES,
                tail_bytes_max=TAIL_BYTES,
                # What a look sees must not depend on what a connection of earlier days believes.
                fresh=exchange.verb not in {HostVerb.RUN, HostVerb.PROBE},
            ),
            hooks,
        )
        return seen, read_answer(_printed(seen), call)

    async def close(self) -> None:
        """As the contract says."""
        await self._sessions.close()

    def _unfit(self) -> Observation:
        wall_ms = self._clock.wall_ms()
        return Observation(
            phase=Phase.PREPARED,
            nothing_left=True,
            started_ms=wall_ms,
            ended_ms=wall_ms,
            closed_boot_ms=self._clock.boot_ms(),
            summary="the command cannot be handed to the host in this form",
        )


def call_of(exchange: HostExchange, nonce: str) -> RunnerCall:
    """The runner's call for a question. Raises `UnfitCall`."""
    verb = _VERBS[exchange.verb]
    about = verb is not Verb.PROBE
    named = exchange.lock is not None and verb in {Verb.RUN, Verb.LOCK}
    return RunnerCall(
        verb=verb,
        store=exchange.store,
        store_id=None if verb is Verb.CHECK else exchange.store_id,
        nonce=nonce,
        operation=exchange.operation or None if about else None,
        attempt=exchange.attempt,
        issued_ms=exchange.issued_ms,
        command=command_of(exchange.argv) if exchange.argv else None,
        follow_seconds=max(1, int(exchange.request_seconds) - ANSWER_SECONDS),
        limit_seconds=0 if about else max(1, int(exchange.request_seconds) - 1),
        keep_bytes=max(256, min(KEEP_BYTES, exchange.body_max_bytes // 32)),
        lock=exchange.lock if named else None,
        lock_seconds=LOCK_SECONDS if named and verb is Verb.RUN else 0,
        signal=exchange.signal,
    )


def observation_of(exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
    """What a session and the runner's answer in it show. Without an answer in our frame, only the stage says something.

    An exit status of the session is none of the command's: a forced command or a broken shell has one as well.
    """
    bare = _bare(seen)
    if answer is None or seen.nothing_left:
        return bare
    if exchange.verb in _ABOUT_THE_HOST:
        return _described(bare, answer)
    if answer.fields.get("digest") not in {None, "", command_of(exchange.command).digest}:
        other = "the host's record under this operation is of another command"
        return replace(bare, summary=other, contradictions=(*bare.contradictions, other))
    if answer.verb is Verb.PROBE:
        return _told(bare, answer) if exchange.verb is HostVerb.ASK else _answered(bare, exchange, answer)
    match meaning(answer):
        case Meaning.LAUNCHED_NOTHING if answer.reason == "attempt_not_fenced":
            # Whoever sent this took every earlier attempt for unsent, but the host holds one: never a "not executed".
            told = _answered(bare, exchange, replace(answer, phase=RemotePhase.UNVERIFIABLE))
            return replace(told, summary="the host holds an earlier attempt of it, which may have run")
        case Meaning.NEVER_RAN | Meaning.LAUNCHED_NOTHING if exchange.verb is HostVerb.RUN:
            reason = _reason(exchange, answer)
            reply = (("Phase", answer.phase.value), ("Reason", answer.reason or ""))
            refused = f"the host did not run it and will not: {reason}"
            return replace(bare, nothing_left=True, headers=reply, summary=refused)
        case Meaning.LOST if exchange.verb is HostVerb.RUN:
            return replace(bare, headers=(("Phase", RemotePhase.LOST.value),), summary=_SAID[RemotePhase.LOST])
        case Meaning.EXITED | Meaning.PENDING | Meaning.NEVER_RAN | Meaning.FENCE_FIRST | Meaning.LOST:
            return _answered(bare, exchange, answer)
        case Meaning.CONFLICT:
            return replace(bare, contradictions=("the host holds another command under this operation",))
        case _:
            return replace(bare, summary=f"the host's answer is no evidence: {_reason(exchange, answer)}")


def _bare(seen: SshObservation) -> Observation:
    """The session alone, as an attempt without an answer."""
    return Observation(
        phase=_PHASES[seen.stage],
        nothing_left=seen.nothing_left,
        started_ms=seen.started_ms,
        ended_ms=seen.ended_ms,
        closed_boot_ms=seen.closed_boot_ms,
        summary=seen.summary
        if seen.stage is not Stage.ENDED
        else "the session ended without an answer of the runner's",
        error_class=seen.error_class,
        error_cause=seen.error_cause,
        peer=seen.peer,
        tls=seen.host_key,
        untrusted=seen.nothing_left and seen.host_key_refused,
        hops_short=seen.hops_short,
    )


def _answered(bare: Observation, exchange: HostExchange, answer: Answer) -> Observation:
    """The runner's answer as a whole answer, with the tails of what the command printed."""
    ended = answer.fields.get("exit")
    phase = RemotePhase.EXITED if ended is not None else answer.phase
    word = _TAKEN_UP if phase is RemotePhase.RUNNING and answer.fields["begun"] is False else phase.value
    said = _end(answer) if ended is not None else _SAID[word]
    if phase is RemotePhase.FENCED and answer.reason in _REASONS:
        said = f"{said}: {_reason(exchange, answer)}"
    if phase is RemotePhase.RUNNING and exchange.verb is HostVerb.CANCEL:
        said = f"the host noted that it is no longer wanted, and sent {exchange.signal}; its end is still to come"
    content: dict[str, Any] = {
        "operation": exchange.operation,
        "phase": word,
        "reason": answer.reason,
        "exit": ended,
        "timed_out": answer.fields.get("timed_out"),
        "cancel_asked": answer.fields.get("cancel_asked"),
        "stdout": _shown(answer.out),
        "stderr": _shown(answer.err),
    }
    headers = (("Content-Type", "application/json"), ("Phase", word))
    return _whole(
        replace(bare, summary=said),
        json.dumps(content, ensure_ascii=False).encode(),
        headers if ended is None else (*headers, ("Exited", str(ended))),
        0 if ended is None else int(ended),
    )


def _end(answer: Answer) -> str:
    """How a command ended, with what its record says of why."""
    ended = f"ended with exit status {answer.fields['exit']}"
    if answer.fields.get("timed_out"):
        return f"the command was told to stop because it reached its time limit, and {ended}"
    if answer.fields.get("cancel_asked"):
        return f"the command was told to stop because it was cancelled, and {ended}"
    if answer.fields["exit"] == _NOT_FOUND:
        return f"the command {ended}: a program was not found, itself or one that it calls"
    return f"the command {ended}"


def _reason(exchange: HostExchange, answer: Answer) -> str:
    """The runner's word for why as words for people, with what to do next."""
    word = answer.reason or answer.phase.value
    names = {"host": exchange.target.name, "lock": exchange.lock or "LOCK"}
    return _REASONS.get(word, word.replace("_", " ")).format_map(names)


def _described(bare: Observation, answer: Answer) -> Observation:
    """The runner's own words about the host, its store or a lock."""
    content = {"phase": answer.phase.value, "reason": answer.reason, "store_id": answer.store_id, **answer.fields}
    headers = (("Content-Type", "application/json"), ("Phase", answer.phase.value))
    return _whole(replace(bare, summary="the host answered"), json.dumps(content).encode(), headers, 0)


def _told(bare: Observation, answer: Answer) -> Observation:
    """A status command's own words: one JSON object that came whole, and an exit status of 0, or no evidence."""
    out = answer.out
    if answer.fields["timed_out"]:
        return replace(bare, summary="the status command took too long")
    if answer.fields["exit"] != 0:
        return replace(bare, summary=f"the status command ended with exit status {answer.fields['exit']}")
    if out is None or out.gap or not answer.fields["output_complete"]:
        return replace(bare, summary="the status command printed more than may be read")
    body = out.head + out.tail
    if not _is_object(body):
        return replace(bare, summary="the status command printed no single JSON object")
    bare = replace(bare, summary="the status command answered")
    return _whole(bare, body, (("Content-Type", "application/json"),), 0)


def _whole(bare: Observation, body: bytes, headers: tuple[tuple[str, str], ...], status: int) -> Observation:
    return replace(
        bare,
        phase=Phase.RESPONSE_COMPLETE,
        nothing_left=False,
        request_complete=True,
        status=status,
        headers=headers,
        framing=Framing.LENGTH,
        body=body,
        body_complete=True,
    )


def _is_object(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


def _shown(stream: Output | None) -> dict[str, Any] | None:
    """What is known of a stream. Bytes that are no UTF-8 are replaced; the runner bounds both ends."""
    if stream is None:
        return None
    head, tail = (stream.head, stream.tail) if stream.gap else (stream.head + stream.tail, b"")
    return {
        "text": head.decode(errors="replace"),
        "bytes": stream.count,
        "gap": stream.gap,
        "tail": tail.decode(errors="replace"),
    }


def _printed(seen: SshObservation) -> bytes:
    out = seen.stdout
    return out.head + (b"\n" if out.gap else b"") + out.tail


def route_of(target: HostTarget) -> SshRoute:
    """A target in the form of the sessions below."""
    key, _, certificate = target.credential.value.partition(_END)
    return SshRoute(
        # What a host's certificate must name.
        name=target.address,
        address=target.address,
        user=target.user,
        pins=SshPins(target.host_keys, target.host_authorities, target.revoked_keys),
        credential=SshCredential(key + _END, certificate.strip() or None),
        port=target.port,
        jump=None if target.jump is None else route_of(target.jump),
        allow_private=target.allow_private,
    )
