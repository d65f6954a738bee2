"""Holds a finished run against the invariants: the services' ledger, all answers, the decrypted log, and the rows.

One line per violated property, then the story of the operation. Nothing here asks the engine anything.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from audit.claims import AnchorSource
from audit.report import Exit
from audit.show import show
from audit.trust import TrustPolicy
from audit.verify import VerifyOptions, verify
from gateway.core.ids import format_id
from gateway.model.operation import Operation
from gateway.store.codec import OPERATION_COLUMNS, decode
from tests.model.history import History, Sent, short
from tests.model.kinds import KINDS, catalog
from tests.model.process import KEYS
from tests.model.simulation import Simulation
from tests.model.stand_ins import WALL_START_MS

LATE_SECONDS_MAX = 60.0
"""A recovery deadline is noticed at the latest after one sweep, a failing disk's restart, and the look under way."""
_COLUMNS = ", ".join(column.name for column in OPERATION_COLUMNS)


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that does not hold, and for which operation."""

    claim: str
    op: str | None = None

    def __str__(self) -> str:
        return self.claim if self.op is None else f"{self.claim} [{short(self.op)}]"


def check(world: Simulation) -> list[Violation]:
    """Everything that is wrong with a run."""
    found = [Violation(text) for text in world.history.broken]
    stored = {operation.id: operation for operation in _operations(world)}
    found += _check_log(world, stored)
    sent: dict[str, list[Sent]] = defaultdict(list)
    for item in world.history.sent:
        sent[item.op].append(item)
    for op in stored.keys() | sent.keys() | {effect.op for effect in world.history.effects}:
        found += [Violation(text, op) for text in _check_operation(world, op, stored.get(op), sent[op])]
    found += _check_identity(world, stored)
    for row in stored.values():
        _note_cells(world, row)
    return found


def story(world: Simulation, violations: list[Violation]) -> str:
    """The violations, and the merged timeline of the operations they are about."""
    lines = [str(item) for item in violations]
    for op in dict.fromkeys(item.op for item in violations):
        lines += ["", f"timeline of {op or 'everything'} ({world.history.kind_of.get(op or '', '?')}):"]
        lines += world.history.timeline(op)
    return "\n".join([*lines, "", f"python -m tests.model --seed {world.seed}"])


def _operations(world: Simulation) -> Iterator[Operation]:
    for row in world.rows(f"SELECT {_COLUMNS} FROM operations"):
        yield decode(row)


# --- one operation


def _check_operation(world: Simulation, op: str, row: Operation | None, sent: list[Sent]) -> Iterator[str]:
    history = world.history
    if row is None:
        yield "S17 the service knows an operation that the store does not"
        return
    kind = KINDS[row.action.removesuffix(".do")]
    history.kind_of[op] = kind.name
    effects = [effect for effect in history.effects if effect.op == op]
    own = [effect for effect in effects if not effect.repeated]
    if len(own) > 1 and not kind.lies:
        yield f"I2 {len(own)} effects"
    elif len({effect.copy for effect in effects}) > 1 and not kind.lies:
        yield "I2 effects of two attempts"
    if len({item.request for item in sent if item.what == "send"}) > 1:
        yield "S10 the bytes of two attempts differ"
    yield from _check_sends(history, row, sent)
    yield from _check_said(history, row, [effect.at for effect in effects], honest=not kind.lies)
    yield from _check_end(world, row)
    yield from _check_deadline(world, row)


def _check_sends(history: History, row: Operation, sent: list[Sent]) -> Iterator[str]:
    """Attempts on the wire are attempts of the log, each recorded before its bytes."""
    begun = {
        record["attempt"]: record["seq"]
        for record in history.log
        if record.get("op") == row.id and record["ev"] in {"attempt", "fence", "cancel"} and "attempt" in record
    }
    seen = {record["attempt"] for record in history.log if record.get("op") == row.id and record["ev"] == "observation"}
    numbers = [item.number for item in sent]
    if len(set(numbers)) != len(numbers):
        yield f"S3 an attempt was sent twice: {numbers}"
    for item in sent:
        if item.number not in begun:
            yield f"S3 attempt {item.number} is on the wire and not in the log"
        elif begun[item.number] >= item.head:
            yield f"I1 attempt {item.number} left before its record was durable"
    if len(begun) != len(row.attempts):
        yield f"S3 {len(row.attempts)} attempts are stored, {len(begun)} are in the log"
    for end in history.ended:
        survived = history.killed.get(end.process, end.at) > end.at + 1.0 or end.process not in history.killed
        if end.op == row.id and end.what == "send" and survived and end.number not in seen:
            yield f"S18 what attempt {end.number} showed was seen and is not in the log"
    action = catalog().actions[row.action]
    standing = {item.number: item.standing.value for item in row.attempts}
    if action.resend.value == "never" and not action.is_read:
        doubtful = [number for number in numbers[:-1] if standing.get(number) not in {"unsent", "settled", "absent"}]
        sends = [item.number for item in sent if item.what == "send"]
        if len(sends) > 1 and any(number in doubtful for number in sends[:-1]):
            yield f"S10 sent again although attempt {doubtful} may have been carried out"


def _check_said(  # noqa: C901 - one walk over what was said, one promise a line
    history: History, row: Operation, effects: list[float], *, honest: bool
) -> Iterator[str]:
    said = [item for item in history.said if item.op == row.id]
    first = effects[0] if effects else None
    ended: tuple[str | None, str] | None = None
    unresolved_at: float | None = None
    is_read = row.effect == "read"
    for item in said:
        if item.outcome == "success" and not is_read and (first is None or first > item.at):
            yield f"I3 success was said at {item.at:.3f}, and the effect is {first}"
        if item.executed == "no" and first is not None and honest and item.outcome is not None:
            yield f"I3 executed: no was said at {item.at:.3f} ({item.basis}), and the effect came at {first:.3f}"
        if item.outcome is None:
            yield from _check_nothing_yet(history, row, item.at)
        if item.state in {"sending", "accepted", "in_doubt", "unresolved"} and item.outcome != "unknown":
            yield f"I4 {item.state} showed {item.outcome}"
        if item.state in {"succeeded", "failed", "cancelled"}:
            verdict = (item.outcome, item.executed)
            if ended is not None and ended != verdict:
                yield f"S6 the verdict changed from {ended} to {verdict}"
            ended = verdict
            if item.contradicted and honest:
                yield f"I3 honest evidence contradicts the verdict {verdict}"
        elif ended is not None:
            yield f"S6 {item.state} was shown after {ended}"
        if item.state == "unresolved" and unresolved_at is None:
            unresolved_at = item.at
        if item.state == "cancelled" and any(sent.op == row.id and sent.at > item.at for sent in history.sent):
            yield "cancel: bytes left after it was called cancelled"
    if unresolved_at is not None:
        own = [item for item in history.sent if item.op == row.id and item.what != "cancel"]
        later = [item.at for item in own if item.at > unresolved_at]
        if later and not is_read:
            yield f"an unresolved operation was sent again at {later[0]:.3f}"


def _check_nothing_yet(history: History, row: Operation, at: float) -> Iterator[str]:
    """ "Nothing was executed" was said: nothing that left before may ever take effect."""
    copies = {place for place, item in enumerate(history.sent) if item.op == row.id and item.at < at}
    if any(effect.op == row.id and effect.copy in copies for effect in history.effects):
        yield f"I4 at {at:.3f} it was said that nothing was executed, of an attempt that has an effect"


def _check_deadline(world: Simulation, row: Operation) -> Iterator[str]:
    """From the first attempt on, the end comes within the declared time, however often the process died meanwhile."""
    times = [(record["ev"], record["s"]) for record in world.history.log if record.get("op") == row.id]
    begun = next((at for event, at in times if event == "attempt"), None)
    ended = next((at for event, at in times if event in {"unresolved", "outcome"}), None)
    if begun is None or ended is None or world.stepped:
        return
    allowed = catalog().actions[row.action].deadlines.recovery_seconds + LATE_SECONDS_MAX + world.down_seconds
    if ended - begun > allowed:
        yield f"I4 it took {ended - begun:.0f} s to come to an end, {allowed:.0f} s were allowed"


def _check_end(world: Simulation, row: Operation) -> Iterator[str]:
    if row.state.value not in {"succeeded", "failed", "cancelled", "unresolved"}:
        yield f"I4 it never ends: {row.state.value}"
        return
    honest = not KINDS[row.action.removesuffix(".do")].lies
    happened = any(effect.op == row.id for effect in world.history.effects)
    if row.effect == "read" or row.state.value == "unresolved":
        return
    if row.executed.value == "no" and happened and honest:
        yield f"I3 stored as not executed by {row.basis}, and it was"
    if row.state.value == "succeeded" and not happened:
        yield f"I3 stored as a success by {row.basis}, and nothing happened"
    if row.executed.value == "yes" and not happened:
        yield f"I3 stored as executed by {row.basis}, and it was not"
    if row.basis == "attestation" or KINDS[row.action.removesuffix(".do")].host is None:
        return
    code = world.history.exits.get(row.id)
    if row.executed.value == "yes" and (row.state.value == "succeeded") is not (code == 0):
        yield f"I3 stored as {row.state.value} by {row.basis}, and the command ended with {code}"


def _note_cells(world: Simulation, row: Operation) -> None:
    """Meetings that only show when everything is over."""
    history = world.history
    history.reached(f"kind: {row.action.removesuffix('.do')}")
    records = [record for record in history.log if record.get("op") == row.id]
    looks = [record for record in records if record.get("source") == "probe"]
    effect = next((item.at for item in history.effects if item.op == row.id), None)
    gave_up = next((record["s"] for record in records if record["ev"] == "unresolved"), None)
    if not world.stepped and effect is not None:
        if any(record["finding"] == "absent" and record["s"] < effect for record in looks):
            history.reached("late effect: after the first look that found nothing")
        if gave_up is not None and gave_up < effect:
            history.reached("late effect: after the recovery deadline")
    if gave_up is not None and row.basis in {"probe", "state", "handle", "absence"}:
        history.reached("late evidence: an unresolved operation is settled by a look")
    if row.basis == "probe":
        history.reached("settled by the first look" if len(looks) == 1 else "settled by a later look")


# --- the log


def _check_log(world: Simulation, stored: dict[str, Operation]) -> Iterator[Violation]:
    history = world.history
    history.log.clear()
    for entry in show(world.directory, KEYS.auditor):
        history.log.append(entry.content | {"seq": entry.seq, "s": (entry.t_ms - WALL_START_MS) / 1000})
    if world.processes > 1 or world.seed % 4 == 0:
        # Of a log that one process wrote from beginning to end there is little to find, and looking costs most.
        yield from verify_log(world)
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in history.log:
        if record.get("op") is not None:
            chains[record["op"]].append(record)
    for op in chains.keys() - stored.keys():
        yield Violation("S17 the log tells of an operation that is not stored", op)
    counts = {format_id(bytes(name)): number for name, number in world.rows("SELECT id, op_n FROM operations")}
    for op, row in stored.items():
        chain = chains[op]
        if not chain or chain[0]["ev"] != "admitted":
            yield Violation("S17 stored without a record of its admission", op)
            continue
        if [record["op_n"] for record in chain] != list(range(len(chain))) or counts[op] != len(chain):
            yield Violation(f"I8 its records do not join up: {len(chain)} of {counts[op]}", op)
        states = [record["state"] for record in chain if record["ev"] != "admitted" and "state" in record]
        if states and states[-1] != row.state.value and row.state.value in {"succeeded", "failed", "cancelled"}:
            yield Violation(f"I8 stored as {row.state.value}, the log ends with {states[-1]}", op)


def verify_log(world: Simulation) -> Iterator[Violation]:
    """The offline verifier's word on the files as they are now."""
    report = verify(
        world.directory,
        policy=TrustPolicy((KEYS.signer.key,)),
        anchors=[AnchorSource("anchor", world.anchor, "checkpoint")],
        now_ms=world.clock.wall_ms(),
        options=VerifyOptions(accept_unanchored=True, anchor_age_max_ms=10**12),
    )
    if report.exit is not Exit.OK:
        yield Violation(f"S16 the log does not verify: {[item.message for item in report.findings]}")


