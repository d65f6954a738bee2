"""Reading the runner's answers: one framed line of strict JSON, everything else on the channel is noise."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from adapters.ssh.runner_call import RunnerCall, Verb


class RemotePhase(StrEnum):
    """What the host says of an attempt; `OK` where a verb is about something else."""

    ABSENT = "absent"
    RUNNING = "running"
    EXITED = "exited"
    FENCED = "fenced"
    LOST = "lost"
    """It was claimed, nothing of it lives, and it left no record."""
    UNVERIFIABLE = "unverifiable"
    """It was claimed by processes that this session cannot see: another namespace, or another machine."""
    REFUSED = "refused"
    OK = "ok"


class Meaning(StrEnum):
    """What an answer lets the gateway conclude about the attempt it asked for."""

    EXITED = "exited"
    """Ran to its end exactly once: judge exit status and output."""
    NEVER_RAN = "never_ran"
    """Has not run and never will."""
    FENCE_FIRST = "fence_first"
    """Not seen so far. It may still arrive, so this is no verdict: place the fence."""
    PENDING = "pending"
    LOST = "lost"
    """May have run, wholly or in part; the host cannot say more. Never to be repeated on this."""
    LAUNCHED_NOTHING = "launched_nothing"
    """This delivery started nothing; an earlier one of the same attempt may have."""
    CONFLICT = "conflict"
    """The attempt belongs to another command: a mistake in the caller. Stop."""
    NO_EVIDENCE = "no_evidence"


@dataclass(frozen=True, slots=True)
class Output:
    """One stream of the command. `head` and `tail` never overlap; between them lie `gap` bytes that did not travel."""

    count: int
    head: bytes = field(repr=False)
    tail: bytes = field(repr=False)

    @property
    def gap(self) -> int:
        return self.count - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class Answer:
    verb: Verb
    phase: RemotePhase
    store_id: str
    machine: str
    boot: str
    uid: int
    reason: str | None
    """Why it was refused or fenced: a word of the runner's."""
    fields: Mapping[str, Any]
    """The rest of the answer, by the names of `FIELDS`: exactly those that belong to this verb and phase."""
    out: Output | None = None
    err: Output | None = None


_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_DIGEST = re.compile(r"(?:[0-9a-f]{64})?")
_LONGEST_LINE = 2_000_000


def _word(value: object) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _word_or_none(value: object) -> bool:
    return value == "" or _word(value)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18


def _hex(value: object) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _exit(value: object) -> bool:
    return _count(value) and isinstance(value, int) and value <= 255


def _words(value: object) -> bool:
    return isinstance(value, list) and all(_word(item) for item in value)


_ITEM = {
    "operation": _word,
    "attempt": _count,
    "phase": _word,
    "issued": _count,
    "begun": _flag,
    "began": _count,
    "ended": lambda value: value is None or _count(value),
    "exit": lambda value: value is None or _exit(value),
}


def _operations(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and _fits(item, _ITEM) for item in value)


_Check = Callable[[object], bool]
_Shape = Mapping[str, _Check]

_FRAME: _Shape = {
    "v": lambda value: value == 1 and not isinstance(value, bool),
    "verb": _word,
    "phase": _word,
    "store_id": _word_or_none,
    "machine": _word_or_none,
    "boot": _word_or_none,
    "uid": lambda value: _count(value) or value == -1,
}
_ATTEMPT: _Shape = {"operation": _word, "attempt": _count}
_PRINTED: _Shape = {
    "out_bytes": _count,
    "out_head": _hex,
    "out_tail": _hex,
    "err_bytes": _count,
    "err_head": _hex,
    "err_tail": _hex,
    "output_complete": _flag,
}
_CLAIMED: _Shape = {
    **_ATTEMPT,
    **_PRINTED,
    "digest": _digest,
    "began": _count,
    "cancel_asked": _flag,
    "timed_out": _flag,
}
_HOST: _Shape = {
    "initialised": _flag,
    "filesystem": _word,
    "volatile": _flag,
    "free_kib": _count,
    "clock": _count,
    "writable": _flag,
    "detaches": _flag,
    "witness": _flag,
    "missing": _words,
}
_LOCK: _Shape = {
    "lock": _word,
    "number": _count,
    "state": _word,
    "holder": _word_or_none,
    "holder_attempt": _count,
    "holder_phase": _word,
    "until": _count,
}
FIELDS: Mapping[RemotePhase | Verb, _Shape] = {
    RemotePhase.REFUSED: {"reason": _word},
    RemotePhase.ABSENT: {**_ATTEMPT, "authoritative": _flag},
    RemotePhase.FENCED: {**_ATTEMPT, "reason": _word},
    RemotePhase.RUNNING: {**_CLAIMED, "begun": _flag, "supervised": _flag},
    RemotePhase.UNVERIFIABLE: {**_CLAIMED, "begun": _flag},
    RemotePhase.LOST: {**_CLAIMED, "begun": _flag, "rebooted": _flag},
    RemotePhase.EXITED: {**_CLAIMED, "exit": _exit, "ended": _count, "lock_number": _count},
    Verb.INIT: _HOST,
    Verb.CHECK: _HOST,
    Verb.PROBE: {**_PRINTED, "exit": _exit, "timed_out": _flag},
    Verb.LIST: {"operations": _operations, "more": _flag},
    Verb.COLLECT: {"floor": _count, "removed": _count, "kept": _count},
    Verb.LOCK: _LOCK,
    Verb.UNLOCK: _LOCK,
}
"""What each answer holds beside its frame: no less and no more."""


