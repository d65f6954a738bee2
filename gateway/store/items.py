"""What the writer takes: each item says what it must know, and rules on itself when its turn comes.

Ruling reads and collects; it writes nothing. A new kind of write is one class here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from gateway.core.identity import Ruling, Verdict, decide, is_keyed
from gateway.model.operation import FINAL, Operation, Receipt, State
from gateway.model.problem import Code, ensure
from gateway.store.codec import raw_id, short_hash
from gateway.store.effects import Effects
from gateway.store.port import Admission, Admitted, Change, Changed, PayloadKind, Rekeying, SealedFrame, Sealer
from gateway.store.records import Draft
from gateway.store.view import Known, View, Wants

Promise = Callable[[Receipt | None], Any]
"""Makes the reply, given where the item's newest record lies."""

HEAD: Final = "audit.head"
"""Name under which the log's position is kept."""

BULKY_BYTES: Final = 64 * 1024
"""What it takes to encrypt and to write this much is a small part of a turn of the loop."""


class Item(Protocol):
    """One submission to the writer."""

    @property
    def drafts(self) -> Sequence[Draft]:
        """Its audit records; without a log an item that has some is refused."""
        ...

    @property
    def admits(self) -> bool:
        """Whether it begins something new, which needs room to end."""
        ...

    def bulky(self) -> bool:
        """Whether it touches so many rows, or brings so many bytes, that an event loop would feel it."""
        ...

    def patient(self) -> bool:
        """Whether it had rather go with others than make a transaction of its own."""
        ...

    def needs(self, wants: Wants) -> None:
        """Say what must be loaded."""
        ...

    def rule(self, view: View, effects: Effects) -> Promise:
        """Decide, and collect what is to be written."""
        ...


@dataclass(frozen=True, slots=True)
class Base:
    """What items have in common: their records, and the operations that these belong to."""

    admits: ClassVar[bool] = False
    drafts: tuple[Draft, ...] = field(default=(), kw_only=True)

    def bulky(self) -> bool:
        """No."""
        return False

    def patient(self) -> bool:
        """No."""
        return False

    def needs(self, wants: Wants) -> None:
        for draft in self.drafts:
            if draft.operation_id is not None:
                wants.ids.add(raw_id(draft.operation_id))

    def record(self, view: View, effects: Effects, own: str | None = None) -> None:
        """The item's records; the receipt tells of the last one of operation `own`, or the last of all."""
        for draft in self.drafts:
            chain = None if draft.operation_id is None else view.get(raw_id(draft.operation_id))
            effects.record(draft, chain, answers=own is None or draft.operation_id == own)


def _bytes_of(payloads: Mapping[PayloadKind, bytes]) -> int:
    return sum(map(len, payloads.values()))


def only(reply: Any) -> Promise:
    """A reply that tells of no receipt."""
    return lambda _receipt: reply


