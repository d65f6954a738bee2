"""Changes who may read a stopped log, or which key signs for it, and lets the log itself say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from audit.bodies import LOG_KEY, RECIPIENTS, KeyChange
from audit.checkpoint import Publisher
from audit.disk import Directory
from audit.epochs import EpochKeys, SealKeyStore
from audit.keyring import Entropy, KeyProblem, Recipient, SealKey, digest_of
from audit.log import files_head, read_open, segments
from audit.note import NoteKey, NoteSigner
from audit.record import Kind
from audit.trust import TrustPolicy
from audit.writer import LogWriter


class BadRotation(KeyProblem):
    """What was asked for is no change of keys of this log."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What changes. `recipients`: all who may read from now on; `new_log_key`: the successor; `by`: who decided it."""

    recipients: tuple[Recipient, ...]
    log_key: NoteSigner
    by: str
    new_log_key: NoteSigner | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """The process that does it: what a writer needs to open a log. `t_ms` is Unix time in milliseconds."""

    entropy: Entropy
    writer_id: str
    boot_id: str
    t_ms: int


@dataclass(frozen=True, slots=True)
class Rotated:
    """What was done. `cut`: entries under the old keys, hence the seq of the first opening under the new ones."""

    cut: int
    recipients_changed: bool
    old_key: NoteKey
    new_key: NoteKey


def rotate_keys(
    directory: Directory, store: SealKeyStore, rotation: Rotation, session: Session, anchors: Sequence[Directory] = ()
) -> Rotated:
    """Record the change, open a segment under the new keys, and sign checkpoints at both sides of the cut.

    A change of the log key is recorded under the old keys first, so that whoever pins them learns of it from the log.
    Done again after a crash, it opens one more segment; nothing is lost meanwhile.

    Args:
        directory: the log's folder; the log must be stopped.
        store: its seal keys.
        rotation: what changes.
        session: this process.
        anchors: folders that keep copies of checkpoints.

    Raises:
        LogLocked: a process writes the log.
        BadRotation: nothing would change, or keys belong to another log.
        KeyLost: the key that must seal next is not in the store.
        LogContradiction: the log is damaged.
        PublishRefused: its checkpoints are not signed by the log key given, or speak of other entries.
        ExportFailed: the disk refused.
    """
    origin = rotation.log_key.name
    new_signer = rotation.new_log_key or rotation.log_key
    if new_signer.name != origin:
        raise BadRotation(f"the new log key is for {new_signer.name}, the log is {origin}")
    # Whoever writes the log keeps its seal keys too: find out before they are touched.
    directory.lock()
    directory.unlock()
    before = _last_recipients(directory)
    changed = before != digest_of(rotation.recipients)
    if not changed and rotation.new_log_key is None:
        raise BadRotation("nothing changes: these are the recipients that the log has, and no new log key was given")
    fresh = None
    if rotation.new_log_key is not None:
        change = KeyChange(LOG_KEY, rotation.log_key.key.digest, new_signer.key.digest, rotation.by)
        _write(directory, store, rotation, session, [change])
        fresh = _next_seal_key(directory, store, new_signer, session.entropy)
    changes = [KeyChange(RECIPIENTS, before, digest_of(rotation.recipients), rotation.by)] if changed else []
    cut = _write(directory, store, rotation, session, changes, fresh=fresh)
    if fresh is not None:
        # The opening that names it is durable: the old keys will sign nothing more.
        store.save(origin, [fresh])
        Publisher(directory, rotation.log_key, anchors).publish(cut)
    old_keys = () if fresh is None else (rotation.log_key.key,)
    Publisher(directory, new_signer, anchors, old_keys=old_keys).publish()
    return Rotated(cut, changed, rotation.log_key.key, new_signer.key)


def _write(
    directory: Directory,
    store: SealKeyStore,
    rotation: Rotation,
    session: Session,
    changes: Sequence[KeyChange],
    *,
    fresh: SealKey | None = None,
) -> int:
    """One closed segment with these entries, under the stored seal keys or a fresh one; return its first seq."""
    origin = rotation.log_key.name
    writer = LogWriter.open(
        directory,
        origin=origin,
        recipients=rotation.recipients,
        seal_key=fresh or EpochKeys(store, origin),
        entropy=session.entropy,
        writer_id=session.writer_id,
        boot_id=session.boot_id,
        t_ms=session.t_ms,
    )
    try:
        for change in changes:
            writer.note(change, Kind.KEY_CHANGE, session.t_ms)
        return writer.head.segment
    finally:
        writer.close(session.t_ms)


def _last_recipients(directory: Directory) -> bytes:
    """Digest of the list to which the newest segment is sealed."""
    firsts = segments(directory)
    if not firsts:
        raise BadRotation("the log is empty: start it with the keys that you want")
    return read_open(directory, firsts[-1]).recipients_digest()


def _next_seal_key(directory: Directory, store: SealKeyStore, signer: NoteSigner, entropy: Entropy) -> SealKey:
    """A seal key of the next epoch under the new log key, stored beside those in use until a segment names it."""
    stored = store.load(signer.name)
    epoch = max([files_head(directory, signer.name).epoch, *(key.epoch for key in stored)]) + 1
    fresh = SealKey.issue(signer.signer, signer.name, entropy, epoch)
    store.save(signer.name, [*stored, fresh])
    return fresh


def policy_after(policy: TrustPolicy, rotated: Rotated) -> TrustPolicy:
    """The trust policy after a change of the log key: the old key for what it signed, the new one from there on.

    Raises:
        BadRotation: the policy does not pin the old key.
    """
    old, new = rotated.old_key, rotated.new_key
    if all(key.public != old.public for key in policy.logs):
        raise BadRotation(f"the policy does not pin the key that was replaced, {old.name} {old.key_id.hex()}")
    logs: list[NoteKey] = []
    for key in policy.logs:
        logs.append(replace(key, until=rotated.cut) if key.public == old.public else key)
        if key.public == old.public:
            logs.append(replace(new, since=rotated.cut))
    return replace(policy, logs=tuple(logs))
