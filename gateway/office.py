"""Opens a data folder: store, audit log, keys and vault, checked against each other before anything else may happen."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from audit.blobs import sweep_partial
from audit.bodies import Recovery, Succession
from audit.checkpoint import Published, Publisher
from audit.disk import DiskDirectory, LogError, log_folder
from audit.epochs import SealKeyFile
from audit.export import Exporter, Row
from audit.keyring import KeyProblem, Recipient
from audit.note import BadNote, NoteSigner
from audit.patience import PatientExporter, PatientPublisher
from audit.recover import JoinState
from audit.seal import Sealer, SegmentLimits
from gateway.engine.anchoring import Cosigners, NotedSealer, Taken, witnessed_size, witnesses_of
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.keys import Keys
from gateway.engine.log_keeper import Anchoring
from gateway.engine.log_retention import LogRetention, Shelf
from gateway.engine.log_start import end_of, find_log, say_loss, seal_keys, start_log
from gateway.engine.ports import NoPoints, Points
from gateway.engine.subjects import Subjects, personal_keys
from gateway.engine.vault import Vault
from gateway.engine.vaultkey import load_vault_key
from gateway.model.problem import present
from gateway.settings import Settings
from gateway.store.cipher import DataKeyCipher, load_key
from gateway.store.lock import open_private
from gateway.store.port import Refused
from gateway.store.threaded import Limits, SqlStore
from gateway.store.threaded import Ports as StorePorts

log = structlog.get_logger(__name__)

DATA_KEY_VARIABLE = "GATEWAY_DATA_KEY"
DATABASE = "gateway.db"
LAST_COSIGNATURE_SECONDS = 3.0
"""How long the end waits for witnesses; their answers may come at the next start as well."""
QUARANTINE_META = "quarantine"
ORIGIN_META = "audit_origin"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where things lie in a data folder."""

    folder: Path

    @property
    def database(self) -> str:
        """SQLAlchemy URL of the embedded store."""
        return f"sqlite:///{self.folder / DATABASE}"

    @property
    def data_key(self) -> Path:
        """Key under which requests and results are encrypted."""
        return self.folder / "keys" / "data.key"

    @property
    def log_key(self) -> Path:
        """Private note keys, one a line: the log's and those of later origins."""
        return self.folder / "keys" / "log.key"

    @property
    def personal_key(self) -> Path:
        """Secrets for personal data, one a line: the log's and those of earlier origins."""
        return self.folder / "keys" / "personal.key"

    @property
    def seal_key(self) -> Path:
        """Private keys that sign seals inside the log, one a line, each vouched for by its log's key."""
        return self.folder / "keys" / "seal.key"

    @property
    def audit(self) -> Path:
        """Folder of the audit logs, one folder an origin below it."""
        return self.folder / "audit"


@dataclass(frozen=True, slots=True)
class Office:
    """An opened data folder. This process alone has it."""

    settings: Settings
    paths: Paths
    store: SqlStore
    exporter: PatientExporter
    publisher: PatientPublisher
    anchoring: Anchoring
    keys: Keys
    vault: Vault
    subjects: Subjects
    origin: str
    quarantine: str | None
    """Why writes are held, or None."""


@asynccontextmanager
async def open_office(
    settings: Settings,
    environment: Mapping[str, str],
    clock: Clock,
    chance: Chance,
    *,
    points: Points | None = None,
    serving: bool = False,
) -> AsyncIterator[Office]:
    """Open a data folder for this process alone, and close it cleanly at the end. `points` also hears the store's.

    Only when `serving` may checkpoints be printed and are witnesses asked for a last word: what other commands print is
    for whoever called them, and they need not wait.

    Raises `store.port.Refused` with a sentence for an operator: in use, not initialised, keys missing or readable by
    others, files and store that contradict each other.
    """
    paths = Paths(Path(settings.data_folder))
    if not paths.data_key.exists() and DATA_KEY_VARIABLE not in environment:
        if (paths.folder / DATABASE).exists():
            raise Refused(
                f"The data folder {paths.folder} holds a database, but its keys are missing ({paths.data_key.parent})."
                " Put the folder `keys` back from where you keep it: without it nothing that is stored can be read."
            )
        raise Refused(f"{paths.folder} is not the data folder of a gateway. Run `gateway init` first.")
    vault_key = load_vault_key(Path(settings.vault.key_file), settings.vault.key)
    store = await open_store(settings, paths, environment, clock, chance, points=points)
    ledger: _Ledger | None = None
    try:
        sinks = (_print_note,) if serving and settings.audit.print_checkpoints else ()
        ledger = await _open_log(settings, paths, store, clock, chance, sinks=sinks)
        keys, vault = Keys(store, clock, chance), Vault(store, vault_key, clock, chance)
        await keys.load()
        await vault.load()
        subjects = Subjects(store, personal_keys(paths.personal_key, ledger.origin, chance), clock, chance)
        parts = ledger.exporter, ledger.publisher, ledger.anchoring
        yield Office(settings, paths, store, *parts, keys, vault, subjects, ledger.origin, ledger.quarantine)
        if store.failed is None:
            await store.close_log()
            published = await _export_rest(store, ledger)
            if serving and published is not None and ledger.anchoring.cosigners is not None:
                await _cosign_last(ledger, published)
    finally:
        await store.close()
        if ledger is not None:
            ledger.exporter.close()