@dataclass(frozen=True, slots=True)
class Admit(Base):
    """A new operation, if the identity rules let it be one."""

    admits: ClassVar[bool] = True
    admission: Admission

    def bulky(self) -> bool:
        """By the request and its arguments."""
        return _bytes_of(self.admission.payloads) > BULKY_BYTES

    def needs(self, wants: Wants) -> None:
        operation = self.admission.operation
        # Its own id is new, or the insert fails.
        for draft in self.drafts:
            if draft.operation_id is not None and draft.operation_id != operation.id:
                wants.ids.add(raw_id(draft.operation_id))
        wants.digests.add(operation.definition)
        wants.fingerprints.add(short_hash(operation.fingerprint))
        if operation.key is not None:
            wants.keys.add(short_hash(operation.key))
        if not is_keyed(operation) and not self.admission.is_read:
            wants.echoes.add(short_hash(operation.fingerprint))
        if operation.conflict_key is not None:
            wants.conflicts.add(short_hash(operation.conflict_key))
        if operation.supersedes is not None:
            wants.ids.add(raw_id(operation.supersedes))

    def rule(self, view: View, effects: Effects) -> Promise:
        operation = self.admission.operation
        old = None
        if operation.supersedes is not None and not view.lost.is_known(operation.supersedes):
            old = view.get(raw_id(operation.supersedes))
            if old is None or not _may_be_superseded(old.operation):
                named = None if old is None else old.operation
                return only(Admitted(Verdict(Ruling.REFUSE, Code.WRONG_STATE, named)))
        verdict = decide(
            operation,
            view.rivals(operation, besides=old, mark=self.admission.mark),
            repeat_window_ms=self.admission.repeat_window_ms,
            is_read=self.admission.is_read,
        )
        if verdict.ruling is not Ruling.CREATE:
            return only(Admitted(verdict))
        if operation.supersedes is not None and old is None:
            view.lost.give_up(operation.supersedes)
            effects.given_up.append(raw_id(operation.supersedes))
        if old is not None:
            view.change(old, old.operation.but(superseded=True, version=old.version + 1))
            effects.image(old)
        known = view.create(raw_id(operation.id), operation)
        effects.image(known)
        effects.seal |= self.admission.seal_now
        if operation.definition not in view.definitions:
            effects.definitions[operation.definition] = self.admission.definition
        for kind, body in self.admission.payloads.items():
            effects.payload(known, kind, body)
        self.record(view, effects, operation.id)
        return lambda receipt: Admitted(verdict, receipt)


def _may_be_superseded(operation: Operation) -> bool:
    return operation.state is State.UNRESOLVED and not operation.superseded


@dataclass(frozen=True, slots=True)
class Alter(Base):
    """A new image of a stored operation, if it still has the version that its maker saw."""

    change: Change

    def bulky(self) -> bool:
        """By the result."""
        return _bytes_of(self.change.payloads) > BULKY_BYTES

    def needs(self, wants: Wants) -> None:
        super(Alter, self).needs(wants)
        wants.ids.add(raw_id(self.change.operation.id))

    def rule(self, view: View, effects: Effects) -> Promise:
        image = self.change.operation
        known = view.get(raw_id(image.id))
        if known is None:
            return only(Changed(won=False))
        if known.version != self.change.expect_version:
            return only(Changed(won=False, current=known.operation))
        self._ensure_lawful(known, image)
        view.change(known, image)
        effects.image(known)
        effects.seal |= self.change.seal_now
        for kind, body in self.change.payloads.items():
            effects.payload(known, kind, body)
        self.record(view, effects, image.id)
        return lambda receipt: Changed(won=True, receipt=receipt)

    def _ensure_lawful(self, known: Known, image: Operation) -> None:
        if known.stored_state is not None and known.stored_state in FINAL:
            ensure(image.state.value == known.stored_state, "a final state is never left")


@dataclass(frozen=True, slots=True)
class Observe(Base):
    """Something seen of an operation, kept whatever has become of it."""

    operation_id: str
    body: bytes

    def bulky(self) -> bool:
        """By what was seen."""
        return len(self.body) > BULKY_BYTES

    def needs(self, wants: Wants) -> None:
        super(Observe, self).needs(wants)
        wants.ids.add(raw_id(self.operation_id))

    def rule(self, view: View, effects: Effects) -> Promise:
        known = view.get(raw_id(self.operation_id))
        if known is None:
            return only(None)
        effects.observations.append((self.operation_id, self.body))
        self.record(view, effects)
        return lambda receipt: receipt


@dataclass(frozen=True, slots=True)
class Deliver(Base):
    """The final document reached its caller."""

    operation_id: str

    def needs(self, wants: Wants) -> None:
        wants.ids.add(raw_id(self.operation_id))

    def rule(self, view: View, effects: Effects) -> Promise:
        known = view.get(raw_id(self.operation_id))
        if known is not None:
            known.delivered = True
            effects.delivered.append(known.id)
        return only(None)


