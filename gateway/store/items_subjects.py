"""What the writer takes about people: the keys under which their personal fields are boxed in the audit log."""

from dataclasses import dataclass

from gateway.store.effects import Effects
from gateway.store.items import Base, Promise, only
from gateway.store.port import StoredSubject
from gateway.store.view import View, Wants


@dataclass(frozen=True, slots=True)
class PutSubject(Base):
    """A person's key, unless there is one already: a second one would hide the first."""

    subject: StoredSubject

    def needs(self, wants: Wants) -> None:
        super(PutSubject, self).needs(wants)
        wants.subjects.add(self.subject.handle)

    def rule(self, view: View, effects: Effects) -> Promise:
        new = self.subject
        if new.handle in view.subjects:
            return only(reply=False)
        view.subjects[new.handle] = new.tag
        effects.subjects[new.handle] = new.handle, new.tag, new.wrapped
        self.record(view, effects)
        return only(reply=True)


@dataclass(frozen=True, slots=True)
class EraseSubject(Base):
    """The end of a person's key, and the log's word for it, under a seal."""

    handle: bytes
    by: str

    def needs(self, wants: Wants) -> None:
        super(EraseSubject, self).needs(wants)
        wants.subjects.add(self.handle)

    def rule(self, view: View, effects: Effects) -> Promise:
        tag = view.subjects.pop(self.handle, None)
        if tag is None:
            return only(None)
        effects.subjects.pop(self.handle, None)
        effects.erased[self.handle] = tag, self.by
        effects.seal = True
        self.record(view, effects)
        return only(tag)