@dataclass(frozen=True, slots=True)
class _Ledger:
    """An audit log that goes on."""

    origin: str
    exporter: PatientExporter
    publisher: PatientPublisher
    anchoring: Anchoring
    quarantine: str | None


async def open_store(
    settings: Settings,
    paths: Paths,
    environment: Mapping[str, str],
    clock: Clock,
    chance: Chance,
    *,
    points: Points | None = None,
) -> SqlStore:
    """The store of a data folder, without its log: for what must be set right before the log can go on."""
    data_key = load_key(paths.data_key, environment.get(DATA_KEY_VARIABLE), DATA_KEY_VARIABLE)
    ports = StorePorts(
        DataKeyCipher(data_key, chance.bytes),
        clock.wall_ms,
        lambda: clock.boot_ms() / 1000,
        points=points or NoPoints(),
    )
    limits = Limits(ballast_bytes=settings.store.ballast_bytes, batch_max=settings.store.batch_max)
    return await SqlStore.open(settings.store.url or paths.database, ports, limits)


async def _export_rest(store: SqlStore, ledger: _Ledger) -> Published | None:
    """At a clean end the files are complete, so that whoever looks at them next sees a closed segment."""
    epochs = ledger.anchoring.epochs
    try:
        while tail := await store.tail(2000, origin=ledger.origin):
            ledger.exporter.export([Row(item.segment, item.seq, item.frame) for item in tail])
            if epochs is not None:
                epochs.confirm(ledger.exporter.durable_size)
            await store.prune(tail[-1].seq, ledger.origin)
            await store.put_meta("exported", str(tail[-1].seq).encode(), ())
        return ledger.publisher.publish()
    except (LogError, OSError, BadNote) as error:
        log.warning("audit_export_postponed", reason=str(error))
        return None


async def _cosign_last(ledger: _Ledger, published: Published) -> None:
    """Who restores a copy of this folder later meets the witnesses' memory of its very end."""
    cosigners = present(ledger.anchoring.cosigners, "it was looked for before")
    try:
        async with asyncio.timeout(LAST_COSIGNATURE_SECONDS):
            cosigned = await cosigners.ask(published)
    except TimeoutError:
        log.warning("audit_end_not_cosigned", reason="no answer in time")
        return
    for answer in cosigned.answers:
        if answer.taken is not Taken.TAKEN:
            log.warning("audit_end_not_cosigned", anchor=answer.anchor, reason=answer.detail)
    if cosigned.lines:
        try:
            ledger.publisher.add_signatures(cosigned.lines)
            ledger.publisher.publish(published.checkpoint.size)
        except (LogError, OSError, BadNote) as error:
            log.warning("audit_export_postponed", reason=str(error))


async def _open_log(
    settings: Settings,
    paths: Paths,
    store: SqlStore,
    clock: Clock,
    chance: Chance,
    *,
    sinks: Sequence[Callable[[str], None]],
) -> _Ledger:
    """Hold files, unexported rows and stored head against each other, then let the log go on."""
    recipients = _recipients(settings)
    stored_origin = await store.meta(ORIGIN_META)
    origin = settings.audit.origin if stored_origin is None else stored_origin.decode()
    quarantine = await store.meta(QUARANTINE_META)
    reason = None if quarantine is None else quarantine.decode()
    directory = DiskDirectory(log_folder(paths.audit, origin))
    exporter = PatientExporter(Exporter(directory))
    try:
        # Of this process, not of the machine: every start counts, also one after a clean end.
        boot_id = chance.bytes(8).hex()
        found = await find_log(store, directory, origin, boot_id)
        head = found.head
        begins: Sequence[Recovery | Succession] = found.recoveries
        if found.join.state is JoinState.CONTRADICTION:
            raise Refused(
                f"The audit log in {directory.path} and the store contradict each other: {found.join.reason}. Nothing"
                " was started or changed. Keep both as evidence; `gateway recover --accept-loss` goes on under a new"
                " name."
            )
        if found.join.state is JoinState.AHEAD:
            exporter.close()
            reason = found.join.reason
            origin, directory, exporter = await _new_origin(settings, paths, store, chance, reason)
            begins, head = say_loss(found.files, found.head), None
        elif not found.files.size and head is None and found.earlier is not None:
            begins = say_loss(found.earlier, end_of(_log_of(paths, found.earlier.origin), found.earlier.origin))
        sweep_partial(directory)
        signer = _signer(paths, origin)
        epochs, lost = seal_keys(_seal_key_file(paths), signer, head, chance.bytes)
        sealer = Sealer(
            origin=origin,
            recipients=recipients,
            seal_key=epochs,
            head=head,
            entropy=chance.bytes,
            writer_id=origin,
            boot_id=boot_id,
            limits=SegmentLimits(bytes_max=settings.audit.segment_max_bytes),
        )
        cosigners = _cosigners(settings, directory, clock)
        notes = await start_log(store, sealer, begins, now_ms=clock.wall_ms(), quarantine=reason, seal_key_lost=lost)
        names = [f"folder {anchor}" for anchor in settings.audit.anchors] + ["standard output" for _ in sinks]
        shelf = Shelf(directory, [signer.key], _anchors(settings, origin))
        publisher = PatientPublisher(Publisher(directory, signer, shelf.anchors, sinks))
        anchoring = Anchoring(names, cosigners, notes, epochs, _retention(settings, shelf, notes, clock))
        return _Ledger(origin, exporter, publisher, anchoring, reason)
    except BaseException as error:
        exporter.close()
        if isinstance(error, LogError | KeyProblem):
            raise Refused(f"The audit log in {directory.path} cannot go on: {error}") from error
        raise


