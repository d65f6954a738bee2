"""What checkpoints claim about a log: read from its own folder and from anchors, as one stream ordered by size."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.checkpoint import CHECKPOINT, HISTORY, open_checkpoint
from audit.disk import Directory, DiskDirectory
from audit.note import BadNote, NoteKey, UnknownSigner
from audit.report import AnchorState, Exit, Finding

_PIECE_BYTES = 1 << 16
_NOTE_BYTES_MAX = 1 << 18

Report = Callable[[Finding], None]
Settle = Callable[[], None]
"""Waits a moment, so that a writer caught in the middle of a write can finish it."""

SETTLE_MS = 50
SETTLE_TRIES = 4


@dataclass(frozen=True, slots=True)
class AnchorSource:
    """A file of notes. Sources with one label are one anchor, such as a folder's checkpoint and its history."""

    label: str
    directory: Directory
    name: str

    @property
    def place(self) -> str:
        return self.label if self.label.endswith(self.name) else f"{self.label}/{self.name}"


def anchor_sources(path: Path, origin: str) -> list[AnchorSource]:
    """The anchor at a path: a file of notes, or a folder with a log's checkpoint files, itself or under its origin."""
    if not path.is_dir():
        return [AnchorSource(str(path), DiskDirectory(path.parent), path.name)]
    for folder in (path, path.joinpath(*origin.split("/"))) if origin else (path,):
        if (folder / CHECKPOINT).exists():
            names = [name for name in (HISTORY, CHECKPOINT) if (folder / name).exists()]
            return [AnchorSource(str(folder), DiskDirectory(folder), name) for name in names]
    return [AnchorSource(str(path), DiskDirectory(path), CHECKPOINT)]


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """That the tree of the first `size` entries has this root. `anchor` is None for the log's own checkpoints."""

    size: int
    root: bytes
    source: str
    anchor: int | None


Witnessed = Callable[[str], bool]
"""Whether enough witnesses cosigned a checkpoint, given as its whole note."""


class Incomplete(BadNote):
    """A file of notes that ends inside a note."""


class Claims:
    """All claims in order of size; what cannot be used is reported instead of given out."""

    def __init__(
        self,
        directory: Directory,
        anchors: Sequence[AnchorSource],
        keys: Sequence[NoteKey],
        *,
        report: Report,
        settle: Settle,
        witnessed: Witnessed | None = None,
    ) -> None:
        """Take the sources; with `witnessed` a checkpoint anchors only if that says yes to its note.

        Then the log's own checkpoints anchor as well: what witnesses signed did not come from the log.
        """
        self._witnessed = witnessed
        self._settle = settle
        self._keys = tuple(keys)
        self._report = report
        labels = list(dict.fromkeys(source.label for source in anchors))
        self.states = [AnchorState(label) for label in labels]
        self._own_anchor: int | None = None
        self.unsigned: list[str] = []
        """Where the log's own folder has checkpoints that no pinned key signed; an old key may be missing."""
        if witnessed is not None:
            self._own_anchor = len(labels)
            self.states.append(AnchorState("witnesses of the policy"))
        own = [AnchorSource(name, directory, name) for name in (HISTORY, CHECKPOINT)] if keys else []
        numbered: list[tuple[int | None, AnchorSource]] = [(labels.index(source.label), source) for source in anchors]
        numbered += [(None, source) for source in own]
        # Sizes are taken now, before the segments are looked at: a checkpoint published later may be ahead of what
        # will be read, and must not look like a log that was cut.
        streams = [self._stream(source, index, self._held(source, index)) for index, source in numbered]
        self._merged = heapq.merge(*streams, key=lambda claim: claim.size)
        self._next = next(self._merged, None)

    @property
    def next_size(self) -> int | None:
        """Size of the next claim; None when all are given out."""
        return None if self._next is None else self._next.size

    def pop(self) -> Claim:
        claim = self._next
        if claim is None:
            raise LookupError("no claims are left")
        self._next = next(self._merged, None)
        return claim

    def _held(self, source: AnchorSource, anchor: int | None) -> _Held:
        try:
            held = _settled(source, self._settle)
            if not held.size and source.name != HISTORY:
                # It is replaced in one step, so no crash empties it; a history is empty until its first note is in it.
                self._bad(source, anchor, BadNote("an empty file in the place of a signed note"))
            return held
        except FileNotFoundError as error:
            if anchor is not None:
                self._unreadable(source, error)
        except OSError as error:
            self._unreadable(source, error)
        return _Held(0, b"")

    def _unreadable(self, source: AnchorSource, error: OSError) -> None:
        self._report(Finding("unreadable", Exit.UNREADABLE, f"{source.place}: {error.strerror or error}"))

    def _stream(self, source: AnchorSource, anchor: int | None, held: _Held) -> Iterator[Claim]:
        smallest = 0
        try:
            for note in _notes(source, held, own=anchor is None):
                try:
                    checkpoint = open_checkpoint(note, self._keys)
                except UnknownSigner:
                    if anchor is not None:
                        raise
                    # What follows may be signed by a key that replaced this one.
                    self.unsigned.append(source.place)
                    continue
                if checkpoint.size < smallest:
                    error = BadNote(f"a checkpoint of {checkpoint.size} entries behind one of {smallest}")
                    self._bad(source, anchor, error)
                    return
                smallest = checkpoint.size
                yield Claim(checkpoint.size, checkpoint.root, source.place, self._anchors(note, anchor))
        except OSError as error:
            self._unreadable(source, error)
        except BadNote as error:
            self._bad(source, anchor, error)

    def _anchors(self, note: bytes, anchor: int | None) -> int | None:
        """The anchor that a checkpoint counts for; without the witnesses asked for it is only compared."""
        if self._witnessed is None:
            return anchor
        if not self._witnessed(note.decode()):
            return None
        return self._own_anchor if anchor is None else anchor

    def _bad(self, source: AnchorSource, anchor: int | None, error: BadNote) -> None:
        if anchor is not None:
            hint = "an anchor is used only if the pinned key of this log signed it"
            finding = Finding("bad_anchor", Exit.NOT_PROVEN, f"{source.place}: {error}", hint=hint)
        elif isinstance(error, Incomplete):
            finding = Finding("torn_checkpoint", Exit.INCOMPLETE, f"{source.place}: {error}")
        else:
            finding = Finding("bad_checkpoint", Exit.TAMPERED, f"{source.place}: {error}")
        self._report(finding)


