"""The verifier's walk over segment files: every link, root and seal, in one pass and bounded memory."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from audit.chain import ZERO_HASH, CompactRange
from audit.claims import SETTLE_TRIES, Claim, Claims, Settle
from audit.damage import classify_tail, explain_damage, find_frame_from, only_zeros
from audit.disk import Directory
from audit.ledger import Ledger
from audit.log import Chunk, chunks, segment_name, segments
from audit.note import NoteKey
from audit.record import FLAG_DAY, FRAME_HEADER, MAX_FRAME_BYTES, VERSION, Fault, Kind, find_frame
from audit.report import Exit, Finding, Report

_EXPLAINED_MAX = 10
"""So many damaged entries are looked into bit by bit; more of them are no accident anyway."""

_KINDS = frozenset(int(kind) for kind in Kind)


class Walk:
    """Goes through the segments once and writes what it sees into a report."""

    def __init__(
        self, directory: Directory, report: Report, claims: Claims, keys: Sequence[NoteKey], *, settle: Settle
    ) -> None:
        self._directory = directory
        self._report = report
        self._claims = claims
        self._settle = settle
        self._ledger = Ledger(report, keys)
        self._tree: CompactRange | None = CompactRange()
        self._seq = 0
        self._prev = ZERO_HASH
        # False after a gap: the next entry's link cannot be compared with anything.
        self._linked = True
        self._segment = 0
        self._excused = False
        self._claims_differ = False

    def run(self, sizes: dict[int, int]) -> None:
        """Verify the segments given as first seq and size in bytes, both as they were at one moment."""
        firsts = sorted(sizes)
        self._seq = 0
        for first in firsts:
            try:
                self._walk_segment(first, sizes[first], last=first == firsts[-1])
            except OSError as error:
                message = f"segment cannot be read: {error.strerror or error}"
                self._find("unreadable", message, exit_code=Exit.UNREADABLE, segment=first)
                self._lose_track()
                self._excused = True
        self._ledger.check_pending_seal()
        if self._ledger.goes_on and not self._excused and not self._successor_appears(firsts[-1]):
            message = "the last segment was closed because it was full, but the one that follows it is not here"
            self._find("missing", message, exit_code=Exit.INCOMPLETE, seq=self._seq)
        self._report.end_seq = self._seq
        self._report.sealed_size = self._ledger.sealed_size
        self._report.unsealed_since_ms = self._ledger.unsealed_since
        self._report.root = "" if self._tree is None else base64.b64encode(self._tree.root()).decode()
        self._unmet_claims()

    def _successor_appears(self, last: int) -> bool:
        """Whether a live writer is just making the next file; what is in it is the next verification's business."""
        for _ in range(SETTLE_TRIES):
            if segments(self._directory)[-1] > last:
                return True
            self._settle()
        return False

    def _walk_segment(self, first: int, size: int, *, last: bool) -> None:
        if size < 0:
            # It could not be looked at: have the same error again, where it is reported.
            size = self._directory.size(segment_name(first))
        if not self._enter(first):
            return
        self._segment = first
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

    def _grown(self, first: int, size: int) -> int:
        """The file's present size, after a moment if it is the same: a live writer may be in the middle of a write."""
        now = self._directory.size(segment_name(first))
        if now == size:
            self._settle()
            now = self._directory.size(segment_name(first))
        return now

    def _enter(self, first: int) -> bool:
        """Account for what lies between the last segment and this one; False if this one must be left out."""
        if first < self._seq:
            message = f"this file repeats entries from {first} on, which an earlier file holds"
            self._find("repeated_segment", message, segment=first)
            return False
        if first > self._seq:
            if not self._excused:
                message = f"entries {self._seq} to {first - 1} are missing"
                self._find("missing", message, exit_code=Exit.INCOMPLETE, seq=self._seq)
            self._lose_track()
            self._seq = first
        self._excused = False
        self._ledger.enter(first, linked=self._linked)
        return True

    def _lose_track(self) -> None:
        self._tree = None
        self._linked = False
        self._ledger.lose_track()

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
        parsed = chunk.parsed
        _, _, versions, kinds, flags, seqs, times, prevs = zip(*parsed.heads, strict=True)
        leaves, count = parsed.leaves, len(parsed.leaves)
        in_order = (
            seqs[0] == self._seq
            and seqs[-1] - seqs[0] == count - 1
            and seqs == tuple(range(self._seq, self._seq + count))
            and (prevs[0] == self._prev or not self._linked)
            and prevs[1:] == tuple(leaves[:-1])
            and _KINDS.issuperset(kinds)
            and versions.count(VERSION) == count
            and flags.count(0) + flags.count(FLAG_DAY) == count
        )
        special = [index for index, kind in enumerate(kinds) if kind != Kind.DATA] if in_order else range(count)
        start = 0
        for index in special:
            self._pass_records(chunk, times, start, index)
            if not in_order:
                self._check_entry(chunk, index)
            start = index + 1
            if kinds[index] == Kind.DATA or kinds[index] not in _KINDS:
                self._pass_records(chunk, times, index, start)
            else:
                self._pass_clear(chunk, index)
                self._grow(leaves[index:start], times[index:start])
        self._pass_records(chunk, times, start, count)
        self._report.coarse_time = self._report.coarse_time or FLAG_DAY in flags
        self._report.entries += count
        self._report.data_records += kinds.count(Kind.DATA)
        self._ledger.note_times(times)

    def _pass_records(self, chunk: Chunk, times: Sequence[int], start: int, end: int) -> None:
        if start >= end:
            return
        if self._ledger.must_be_clear():
            message = "a record before the opening of its segment or behind its close"
            self._find_at(chunk, start, "misplaced", message)
        self._ledger.note_unsealed(times[start])
        self._grow(chunk.parsed.leaves[start:end], times[start:end])

    def _pass_clear(self, chunk: Chunk, index: int) -> None:
        entry = chunk.parsed.entry(chunk.buffer, index)
        tree = self._ledger.clear(entry, self._segment, self._tree, chunk.base + entry.offset)
        if tree is not None and self._tree is None:
            self._tree = tree
            self._meet_claims(self._seq, entry.header.t_ms)

    def _check_entry(self, chunk: Chunk, index: int) -> None:
        """Name what is wrong with one entry, and take up the thread again behind it."""
        _, _, version, kind, flags, seq, _, prev = chunk.parsed.heads[index]
        if version != VERSION or kind not in _KINDS or flags not in {0, FLAG_DAY}:
            message = f"an entry of a newer format: version {version}, kind {kind}, flags {flags:#06x}"
            self._find_at(chunk, index, "newer_format", message, exit_code=Exit.UNREADABLE)
        if seq != self._seq:
            if seq > self._seq:
                message = f"entries {self._seq} to {seq - 1} are missing in the middle of a segment"
            else:
                message = f"entry {seq} stands where entry {self._seq} belongs"
            self._find_at(chunk, index, "sequence", message)
            self._lose_track()
            self._seq = seq
        elif self._linked and prev != self._prev:
            message = f"entry {seq} was made to follow another entry than the one before it"
            self._find_at(chunk, index, "link", message, expected=self._prev, found=prev)
        self._linked = True

    def _grow(self, leaves: Sequence[bytes], times: Sequence[int]) -> None:
        """Add leaves to the tree, stopping at every size that a checkpoint speaks about."""
        start = self._seq
        end = start + len(leaves)
        done = 0
        while (size := self._claims.next_size) is not None and size <= end:
            cut = max(size - start, done)
            if self._tree is not None:
                self._tree.extend(leaves[done:cut])
            done = cut
            self._meet_claims(size, times[cut - 1] if cut else 0)
        if self._tree is not None:
            self._tree.extend(leaves[done:])
        self._seq = end
        self._prev = leaves[-1]
        self._linked = True

    def _meet_claims(self, size: int, t_ms: int) -> None:
        """Compare every claim about this size with the tree; claims about sizes already passed cannot be compared."""
        while (next_size := self._claims.next_size) is not None and next_size <= size:
            claim = self._claims.pop()
            if claim.size == 0:
                continue
            if self._tree is None or self._tree.size != claim.size:
                self._not_compared(claim)
                continue
            root = self._tree.root()
            if claim.root != root:
                self._differ(claim, root)
            elif claim.anchor is None:
                self._report.checkpoints += 1
            else:
                state = self._claims.states[claim.anchor]
                state.checked += 1
                state.newest_size, state.covers_t_ms = claim.size, t_ms

    def _not_compared(self, claim: Claim) -> None:
        if not self._report.findings:
            message = f"{claim.source}: the checkpoint at size {claim.size} cannot be compared with what is here"
            self._find("not_compared", message, exit_code=Exit.INCOMPLETE)

    def _differ(self, claim: Claim, root: bytes) -> None:
        code = "checkpoint_root" if claim.anchor is None else "anchor_root"
        message = f"{claim.source}: the signed checkpoint at size {claim.size} was made for other entries than these"
        hint = "both exist: the checkpoint is signed evidence of another history"
        finding = Finding(
            code, Exit.TAMPERED, message, expected=claim.root.hex(), found=root.hex(), hint=hint, seq=claim.size - 1
        )
        if not self._claims_differ:
            self._report.add(finding)
        # Once one differs, all later ones must: say so once, with the earliest.
        self._claims_differ = True

    def _unmet_claims(self) -> None:
        """Checkpoints of more entries than there are: the log was cut or an old copy was put in its place."""
        ahead: dict[str, Claim] = {}
        while self._claims.next_size is not None:
            claim = self._claims.pop()
            if claim.size:
                ahead[claim.source] = claim
        for claim in ahead.values():
            if self._excused:
                self._not_compared(claim)
                continue
            code = "rollback" if claim.anchor is not None else "rollback_own"
            lost = claim.size - self._seq
            message = f"{claim.source} shows {claim.size} entries, the log has {self._seq}: {lost} are gone"
            hint = "the end was cut off, or an older copy was put in its place"
            self._find(code, message, seq=self._seq, hint=hint)

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
        resumed = self._resume_after(fault, name, offset, size)
        if resumed is None:
            finding = classify_tail(self._directory, name, (fault, offset, size), last=last)
            self._find(*finding[:2], exit_code=finding[2], seq=self._seq, offset=offset, hint=finding[3])
            return None
        self._damage(fault, name, offset, resumed)
        return resumed

    def _resume_after(self, fault: Fault, name: str, offset: int, size: int) -> int | None:
        """Offset of the next good frame: where the damaged one says it ends, or wherever one is found."""
        if fault is Fault.TRAILER:
            length = int.from_bytes(self._directory.read(name, offset, 4), "big")
            end = offset + 4 + length
            if find_frame(self._directory.read(name, end, min(MAX_FRAME_BYTES, size - end)), 0) == 0:
                return end
        return find_frame_from(self._directory, name, offset + 1, size)

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
            return
        self._lose_track()
        self._seq = head[5]

    def _find_at(
        self,
        chunk: Chunk,
        index: int,
        code: str,
        message: str,
        *,
        exit_code: Exit = Exit.TAMPERED,
        expected: bytes = b"",
        found: bytes = b"",
    ) -> None:
        seq, offset = chunk.parsed.heads[index][5], chunk.base + chunk.parsed.offsets[index]
        self._find(code, message, exit_code=exit_code, seq=seq, offset=offset, expected=expected, found=found)

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
