"""What the clear entries say, held against each other: openings, closes, seals, epochs, restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from audit.bodies import (
    ERASED_SEGMENTS,
    LOG_KEY,
    NO_SIGNATURE,
    SUITE_1,
    CloseReason,
    Erasure,
    KeyChange,
    PreviousEnd,
    Recovery,
    Seal,
    SegmentClose,
    SegmentOpen,
    Succession,
    certificate_message,
    read_body,
    seal_message,
)
from audit.chain import ZERO_HASH, CompactRange
from audit.fields import Malformed
from audit.keyring import signature_fits
from audit.note import NoteKey
from audit.record import ZERO_NONCE, Entry, Kind
from audit.report import Exit, Finding, Report, Restart


@dataclass(frozen=True, slots=True)
class _PendingSeal:
    entry: Entry
    seal: Seal
    key: bytes
    segment: int
    offset: int


class Ledger:
    """Judges clear entries in the order of the log; the walk tells it where each one stands."""

    def __init__(self, report: Report, keys: Sequence[NoteKey]) -> None:
        self._report = report
        self._keys = tuple(keys)
        self._segment = 0
        self._linked = True
        self._opened: SegmentOpen | None = None
        self._opened_here = False
        self._recovery_at = 0
        self._closed = self._sealed_close = False
        self._entered_closed = False
        self._epoch = 0
        self._epoch_key = b""
        self._pending: _PendingSeal | None = None
        self._roots_differ = False
        self._first_time = True
        self._last_t_ms = 0
        self._last_seal_t_ms = 0
        self._went_back = False
        self._unattested = False
        self._uncertified: Finding | None = None
        self.old_key_missing = False
        """The log says that a key which the policy does not name was replaced by one that it does."""
        self.new_key_missing = False
        """A pinned key was replaced, as an entry under it says, by one that the policy does not name."""
        self._announced = self._announced_sealed = False
        self.erased_size = 0
        """The log says that the first so many entries were dropped."""
        self.goes_on = False
        self.closed_ms = 0
        """When the last close was written, by the writer's clock."""
        self.sealed_size = 0
        self.unsealed_since: int | None = None

    @property
    def opened(self) -> SegmentOpen | None:
        """The opening of the segment at hand, if it could be read."""
        return self._opened if self._opened_here else None

    def attest(self) -> None:
        """A checkpoint of a pinned key covers the first opening that is here, and so the key it names."""
        self._report.key_pinned = self._report.key_pinned or self._unattested

    def judge_first_key(self) -> None:
        """At the end: whether the first seal key is without a certificate because an old log key is not pinned."""
        if self._uncertified is not None and not self.old_key_missing:
            self._report.add(self._uncertified)

    def enter(self, first: int, *, linked: bool) -> None:
        """A segment begins; `linked` says whether what came before it is known."""
        self._segment = first
        self._linked = linked
        self._entered_closed = self._closed
        self._opened_here = False
        self._closed = self._sealed_close = False
        self.goes_on = False

    def lose_track(self) -> None:
        """Entries were lost: nothing before them may be compared with what comes after."""
        self._linked = False
        self._closed = False

    def forget_seal(self) -> None:
        """The entry just passed was damaged; if it was the close or a seal, nobody can tell."""
        self._closed = False

    def must_be_clear(self) -> bool:
        """Whether a record may not stand here: before the opening, or behind the close."""
        return self._closed or not self._opened_here

    def note_times(self, times: Sequence[int]) -> None:
        """Take in the times of a piece of the log."""
        self.note_span(times[0], times[-1], went_back=list(times) != sorted(times))

    def note_span(self, first_ms: int, last_ms: int, *, went_back: bool) -> None:
        """Take in the first and the last time of a part of the log, and whether time went back in between."""
        if self._first_time:
            self._first_time = False
            self._report.first_t_ms = first_ms
        if not self._went_back and (went_back or first_ms < self._last_t_ms):
            self._went_back = True
            self._report.notes.append("the writer's clock went back at least once; order is by seq, not by time")
        self._last_t_ms = last_ms
        self._report.last_t_ms = last_ms

    def note_unsealed(self, t_ms: int) -> None:
        """An entry follows that is no seal."""
        if self.unsealed_since is None:
            self.unsealed_since = t_ms

    def clear(self, entry: Entry, segment: int, tree: CompactRange | None, offset: int) -> CompactRange | None:
        """Judge one clear entry before its leaf is added; return the tree that an opening states."""
        header = entry.header
        if header.nonce != ZERO_NONCE or header.commit != ZERO_HASH:
            self._find(entry, "malformed", "a clear entry whose nonce and commitment are not zero", offset)
        try:
            body = read_body(header.kind, entry.body)
        except Malformed as error:
            text = f"a {Kind(header.kind).name} entry whose body breaks the format: {error}"
            self._find(entry, "malformed", text, offset)
            return None
        if isinstance(body, SegmentOpen):
            stated = self._open(entry, body, tree, offset)
            self.note_unsealed(header.t_ms)
            return stated
        if not self._opened_here or (self._closed and (self._sealed_close or not isinstance(body, Seal))):
            text = f"a {Kind(header.kind).name} entry before the opening of its segment or behind its close"
            self._find(entry, "misplaced", text, offset)
        if isinstance(body, Seal):
            self._sealed_close = self._closed
            self._seal(entry, body, tree, offset)
            return None
        self.note_unsealed(header.t_ms)
        if isinstance(body, SegmentClose):
            self._close(entry, body, offset)
        elif isinstance(body, Recovery | Succession):
            self._recovered(entry, body, offset)
        elif isinstance(body, Erasure):
            self._erasure(entry, body, offset)
        elif isinstance(body, KeyChange) and body.what == LOG_KEY:
            pinned = {key.digest for key in self._keys}
            self.old_key_missing |= body.new_digest in pinned and body.old_digest not in pinned
            self._announced |= body.old_digest in pinned and body.new_digest not in pinned
        return None

    def check_pending_seal(self) -> None:
        """Verify the newest seal's signature. Older ones of its epoch add nothing: its root covers them."""
        pending, self._pending = self._pending, None
        if pending is None or self._opened is None:
            return
        message = seal_message(self._opened.origin, pending.entry.header.to_bytes(), pending.seal.unsigned())
        if not signature_fits(pending.key, pending.seal.signature, message):
            text = f"the seal at {pending.seal.size} is not signed by the key of epoch {pending.seal.epoch}"
            self._find(pending.entry, "seal_signature", text, pending.offset, segment=pending.segment)

    def _open(self, entry: Entry, body: SegmentOpen, tree: CompactRange | None, offset: int) -> CompactRange | None:
        seq, before = entry.header.seq, self._opened
        if self._opened_here or seq != self._segment:
            self._find(entry, "misplaced", "an opening that is not the first entry of its file", offset)
            return None
        self._opened_here = True
        self._recovery_at = seq + 1
        self._opened = body
        self._adopt_key(entry, body, offset)
        if before is not None and body.origin != before.origin:
            self._find(entry, "misplaced", f"a segment of another log, {body.origin}", offset)
        if body.suite != SUITE_1:
            text = f"a segment of a newer format: suite {body.suite}"
            self._report.add(Finding("newer_format", Exit.UNREADABLE, text, seq, self._segment, offset))
        if self._linked:
            self._follows(entry, body, before, offset)
        if before is not None and (body.boot_id != before.boot_id or body.previous_end is PreviousEnd.UNCLEAN):
            unsealed = 0 if self.unsealed_since is None else max(0, self._last_t_ms - self._last_seal_t_ms)
            clean = body.previous_end is PreviousEnd.CLEAN
            self._report.restarts.append(Restart(seq, clean, unsealed))
        return self._stated_tree(entry, body, tree, offset)

    def _follows(self, entry: Entry, body: SegmentOpen, before: SegmentOpen | None, offset: int) -> None:
        if before is None:
            expected_end = PreviousEnd.NONE
            number = 0
        else:
            expected_end = PreviousEnd.CLEAN if self._entered_closed else PreviousEnd.UNCLEAN
            number = before.number + 1
        if body.previous_end is not expected_end or body.number != number:
            text = f"segment {body.number} ({body.previous_end.name}) does not continue the segment before it"
            self._find(entry, "misplaced", text, offset)

    def _stated_tree(
        self, entry: Entry, body: SegmentOpen, tree: CompactRange | None, offset: int
    ) -> CompactRange | None:
        try:
            stated = CompactRange(entry.header.seq, body.range_hashes)
        except ValueError:
            self._find(entry, "range", "the opening states a tree of another size than the entries before it", offset)
            return None
        if tree is not None and stated.hashes != tree.hashes:
            self._find(entry, "range", "the opening states another tree than the entries before it make", offset)
        return stated

    def _adopt_key(self, entry: Entry, body: SegmentOpen, offset: int) -> None:
        """Take the epoch key that an opening names, if it is the current one or the pinned log key vouches for it."""
        if (body.epoch, body.epoch_key) == (self._epoch, self._epoch_key):
            return
        first = not self._epoch_key
        message = certificate_message(body.origin, body.epoch, body.epoch_key)
        in_force = [key for key in self._keys if key.certifies_at(self._segment)]
        certified = any(signature_fits(key.public, body.epoch_certificate, message) for key in in_force)
        if first:
            self._report.key_pinned = certified
            self._report.first_epoch = body.epoch
        # The seal that named the key may lie in a gap before this. Then only a checkpoint can vouch for it: see attest.
        named_before = not self._linked and body.epoch_certificate == NO_SIGNATURE
        self._unattested = self._unattested or (first and named_before)
        if self._keys and not certified and not named_before:
            text = "the pinned log key did not certify the key that seals this log"
            uncertified = self._finding(entry, "uncertified", text, offset)
            if first:
                # An old log key may have: a later entry would say that it was replaced by a pinned one.
                self._uncertified = uncertified
            elif self._announced_sealed and body.epoch > self._epoch:
                # Whoever held the old keys said so under their seal; the policy only has to be brought up to date.
                self.new_key_missing = True
            else:
                self._report.add(uncertified)
        elif not first and body.epoch <= self._epoch:
            text = f"epoch {body.epoch} with another key, after epoch {self._epoch}"
            self._find(entry, "epoch", text, offset)
        self._epoch, self._epoch_key = body.epoch, body.epoch_key
        self._report.last_epoch = body.epoch

    def _close(self, entry: Entry, body: SegmentClose, offset: int) -> None:
        entries = entry.header.seq - self._segment
        number = self._opened.number if self._opened else body.number
        if (body.number, body.first_seq, body.entries) != (number, self._segment, entries):
            self._find(entry, "misplaced", "a close that does not describe the segment it ends", offset)
        self._closed = True
        # A writer that stops closes with another reason and then seals; this one goes on in the same step.
        self.goes_on, self.closed_ms = body.reason is not CloseReason.STOP, entry.header.t_ms

    def _recovered(self, entry: Entry, body: Recovery | Succession, offset: int) -> None:
        # Elsewhere it could claim a tear that no start ever found.
        if entry.header.seq != self._recovery_at:
            self._find(entry, "misplaced", "a recovery that does not follow directly behind an opening", offset)
        self._recovery_at = entry.header.seq + 1
        if isinstance(body, Recovery):
            self._recovery(entry, body, offset)
        else:
            self._succession(entry, body, offset)

    def _recovery(self, entry: Entry, body: Recovery, offset: int) -> None:
        if body.segment > self._segment:
            self._find(entry, "misplaced", "a recovery of a segment that comes later", offset)
        if not self._report.restarts:
            self._report.restarts.append(Restart(entry.header.seq, clean=False, unsealed_ms=0))
        self._report.restarts[-1].torn_bytes += body.torn_bytes

    def _succession(self, entry: Entry, body: Succession, offset: int) -> None:
        if self._segment != 0 or (self._opened is not None and body.origin == self._opened.origin):
            self._find(entry, "misplaced", "only a new log may continue another, and at its beginning", offset)
            return
        text = (
            f"this log continues {body.origin}, whose last known head was {body.size} entries, {body.root.hex()[:16]}…"
        )
        self._report.notes.append(text)

    def _erasure(self, entry: Entry, body: Erasure, offset: int) -> None:
        if not body.first_seq <= body.end_seq <= entry.header.seq:
            self._find(entry, "misplaced", "an erasure of entries that were not there yet", offset)
        elif body.what == ERASED_SEGMENTS and body.first_seq == 0:
            self.erased_size = max(self.erased_size, body.end_seq)

    def _seal(self, entry: Entry, seal: Seal, tree: CompactRange | None, offset: int) -> None:
        if seal.size != entry.header.seq:
            text = f"a seal over {seal.size} entries that stands behind {entry.header.seq}"
            self._find(entry, "seal_size", text, offset)
        elif tree is not None and not self._roots_differ and seal.root != tree.root():
            self._roots_differ = True
            text = f"the seal at {seal.size} was made for other entries than those before it"
            root = tree.root()
            self._find(entry, "seal_root", text, offset, expected=seal.root, found=root)
        if seal.epoch != self._epoch:
            text = f"a seal of epoch {seal.epoch} in epoch {self._epoch}"
            self._find(entry, "epoch", text, offset)
        self._pending = _PendingSeal(entry, seal, self._epoch_key, self._segment, offset)
        self._report.seals += 1
        self.sealed_size = entry.header.seq + 1
        self._announced_sealed = self._announced
        self.unsealed_since = None
        self._last_seal_t_ms = entry.header.t_ms
        if seal.next_key != ZERO_HASH:
            self.check_pending_seal()
            self._epoch, self._epoch_key = self._epoch + 1, seal.next_key
            self._report.last_epoch = self._epoch

    def _find(
        self,
        entry: Entry,
        code: str,
        message: str,
        offset: int,
        *,
        segment: int | None = None,
        expected: bytes = b"",
        found: bytes = b"",
    ) -> None:
        finding = self._finding(entry, code, message, offset, segment=segment)
        self._report.add(replace(finding, expected=expected[:8].hex() or None, found=found[:8].hex() or None))

    def _finding(self, entry: Entry, code: str, message: str, offset: int, *, segment: int | None = None) -> Finding:
        place = self._segment if segment is None else segment
        return Finding(code, Exit.TAMPERED, message, seq=entry.header.seq, segment=place, offset=offset)