@dataclass(frozen=True, slots=True)
class _Held:
    """A file at one moment: its size, and all of it if it is small and may be replaced by another meanwhile."""

    size: int
    whole: bytes | None = None


def _settled(source: AnchorSource, settle: Settle) -> _Held:
    """A history's size, behind a whole note if it gets there soon; any other file as it is, if it is not large."""
    if source.name != HISTORY:
        # One reading, so that the size of one checkpoint is never taken for that of the one that replaces it.
        whole = source.directory.read(source.name, 0, _NOTE_BYTES_MAX)
        if len(whole) < _NOTE_BYTES_MAX:
            return _Held(len(whole), whole)
    size = source.directory.size(source.name)
    for _ in range(SETTLE_TRIES if source.name == HISTORY else 0):
        if size < 2 or source.directory.read(source.name, size - 2, 2) == b"\n\n":
            break
        settle()
        size = source.directory.size(source.name)
    return _Held(size)


def _notes(source: AnchorSource, held: _Held, *, own: bool) -> Iterator[bytes]:
    """The notes of a file; the log's own checkpoint is one note and nothing else, however it was copied elsewhere."""
    if own and source.name == CHECKPOINT and held.whole:
        return iter((held.whole,))
    return notes_in(source, held.size, held.whole)


def notes_in(source: AnchorSource, size: int, whole: bytes | None = None) -> Iterator[bytes]:
    """The notes in a file: one alone as the checkpoint file has it, or many, each followed by a blank line.

    `whole` is the file's content if it was read already.
    """
    waiting, offset, found = b"", 0, 0
    while offset < size:
        piece = whole or source.directory.read(source.name, offset, min(_PIECE_BYTES, size - offset))
        if not piece:
            break
        offset += len(piece)
        parts = (waiting + piece).split(b"\n\n")
        # An odd last part may go on in the next piece; pairs before it are whole notes.
        pairs = (len(parts) - 1) // 2
        for index in range(pairs):
            found += 1
            yield parts[2 * index] + b"\n\n" + parts[2 * index + 1] + b"\n"
        waiting = b"\n\n".join(parts[2 * pairs :])
        if len(waiting) > _NOTE_BYTES_MAX:
            raise BadNote("not a file of signed notes")
    if not waiting:
        return
    if found or source.name == HISTORY:
        raise Incomplete("the last note is not complete")
    yield waiting
