"""Recovery at start: sets torn bytes aside, cuts them off, and says what the next opening must record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256

from audit.bodies import Recovery, Succession, read_body
from audit.disk import Directory, folder_of, write_whole
from audit.export import Row
from audit.fields import Malformed
from audit.head import Head
from audit.log import LogContradiction, chunks, read_open, segment_name, segments
from audit.record import MAX_FRAME_BYTES, Entry, Kind, find_frame, parse

QUARANTINE = "quarantine"
_TORN_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{64})\.torn")


def recover(directory: Directory, *, boot_id: str, rows: Iterable[Row] = ()) -> tuple[Recovery, ...]:
    """Clean the end of a log that nobody writes, and return the recoveries that no entry records yet.

    Give the result to `Sealer.start`. Until it is recorded, every call returns it again, so a crash at any point, or
    running this twice, changes nothing. The caller holds the directory's lock.

    Args:
        directory: the log's folder.
        boot_id: this process, for the entry.
        rows: entries that the store has and the files may not have yet.

    Raises:
        LogContradiction: a valid frame follows a bad one, so this is damage and not a torn end.
    """
    for segment in reversed(segments(directory)):
        whole = _cut(directory, segment)
        if whole:
            break
    return _unrecorded(directory, boot_id, rows)


def _cut(directory: Directory, segment: int) -> bool:
    """Cut torn bytes off one segment; return whether a whole frame is left in it."""
    name = segment_name(segment)
    end, found = 0, False
    for chunk in chunks(directory, segment):
        end = chunk.end
        found = found or bool(chunk.parsed.leaves)
    torn = directory.read(name, end, directory.size(name) - end)
    if not torn:
        # What a killed process wrote may be in memory only; the next segment must not outlive it. And the room that
        # was kept for more is given back.
        _truncate(directory, name, end)
        directory.sync_folder(folder_of(name))
        return found
    if len(torn) >= 4 and not any(torn):
        # Space written ahead of need holds nothing that could have been torn.
        _truncate(directory, name, end)
        return found
    if (at := find_frame(torn, 0)) is not None:
        raise LogContradiction(
            f"segment {segment:016x}: bad bytes at {end}, but a valid entry at {end + at}: damage, not a torn end"
        )
    digest = sha256(torn).hexdigest()
    write_whole(directory, f"{QUARANTINE}/{segment:016x}-{end:016x}-{digest}.torn", torn)
    _truncate(directory, name, end)
    return found


def _truncate(directory: Directory, name: str, end: int) -> None:
    file = directory.open(name)
    try:
        file.truncate(end)
        file.sync()
    finally:
        file.close()


def _unrecorded(directory: Directory, boot_id: str, rows: Iterable[Row]) -> tuple[Recovery, ...]:
    names = [match for name in directory.names(QUARANTINE) if (match := _TORN_NAME.fullmatch(name))]
    # A segment that retention has dropped had a successor, and that one recorded what was torn.
    first = next(iter(segments(directory)), 0)
    names = [match for match in names if int(match[1], 16) >= first]
    if not names:
        return ()
    recorded = {_place(entry) for row in rows for entry in parse(row[2]).entries(row[2]) if _recovery(entry)}
    oldest = min(int(match[1], 16) for match in names)
    for segment in segments(directory):
        if segment >= oldest:
            buffer = directory.read(segment_name(segment), 0, 4 * MAX_FRAME_BYTES)
            recorded |= {_place(entry) for entry in parse(buffer).entries(buffer) if _recovery(entry)}
    pending = []
    for match in names:
        segment, cut, digest = int(match[1], 16), int(match[2], 16), bytes.fromhex(match[3])
        if (segment, cut, digest) not in recorded:
            old_size = cut + directory.size(f"{QUARANTINE}/{match[0]}")
            pending.append(Recovery(segment, old_size, cut, digest, _boot_of(directory, segment), boot_id))
    return tuple(pending)


def _recovery(entry: Entry) -> bool:
    return entry.header.kind == Kind.RECOVERY


def _place(entry: Entry) -> tuple[int, int, bytes] | None:
    try:
        body = read_body(Kind.RECOVERY, entry.body)
    except Malformed:
        return None
    return (body.segment, body.cut_offset, body.torn_sha256) if isinstance(body, Recovery) else None


def _boot_of(directory: Directory, segment: int) -> str:
    try:
        return read_open(directory, segment).boot_id
    except (LogContradiction, FileNotFoundError):
        return ""


def statement_of_loss(lost: Head) -> Succession:
    """What a new log says of the one it continues: its last known head. Give it to `Sealer.start` as `recovery`.

    The new log needs an origin that was never used. Its first segment is sealed at once with a key that the new log key
    certified, so the statement is signed from the first moment; the old files stay as they are, as evidence.

    Raises:
        ValueError: the lost log had no entry, so nothing was lost.
    """
    if not lost.size:
        raise ValueError(f"{lost.origin} had no entry: there is nothing to continue")
    return Succession(lost.origin, lost.size, lost.root(), lost.leaf)


class JoinState(Enum):
    """How the end of the files, the rows not yet exported, and the stored head fit together."""

    JOINS = "the files end at the stored head"
    BEHIND = "the files are behind by exactly the rows"
    AHEAD = "the files hold entries that the store does not know: the store was restored"
    CONTRADICTION = "files, rows and head do not fit"


@dataclass(frozen=True, slots=True)
class Join:
    """Answer of `check_join`; `missing` counts the entries that only the rows have."""

    state: JoinState
    reason: str
    missing: int = 0

    @property
    def sound(self) -> bool:
        """Whether the log may simply go on."""
        return self.state in {JoinState.JOINS, JoinState.BEHIND}


def check_join(files: Head, rows: Sequence[Row], head: Head | None) -> Join:
    """Hold the files' end (`files_head`, after `recover`), the unexported rows and the stored head side by side."""
    head = Head.empty(files.origin) if head is None else head
    if files.size > head.size:
        return Join(JoinState.AHEAD, f"the files hold {files.size} entries, the store knows of {head.size}")
    size, leaf = files.size, files.leaf
    for segment, seq, data in rows:
        parsed = parse(data)
        if len(parsed.leaves) != 1 or parsed.fault is not None or parsed.heads[0][5] != seq or segment > seq:
            return Join(JoinState.CONTRADICTION, f"row {seq} is damaged")
        if seq == files.size - 1 and parsed.leaves[0] != files.leaf:
            return Join(JoinState.CONTRADICTION, f"entry {seq} differs between files and store")
        if seq < files.size:
            continue
        if seq != size:
            return Join(JoinState.CONTRADICTION, f"entry {size} is missing: the rows go on with {seq}")
        if parsed.heads[0][7] != leaf:
            return Join(JoinState.CONTRADICTION, f"row {seq} does not follow from the entry before it")
        size, leaf = seq + 1, parsed.leaves[0]
    if size != head.size:
        return Join(JoinState.CONTRADICTION, f"files and rows end at {size}, the stored head at {head.size}")
    if leaf != head.leaf:
        return Join(JoinState.CONTRADICTION, f"entry {size - 1} differs from the stored head")
    missing = size - files.size
    return Join(JoinState.BEHIND if missing else JoinState.JOINS, f"{missing} entries are not exported yet", missing)
