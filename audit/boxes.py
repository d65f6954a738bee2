"""Boxes: personal fields of a record, sealed under their subject's key before the record itself is sealed."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from audit.bodies import ERASED_SUBJECT, Erasure, read_body
from audit.disk import Directory
from audit.fields import Malformed
from audit.keyring import Entropy
from audit.log import chunks, segments
from audit.record import NONCE_BYTES, Kind, pad, unpad
from audit.subjects import SUBJECT_KEY_BYTES, KeptKeys, PersonalKey, Subject, SubjectKeys, tag_of

BOX = "$box"
ERASED = "[shredded]"
"""What is shown in the place of a field whose key was deleted."""


class Boxer:
    """Puts the personal fields of one log's records into boxes; makes a subject's key when it is first needed."""

    def __init__(self, key: PersonalKey, store: SubjectKeys, entropy: Entropy) -> None:
        self._key = key
        self._store = store
        self._entropy = entropy

    def box(self, document: dict[str, Any], subject: str, names: Collection[str]) -> dict[str, Any]:
        """The document with the value of each member that has one of these names, at any depth and in any
        case of letters, in a box.

        The subject's key is durable when this returns, so the record can always be read back.

        Raises:
            OSError: the store of keys could not be read or written; nothing may be recorded then.
            KeyProblem: the subject's key was wrapped with another log's secret.
        """
        wanted = frozenset(name.casefold() for name in names)
        if not any(name.casefold() in wanted for name in _names(document)):
            return document
        subject_key = self._key_of(subject)
        boxed: dict[str, Any] = self._boxed(document, subject_key, wanted)
        return boxed

    def _boxed(self, value: Any, subject_key: bytes, names: frozenset[str]) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, dict):
            return {
                name: self._seal(name, item, subject_key)
                if name.casefold() in names
                else self._boxed(item, subject_key, names)
                for name, item in value.items()
            }
        return [self._boxed(item, subject_key, names) for item in value] if isinstance(value, list) else value

    def _seal(self, name: str, value: Any, subject_key: bytes) -> dict[str, str]:  # noqa: ANN401 - any JSON value
        plain = pad(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
        nonce, tag = self._entropy(NONCE_BYTES), tag_of(subject_key)
        sealed = nonce + AESGCM(subject_key).encrypt(nonce, plain, _context(tag, name))
        return {BOX: tag.hex(), "data": base64.b64encode(sealed).decode()}

    def _key_of(self, subject: str) -> bytes:
        handle = self._key.handle(subject)
        kept = self._store.find(handle)
        if kept is not None:
            return self._key.unwrap(kept.wrapped, kept.tag)
        subject_key = self._entropy(SUBJECT_KEY_BYTES)
        self._store.add(Subject(handle, tag_of(subject_key), self._key.wrap(subject_key, self._entropy)))
        return subject_key


class Unboxer:
    """Shows documents with their boxes opened, as far as keys are here; says `[shredded]` where the log says so."""

    def __init__(
        self, erased: Collection[bytes], key: PersonalKey | None = None, store: KeptKeys | None = None
    ) -> None:
        """`erased` holds the tags of `erased_subjects`; without key and store nothing is opened."""
        self._erased = frozenset(erased)
        self._key = key
        self._store = store
        self._keys: dict[bytes, bytes | None] = {}

    def open(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document; a box that cannot be opened and was not erased stays as it is."""
        return {name: self._shown(name, item) for name, item in document.items()}

    def _shown(self, name: str, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, dict):
            return self._opened(name, value) if _is_box(value) else self.open(value)
        return [self._shown(name, item) for item in value] if isinstance(value, list) else value

    def _opened(self, name: str, box: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        tag = bytes.fromhex(box[BOX])
        if tag in self._erased:
            return ERASED
        key = self._key_of(tag)
        if key is None:
            return box
        try:
            raw = base64.b64decode(box["data"], validate=True)
            plain = AESGCM(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], _context(tag, name))
            return json.loads(unpad(plain))
        except (InvalidTag, ValueError):
            # A caller's own data may look like a box; nothing it holds may keep the rest from being read.
            return box

    def _key_of(self, tag: bytes) -> bytes | None:
        if self._key is None or self._store is None:
            return None
        if tag not in self._keys:
            kept = self._store.of_tag(tag)
            self._keys[tag] = None if kept is None else self._key.unwrap(kept.wrapped, tag)
        return self._keys[tag]


def erased_subjects(directory: Directory) -> dict[bytes, int]:
    """Tags of the subjects whose fields were erased, each with the seq of the first entry that says so."""
    found: dict[bytes, int] = {}
    for first in segments(directory):
        for chunk in chunks(directory, first):
            # Only the kinds are looked at: the bodies of records would be cut out for nothing.
            for index, head in enumerate(chunk.parsed.heads):
                if head[3] != Kind.ERASURE:
                    continue
                try:
                    body = read_body(Kind.ERASURE, chunk.parsed.entry(chunk.buffer, index).body)
                except Malformed:
                    continue
                if isinstance(body, Erasure) and body.what == ERASED_SUBJECT:
                    found.setdefault(body.subject_tag, head[5])
    return found


def _is_box(value: dict[str, Any]) -> bool:
    tag, data = value.get(BOX), value.get("data")
    if len(value) != 2 or not isinstance(tag, str) or not isinstance(data, str) or len(tag) != 64:
        return False
    return all(char in "0123456789abcdef" for char in tag)


def _context(tag: bytes, name: str) -> bytes:
    """What a box is bound to: moved to another subject or another field it does not open."""
    return b"agw/box/1\x00" + tag + name.encode()


def _names(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)
