"""The exporter: copies finished frames to the segment files and says when they are durable."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from audit.disk import AppendFile, Directory, LogError, append_all, folder_of
from audit.log import LogContradiction, chunks, segment_name
from audit.record import Frame, parse


class Row(NamedTuple):
    """A frame as a store keeps it: first seq of its segment, its own seq, its bytes."""

    segment: int
    seq: int
    data: bytes


def rows_of(frames: Iterable[Frame]) -> list[Row]:
    """Frames as rows."""
    return [Row(frame.segment, frame.seq, frame.data) for frame in frames]


class ForeignWriter(LogError):
    """Someone else changed a segment file while this exporter had it; exporting stops for good."""


class ExportFailed(LogError):
    """The disk refused (full, broken): nothing of this batch counts as exported, and it may be offered again."""


RESERVED_BYTES = 4 << 20
"""So much room is kept on the disk behind what a segment holds, never less than half of it while the disk has any."""


class _OpenSegment:
    """The segment file being appended to; `size` is where it must end, `next_seq` what must come next.

    Up to `reserved` the disk keeps room for it.
    """

    __slots__ = ("file", "name", "next_seq", "reserved", "segment", "size")

    def __init__(self, segment: int, file: AppendFile, size: int, next_seq: int) -> None:
        self.segment = segment
        self.name = segment_name(segment)
        self.file = file
        self.size = self.reserved = size
        self.next_seq = next_seq

    def keep_room(self, count: int) -> bool:
        """Have room kept for so many bytes and those that come after; False if the disk is full.

        Nothing is lost by that: what was kept before is used first, and without any the write decides.
        """
        if self.size + count + RESERVED_BYTES // 2 <= self.reserved:
            return True
        end = self.size + count + RESERVED_BYTES
        try:
            self.file.reserve(self.size, end)
        except OSError:
            return False
        self.reserved = end
        return True

    def finish(self) -> None:
        """Give back what is kept and close the file, which nothing more is written to."""
        try:
            # Whoever made it longer meanwhile did what is to be found out, not undone.
            if self.file.size() == self.size:
                self.file.truncate(self.size)
        except OSError:
            # The room stays taken until the next start; nothing that was recorded depends on it.
            return
        finally:
            self.file.close()


class Exporter:
    """Writes one log's segment files; the only writer, by a lock on the directory.

    A row may be forgotten by its store only after the `export` that took it has returned.
    """

    def __init__(self, directory: Directory) -> None:
        """Take the lock; raise LogLocked if another writer has it."""
        directory.lock()
        self._directory = directory
        self._open: _OpenSegment | None = None
        self._left: _OpenSegment | None = None
        """The one before, full: what is kept for it is given back once the next one has its own."""
        self._suspect: set[int] = set()
        self._stopped: ForeignWriter | None = None
        self.durable_size = 0
        """Entries known to be on disk, counted from the start of the log; 0 until the first export."""
        self.crowded = False
        """The disk is full, up to what was kept for the segment at hand. Exporting nothing looks again."""

    def close(self) -> None:
        """Give up files and lock; everything exported is durable already."""
        self._finish()
        self._left, self._open = self._open, None
        self._finish()
        self._directory.unlock()

    def export(self, rows: Sequence[Row]) -> int:
        """Make rows durable in their files, in order; what is there already is compared and skipped.

        Returns:
            The number of rows, all of which are now durable.

        Raises:
            ExportFailed: the disk refused; the files hold no part of a row that counts.
            LogContradiction: the rows do not continue the files, or differ from what is there.
            ForeignWriter: a file changed behind this exporter's back.
        """
        if self._stopped is not None:
            raise self._stopped
        _check_rows(rows)
        for segment, group in groupby(rows, key=lambda row: row[0]):
            self._export_segment(segment, [Row(*row) for row in group])
        if rows:
            self.durable_size = rows[-1][1] + 1
        elif self._open is not None:
            self.crowded = not self._open.keep_room(0)
        return len(rows)

    def _export_segment(self, segment: int, rows: list[Row]) -> None:
        data = b"".join(row.data for row in rows)
        at = self._open
        if at is not None and at.segment != segment:
            self._finish()
            self._left, self._open, at = at, None, None
        try:
            if at is None:
                self._enter(segment, rows, data)
            else:
                self._continue(at, rows, data)
        except OSError as error:
            raise ExportFailed(f"segment {segment:016x}: {error.strerror or error}") from error

    def _continue(self, at: _OpenSegment, rows: list[Row], data: bytes) -> None:
        """Append to the file at hand; rows offered again are compared by entering the file anew."""
        if rows[0].seq != at.next_seq:
            self._release()
            self._enter(at.segment, rows, data)
            return
        self._refuse_foreign(at)
        self.crowded = not self._has_room(at, len(data))
        try:
            append_all(at.file, data)
        except OSError:
            self._cut_back(at)
            raise
        try:
            at.file.sync()
            self._read_back(at.name, at.size, data)
        except OSError:
            # The kernel reports a failed write once and may then show pages that never reached the disk.
            self._suspect.add(at.segment)
            self._release()
            raise
        at.size += len(data)
        at.next_seq = rows[-1].seq + 1

    def _read_back(self, name: str, offset: int, data: bytes) -> None:
        """See that the file holds what was meant to be in it, before anything is forgotten for its sake."""
        if self._directory.read(name, offset, len(data)) != data:
            raise OSError(errno.EIO, "what was written reads back as something else")

    def _cut_back(self, at: _OpenSegment) -> None:
        try:
            at.file.truncate(at.size)
            at.reserved = at.size
        except OSError:
            self._suspect.add(at.segment)
            self._release()

    def _enter(self, segment: int, rows: list[Row], data: bytes) -> None:
        """Open a segment's file; whatever it holds of these rows is compared, then written anew to a fresh file.

        Anew, because bytes that an earlier process left unsynced may be in memory only, and a sync that failed once
        can succeed later without having written them.
        """
        name = segment_name(segment)
        try:
            kept = self._offset_of(segment, rows[0].seq)
            there = self._directory.read(name, kept, self._directory.size(name) - kept)
        except FileNotFoundError:
            if rows[0].seq != segment:
                raise LogContradiction(
                    f"the file of segment {segment:016x} is gone, but entries before {rows[0].seq} were in it"
                ) from None
            kept, there = 0, b""
        if segment not in self._suspect and there != data[: len(there)] and data != there[: len(data)]:
            raise LogContradiction(
                f"segment {segment:016x} holds other bytes than entry {rows[0].seq} and those after it"
            )
        if there or segment in self._suspect:
            self._replace(segment, kept, rows, data + there[len(data) :])
            return
        file = self._directory.open(name)
        try:
            self._directory.sync_folder(folder_of(name))
        except OSError:
            # Taken for open, it would be filled without its name ever being on the disk.
            file.close()
            raise
        at = _OpenSegment(segment, file, kept, rows[0].seq)
        self._open = at
        self._continue(at, rows, data)

    def _replace(self, segment: int, kept: int, rows: list[Row], data: bytes) -> None:
        """Write what is known to be durable and these bytes to a new file and put it in the old one's place."""
        name = segment_name(segment)
        file = self._directory.open(f"{name}.tmp", fresh=True)
        try:
            append_all(file, self._directory.read(name, 0, kept) if kept else b"")
            append_all(file, data)
            file.sync()
            self._read_back(f"{name}.tmp", kept, data)
            self._directory.rename(f"{name}.tmp", name)
            self._directory.sync_folder(folder_of(name))
        except OSError:
            file.close()
            raise
        self._suspect.discard(segment)
        if len(data) > sum(len(row.data) for row in rows):
            # The file goes on behind these rows; the next ones must be compared with it.
            file.close()
            return
        self._open = _OpenSegment(segment, file, kept + len(data), rows[-1].seq + 1)

    def _offset_of(self, segment: int, seq: int) -> int:
        """Where in the file the entry of that seq begins or would begin."""
        next_seq = segment
        end = 0
        for chunk in chunks(self._directory, segment):
            for entry in chunk.entries():
                if entry.header.seq != next_seq:
                    raise LogContradiction(f"segment {segment:016x}: entry {entry.header.seq} where {next_seq} belongs")
                if next_seq == seq:
                    return chunk.base + entry.offset
                next_seq += 1
            end = chunk.end
        if next_seq != seq:
            raise LogContradiction(f"segment {segment:016x} ends before entry {next_seq}, the rows begin with {seq}")
        return end

    def _refuse_foreign(self, at: _OpenSegment) -> None:
        try:
            there = self._directory.size(at.name)
        except FileNotFoundError:
            there = -1
        if at.file.size() == there == at.size:
            return
        self._stopped = ForeignWriter(
            f"segment {at.segment:016x} should end at {at.size} but ends at {there}: someone else wrote to it"
        )
        self._release()
        raise self._stopped

    def _release(self) -> None:
        if self._open is not None:
            self._open.file.close()
            self._open = None

    def _has_room(self, at: _OpenSegment, count: int) -> bool:
        kept = at.keep_room(count)
        if self._left is not None:
            self._finish()
            # On a full disk the room is what the last segment gave back.
            kept = kept or at.keep_room(count)
        return kept

    def _finish(self) -> None:
        """Be done with the segment before the one at hand."""
        if self._left is not None:
            left, self._left = self._left, None
            left.finish()


def _check_rows(rows: Sequence[Row]) -> None:
    """Refuse rows that are not what they say they are: a damaged store must not reach the files."""
    expected: int | None = None
    for segment, seq, data in rows:
        parsed = parse(data)
        whole = len(parsed.leaves) == 1 and parsed.fault is None and parsed.heads[0][5] == seq
        if not whole or segment > seq or (expected is not None and seq != expected):
            raise LogContradiction(f"row {seq} of segment {segment:016x} is damaged or out of order")
        expected = seq + 1
