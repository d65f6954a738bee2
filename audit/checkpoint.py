"""Checkpoints: what a log's key says its tree was, and the publisher that will not sign a smaller or another tree."""

from __future__ import annotations

import base64
import binascii
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from audit import history
from audit.chain import HASH_BYTES
from audit.disk import Directory, LogError, write_whole
from audit.log import Follower, LogContradiction, segment_name, segments
from audit.note import BadNote, NoteKey, NoteSigner, UnknownSigner, open_signed

CHECKPOINT = "checkpoint"
HISTORY = history.NAME
_SIZE_MAX = 1 << 63


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Origin, number of entries, and the root of the tree over them (c2sp.org/tlog-checkpoint, no extension lines)."""

    origin: str
    size: int
    root: bytes

    def to_text(self) -> str:
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a checkpoint's text, in its one form only; raise BadNote."""
        lines = text.split("\n")
        if len(lines) != 4 or lines[3]:
            raise BadNote("a checkpoint has exactly three lines")
        origin, digits, encoded = lines[:3]
        if not origin or not digits.isascii() or not digits.isdecimal() or len(digits) > 19 or int(digits) >= _SIZE_MAX:
            raise BadNote("a checkpoint without a proper origin or size")
        try:
            root = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadNote("a checkpoint whose root is not base64") from error
        checkpoint = cls(origin, int(digits), root)
        if len(root) != HASH_BYTES or checkpoint.to_text() != text:
            raise BadNote("a checkpoint that is not in its one form")
        return checkpoint


def open_checkpoint(note: bytes, keys: Sequence[NoteKey]) -> Checkpoint:
    """A checkpoint signed by the key of its own log.

    Raises:
        UnknownSigner: no signature by any of the keys.
        BadNote: malformed, a signature that does not fit, or signed by the key of another log, or by one that was not
            in force at that size.
    """
    text, signed_by = open_signed(note, keys)
    checkpoint = Checkpoint.from_text(text)
    own = [key for key in signed_by if key.name == checkpoint.origin]
    if not own:
        raise UnknownSigner("no signature by the key of its own log")
    if not any(key.signs_tree(checkpoint.size) for key in own):
        raise BadNote(f"a checkpoint of {checkpoint.size} entries by a key that was not in force there")
    return checkpoint


def newest_signed(place: Directory, origin: str, keys: Sequence[NoteKey]) -> Checkpoint | None:
    """The newest checkpoint of a log by a key that it knows; None if there is none. Raises OSError, BadNote."""
    try:
        note = place.read(CHECKPOINT, 0, history.NOTE_BYTES_MAX)
    except FileNotFoundError:
        return None
    return _newest(note, place, origin, keys)


def _newest(note: bytes, place: Directory, origin: str, keys: Sequence[NoteKey]) -> Checkpoint | None:
    """A folder from before a change of keys does not know the key of the newest note. What its own keys signed after it
    was copied is in the history still.
    """
    try:
        return _own(note, origin, keys)
    except UnknownSigner:
        if note.partition(b"\n")[0] != origin.encode():
            return None
    for older in history.backwards(place):
        try:
            return _own(older, origin, keys)
        except BadNote:
            continue
    return None


def _own(note: bytes, origin: str, keys: Sequence[NoteKey]) -> Checkpoint | None:
    checkpoint = open_checkpoint(note, keys)
    return checkpoint if checkpoint.origin == origin else None


def split_notes(text: bytes) -> Iterator[bytes]:
    """The notes of a history: each is followed by a blank line. Raise BadNote on a part that is no whole note."""
    pieces = text.split(b"\n\n")
    if pieces.pop() or len(pieces) % 2:
        raise BadNote("the last note is not complete")
    for body, signatures in zip(pieces[::2], pieces[1::2], strict=True):
        yield body + b"\n\n" + signatures + b"\n"


class PublishRefused(LogError):
    """A checkpoint exists that the log's files do not lead up to: they were cut, rolled back or rewritten."""


class RolledBack(PublishRefused):
    """The files that are there tell of a smaller or another tree than one that the log's own key signed."""


@dataclass(frozen=True, slots=True)
class Published:
    """What was signed, and the anchors that did not take it with the reason."""

    checkpoint: Checkpoint
    note: str
    failed: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _HandOver:
    """A key that signs from the tree of `cut` entries on; the one before may say its last word about that tree."""

    signer: NoteSigner
    cut: int


