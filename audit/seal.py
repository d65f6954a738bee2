"""The sealer: turns plaintext records into finished, chained and encrypted frames, without I/O, clock or randomness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from audit.bodies import (
    ERASED_SUBJECT,
    Body,
    CloseReason,
    Erasure,
    Heartbeat,
    KeyChange,
    Recovery,
    Seal,
    SegmentClose,
    SegmentOpen,
    Share,
    Succession,
    seal_message,
)
from audit.chain import ZERO_HASH
from audit.epochs import EpochKeys
from audit.head import Head, Position
from audit.keyring import (
    SECRET_BYTES,
    Entropy,
    Ratchet,
    Recipient,
    SealKey,
    check_label,
    commit_to,
    commitment,
    digest_of,
    share_info,
)
from audit.record import FLAG_DAY, MAX_SEGMENT_BYTES, NONCE_BYTES, VERSION, Frame, Header, Kind, encode_frame, pad

DAY_MS = 86_400_000
_NOT_STARTED = "start the sealer first: every start opens a segment with a fresh secret"


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When a segment is closed and the next one opened with a fresh secret: whichever comes first."""

    entries_max: int = 65_536
    bytes_max: int = 64 * 1024 * 1024
    age_max_ms: int = DAY_MS

    def __post_init__(self) -> None:
        if self.bytes_max > MAX_SEGMENT_BYTES // 2:
            # The other half is for the entries of the step in which a segment becomes full.
            raise ValueError(f"a segment is closed after {MAX_SEGMENT_BYTES // 2} bytes at the latest")


class SealerNotOpen(RuntimeError):
    """A record was offered before `start` or after `close`."""


class _Draft:
    """A step in the making: collects frames on a copy of the position, so that an error leaves the sealer unchanged."""

    __slots__ = ("frames", "key", "position", "ratchet", "signer", "successor", "t_ms")

    def __init__(self, position: Position, ratchet: Ratchet | None, key: SealKey, signer: Ed25519PrivateKey) -> None:
        self.position = position.copy()
        self.ratchet = ratchet
        self.key, self.signer = key, signer
        self.successor: SealKey | None = None
        self.t_ms = 0
        self.frames: list[Frame] = []

    def add(self, frame: Frame, t_ms: int) -> None:
        self.position.advance(frame, t_ms)
        self.frames.append(frame)


