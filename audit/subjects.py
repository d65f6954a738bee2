"""Keys of the people in a log: one for each, kept outside it, so that deleting one makes their fields unreadable."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from audit.chain import HASH_BYTES
from audit.disk import Directory, write_whole
from audit.keyring import Entropy, KeyProblem, check_label, decode_key, encode_key
from audit.record import NONCE_BYTES

SUBJECT_KEY_BYTES = 32
_PRIVATE = "AGL1-PRIVATE-PERSONAL"
_KEPT = "AGL1-SUBJECT"
_ERASING = "AGL1-ERASING"


def tag_of(subject_key: bytes) -> bytes:
    """What stands in the log for a subject: it commits to the random key, and says nothing about the person."""
    return sha256(b"agw/subject/1\x00" + subject_key).digest()


@dataclass(frozen=True, slots=True)
class PersonalKey:
    """One log's secret for personal data: wraps the subject keys, and marks what must be found without being named."""

    origin: str
    private: bytes = field(repr=False)

    @classmethod
    def generate(cls, origin: str, entropy: Entropy) -> Self:
        return cls(check_label(origin), entropy(SUBJECT_KEY_BYTES))

    def _part(self, purpose: bytes) -> bytes:
        return hmac.digest(self.private, b"agw/personal/1\x00" + purpose, "sha256")

    def handle(self, subject: str) -> bytes:
        """Under what a subject's key is kept: a bare hash of a name could be found again by guessing names."""
        return hmac.digest(self._part(b"handle"), subject.encode(), "sha256")

    def mark(self, value: bytes) -> bytes:
        """Personal data as a record may carry it to be matched: equal for equal values of this log, and only there."""
        return hmac.digest(self._part(b"mark"), value, "sha256")

    def wrap(self, subject_key: bytes, entropy: Entropy) -> bytes:
        """A subject's key as it may be stored."""
        nonce = entropy(NONCE_BYTES)
        return nonce + AESGCM(self._part(b"wrap")).encrypt(nonce, subject_key, tag_of(subject_key))

    def unwrap(self, wrapped: bytes, tag: bytes) -> bytes:
        """The key that `wrap` was given; raise KeyProblem if it was made with another secret or for another tag."""
        try:
            key = AESGCM(self._part(b"wrap")).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], tag)
        except (InvalidTag, ValueError) as error:
            raise KeyProblem(
                f"the key of subject {tag.hex()[:16]} does not open with the secret of this log"
            ) from error
        if tag_of(key) != tag:
            # AES-GCM alone would let a second key open a box to another text.
            raise KeyProblem(f"the key kept for subject {tag.hex()[:16]} is not the one the log commits to")
        return key

    def to_line(self) -> str:
        """The secret as one line for a file with mode 0600."""
        return f"{_PRIVATE}+{self.origin}+{encode_key(self.private)}"

    @classmethod
    def parse(cls, line: str) -> Self:
        parts = line.strip().split("+", 2)
        if len(parts) != 3 or parts[0] != _PRIVATE:
            raise KeyProblem(f"not a key for personal data: expected {_PRIVATE}+ORIGIN+KEY")
        raw = decode_key(parts[2])
        if len(raw) != SUBJECT_KEY_BYTES:
            raise KeyProblem("a key for personal data of the wrong length")
        return cls(check_label(parts[1]), raw)


@dataclass(frozen=True, slots=True)
class Subject:
    """One person's key at rest: `handle` finds it, `tag` stands in the log (32 bytes each), `wrapped` is the key."""

    handle: bytes
    tag: bytes
    wrapped: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Erasing:
    """A key that is gone while the log does not say so yet. `by`: who asked, at most 255 bytes."""

    tag: bytes
    by: str


class KeptKeys(Protocol):
    """Subject keys as a reader needs them. Raises OSError."""

    def of_tag(self, tag: bytes) -> Subject | None:
        """The key that a record names; None if there is none, or none any more."""
        ...


class SubjectKeys(KeptKeys, Protocol):
    """Keeps the subject keys of one log. Methods that change something return once that is durable; all raise OSError.

    A store inside a database may join `erase`, the entry and `settle` in one transaction instead.
    """

    def find(self, handle: bytes) -> Subject | None:
        """The key kept under a handle."""
        ...

    def add(self, subject: Subject) -> None:
        """Keep a new key. The record that uses it comes after."""
        ...

    def erase(self, handle: bytes, by: str) -> Erasing | None:
        """Drop a key and remember, in the same step, that the log must say so; None if there is no such key."""
        ...

    def pending(self) -> Sequence[Erasing]:
        """Erased keys that were not settled yet, oldest first."""
        ...

    def settle(self, tag: bytes) -> None:
        """The log says it: forget the tag as well."""
        ...


