"""Shredding: a subject's key is deleted, and the log says so; every hash stays valid."""

from __future__ import annotations

from typing import Protocol

from audit.bodies import ERASED_SUBJECT, Body, Erasure
from audit.boxes import erased_subjects
from audit.disk import Directory
from audit.fields import text
from audit.head import Head
from audit.record import Kind
from audit.subjects import PersonalKey, SubjectKeys


class Notebook(Protocol):
    """Where clear entries are added: the direct writer, or a store's."""

    @property
    def head(self) -> Head: ...

    def note(self, body: Body, kind: Kind, t_ms: int) -> None:
        """Add one clear entry; return when it is durable and sealed."""
        ...


def erasure_of(tag: bytes, by: str, size: int) -> Erasure:
    """The body that says: the fields of this subject in the first `size` entries cannot be read any more."""
    return Erasure(ERASED_SUBJECT, 0, size, tag, by)


def shred(
    writer: Notebook, keys: SubjectKeys, key: PersonalKey, subject: str, *, by: str, directory: Directory, t_ms: int
) -> tuple[bytes, ...]:
    """Delete a subject's key, then record the erasure. Returns the tags that this call recorded.

    The order is fixed: in one durable step the key goes and its tag is noted as owed to the log; then the entry; then
    the note goes. A crash in between leaves the note, and the next call (for whatever subject) pays it first: the log
    never says `erased` of a key that is still there, and never stays silent for good about one that is not.

    Raises:
        OSError, ExportFailed: the store or the disk refused; call again.
        Malformed: `by` is longer than 255 bytes; nothing was deleted.
    """
    text(by, 1)
    keys.erase(key.handle(subject), by)
    return settle_erasures(writer, keys, directory=directory, t_ms=t_ms)


def settle_erasures(writer: Notebook, keys: SubjectKeys, *, directory: Directory, t_ms: int) -> tuple[bytes, ...]:
    """Record the erasures that a crash left owing; also part of a start. Returns the tags recorded now."""
    pending = keys.pending()
    if not pending:
        return ()
    said = erased_subjects(directory)
    recorded = []
    for erasing in pending:
        if erasing.tag not in said:
            writer.note(erasure_of(erasing.tag, erasing.by, writer.head.size), Kind.ERASURE, t_ms)
            recorded.append(erasing.tag)
        keys.settle(erasing.tag)
    return tuple(recorded)
