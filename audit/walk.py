"""The verifier's walk over segment files: every link, root and seal, in one pass and bounded memory."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence

from audit.ahead import Take, nothing_ahead
from audit.chain import ZERO_HASH, CompactRange
from audit.claims import SETTLE_TRIES, Settle
from audit.compare import Comparison
from audit.contents import Contents
from audit.damage import classify_tail, explain_damage, only_zeros, resume_after
from audit.disk import Directory
from audit.ledger import Ledger
from audit.log import Chunk, chunks, segment_name
from audit.note import NoteKey
from audit.piece import Piece, piece_of
from audit.record import FLAG_DAY, FRAME_HEADER, MAX_FRAME_BYTES, MAX_SEGMENT_BYTES, VERSION, Entry, Fault, Kind
from audit.report import Exit, Finding, Report
from audit.successor import successor_appears
from audit.whole import Whole

_EXPLAINED_MAX = 10
"""So many damaged entries are looked into bit by bit; more of them are no accident anyway."""

_KINDS = frozenset(int(kind) for kind in Kind)


class Walk:
    """Goes through the segments once and writes what it sees into a report."""

    def __init__(
        self,
        directory: Directory,
        report: Report,
        comparison: Comparison,
        keys: Sequence[NoteKey],
        *,
        now_ms: int,
        settle: Settle,
        contents: Contents | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Set up at `now_ms`; `contents` opens the records, too, `progress` is told the bytes passed, by segment."""
        self._now_ms = now_ms
        self._directory = directory
        self._report = report
        self._comparison = comparison
        self._settle = settle
        self._contents = contents
        self._progress = progress
        # While a segment is passed that another process has read and opened already.
        self._prepared = False
        self._pruned = 0
        self._ledger = Ledger(report, keys)
        self._tree: CompactRange | None = CompactRange()
        self._seq = 0
        self._prev = ZERO_HASH
        # False after a gap: the next entry's link cannot be compared with anything.
        self._linked = True
        self._segment = 0
        self._excused = False

    def run(self, sizes: dict[int, int], take: Take = nothing_ahead) -> None:
        """Verify the segments given as first seq and size in bytes, both as they were at one moment.

        `take` may have read a segment already; whatever it does not know is read here.
        """
        firsts = sorted(sizes)
        self._pruned = self._report.pruned_size = firsts[0] if firsts else 0
        for first in firsts:
            try:
                self._walk_segment(first, sizes[first], last=first == firsts[-1], take=take)
            except OSError as error:
                message = f"segment cannot be read: {error.strerror or error}"
                self._find("unreadable", message, exit_code=Exit.UNREADABLE, segment=first)
                self._lose_track()
                self._excused = True
            self._progress(max(0, sizes[first]))
        self._ledger.check_pending_seal()
        self._ledger.judge_first_key()
        self._judge_pruned()
        if self._ledger.goes_on and not self._excused and not self._goes_on(firsts[-1]):
            message = "the last segment was closed because it was full, but the one that follows it is not here"
            self._find("missing", message, exit_code=Exit.INCOMPLETE, seq=self._seq)
        self._report.end_seq = self._seq
        self._report.sealed_size = self._ledger.sealed_size
        self._report.unsealed_since_ms = self._ledger.unsealed_since
        self._report.root = "" if self._tree is None else base64.b64encode(self._tree.root()).decode()
        self._comparison.end(self._seq, self._segment, excused=self._excused)

    @property
    def ledger(self) -> Ledger:
        """What the clear entries said, once everything is passed."""
        return self._ledger

    def _goes_on(self, last: int) -> bool:
        age_ms = None if self._report.coarse_time else self._now_ms - self._ledger.closed_ms
        return successor_appears(self._directory, last, age_ms=age_ms, settle=self._settle)

    def _judge_pruned(self) -> None:
        """The beginning may be missing if the log says that it was dropped and a checkpoint vouches for the rest."""
        if not self._pruned:
            return
        if self._ledger.erased_size >= self._pruned < self._comparison.attested_size:
            self._ledger.attest()
            text = f"pruned prefix 0 - {self._pruned - 1} attested by checkpoint, content not present"
            self._report.notes.append(text)
            return
        self._report.pruned_size = 0
        message = f"entries 0 to {self._pruned - 1} are missing"
        if self._ledger.erased_size >= self._pruned:
            message += ": the log says they were dropped, but no checkpoint of a pinned key vouches for what is left"
        self._find("missing", message, exit_code=Exit.INCOMPLETE, seq=0, segment=0)

    def _walk_segment(self, first: int, size: int, *, last: bool, take: Take) -> None:
        if size < 0:
            # It could not be looked at: have the same error again, where it is reported.
            size = self._directory.size(segment_name(first))
        if not self._enter(first):
            return
        self._segment = first
        if size > MAX_SEGMENT_BYTES:
            self._find("oversized", f"{size} bytes, which were not read: no segment has more than {MAX_SEGMENT_BYTES}")
            self._lose_track()
            self._excused = True
            return
        whole = take(first)
        if whole is not None and self._follows_on(whole):
            self._pass_whole(whole)
            return
        offset, tries = 0, SETTLE_TRIES if last else 0
        while True:
            fault, offset = self._read(first, offset, size)
            if fault is None and offset:
                break
            if tries and fault in {None, Fault.SHORT}:
                tries -= 1
                size = self._grown(first, size)
                continue
            resumed = self._fault(fault, offset, size, last=last)
            if resumed is None:
                break
            offset = resumed
        self._ledger.check_pending_seal()

    def _follows_on(self, whole: Whole) -> bool:
        return self._continues(whole) and (self._tree is None or whole.stated == self._tree.hashes)

    def _pass_whole(self, whole: Whole) -> None:
        """Take in a segment that was read already: what is left is what its own file cannot say."""
        self._prepared, start = True, 0
        for index, entry in [*whole.clear, (len(whole), None)]:
            if start < index:
                self._ledger.note_unsealed(whole.times[start])
                self._grow_whole(whole, index)
            if entry is not None:
                self._pass_clear(entry, entry.offset, in_tree=True)
                self._grow_whole(whole, index + 1)
            start = index + 1
        self._prepared = False
        self._tree, self._prev = CompactRange(whole.end, whole.after), whole.leaves[-1]
        self._report.coarse_time = self._report.coarse_time or whole.coarse
        self._report.entries += len(whole)
        self._report.data_records += whole.data
        self._ledger.note_span(whole.times[0], whole.times[-1], went_back=whole.went_back)
        if self._contents is not None:
            self._contents.join(whole.contents, whole.named, closed=whole.closed)
        self._ledger.check_pending_seal()

    def _grown(self, first: int, size: int) -> int:
        """The file's present size, after a moment if it is the same: a live writer may be in the middle of a write."""
        now = self._directory.size(segment_name(first))
        if now == size:
            self._settle()
            now = self._directory.size(segment_name(first))
        return min(now, MAX_SEGMENT_BYTES)

    def _enter(self, first: int) -> bool:
        """Account for what lies between the last segment and this one; False if this one must be left out."""
        if first < self._seq:
            message = f"this file repeats entries from {first} on, which an earlier file holds"
            self._find("repeated_segment", message, segment=first)
            return False
        if first > self._seq:
            # A missing beginning is judged at the end: it may have been dropped as the log itself says.
            if not self._excused and first != self._pruned:
                message = f"entries {self._seq} to {first - 1} are missing"
                self._find("missing", message, exit_code=Exit.INCOMPLETE, seq=self._seq)
            self._lose_track()
            self._seq = first
        self._excused = False
        if self._contents is not None:
            self._contents.leave()
        self._ledger.enter(first, linked=self._linked)
        return True

    def _lose_track(self) -> None:
        self._tree = None
        self._linked = False
        self._ledger.lose_track()
        if self._contents is not None:
            self._contents.lose()

    def _read(self, first: int, offset: int, size: int) -> tuple[Fault | None, int]:
        """Pass the whole frames from an offset on; return why reading stopped and where."""
        for chunk in chunks(self._directory, first, start=offset, limit=size):
            if chunk.parsed.heads:
                self._pass_chunk(chunk)
            offset = chunk.end
            if chunk.parsed.fault is not None:
                return chunk.parsed.fault, offset
        return None, offset

    def _pass_chunk(self, chunk: Chunk) -> None:
        """Check a whole piece at once where nothing is wrong, which is nearly always; else entry by entry."""
        piece = piece_of(chunk, self._seq)
        if piece is not None and self._continues(piece):
            self._pass_piece(piece)
            return
        parsed = chunk.parsed
        for index in range(len(parsed.leaves)):
            self._check_entry(chunk, index)
            entry = parsed.entry(chunk.buffer, index)
            kind, t_ms = entry.header.kind, entry.header.t_ms
            if kind != Kind.DATA and kind in _KINDS:
                self._pass_clear(entry, chunk.base + entry.offset)
                self._grow((entry.leaf,), (t_ms,))
            else:
                self._pass_records((entry.leaf,), (t_ms,), chunk.base + entry.offset)
            if kind == Kind.DATA:
                self._report.data_records += 1
                self._check_contents((entry,), chunk.base)
            self._report.coarse_time = self._report.coarse_time or bool(entry.header.flags & FLAG_DAY)
        self._report.entries += len(parsed.leaves)
        self._ledger.note_times([head[6] for head in parsed.heads])

    def _continues(self, piece: Piece | Whole) -> bool:
        return piece.first_prev == self._prev or not self._linked

    def _pass_piece(self, piece: Piece) -> None:
        leaves, times, start = piece.leaves, piece.times, 0
        for index, entry in [*piece.clear, (len(leaves), None)]:
            if start < index:
                self._pass_records(leaves[start:index], times[start:index], piece.offset(start))
                if self._contents is not None:
                    self._check_contents(piece.records(start, index), piece.chunk.base)
            if entry is not None:
                self._pass_clear(entry, entry.offset)
                self._grow((entry.leaf,), (entry.header.t_ms,))
            start = index + 1
        self._report.coarse_time = self._report.coarse_time or piece.coarse
        self._report.entries += len(leaves)
        self._report.data_records += piece.data
        self._ledger.note_times(times)

    def _pass_records(self, leaves: Sequence[bytes], times: Sequence[int], offset: int) -> None:
        if self._ledger.must_be_clear():
            message = "a record before the opening of its segment or behind its close"
            self._find("misplaced", message, seq=self._seq, offset=offset)
        self._ledger.note_unsealed(times[0])
        self._grow(leaves, times)

    def _pass_clear(self, entry: Entry, offset: int, *, in_tree: bool = False) -> None:
        """Judge a clear entry; `in_tree`: the tree that it states was compared already."""
        tree = self._ledger.clear(entry, self._segment, None if in_tree else self._tree, offset)
        if tree is not None and self._tree is None:
            self._tree = tree
            self._comparison.meet(self._seq, tree, entry.header.t_ms)
        if entry.header.kind == Kind.SEGMENT_OPEN and self._contents is not None and not self._prepared:
            opened = self._ledger.opened
            bad = None if opened is None else self._contents.enter(opened, self._segment)
            if bad is not None:
                self._find(bad.code, bad.message, seq=entry.header.seq, offset=offset)

    def _check_contents(self, entries: Iterable[Entry], base: int) -> None:
        if self._contents is None:
            return
        for bad in self._contents.check(entries):
            seq = None if bad.entry is None else bad.entry.header.seq
            self._find(bad.code, bad.message, seq=seq, offset=None if bad.entry is None else base + bad.entry.offset)

    def _check_entry(self, chunk: Chunk, index: int) -> None:
        """Name what is wrong with one entry, and take up the thread again behind it."""
        _, _, version, kind, flags, seq, _, prev = chunk.parsed.heads[index]
        offset = chunk.base + chunk.parsed.offsets[index]
        if version != VERSION or kind not in _KINDS or flags not in {0, FLAG_DAY}:
            message = f"an entry of a newer format: version {version}, kind {kind}, flags {flags:#06x}"
            self._find("newer_format", message, exit_code=Exit.UNREADABLE, seq=seq, offset=offset)
        if seq != self._seq:
            if seq > self._seq:
                message = f"entries {self._seq} to {seq - 1} are missing in the middle of a segment"
            else:
                message = f"entry {seq} stands where entry {self._seq} belongs"
            self._find("sequence", message, seq=seq, offset=offset)
            self._lose_track()
            self._seq = seq
        elif self._linked and prev != self._prev:
            message = f"entry {seq} was made to follow another entry than the one before it"
            self._find("link", message, seq=seq, offset=offset, expected=self._prev, found=prev)
        self._linked = True

    def _grow(self, leaves: Sequence[bytes], times: Sequence[int]) -> None:
        """Add leaves to the tree, stopping at every size that a checkpoint speaks about."""
        start = self._seq
        end = start + len(leaves)
        done = 0
        self._comparison.pass_leaves(start, leaves)
        while (size := self._comparison.next_size) is not None and size <= end:
            cut = max(size - start, done)
            if self._tree is not None:
                self._tree.extend(leaves[done:cut])
            done = cut
            self._comparison.meet(size, self._tree, times[cut - 1] if cut else 0)
        if self._tree is not None:
            self._tree.extend(leaves[done:])
        self._seq = end
        self._prev = leaves[-1]
        self._linked = True

    def _grow_whole(self, whole: Whole, index: int) -> None:
        """The same for entries of a whole segment up to that index; a tree is made only where one is asked for."""
        start, end = self._seq, whole.first + index
        self._comparison.pass_leaves(start, whole.leaves[start - whole.first : index])
        while (size := self._comparison.next_size) is not None and size <= end:
            at = max(size, start)
            self._comparison.meet(size, whole.tree_at(at), whole.times[at - whole.first - 1] if at > start else 0)
        self._seq = end
        self._linked = True

    def _fault(self, fault: Fault | None, offset: int, size: int, *, last: bool) -> int | None:
        """Judge bytes that are no frame; return where to go on in the file, None if nothing follows."""
        name = segment_name(self._segment)
        if fault is None:
            exit_code = Exit.INCOMPLETE if last else Exit.TAMPERED
            self._find("empty_segment", "a segment file without any entry", exit_code=exit_code, segment=self._segment)
            return None
        if fault is Fault.ZEROS and only_zeros(self._directory, name, offset, size):
            if offset == 0:
                message = "a segment file that holds zeros only"
                self._find("empty_segment", message, exit_code=Exit.INCOMPLETE, offset=offset)
            return None
        resumed = resume_after(self._directory, name, fault, (offset, size))
        if resumed is None:
            finding = classify_tail(self._directory, name, (fault, offset, size), last=last)
            self._find(*finding[:2], exit_code=finding[2], seq=self._seq, offset=offset, hint=finding[3])
            return None
        self._damage(fault, name, offset, resumed)
        return resumed

    def _damage(self, fault: Fault, name: str, offset: int, resumed: int) -> None:
        """Report a damaged entry in the middle and find the thread again at the next good one."""
        hint = None
        expected = found = b""
        if fault is Fault.TRAILER:
            frame = self._directory.read(name, offset, MAX_FRAME_BYTES)
            expected, found, hint = explain_damage(frame, thorough=self._report.findings_total < _EXPLAINED_MAX)
        elif fault is Fault.ZEROS:
            hint = "after a length of zero only zeros may follow"
        head = FRAME_HEADER.unpack(self._directory.read(name, resumed, FRAME_HEADER.size))
        message = f"entry {self._seq} is damaged: {fault.value}"
        self._find("damaged", message, seq=self._seq, offset=offset, expected=expected, found=found, hint=hint)
        if head[5] == self._seq + 1 and self._linked:
            # Its successor says what it was: with that, everything after it can still be held against the signed roots.
            self._grow((head[7],), (head[6],))
            self._ledger.forget_seal()
            if self._contents is not None:
                self._contents.lose()
            return
        self._lose_track()
        self._seq = head[5]

    def _find(
        self,
        code: str,
        message: str,
        *,
        exit_code: Exit = Exit.TAMPERED,
        seq: int | None = None,
        segment: int | None = None,
        offset: int | None = None,
        expected: bytes = b"",
        found: bytes = b"",
        hint: str | None = None,
    ) -> None:
        self._report.add(
            Finding(
                code,
                exit_code,
                message,
                seq=seq,
                segment=self._segment if segment is None else segment,
                offset=offset,
                expected=expected[:8].hex() or None,
                found=found[:8].hex() or None,
                hint=hint,
            )
        )