@dataclass(slots=True)
class _Book:
    """The file's content: lines of other logs as they are, keys by handle, erasures by tag."""

    others: list[str] = field(default_factory=list)
    kept: dict[bytes, Subject] = field(default_factory=dict)
    erasing: dict[bytes, Erasing] = field(default_factory=dict)

    def copy(self) -> _Book:
        return _Book(self.others, dict(self.kept), dict(self.erasing))


class SubjectFile:
    """Subject keys in one file, a line a key, replaced in one step; lines of other logs are kept as they are.

    It is read once: whoever holds the log's lock is the only one who changes it.
    """

    def __init__(self, directory: Directory, name: str, origin: str) -> None:
        self._directory = directory
        self._name = name
        self._origin = origin
        self._read: _Book | None = None

    def find(self, handle: bytes) -> Subject | None:
        return self._book().kept.get(handle)

    def of_tag(self, tag: bytes) -> Subject | None:
        return next((kept for kept in self._book().kept.values() if kept.tag == tag), None)

    def add(self, subject: Subject) -> None:
        book = self._book().copy()
        if subject.handle in book.kept:
            raise KeyProblem(f"subject {subject.tag.hex()[:16]} has a key already; a second one would hide the first")
        book.kept[subject.handle] = subject
        self._write(book)

    def erase(self, handle: bytes, by: str) -> Erasing | None:
        book = self._book().copy()
        found = book.kept.pop(handle, None)
        if found is None:
            return None
        book.erasing[found.tag] = Erasing(found.tag, by)
        self._write(book)
        return book.erasing[found.tag]

    def pending(self) -> tuple[Erasing, ...]:
        return tuple(self._book().erasing.values())

    def settle(self, tag: bytes) -> None:
        book = self._book().copy()
        if book.erasing.pop(tag, None) is not None:
            self._write(book)

    def _book(self) -> _Book:
        if self._read is None:
            self._read = self._parsed()
        return self._read

    def _parsed(self) -> _Book:
        book = _Book()
        try:
            raw = self._directory.read(self._name, 0, self._directory.size(self._name))
        except FileNotFoundError:
            return book
        for line in raw.decode(errors="replace").splitlines():
            kind, origin, *fields = [*line.split("+", 4 if line.startswith(f"{_KEPT}+") else 3), ""]
            if line and kind not in {_KEPT, _ERASING}:
                # Passed over, a wrong file would look like one that holds no key of this log.
                raise KeyProblem(f"{self._name} holds a line that is no subject key; is it another file?")
            if origin != self._origin:
                book.others.append(line)
                continue
            try:
                self._take(book, kind, fields)
            except (ValueError, IndexError) as error:
                raise KeyProblem(f"{self._name} holds a line that is no subject key; was it cut or edited?") from error
        return book

    @staticmethod
    def _take(book: _Book, kind: str, fields: Sequence[str]) -> None:
        if kind == _KEPT:
            handle, tag, wrapped = _hash(fields[0]), _hash(fields[1]), decode_key(fields[2])
            book.kept[handle] = Subject(handle, tag, wrapped)
        else:
            tag = _hash(fields[0])
            book.erasing[tag] = Erasing(tag, decode_key(fields[1]).decode())

    def _write(self, book: _Book) -> None:
        lines = [
            *book.others,
            *(
                f"{_KEPT}+{self._origin}+{kept.handle.hex()}+{kept.tag.hex()}+{encode_key(kept.wrapped)}"
                for kept in book.kept.values()
            ),
            *(
                f"{_ERASING}+{self._origin}+{erasing.tag.hex()}+{encode_key(erasing.by.encode())}"
                for erasing in book.erasing.values()
            ),
        ]
        # Until the file is known to be in place, what it holds is not known either.
        self._read = None
        write_whole(self._directory, self._name, "".join(f"{line}\n" for line in lines).encode())
        self._read = book


def _hash(value: str) -> bytes:
    raw = bytes.fromhex(value)
    if len(raw) != HASH_BYTES:
        raise ValueError(f"{len(raw)} bytes where {HASH_BYTES} belong")
    return raw