class Publisher:
    """Signs the tree that the files show and puts the checkpoint into the log's folder and every anchor folder.

    Reads the files itself, entry by entry from the last checkpoint on, so that nothing is signed that does not extend
    what was signed before. One publisher per log.
    """

    def __init__(
        self,
        directory: Directory,
        signer: NoteSigner,
        anchors: Sequence[Directory] = (),
        sinks: Sequence[Callable[[str], None]] = (),
        old_keys: Sequence[NoteKey] = (),
    ) -> None:
        """Take the log's folder, its key (named like its origin), and folders that keep copies elsewhere.

        `old_keys` are those that signed this log's checkpoints before the present one.

        `sinks` get each new note once, such as a printer or standard output; one that raises OSError is named in the
        result behind the anchors.
        """
        self._sinks = tuple(sinks)
        self._directory = directory
        self._signer = signer
        self._keys = (signer.key, *old_keys)
        self._anchors = tuple(anchors)
        self._follower: Follower | None = None
        self._last: Published | None = None
        self._behind: set[int] = set(range(len(self._anchors)))
        self._due: deque[_HandOver] = deque()
        self._agreed: dict[int, bytes] = {}
        """What each anchor was last seen to hold of this very tree."""

    @property
    def handing_over(self) -> bool:
        """Whether the key before still has to sign the last tree that is its own."""
        return bool(self._due)

    def hand_over(self, signer: NoteSigner, cut: int) -> None:
        """From the tree of `cut` entries on another key signs. It does as soon as the files reach that far.

        Call it before any entry behind the cut can be in the files, so that the old key never signs more than its own.
        """
        self._keys = (signer.key, *self._keys)
        self._due.append(_HandOver(signer, cut))

    def publish(self, size: int | None = None) -> Published | None:
        """Sign the tree over the first `size` entries (default: all in the files); None if nothing is new.

        Where another thread exports meanwhile, give its `durable_size`: entries beyond it may be half written.

        An anchor that fails is named in the result and tried again at the next call; the others are served.

        Raises:
            PublishRefused: the files do not contain an earlier checkpoint's tree, or an anchor's cannot be trusted.
            LogContradiction: an entry does not follow from the one before it.
            OSError: the log's own folder could not be read or written.
        """
        self._meet(size)
        follower = self._follower or self._begin()
        if follower is None:
            return None
        # Kept only after it got through: a follower that stopped half way must not be asked again.
        self._follower = None
        self._last_word(follower, size)
        follower.advance(size)
        self._follower = follower
        return self._speak(Checkpoint(self._signer.name, follower.tree.size, follower.tree.root()))

    def _last_word(self, follower: Follower, size: int | None) -> None:
        """Let the key that was replaced sign the last tree that is its own, unless it has, and change keys."""
        while self._due and (size is None or size >= self._due[0].cut):
            due = self._due[0]
            if follower.tree.size < due.cut:
                follower.advance(due.cut)
                if follower.tree.size < due.cut:
                    return
                self._speak(Checkpoint(self._signer.name, due.cut, follower.tree.root()))
            self._signer = due.signer
            self._due.popleft()

    def _speak(self, checkpoint: Checkpoint) -> Published | None:
        """Sign what is new, and hand it to whoever has not got it yet."""
        if checkpoint.size == 0:
            return None
        fresh = self._last is None or self._last.checkpoint != checkpoint
        if fresh:
            note = self._signer.sign(checkpoint.to_text())
            _store(self._directory, note)
            self._last = Published(checkpoint, note)
            self._behind = set(range(len(self._anchors)))
        if self._last is None or not (fresh or self._behind):
            return None
        published = self._serve_anchors(self._last)
        return self._serve_sinks(published) if fresh else published

    def add_signatures(self, lines: str) -> None:
        """Store the newest checkpoint again, with cosignatures that witnesses gave for it.

        Raises:
            BadNote: the lines are no signature lines.
            OSError: the log's own folder could not be written; the checkpoint without them is there.
        """
        if self._last is None or not lines:
            return
        note = self._last.note + lines
        open_checkpoint(note.encode(), self._keys)
        _store(self._directory, note)
        self._last = Published(self._last.checkpoint, note)
        # Anchors get it with the next call: a copy without witnesses is worth less to whoever asks for them.
        self._behind = set(range(len(self._anchors)))

    def _serve_sinks(self, published: Published) -> Published:
        failed = list(published.failed)
        for index, sink in enumerate(self._sinks, len(self._anchors)):
            try:
                sink(published.note)
            except OSError as error:
                failed.append((index, error.strerror or str(error)))
        return Published(published.checkpoint, published.note, tuple(failed))

    def _serve_anchors(self, published: Published) -> Published:
        failed = []
        for index in sorted(self._behind):
            try:
                _store(self._anchors[index], published.note)
            except OSError as error:
                failed.append((index, error.strerror or str(error)))
            else:
                self._behind.discard(index)
                self._agreed[index] = published.note.encode()
        return Published(published.checkpoint, published.note, tuple(failed))

    def _begin(self) -> Follower | None:
        """Find the checkpoints that exist and walk the files past each of them."""
        known = self._known()
        starts = [start for start in segments(self._directory) if self._directory.size(segment_name(start))]
        first = max((start for start in starts if not known or start <= known[0].size), default=None)
        if not known:
            first = starts[0] if starts else None
        if first is None:
            if known and known[-1].size:
                raise PublishRefused(
                    f"a checkpoint of {known[-1].size} entries exists, but not the files that lead up to it"
                )
            return None
        follower = Follower(self._directory, first)
        for checkpoint in known:
            _lead_to(follower, checkpoint)
        return follower

    def _meet(self, size: int | None) -> None:
        """Hold what anchors have against the files, unless it was theirs already: a clone of this log that runs
        elsewhere signs with the same key, and writes there too. What cannot be read is told when the anchor is served.
        """
        for index, place in enumerate(self._anchors):
            try:
                note = place.read(CHECKPOINT, 0, history.NOTE_BYTES_MAX)
            except OSError:
                continue
            if note in self._agreed.values():
                continue
            try:
                checkpoint = _newest(note, place, self._signer.name, self._keys)
                if checkpoint is not None:
                    self._compare(checkpoint, size)
                open_checkpoint(note, self._keys)
            except BadNote as error:
                raise PublishRefused(f"a checkpoint that exists cannot be trusted: {error}") from error
            except LogContradiction as error:
                raise PublishRefused(f"a checkpoint that exists cannot be compared: {error}") from error
            self._agreed[index] = note

    def _compare(self, checkpoint: Checkpoint, size: int | None) -> None:
        """Whether the files lead to it. Those of its part may be gone by now: then there is nothing to compare."""
        if size is not None:
            # Behind this another thread may be writing. What was signed before is in the files for certain.
            end = size if self._last is None else max(size, self._last.checkpoint.size)
            if checkpoint.size > end:
                raise RolledBack(_cut(end, checkpoint))
        starts = [start for start in segments(self._directory) if self._directory.size(segment_name(start))]
        first = max((start for start in starts if start <= checkpoint.size), default=None)
        if first is not None:
            _lead_to(Follower(self._directory, first), checkpoint)

    def _known(self) -> list[Checkpoint]:
        """Every latest checkpoint that can be read, smallest first."""
        history.repair(self._directory)
        found = []
        for place in (self._directory, *self._anchors):
            try:
                note = place.read(CHECKPOINT, 0, history.NOTE_BYTES_MAX)
            except FileNotFoundError:
                continue
            except OSError:
                if place is self._directory:
                    raise
                continue
            try:
                found.append(open_checkpoint(note, self._keys))
            except BadNote as error:
                raise PublishRefused(f"a checkpoint that exists cannot be trusted: {error}") from error
        return sorted(found, key=lambda checkpoint: checkpoint.size)


def _lead_to(follower: Follower, checkpoint: Checkpoint) -> None:
    """Walk the files on to a checkpoint's tree. Raises RolledBack if they do not lead there, LogContradiction."""
    follower.advance(checkpoint.size)
    if follower.tree.size < checkpoint.size:
        raise RolledBack(_cut(follower.tree.size, checkpoint))
    if follower.tree.root() != checkpoint.root:
        raise RolledBack(f"the first {checkpoint.size} entries differ from those signed before")


def _cut(size: int, checkpoint: Checkpoint) -> str:
    return f"the files hold {size} entries, a checkpoint of {checkpoint.size} exists: the log was cut or rolled back"


def _store(directory: Directory, note: str) -> None:
    """Add to the history, then replace the latest: a crash in between leaves the history ahead, never behind."""
    history.append(directory, note)
    write_whole(directory, CHECKPOINT, note.encode())
