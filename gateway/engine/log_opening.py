"""Opens the audit log of a data folder: held against the store, under the keys in force, for the readers of today."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import structlog

from audit.blobs import sweep_partial
from audit.bodies import KeyChange, Recovery, Succession
from audit.disk import DiskDirectory, LogError, log_folder, write_whole
from audit.epochs import SealKeyFile
from audit.export import Exporter, Row
from audit.head import Head
from audit.keyring import KeyProblem, Recipient
from audit.log import OWNER, LogContradiction
from audit.note import NoteSigner
from audit.patience import PatientExporter, PatientPublisher
from audit.recover import JoinState
from audit.seal import Sealer, SegmentLimits
from audit.trust import TrustPolicy
from gateway.engine.anchoring import AnchorFolder, Cosigners, NotedSealer, witnessed_size, witnesses_of
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.log_keeper import Anchoring
from gateway.engine.log_keys import LOG_KEYS_META, Bench, KeyFile, LogKeys, held_keys, policy_of, publisher_of
from gateway.engine.log_retention import LogRetention, Shelf
from gateway.engine.log_rollback import contradiction
from gateway.engine.log_start import end_of, find_log, reader_changes, say_loss, seal_keys, start_log
from gateway.engine.ports import Points
from gateway.settings import Settings
from gateway.store.lock import open_private
from gateway.store.port import Refused, Store

log = structlog.get_logger(__name__)

QUARANTINE_META: Final = "quarantine"
ORIGIN_META: Final = "audit_origin"
WITNESSED_META: Final = "audit_start_witnessed"
"""What witnesses said when they were last asked at a start, a sentence."""
_DAMAGED: Final = (
    ". `gateway doctor` says which file. Keep a copy as evidence, and put that file back from a backup if one has it;"
    " if none does, `gateway recover --accept-loss` goes on under a new log."
)


class LogPaths(Protocol):
    """Where the log and its keys lie in a data folder."""

    @property
    def audit(self) -> Path: ...
    @property
    def log_key(self) -> Path: ...
    @property
    def seal_key(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class Ledger:
    """An audit log that goes on."""

    origin: str
    exporter: PatientExporter
    publisher: PatientPublisher
    anchoring: Anchoring
    log_keys: LogKeys
    quarantine: str | None


async def open_log(
    settings: Settings,
    paths: LogPaths,
    store: Store,
    clock: Clock,
    chance: Chance,
    *,
    sinks: Sequence[Callable[[str], None]],
    points: Points,
    serving: bool = False,
) -> Ledger:
    """Hold files, unexported rows and stored head against each other, then let the log go on.

    Only when `serving` are witnesses asked what they know of it: nobody else sends anything.
    """
    at = await _find(settings, paths, store, chance, now_ms=clock.wall_ms() if serving else None)
    directory = at.directory
    with _open_until_it_fails(at.exporter, directory):
        sweep_partial(directory)
        file = KeyFile(paths.log_key)
        held = held_keys(file, at.origin, await store.meta(LOG_KEYS_META))
        epochs, lost = seal_keys(_seal_key_file(paths), held.signer, at.head, chance.bytes)
        sealer = Sealer(
            origin=at.origin,
            recipients=at.recipients,
            seal_key=epochs,
            head=at.head,
            entropy=chance.bytes,
            writer_id=at.origin,
            boot_id=at.boot_id,
            limits=SegmentLimits(bytes_max=settings.audit.segment_max_bytes),
        )
        cosigners = _cosigners(settings, directory, clock)
        notes = await start_log(
            store,
            sealer,
            at.begins,
            now_ms=clock.wall_ms(),
            quarantine=at.quarantine,
            seal_key_lost=lost,
            changes=at.changes,
        )
        _say_whose(directory, settings)
        names = [f"folder {anchor}" for anchor in settings.audit.anchors] + ["standard output" for _ in sinks]
        anchors = _anchors(settings, at.origin)
        publisher = PatientPublisher(publisher_of(directory, held, anchors, sinks))
        bench = Bench(file, epochs, notes, publisher)
        keys = LogKeys(held, bench, store, clock, chance=chance, points=points)
        retention = _retention(settings, Shelf(directory, keys.keys, anchors), notes, clock)
        anchoring = Anchoring(names, cosigners, notes, epochs, retention, keys)
        return Ledger(at.origin, at.exporter, publisher, anchoring, keys, at.quarantine)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the log goes on, by whom it may be read, and what its next opening must record."""

    origin: str
    directory: DiskDirectory
    exporter: PatientExporter
    boot_id: str
    recipients: Sequence[Recipient]
    head: Head | None
    begins: Sequence[Recovery | Succession]
    changes: Sequence[KeyChange]
    quarantine: str | None


