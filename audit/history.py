"""The history of checkpoints in a log's folder or an anchor: appended to, repaired after a crash, read backwards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from audit.disk import Directory, append_all

NAME = "checkpoints.log"
NOTE_BYTES_MAX = 64 * 1024
_SIGNED = "\N{EM DASH} ".encode()
_LOOK_BACK_BYTES = 32 * 1024 * 1024
"""How far back a checkpoint by a known key is looked for: a month of one a minute."""


def append(directory: Directory, note: str) -> None:
    """Add one note, durably. Raises OSError."""
    repair(directory)
    file = directory.open(NAME)
    try:
        append_all(file, note.encode() + b"\n")
        file.sync()
    finally:
        file.close()


def backwards(place: Directory) -> Iterator[bytes]:
    """The notes of a history, newest first: each is a text and its signatures, and a blank line behind either."""
    try:
        end = place.size(NAME)
    except FileNotFoundError:
        return
    oldest, later, torn = max(0, end - _LOOK_BACK_BYTES), b"", True
    while end > oldest:
        start = max(oldest, end - 4 * NOTE_BYTES_MAX)
        pieces = (place.read(NAME, start, end - start) + later).split(b"\n\n")
        if start == 0:
            pieces.insert(0, b"")
        # The last piece is empty, or what a crash left of a note, which may have a whole text before it.
        if torn and len(pieces) > 1 and not pieces[-2].startswith(_SIGNED):
            pieces.pop()
        torn = False
        while len(pieces) >= 4:
            signatures, body = pieces[-2], pieces[-3]
            del pieces[-3:-1]
            yield body + b"\n\n" + signatures + b"\n"
        later, end = b"\n\n".join(pieces), start


def repair(directory: Directory) -> None:
    """Cut a note that a crash left incomplete at the end of the history."""
    try:
        size = directory.size(NAME)
    except FileNotFoundError:
        return
    start = max(0, size - NOTE_BYTES_MAX)
    tail = directory.read(NAME, start, size - start)
    ends = (match.end() for match in reversed(list(re.finditer(rb"\n\n", tail))))
    end = next((end for end in ends if _ends_a_note(tail[:end])), 0)
    if end < len(tail):
        file = directory.open(NAME)
        try:
            file.truncate(start + end)
            file.sync()
        finally:
            file.close()


def _ends_a_note(text: bytes) -> bool:
    if not text.endswith(b"\n\n"):
        return False
    last = text[:-2].rpartition(b"\n\n")[2]
    return all(line.startswith(_SIGNED) for line in last.split(b"\n"))
