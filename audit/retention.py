"""Retention: whole old segments are dropped from the beginning of a log, and the log itself says so first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from audit.bodies import ERASED_SEGMENTS, Erasure, read_body
from audit.chain import ZERO_HASH
from audit.checkpoint import CHECKPOINT, open_checkpoint
from audit.disk import Directory, LogError
from audit.fields import Malformed
from audit.log import SEGMENTS, LogContradiction, chunks, segment_name, segments
from audit.note import BadNote, NoteKey
from audit.record import FLAG_DAY, FRAME_HEADER, Kind
from audit.seal import DAY_MS
from audit.shred import Notebook

_NOTE_BYTES_MAX = 64 * 1024


class NotDroppable(LogError):
    """Dropping now would leave a log that cannot be told from a damaged one."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What may go. `before_ms`: entries made earlier than this Unix time; `by`: who says so, at most 255 bytes."""

    before_ms: int
    by: str


def retire(
    writer: Notebook,
    directory: Directory,
    retention: Retention,
    *,
    keys: Sequence[NoteKey],
    publish: Callable[[], object],
    t_ms: int,
    anchors: Sequence[Directory] = (),
    keep_from: int | None = None,
) -> int:
    """Drop whole segments older than the retention asks; return the first seq that stays.

    The order is fixed: the record that covers what goes, durable and sealed; a checkpoint behind it; then the files,
    oldest first. A crash in between leaves a log that verifies, and the next call goes on.

    Args:
        writer: adds the record.
        directory: the log's folder.
        retention: what may go.
        keys: log keys that signed the checkpoints.
        publish: signs a checkpoint over everything in the files.
        t_ms: present Unix time in milliseconds.
        anchors: folders with checkpoints of this log; what the oldest of them needs stays.
        keep_from: the smallest size that a witness holds, since a proof must begin there; None if there is no witness.

    Raises:
        NotDroppable: a checkpoint cannot be trusted, or none covers the record.
        LogError, OSError: as the writer, the publisher and the files.
    """
    covered = min(covered_size([directory, *anchors], keys), *([] if keep_from is None else [keep_from]), 1 << 63)
    end = first_kept(directory, before_ms=retention.before_ms, covered=covered)
    recorded = recorded_end(directory)
    if end > max(recorded, segments(directory)[0]):
        writer.note(Erasure(ERASED_SEGMENTS, 0, end, ZERO_HASH, retention.by), Kind.ERASURE, t_ms)
        recorded = end
    end = max(end, recorded)
    if segments(directory)[0] < end:
        publish()
        drop_segments(directory, end, attested=covered_size([directory], keys))
    return end


def first_kept(directory: Directory, *, before_ms: int, covered: int) -> int:
    """First seq that stays if every whole segment goes whose entries are all older and which no checkpoint needs.

    `covered`: the smallest size of a checkpoint that will be asked for again; the segment that it ends in stays, and so
    does the last one.
    """
    firsts = segments(directory)
    kept = firsts[0] if firsts else 0
    for following in firsts[1:]:
        if following > covered or _made_ms(directory, following) >= before_ms:
            break
        kept = following
    return kept


def recorded_end(directory: Directory) -> int:
    """How many entries the log says were dropped from its beginning; 0 if it does not say so of any."""
    for first in reversed(segments(directory)):
        ends = [0]
        for chunk in chunks(directory, first):
            for index, head in enumerate(chunk.parsed.heads):
                if head[3] == Kind.ERASURE:
                    ends.append(_dropped(chunk.parsed.entry(chunk.buffer, index).body))
        if max(ends):
            # Records go forward only, so the newest covers the most.
            return max(ends)
    return 0


def drop_segments(directory: Directory, end: int, *, attested: int) -> list[int]:
    """Delete the segments before `end`, oldest first, each durably before the next; return their first seqs.

    `attested`: how many entries a published checkpoint covers.

    Raises:
        NotDroppable: the log does not say that they go, no checkpoint covers what stays, or `end` is inside a segment.
    """
    firsts = segments(directory)
    if end not in firsts[1:]:
        if firsts and firsts[0] == end:
            return []
        raise NotDroppable(f"no segment that stays begins at {end}")
    if recorded_end(directory) < end:
        raise NotDroppable(f"the log does not say yet that the entries before {end} are dropped")
    if attested <= end:
        raise NotDroppable(f"no checkpoint covers what stays behind {end}")
    dropped = [first for first in firsts if first < end]
    for first in dropped:
        directory.unlink(segment_name(first))
        # One by one: were a later name to go before an earlier one, a gap would be left that nothing explains.
        directory.sync_folder(SEGMENTS)
    return dropped


def covered_size(places: Iterable[Directory], keys: Sequence[NoteKey]) -> int:
    """The smallest size of a latest checkpoint in these folders, 0 if there is none. Raises NotDroppable, OSError."""
    sizes = []
    for place in places:
        try:
            note = place.read(CHECKPOINT, 0, _NOTE_BYTES_MAX)
        except FileNotFoundError:
            continue
        try:
            sizes.append(open_checkpoint(note, keys).size)
        except BadNote as error:
            raise NotDroppable(f"a checkpoint that exists cannot be trusted: {error}") from error
    return min(sizes, default=0)


def opened_ms(directory: Directory, first: int) -> int:
    """When a segment was opened, at the earliest: no entry of it is older."""
    return _opened(directory, first)[0]


def _made_ms(directory: Directory, first: int) -> int:
    """When a segment was opened, at the latest: everything before it is older."""
    t_ms, flags = _opened(directory, first)
    return t_ms + (DAY_MS if flags & FLAG_DAY else 0)


def _opened(directory: Directory, first: int) -> tuple[int, int]:
    head = directory.read(segment_name(first), 0, FRAME_HEADER.size)
    if len(head) < FRAME_HEADER.size:
        raise LogContradiction(f"segment {first:016x} does not begin with its opening entry")
    _, _, _, _, flags, _, t_ms, _ = FRAME_HEADER.unpack(head)
    return int(t_ms), int(flags)


def _dropped(body: bytes) -> int:
    try:
        erasure = read_body(Kind.ERASURE, body)
    except Malformed:
        return 0
    whole = isinstance(erasure, Erasure) and erasure.what == ERASED_SEGMENTS and erasure.first_seq == 0
    return erasure.end_seq if whole and isinstance(erasure, Erasure) else 0
