"""What the writer takes about operations that are stored no longer: the tombstones that keep their names taken."""

from dataclasses import dataclass

from gateway.core.identity import Tombstone
from gateway.store import statements
from gateway.store.codec import raw_id, short_hash
from gateway.store.effects import Effects
from gateway.store.items import Base, Promise, only
from gateway.store.port import LostOperation
from gateway.store.view import View, Wants


@dataclass(frozen=True, slots=True)
class Bury(Base):
    """Operations that a restored store lost get their tombstones."""

    lost: tuple[LostOperation, ...]

    def bulky(self) -> bool:
        """There may be thousands."""
        return True

    def needs(self, wants: Wants) -> None:
        super(Bury, self).needs(wants)
        wants.graves |= {raw_id(item.operation_id) for item in self.lost}
        wants.keys |= {short_hash(item.key) for item in self.lost if item.key is not None}

    def rule(self, view: View, effects: Effects) -> Promise:
        buried = 0
        for item in self.lost:
            if view.is_stored(raw_id(item.operation_id)):
                continue
            stone = Tombstone(item.operation_id, item.fingerprint, item.outcome, lost=item.executed)
            key_hash = view.bury(stone, item.caller, item.action, item.key)
            effects.tombstones.append(
                (
                    raw_id(item.operation_id),
                    item.caller,
                    item.action,
                    key_hash,
                    item.fingerprint,
                    item.outcome,
                    item.executed,
                )
            )
            buried += 1
        if buried:
            self.record(view, effects)
        return only(buried)


@dataclass(frozen=True, slots=True)
class Retire(Base):
    """Old final operations become tombstones."""

    before_ms: int
    limit: int

    def bulky(self) -> bool:
        """Up to `limit`, each with its payloads."""
        return True

    def rule(self, view: View, effects: Effects) -> Promise:
        # A UUIDv7 begins with its time: what was final before that moment was created before it.
        floor = max(self.before_ms, 0).to_bytes(6, "big") + bytes(10)
        old = view.fetch(statements.RETIRABLE, {"before_id": floor, "before_ms": self.before_ms, "limit": self.limit})
        fresh = [known for known in old if known not in effects.retired]
        effects.retired.extend(fresh)
        return only(len(fresh))
