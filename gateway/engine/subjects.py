"""People whose data the audit log carries: each has a key in the store, and what it boxed is gone with it."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from audit.boxes import Boxer
from audit.keyring import KeyProblem
from audit.subjects import SUBJECT_KEY_BYTES, Erasing, PersonalKey, Subject, tag_of
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.model.problem import ensure
from gateway.store.lock import open_private
from gateway.store.port import Record, Refused, Store, StoredSubject

BY_BYTES_MAX: Final = 255


class _Held:
    """The one subject key that is needed, read before: fills `audit.subjects.SubjectKeys` without waiting."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def find(self, handle: bytes) -> Subject | None:
        return self._subject if handle == self._subject.handle else None

    def of_tag(self, tag: bytes) -> Subject | None:
        return self._subject if tag == self._subject.tag else None

    def add(self, subject: Subject) -> None:
        ensure(subject == self._subject, "a subject's key is stored before it is used")

    def erase(self, _handle: bytes, _by: str) -> Erasing | None:
        ensure(self._subject is None, "keys are erased in the store, together with the entry that says so")
        return None

    def pending(self) -> Sequence[Erasing]:
        return ()

    def settle(self, _tag: bytes) -> None:
        return


class Subjects:
    """Boxes personal fields of records, and erases them by deleting a person's key."""

    def __init__(self, store: Store, keys: Sequence[PersonalKey], clock: Clock, chance: Chance) -> None:
        """`keys` are those of every log of this installation, oldest first; the last is the present log's."""
        self._store = store
        self._keys = tuple(keys)
        self._clock = clock
        self._chance = chance

    def mark(self, value: str) -> str:
        """Personal data as a record may carry it to be matched, in hex: of the first log's secret in every log."""
        return self._keys[0].mark(value.encode()).hex()

    async def box(self, document: dict[str, Any], subject: str, names: Collection[str]) -> dict[str, Any]:
        """The document with every member of these names boxed under the person's key, which is durable then.

        Raises Unavailable, StoreUnknown: then nothing may be recorded. KeyProblem: the key is another log's.
        """
        key = self._keys[-1]
        held = await self._key_of(key, subject)
        return Boxer(key, _Held(held), self._chance.bytes).box(document, subject, names)

    async def _key_of(self, key: PersonalKey, subject: str) -> Subject:
        handle = key.handle(subject)
        while (kept := await self._store.subject(handle)) is None:
            secret = self._chance.bytes(SUBJECT_KEY_BYTES)
            new = StoredSubject(handle, tag_of(secret), key.wrap(secret, self._chance.bytes))
            # Somebody else may have been first, and then theirs stands.
            await self._store.put_subject(new, ())
        return Subject(kept.handle, kept.tag, kept.wrapped)

    async def shred(self, subject: str, *, by: str) -> tuple[bytes, ...]:
        """Delete the person's keys and have the log say so; the tags under which it does. Empty: there was no key.

        Of every log that this installation ever had. Raises Refused if `by` does not fit; Unavailable, StoreUnknown.
        """
        if not by or len(by.encode()) > BY_BYTES_MAX:
            raise Refused(f"Who asks for the erasure is on record, in at most {BY_BYTES_MAX} bytes.")
        erased = []
        for key in self._keys:
            kept = await self._store.subject(key.handle(subject))
            if kept is None:
                continue
            # The name stays out of it: the record outlives the erasure.
            body = {"at": self._clock.wall_ms(), "person": by, "tag": kept.tag.hex()}
            tag = await self._store.erase_subject(kept.handle, by, (Record("subject_erased", body),))
            if tag is not None:
                erased.append(tag)
        return tuple(erased)


def personal_keys(path: Path, origin: str, chance: Chance) -> list[PersonalKey]:
    """The secrets for personal data of every log of this installation, the present one's last; made if missing.

    Raises Refused in words for an operator.
    """
    descriptor = open_private(path)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            keys = [PersonalKey.parse(line) for line in file.read().decode("ascii").splitlines() if line.strip()]
        except (KeyProblem, UnicodeDecodeError) as error:
            raise Refused(f"The keys for personal data in {path} cannot be used: {error}.") from error
        present = [key for key in keys if key.origin == origin]
        if not present:
            present = [PersonalKey.generate(origin, chance.bytes)]
            file.write(f"{present[0].to_line()}\n".encode("ascii"))
            file.flush()
            os.fsync(descriptor)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return [key for key in keys if key.origin != origin] + present