def _fits(document: Mapping[str, object], shape: _Shape) -> bool:
    return document.keys() == shape.keys() and all(check(document[name]) for name, check in shape.items())


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name occurs twice")
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _framed(output: bytes, nonce: str) -> dict[str, Any] | None:
    mark = f"@gw1 {nonce} ".encode()
    lines = [line for line in output.split(b"\n")[:-1] if line.startswith(mark)]
    if len(lines) != 1 or len(lines[0]) > _LONGEST_LINE:
        return None
    try:
        document = json.loads(
            lines[0][len(mark) :].decode("ascii"),
            object_pairs_hook=_refuse_repeats,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def read_answer(output: bytes, call: RunnerCall) -> Answer | None:
    """The runner's answer to `call` in what came over the channel.

    None means no evidence: no whole line with our nonce, more than one, another shape than this verb and phase have,
    or an answer about another operation, attempt or store than was asked for.
    """
    document = _framed(output, call.nonce)
    if document is None or not _fits({name: document.get(name) for name in _FRAME}, _FRAME):
        return None
    if document["verb"] != call.verb or document["phase"] not in tuple(RemotePhase):
        return None
    phase = RemotePhase(document["phase"])
    rest = {name: value for name, value in document.items() if name not in _FRAME}
    shape = FIELDS.get(call.verb if phase is RemotePhase.OK else phase)
    if shape is None or not _fits(rest, shape) or not _is_about(call, phase, document):
        return None
    out, err = _output(rest, "out"), _output(rest, "err")
    if any(stream is not None and stream.gap < 0 for stream in (out, err)):
        return None
    return Answer(
        verb=call.verb,
        phase=phase,
        store_id=document["store_id"],
        machine=document["machine"],
        boot=document["boot"],
        uid=document["uid"],
        reason=rest.pop("reason", None),
        fields=rest,
        out=out,
        err=err,
    )


def _is_about(call: RunnerCall, phase: RemotePhase, document: Mapping[str, Any]) -> bool:
    if phase is RemotePhase.REFUSED:
        return True
    if call.store_id is not None and document["store_id"] != call.store_id:
        return False
    return "operation" not in document or (document["operation"], document["attempt"]) == (call.operation, call.attempt)


def _output(rest: dict[str, Any], name: str) -> Output | None:
    if f"{name}_bytes" not in rest:
        return None
    head, tail = bytes.fromhex(rest.pop(f"{name}_head")), bytes.fromhex(rest.pop(f"{name}_tail"))
    return Output(count=rest.pop(f"{name}_bytes"), head=head, tail=tail)


_LAUNCHED_NOTHING = frozenset(
    {"store_write", "payload_digest", "below_gc_floor", "attempt_not_fenced", "no_digest_tool", "bad_argument"}
)


def meaning(answer: Answer | None) -> Meaning:
    """The one reading of an answer about an attempt; a phase or reason that has none is no evidence."""
    match answer:
        case Answer(phase=RemotePhase.EXITED):
            return Meaning.EXITED
        case Answer(phase=RemotePhase.FENCED):
            return Meaning.NEVER_RAN
        case Answer(phase=RemotePhase.ABSENT, fields={"authoritative": True}):
            return Meaning.FENCE_FIRST
        case Answer(phase=RemotePhase.RUNNING | RemotePhase.UNVERIFIABLE):
            return Meaning.PENDING
        case Answer(phase=RemotePhase.LOST):
            return Meaning.LOST
        case Answer(phase=RemotePhase.REFUSED, reason="digest_conflict"):
            return Meaning.CONFLICT
        case Answer(phase=RemotePhase.REFUSED, verb=Verb.RUN, reason=reason) if reason in _LAUNCHED_NOTHING:
            return Meaning.LAUNCHED_NOTHING
        case _:
            return Meaning.NO_EVIDENCE
