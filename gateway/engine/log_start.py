"""Lets the audit log go on at a start: holds files, unexported rows and the stored head against each other first."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from audit.bodies import RECIPIENTS, KeyChange, Recovery, SegmentOpen, Succession
from audit.disk import Directory, LogError
from audit.epochs import EpochKeys, KeyLost, SealKeyStore
from audit.export import Row
from audit.head import Head
from audit.keyring import Entropy, Recipient, SealKey, digest_of
from audit.log import files_head, read_open, segments
from audit.note import NoteSigner
from audit.record import parse
from audit.recover import Join, check_join, recover, statement_of_loss
from audit.seal import Sealer
from gateway.engine.anchoring import NotedSealer
from gateway.store.port import Record, Store

log = structlog.get_logger(__name__)

TAIL_MAX = 1_000_000
READERS_BY = "audit.recipients"
"""Who decides on readers, as the log has it: whoever may change that setting."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a log was left, and what the next opening must record."""

    join: Join
    head: Head | None
    recoveries: Sequence[Recovery]
    files: Head
    """Where the files end."""
    earlier: Head | None = None
    """Where the store saw the end of another log, which this one follows."""
    readers: bytes | None = None
    """Digest of the list to which the newest segment is sealed; None if there is none, or it cannot be read."""
    rows: Sequence[Row] = ()
    """What the store has of it that may not be in the files yet."""


async def find_log(store: Store, directory: Directory, origin: str, boot_id: str) -> Found:
    """Clean the end of the files and see whether they, the store's rows and its head are one log.

    A head or rows of another log, which this one follows after a loss, are none of this one's.
    The caller holds the directory's lock. Raises `audit.disk.LogError` if the files are damaged.
    """
    rows = [Row(item.segment, item.seq, item.frame) for item in await store.tail(TAIL_MAX, origin=origin)]
    recoveries = recover(directory, boot_id=boot_id, rows=rows)
    stored = await store.head()
    head = None if stored is None else Head.from_bytes(stored)
    earlier = None
    if head is not None and head.origin != origin:
        head, earlier = None, head
    files = files_head(directory, origin)
    readers = _readers(directory, rows)
    return Found(check_join(files, rows, head), head, recoveries, files, earlier, readers, rows)


def _readers(directory: Directory, rows: Sequence[Row]) -> bytes | None:
    firsts = [row.segment for row in rows if row.segment == row.seq]
    try:
        if not firsts:
            known = segments(directory)
            return read_open(directory, known[-1]).recipients_digest() if known else None
        opening = next(row.data for row in rows if row.seq == firsts[-1])
        (entry,) = parse(opening).entries(opening)
        return SegmentOpen.from_bytes(entry.body).recipients_digest()
    except (LogError, ValueError, OSError):
        return None


def reader_changes(found: Found, recipients: Sequence[Recipient]) -> tuple[KeyChange, ...]:
    """What the next opening says of who may read, where the settings name other readers than the log was sealed to."""
    now = digest_of(tuple(recipients))
    if found.readers is None or found.head is None or found.readers == now:
        return ()
    return (KeyChange(RECIPIENTS, found.readers, now, READERS_BY),)


def say_loss(*lost: Head | None) -> tuple[Succession, ...]:
    """What the first segment of a log says of the one that it follows: its last known head, the longest of these."""
    known = [head for head in lost if head is not None and head.size]
    return (statement_of_loss(max(known, key=lambda head: head.size)),) if known else ()


def end_of(directory: Directory, origin: str) -> Head | None:
    """Where the files of an earlier log end; None if that cannot be said, for then they are damaged."""
    try:
        return files_head(directory, origin)
    except (LogError, OSError) as error:
        log.warning("earlier_log_unreadable", origin=origin, reason=str(error))
        return None


def seal_keys(store: SealKeyStore, signer: NoteSigner, head: Head | None, entropy: Entropy) -> tuple[EpochKeys, bool]:
    """The keys that seal a log, each for an epoch of about a minute, and whether the one in force had been lost.

    A new log gets its first key here. Where the key that the log's end names is gone, the log key vouches for one of
    the next epoch (FORMAT.md, section 7), which a verifier takes and shows: what was sealed before stays sealed.
    Raises KeyProblem, OSError.
    """
    epochs = EpochKeys(store, signer.name)
    at = head or Head.empty(signer.name)
    reason = _lost(epochs, at)
    if reason is None:
        return epochs, False
    epoch = at.epoch + 1 if at.size else 0
    store.save(signer.name, [SealKey.issue(signer.signer, signer.name, entropy, epoch)])
    if at.size:
        log.error("seal_key_lost", origin=signer.name, reason=reason, next_epoch=epoch)
    return epochs, at.size > 0


def _lost(epochs: EpochKeys, head: Head) -> str | None:
    try:
        epochs.resolve(head)
    except KeyLost as lost:
        return str(lost)
    return None


async def start_log(
    store: Store,
    sealer: Sealer,
    recoveries: Sequence[Recovery | Succession],
    *,
    now_ms: int,
    quarantine: str | None,
    seal_key_lost: bool = False,
    changes: Sequence[KeyChange] = (),
) -> NotedSealer:
    """Open a segment with what recovery found and what keys changed, and record the start.

    Raises Unavailable, StoreUnknown.
    """
    noted = NotedSealer(sealer)
    await store.attach(noted, sealer.start(now_ms, recovery=recoveries, changes=changes))
    body = {"at": now_ms, "origin": sealer.origin, "quarantine": quarantine}
    if seal_key_lost:
        body["seal_key"] = "lost"
    await store.note((Record("started", body),))
    return noted