def _seal_key_file(paths: Paths) -> SealKeyFile:
    os.close(open_private(paths.seal_key))
    return SealKeyFile(DiskDirectory(paths.seal_key.parent), paths.seal_key.name)


def _log_of(paths: Paths, origin: str) -> DiskDirectory:
    return DiskDirectory(log_folder(paths.audit, origin))


def _anchors(settings: Settings, origin: str) -> list[DiskDirectory]:
    return [DiskDirectory(anchor_folder(Path(anchor), settings, origin)) for anchor in settings.audit.anchors]


def _retention(settings: Settings, shelf: Shelf, notes: NotedSealer, clock: Clock) -> LogRetention | None:
    if settings.audit.keep_days is None:
        return None
    keys = [witness.key for witness in witnesses_of(settings.audit).values()]
    witnessed = replace(shelf, witnessed=lambda: witnessed_size(shelf.directory, keys))
    return LogRetention(witnessed, notes, clock, keep_days=settings.audit.keep_days)


def _print_note(note: str) -> None:
    sys.stdout.write(f"{note}\n")
    sys.stdout.flush()


def _cosigners(settings: Settings, directory: DiskDirectory, clock: Clock) -> Cosigners | None:
    """Whoever is to be asked, None if nobody. Raises Refused."""
    witnesses = witnesses_of(settings.audit)
    if not witnesses:
        return None
    # Only now: nobody else needs an HTTP client this early, and most commands start without one.
    from gateway.engine.witnessing import Witnesses  # noqa: PLC0415 - see above

    return Witnesses(directory, witnesses, clock)


async def _new_origin(
    settings: Settings, paths: Paths, store: SqlStore, chance: Chance, reason: str
) -> tuple[str, DiskDirectory, PatientExporter]:
    """The store is older than its log: go on under a new name, hold writes, and leave the old files as they are."""
    origin = next_origin(settings, paths, chance)
    await store.put_meta(ORIGIN_META, origin.encode(), ())
    await store.put_meta(QUARANTINE_META, reason.encode(), ())
    log.error("quarantine", reason=reason, origin=origin)
    directory = DiskDirectory(log_folder(paths.audit, origin))
    return origin, directory, PatientExporter(Exporter(directory))


def anchor_folder(anchor: Path, settings: Settings, origin: str) -> Path:
    """Where in an anchor a log's checkpoints lie: a folder holds those of one log, so one after a loss gets its own."""
    return anchor if origin == settings.audit.origin else anchor / origin.removeprefix(f"{settings.audit.origin}/")


def next_origin(settings: Settings, paths: Paths, chance: Chance) -> str:
    """A name that no log of this installation ever had, and a key for it."""
    taken = {signer.name for signer in read_signers(paths.log_key)}
    number = 2
    while f"{settings.audit.origin}/{number}" in taken:
        number += 1
    origin = f"{settings.audit.origin}/{number}"
    with paths.log_key.open("a", encoding="ascii") as file:
        file.write(NoteSigner.generate(origin, chance.bytes).to_line() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return origin


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


def read_signers(path: Path) -> list[NoteSigner]:
    """The private note keys of every origin that this installation ever had."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise Refused(f"The log's key in {path} cannot be read: {error.strerror}.") from error
    return [NoteSigner.parse(line) for line in lines if line.strip()]


def _signer(paths: Paths, origin: str) -> NoteSigner:
    for signer in read_signers(paths.log_key):
        if signer.name == origin:
            return signer
    raise Refused(f"{paths.log_key} holds no key for the log {origin}; was `audit.origin` changed?")