class Sealer:
    """Makes every entry of one log. One thread uses it; the frames must be stored together with `head`, or not at all.

    Every method either returns frames and moves `head`, or raises and changes nothing. If storing the frames fails or
    cannot be known, drop the sealer: a later one starts from the stored head with a fresh secret. The ratchet is never
    wound back, or two records could share a key.
    """

    def __init__(
        self,
        *,
        origin: str,
        recipients: Sequence[Recipient],
        seal_key: SealKey | EpochKeys,
        head: Head | None,
        entropy: Entropy,
        writer_id: str,
        boot_id: str,
        limits: SegmentLimits | None = None,
        coarse_time: bool = False,
    ) -> None:
        """Set up without making an entry.

        Args:
            origin: name of the log, a URL without its scheme; bound into every signature and share.
            recipients: who may read, at least one; the order is kept.
            seal_key: the one key that signs all seals, certified for this origin; or keys that change by epochs.
            head: as last stored, None for a new log.
            entropy: returns that many bytes, unpredictable; secrets and nonces come from it.
            writer_id: this installation, for the reader of the log; at most 255 bytes.
            boot_id: this process; at most 255 bytes.
            limits: when to rotate.
            coarse_time: round the clear time of entries down to a UTC day.

        Raises:
            ValueError: no recipients, or key or head belong to another origin.
            KeyLost: keys that change, and none of them is the one the head asks for.
        """
        check_label(origin)
        if not recipients:
            raise ValueError("a log without recipients could never be read")
        if seal_key.origin != origin or (head is not None and head.origin != origin):
            raise ValueError(f"seal key and head must belong to {origin}")
        self._origin = origin
        self._recipients = tuple(recipients)
        head = head or Head.empty(origin)
        self._epochs = seal_key if isinstance(seal_key, EpochKeys) else None
        self._use(seal_key.resolve(head) if isinstance(seal_key, EpochKeys) else seal_key)
        self._entropy = entropy
        self._writer_id = writer_id
        self._boot_id = boot_id
        self._limits = limits or SegmentLimits()
        self._coarse_time = coarse_time
        self._position = Position(head)
        self._ratchet: Ratchet | None = None

    @property
    def head(self) -> Head:
        """Where the log ends after the frames returned so far; store it with them."""
        return self._position.head()

    @property
    def origin(self) -> str:
        """Name of the log."""
        return self._origin

    @property
    def unsealed(self) -> int:
        """How many entries no seal covers yet."""
        return self._position.size - self._position.sealed_size

    def start(
        self, t_ms: int, *, recovery: Sequence[Recovery | Succession] = (), changes: Sequence[KeyChange] = ()
    ) -> list[Frame]:
        """Open a new segment with a fresh secret, record what recovery found and which keys changed, seal it.

        At once, so that there is no moment in which a log without any seal is a normal sight.
        """
        draft = _Draft(self._position, None, self._seal_key, self._signer)
        draft.ratchet = self._open(draft, t_ms)
        for entry in recovery:
            self._clear(draft, Kind.RECOVERY, entry, t_ms)
        for change in changes:
            self._clear(draft, Kind.KEY_CHANGE, change, t_ms)
        self._seal(draft, t_ms)
        return self._commit(draft)

    def record(self, plaintext: bytes, t_ms: int) -> list[Frame]:
        """Seal one data record, strict JSON made by the caller; rotation's frames come before it.

        Raises:
            EntryTooLarge: the plaintext exceeds `MAX_PLAINTEXT_BYTES`.
            SealerNotOpen: before `start` or after `close`.
        """
        padded = pad(plaintext)
        if self._ratchet is None:
            raise SealerNotOpen(_NOT_STARTED)
        if self._full(self._position, t_ms):
            return self._rotate_and_record(padded, t_ms)
        frame, ratchet = self._encrypt(self._position, self._ratchet, padded, t_ms)
        # Nothing below can fail: only now may the position move.
        self._position.advance(frame, t_ms)
        self._ratchet = ratchet
        return [frame]

    def _rotate_and_record(self, padded: bytes, t_ms: int) -> list[Frame]:
        draft = self._draft()
        ratchet = self._rotate(draft, t_ms)
        frame, draft.ratchet = self._encrypt(draft.position, ratchet, padded, t_ms)
        draft.add(frame, t_ms)
        return self._commit(draft)

    def _rotate(self, draft: _Draft, t_ms: int) -> Ratchet:
        self._clear(draft, Kind.SEGMENT_CLOSE, self._close_body(draft, CloseReason.LIMIT), t_ms)
        return self._open(draft, t_ms)

    def _draft_with_room(self, t_ms: int) -> _Draft:
        """A draft in a segment that is neither full nor old: a log may be idle for longer than a segment may last."""
        draft = self._draft()
        if self._full(draft.position, t_ms):
            draft.ratchet = self._rotate(draft, t_ms)
        return draft

    def _encrypt(self, at: Position, ratchet: Ratchet, padded: bytes, t_ms: int) -> tuple[Frame, Ratchet]:
        record_key, after = ratchet.peek()
        t_ms, flags = self._clear_time(t_ms)
        nonce = self._entropy(NONCE_BYTES)
        header = Header(VERSION, Kind.DATA, flags, at.size, t_ms, nonce, commit_to(record_key), at.leaf)
        body = AESGCM(record_key).encrypt(nonce, padded, header.to_bytes())
        return encode_frame(header, body, at.segment), after

    def seal(self, t_ms: int) -> list[Frame]:
        """Sign the tree as it stands; nothing if every entry is covered already."""
        draft = self._draft()
        if not self.unsealed:
            return []
        self._seal(draft, t_ms)
        return self._commit(draft)

    def heartbeat(self, t_ms: int) -> list[Frame]:
        """Say that nothing happened, and seal it."""
        draft = self._draft_with_room(t_ms)
        self._clear(draft, Kind.HEARTBEAT, Heartbeat(), t_ms)
        self._seal(draft, t_ms)
        return self._commit(draft)

    def note(self, body: Body, kind: Kind, t_ms: int) -> list[Frame]:
        """Add a clear entry of a kind without rules of its own: erasure, key change, anchor result."""
        if kind not in {Kind.ERASURE, Kind.KEY_CHANGE, Kind.ANCHOR_RESULT}:
            raise ValueError(f"{kind.name} entries are made by their own methods")
        draft = self._draft_with_room(t_ms)
        self._clear(draft, kind, body, t_ms)
        return self._commit(draft)

    def erase_subject(self, tag: bytes, by: str, t_ms: int) -> list[Frame]:
        """Say that boxes under that tag in the entries so far cannot be opened any more. `by`: at most 255 bytes."""
        draft = self._draft_with_room(t_ms)
        erasure = Erasure(ERASED_SUBJECT, 0, draft.position.size, tag, by)
        self._clear(draft, Kind.ERASURE, erasure, t_ms)
        return self._commit(draft)

    def rekey(self, change: KeyChange, fresh: SealKey, t_ms: int) -> list[Frame]:
        """Go on under a new log key, in one step that nothing can come between.

        The entry stands under the keys so far, is sealed by them, and ends their segment; so whoever pins the old log
        key learns of the new one from the log. The next segment is sealed by `fresh`, which the new key vouches for.

        Raises:
            ValueError: `fresh` belongs to another log, is not certified, or is of no later epoch; nothing has changed.
            SealerNotOpen: before `start` or after `close`.
        """
        if fresh.origin != self._origin or not fresh.certified or fresh.epoch <= self._seal_key.epoch:
            raise ValueError("a new log key comes with a seal key of its own, of a later epoch")
        draft = self._draft_with_room(t_ms)
        self._clear(draft, Kind.KEY_CHANGE, change, t_ms)
        self._clear(draft, Kind.SEGMENT_CLOSE, self._close_body(draft, CloseReason.KEYS), t_ms)
        self._seal(draft, t_ms, hand_over=False)
        draft.key, draft.signer = fresh, Ed25519PrivateKey.from_private_bytes(fresh.private)
        draft.ratchet = self._open(draft, t_ms)
        self._seal(draft, t_ms, hand_over=False)
        draft.successor, draft.t_ms = fresh, t_ms
        return self._commit(draft)

    def close(self, t_ms: int, reason: CloseReason = CloseReason.STOP) -> list[Frame]:
        """End the segment cleanly and seal it; afterwards only `start` goes on."""
        draft = self._draft()
        self._clear(draft, Kind.SEGMENT_CLOSE, self._close_body(draft, reason), t_ms)
        self._seal(draft, t_ms)
        draft.ratchet = None
        return self._commit(draft)

    def _draft(self) -> _Draft:
        if self._ratchet is None:
            raise SealerNotOpen(_NOT_STARTED)
        return _Draft(self._position, self._ratchet, self._seal_key, self._signer)

    def _commit(self, draft: _Draft) -> list[Frame]:
        self._position, self._ratchet = draft.position, draft.ratchet
        if draft.successor is not None:
            # From here on only the new key signs; the old one is kept until its last seal is known to be durable.
            self._use(draft.successor)
            if self._epochs is not None:
                self._epochs.handed_over(draft.successor, draft.t_ms, draft.position.size)
        return draft.frames

    def _use(self, key: SealKey) -> None:
        self._seal_key = key
        self._signer = Ed25519PrivateKey.from_private_bytes(key.private)

    def _full(self, position: Position, t_ms: int) -> bool:
        limits = self._limits
        return (
            position.segment_entries >= limits.entries_max
            or position.segment_bytes >= limits.bytes_max
            or t_ms - position.segment_t_ms >= limits.age_max_ms
        )

    def _clear_time(self, t_ms: int) -> tuple[int, int]:
        """The time as it stands in clear, and the flag that says how exact it is."""
        return (t_ms - t_ms % DAY_MS, FLAG_DAY) if self._coarse_time else (t_ms, 0)

    def _header(self, draft: _Draft, kind: Kind, t_ms: int) -> Header:
        clear_ms, flags = self._clear_time(t_ms)
        return Header(VERSION, kind, flags, draft.position.size, clear_ms, prev=draft.position.leaf)

    def _clear(self, draft: _Draft, kind: Kind, body: Body, t_ms: int) -> None:
        frame = encode_frame(self._header(draft, kind, t_ms), body.to_bytes(), draft.position.segment)
        draft.add(frame, t_ms)

    def _open(self, draft: _Draft, t_ms: int) -> Ratchet:
        at = draft.position
        previous_end = at.end
        secret = self._entropy(SECRET_BYTES)
        info = share_info(self._origin, at.size, digest_of(self._recipients))
        shares = tuple(
            Share(who.role, who.kem, who.label, who.key_id, who.wrap(secret, info)) for who in self._recipients
        )
        at.open_segment()
        body = SegmentOpen(
            origin=self._origin,
            number=at.segment_number,
            writer_id=self._writer_id,
            boot_id=self._boot_id,
            previous_end=previous_end,
            epoch=draft.key.epoch,
            epoch_key=draft.key.public,
            epoch_certificate=draft.key.certificate,
            commitment=commitment(secret),
            shares=shares,
            range_hashes=at.tree.hashes,
        )
        self._clear(draft, Kind.SEGMENT_OPEN, body, t_ms)
        at.epoch, at.epoch_key = draft.key.epoch, draft.key.public
        return Ratchet.from_secret(secret)

    def _close_body(self, draft: _Draft, reason: CloseReason) -> SegmentClose:
        at = draft.position
        return SegmentClose(at.segment_number, at.segment, at.segment_entries, reason)

    def _seal(self, draft: _Draft, t_ms: int, *, hand_over: bool = True) -> None:
        at = draft.position
        header = self._header(draft, Kind.SEAL, t_ms)
        key = draft.key
        epochs = self._epochs if hand_over else None
        following = epochs.successor(key, t_ms, at.size, self._entropy) if epochs else None
        next_key = ZERO_HASH if following is None else following.public
        seal = Seal(key.epoch, at.size, at.tree.root(), next_key)
        signature = draft.signer.sign(seal_message(self._origin, header.to_bytes(), seal.unsigned()))
        draft.add(encode_frame(header, seal.unsigned() + signature, at.segment), t_ms)
        if following is not None:
            at.epoch, at.epoch_key = following.epoch, following.public
            draft.successor, draft.t_ms = following, t_ms