@dataclass(frozen=True, slots=True)
class Note(Base):
    """Records that go with no other write."""

    def rule(self, view: View, effects: Effects) -> Promise:
        self.record(view, effects)
        return lambda receipt: receipt


@dataclass(frozen=True, slots=True)
class Seal(Base):
    """Sign what no signature covers yet, or say that nothing happened, or end the log."""

    heartbeat: bool = False
    close: bool = False

    def patient(self) -> bool:
        """A signature over what is there may as well cover what is about to come."""
        return not self.close

    def rule(self, view: View, effects: Effects) -> Promise:
        effects.heartbeat |= self.heartbeat
        effects.close |= self.close
        effects.seal |= not (self.heartbeat or self.close)
        return only(None)


@dataclass(frozen=True, slots=True)
class Rekey(Base):
    """The log goes on under another key."""

    work: Rekeying

    def rule(self, view: View, effects: Effects) -> Promise:
        if effects.rekey is not None:
            return only(reply=False)
        effects.rekey = self.work
        self.record(view, effects)
        return only(reply=True)


@dataclass(frozen=True, slots=True)
class Attach(Base):
    """A log that was just started, with its first frames; the records of this very batch may follow them."""

    sealer: Sealer
    frames: tuple[SealedFrame, ...]

    def rule(self, view: View, effects: Effects) -> Promise:
        effects.frames.extend(self.frames)
        return only(None)


@dataclass(frozen=True, slots=True)
class PutKey(Base):
    """A caller's or a person's key."""

    row: Mapping[str, Any]

    def rule(self, view: View, effects: Effects) -> Promise:
        name = self.row["key_id"]
        effects.keys[name] = dict(self.row)
        effects.revoked.pop(name, None)
        if self.row["revoked_ms"] is None:
            view.revocable.add(name)
        else:
            view.revocable.discard(name)
        self.record(view, effects)
        return only(None)


@dataclass(frozen=True, slots=True)
class RevokeKey(Base):
    """The end of a key; the first revocation stands."""

    key_id: str
    at_ms: int

    def needs(self, wants: Wants) -> None:
        super(RevokeKey, self).needs(wants)
        wants.key_ids.add(self.key_id)

    def rule(self, view: View, effects: Effects) -> Promise:
        if self.key_id not in view.revocable:
            return only(reply=False)
        view.revocable.discard(self.key_id)
        effects.revoked[self.key_id] = self.at_ms
        self.record(view, effects)
        return only(reply=True)


@dataclass(frozen=True, slots=True)
class PutCredential(Base):
    """A vault entry, encrypted already."""

    row: Mapping[str, Any]

    def rule(self, view: View, effects: Effects) -> Promise:
        effects.credentials[self.row["name"]] = dict(self.row)
        view.credentials.add(self.row["name"])
        self.record(view, effects)
        return only(None)


@dataclass(frozen=True, slots=True)
class RemoveCredential(Base):
    """The end of a vault entry."""

    name: str

    def needs(self, wants: Wants) -> None:
        super(RemoveCredential, self).needs(wants)
        wants.credentials.add(self.name)

    def rule(self, view: View, effects: Effects) -> Promise:
        if self.name not in view.credentials:
            return only(reply=False)
        view.credentials.discard(self.name)
        effects.credentials[self.name] = None
        self.record(view, effects)
        return only(reply=True)


@dataclass(frozen=True, slots=True)
class PutMeta(Base):
    """A named value of the gateway's own; None removes it."""

    name: str
    value: bytes | None

    def rule(self, view: View, effects: Effects) -> Promise:
        effects.meta[self.name] = self.value
        self.record(view, effects)
        return only(None)


@dataclass(frozen=True, slots=True)
class Prune(Base):
    """Frames that are safely in the segment files."""

    origin: str | None
    through_seq: int

    def rule(self, view: View, effects: Effects) -> Promise:
        effects.pruned.append((self.origin, self.through_seq))
        return only(None)