async def _find(settings: Settings, paths: LogPaths, store: Store, chance: Chance, *, now_ms: int | None) -> _Place:
    recipients = _recipients(settings)
    stored_origin = await store.meta(ORIGIN_META)
    origin = settings.audit.origin if stored_origin is None else stored_origin.decode()
    quarantine = await store.meta(QUARANTINE_META)
    reason = None if quarantine is None else quarantine.decode()
    directory = DiskDirectory(log_folder(paths.audit, origin))
    exporter = PatientExporter(Exporter(directory))
    with _open_until_it_fails(exporter, directory):
        # Of this process, not of the machine: every start counts, also one after a clean end.
        boot_id = chance.bytes(8).hex()
        found = await find_log(store, directory, origin, boot_id)
        head, changes = found.head, reader_changes(found, recipients)
        begins: Sequence[Recovery | Succession] = found.recoveries
        if found.join.state is JoinState.CONTRADICTION:
            raise Refused(
                f"The audit log in {directory.path} and the store contradict each other: {found.join.reason}. Nothing"
                " was started or changed. Keep both as evidence; `gateway recover --accept-loss` goes on under a new"
                " name."
            )
        older = found.join.reason if found.join.state is JoinState.AHEAD else None
        if older is None:
            policy = policy_of(KeyFile(paths.log_key), origin, await store.meta(LOG_KEYS_META))
            places = _Places(settings, policy, directory, found.head or Head.empty(origin))
            older = places.rolled_back(found.rows)
            if older is None and now_ms is not None:
                older = await places.unwitnessed(store, now_s=now_ms // 1000)
        if older is not None:
            exporter.close()
            reason = older
            origin, directory, exporter = await _new_origin(settings, paths, store, chance, reason)
            begins, changes, head = say_loss(found.files, found.head), (), None
        elif not found.files.size and head is None and found.earlier is not None:
            begins = say_loss(found.earlier, end_of(_log_of(paths, found.earlier.origin), found.earlier.origin))
    return _Place(origin, directory, exporter, boot_id, recipients, head, begins, changes, reason)


class _Places:
    """Whoever may know that a whole folder is not the newest there was."""

    def __init__(self, settings: Settings, policy: TrustPolicy, directory: DiskDirectory, head: Head) -> None:
        self._settings, self._policy, self._directory, self._head = settings, policy, directory, head
        self._told: list[str] = []

    def rolled_back(self, rows: Sequence[Row]) -> str | None:
        """Why not, as far as a checkpoint of the log tells; or None."""
        own = (f"the log's own folder {self._directory.path}", self._directory)
        anchors = [(f"the anchor {anchor.path}", anchor) for anchor in _anchors(self._settings, self._head.origin)]
        keys = self._policy.logs
        reason = contradiction(self._directory, self._head, rows, keys, [own])
        return reason or contradiction(self._directory, self._head, rows, keys, anchors, compared=self._told.append)

    async def unwitnessed(self, store: Store, *, now_s: int) -> str | None:
        """Why not, as far as witnesses tell, which are asked where no anchor did; or None."""
        witnesses, seconds = witnesses_of(self._settings.audit), self._settings.audit.witness_start_seconds
        if self._told or not witnesses or not seconds:
            return None
        # Only now, as below.
        from gateway.engine.witnessing import hear  # noqa: PLC0415 - see `_cosigners`

        heard = await hear(self._directory, self._head, self._policy.logs, witnesses, now_s=now_s, seconds=seconds)
        if heard is None:
            return None
        await store.put_meta(WITNESSED_META, heard.sentence.encode(), ())
        return heard.contradiction


@contextmanager
def _open_until_it_fails(exporter: PatientExporter, directory: DiskDirectory) -> Iterator[None]:
    """Give up the log's lock on the way out of a failure, and put it in words for an operator."""
    try:
        yield
    except (LogError, KeyProblem) as error:
        exporter.close()
        todo = _DAMAGED if isinstance(error, LogContradiction) else ""
        raise Refused(f"The audit log in {directory.path} cannot go on: {error}{todo}") from error
    except BaseException:
        exporter.close()
        raise


def _seal_key_file(paths: LogPaths) -> SealKeyFile:
    os.close(open_private(paths.seal_key))
    return SealKeyFile(DiskDirectory(paths.seal_key.parent), paths.seal_key.name)


def _say_whose(directory: DiskDirectory, settings: Settings) -> None:
    """Whoever would write these files past the store is warned off."""
    if (directory.path / OWNER).exists():
        return
    try:
        write_whole(directory, OWNER, f"written by the gateway with the data folder {settings.data_folder}\n".encode())
    except OSError as error:
        # A full disk must not keep a gateway from starting; the next start tries again.
        log.warning("audit_owner_not_named", reason=error.strerror)


def _log_of(paths: LogPaths, origin: str) -> DiskDirectory:
    return DiskDirectory(log_folder(paths.audit, origin))


def _anchors(settings: Settings, origin: str) -> list[DiskDirectory]:
    return [
        AnchorFolder(anchor_folder(Path(anchor), settings, origin), Path(anchor)) for anchor in settings.audit.anchors
    ]


def _retention(settings: Settings, shelf: Shelf, notes: NotedSealer, clock: Clock) -> LogRetention | None:
    if settings.audit.keep_days is None:
        return None
    keys = [witness.key for witness in witnesses_of(settings.audit).values()]
    witnessed = replace(shelf, witnessed=lambda: witnessed_size(shelf.directory, keys))
    return LogRetention(witnessed, notes, clock, keep_days=settings.audit.keep_days)


def _cosigners(settings: Settings, directory: DiskDirectory, clock: Clock) -> Cosigners | None:
    """Whoever is to be asked, None if nobody. Raises Refused."""
    witnesses = witnesses_of(settings.audit)
    if not witnesses:
        return None
    # Only now: nobody else needs an HTTP client this early, and most commands start without one.
    from gateway.engine.witnessing import Witnesses  # noqa: PLC0415 - see above

    return Witnesses(directory, witnesses, clock)


async def _new_origin(
    settings: Settings, paths: LogPaths, store: Store, chance: Chance, reason: str
) -> tuple[str, DiskDirectory, PatientExporter]:
    """Store or log are older than is known of them: hold writes, under a new name, and leave the old files alone."""
    origin = next_origin(settings, paths, chance)
    await store.put_meta(ORIGIN_META, origin.encode(), ())
    await store.put_meta(QUARANTINE_META, reason.encode(), ())
    log.error("quarantine", reason=reason, origin=origin)
    directory = DiskDirectory(log_folder(paths.audit, origin))
    return origin, directory, PatientExporter(Exporter(directory))


def anchor_folder(anchor: Path, settings: Settings, origin: str) -> Path:
    """Where in an anchor a log's checkpoints lie: a folder holds those of one log, so one after a loss gets its own."""
    return anchor if origin == settings.audit.origin else anchor / origin.removeprefix(f"{settings.audit.origin}/")


def next_origin(settings: Settings, paths: LogPaths, chance: Chance) -> str:
    """A name that no log of this installation ever had, and a key for it."""
    file = KeyFile(paths.log_key)
    taken = {signer.name for signer in file.read()}
    number = 2
    while f"{settings.audit.origin}/{number}" in taken or _has_been(settings, f"{settings.audit.origin}/{number}"):
        number += 1
    origin = f"{settings.audit.origin}/{number}"
    file.add(NoteSigner.generate(origin, chance.bytes))
    return origin


def _has_been(settings: Settings, origin: str) -> bool:
    """Whether an anchor has heard of that log: a folder restored from a copy has forgotten what it was called later."""
    return any(anchor_folder(Path(anchor), settings, origin).exists() for anchor in settings.audit.anchors)


def _recipients(settings: Settings) -> list[Recipient]:
    try:
        recipients = [Recipient.parse(line) for line in settings.audit.recipients]
    except KeyProblem as error:
        raise Refused(f"A public key under `audit.recipients` cannot be used: {error}.") from error
    if not recipients:
        raise Refused(
            "`audit.recipients` names no public key, so nobody could ever read the audit log. `audit keygen` makes one."
        )
    return recipients
