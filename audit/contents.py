"""Checks records with an auditor's key: each key is the one committed to, and each record opens with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from audit.bodies import SegmentOpen
from audit.holdings import Reference, references
from audit.keyring import Ratchet, RecipientKey, WrongKey, commit_to, open_record, open_secret
from audit.record import Entry

_LOST_MAX = 4096
"""So many record keys are tried to find the thread again behind entries that were lost."""


@dataclass(frozen=True, slots=True)
class BadContent:
    """A record or share that does not fit its key. `code`: share, commit or tag."""

    code: str
    entry: Entry | None
    message: str


class Contents:
    """Follows the record keys of one segment after another."""

    def __init__(self, key: RecipientKey, meet: Callable[[Reference], None] = lambda _: None) -> None:
        """`meet` is told of every blob that a record names."""
        self._key = key
        self._meet = meet
        self._ratchet: Ratchet | None = None
        self._lost = False
        self.checked = 0
        self.closed_segments = 0
        """Segments that were never sealed to this key."""

    def enter(self, opened: SegmentOpen, first: int) -> BadContent | None:
        """Begin a segment; a share made for this key that does not open is told."""
        self._ratchet, self._lost = None, False
        if not self._key.may_open(opened, first):
            self.closed_segments += 1
            return None
        try:
            self._ratchet = Ratchet.from_secret(open_secret(self._key, opened, first))
        except WrongKey as error:
            return BadContent("share", None, str(error))
        return None

    def join(self, checked: int | None, named: Sequence[Reference], *, closed: bool) -> None:
        """Take in what another process found in a whole segment."""
        self.checked += checked or 0
        self.closed_segments += closed
        for reference in named:
            self._meet(reference)

    def leave(self) -> None:
        """The next segment has no opening that could be read."""
        self._ratchet = None

    def lose(self) -> None:
        """An entry was lost that may have been a record."""
        self._lost = True

    def check(self, entries: Iterable[Entry]) -> list[BadContent]:
        """What is wrong with these records, in order."""
        return [bad for entry in entries if (bad := self._check(entry)) is not None]

    def _check(self, entry: Entry) -> BadContent | None:
        if self._ratchet is None:
            return None
        record_key, self._ratchet = self._ratchet.peek()
        if self._lost:
            record_key, self._ratchet = self._found(entry, record_key, self._ratchet)
            self._lost = False
        seq = entry.header.seq
        if commit_to(record_key) != entry.header.commit:
            return BadContent("commit", entry, f"record {seq} was made with another key than its place demands")
        try:
            plaintext = open_record(record_key, entry.header, entry.body)
        except WrongKey:
            return BadContent("tag", entry, f"record {seq} does not decrypt: its header or its content was changed")
        for reference in references(seq, plaintext):
            self._meet(reference)
        self.checked += 1
        return None

    @staticmethod
    def _found(entry: Entry, record_key: bytes, ratchet: Ratchet) -> tuple[bytes, Ratchet]:
        tried_key, tried = record_key, ratchet
        for _ in range(_LOST_MAX):
            if commit_to(tried_key) == entry.header.commit:
                return tried_key, tried
            tried_key, tried = tried.peek()
        return record_key, ratchet