# --- identity


def _check_identity(world: Simulation, stored: dict[str, Operation]) -> Iterator[Violation]:
    for at, action, what in world.history.nothing_created:
        until = world.clock.wall_ms() if world.stepped else WALL_START_MS + int(at * 1000)
        for row in stored.values():
            same = row.action == action and row.caller == what["caller"]
            if same and what["begun"] <= row.created_ms <= until and not world.stepped and _is_of(world, row, what):
                yield Violation(f"I8 at {at:.3f} it was said that nothing was created, and it is there", row.id)
    for row in stored.values():
        for other in stored.values():
            if other is row or other.fingerprint != row.fingerprint or other.created_ms >= row.created_ms:
                continue
            yield from _check_repeat(world, other, row)


def _is_of(world: Simulation, row: Operation, what: dict[str, Any]) -> bool:
    rows = world.rows(
        "SELECT body FROM payloads WHERE kind = 'arguments' AND body LIKE ?", f"payload/{row.id}/%".encode()
    )
    return bool(rows) and orjson.loads(bytes(rows[0][0]).partition(b"|")[2]) == what["arguments"]


def _check_repeat(world: Simulation, first: Operation, second: Operation) -> Iterator[Violation]:
    if world.stepped:
        return
    if first.final_ms is None or first.final_ms > second.created_ms:
        yield Violation(f"S8 created beside its equal {short(first.id)}, which was not settled", second.id)
    elif second.key is None and first.executed.value != "no" and first.effect != "read":
        yield Violation(f"S8 created right after its equal {short(first.id)} without a new key", second.id)


__all__ = ["Violation", "check", "story", "verify_log"]
