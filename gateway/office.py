"""Opens a data folder: store, audit log, keys and vault, checked against each other before anything else may happen."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from audit.checkpoint import Published
from audit.disk import LogError
from audit.export import Row
from audit.note import BadNote
from audit.patience import PatientExporter, PatientPublisher
from gateway.engine.anchoring import Taken
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.keys import Keys
from gateway.engine.log_keeper import Anchoring
from gateway.engine.log_keys import LogKeys
from gateway.engine.log_opening import Ledger, open_log
from gateway.engine.ports import NoPoints, Points
from gateway.engine.subjects import Subjects, personal_keys
from gateway.engine.vault import Vault
from gateway.engine.vaultkey import load_vault_key
from gateway.model.problem import present
from gateway.settings import Settings
from gateway.store.cipher import DataKeyCipher, load_key
from gateway.store.port import Refused
from gateway.store.threaded import Limits, SqlStore
from gateway.store.threaded import Ports as StorePorts

log = structlog.get_logger(__name__)

DATA_KEY_VARIABLE = "GATEWAY_DATA_KEY"
DATABASE = "gateway.db"
LAST_COSIGNATURE_SECONDS = 3.0
"""How long the end waits for witnesses; their answers may come at the next start as well."""


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
    log_keys: LogKeys
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

    Only when `serving` may checkpoints be printed and are witnesses asked, before anything is sent and for a last word:
    what other commands print is for whoever called them, and they need not wait.

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
    ledger: Ledger | None = None
    try:
        sinks = (_print_note,) if serving and settings.audit.print_checkpoints else ()
        points = points or NoPoints()
        ledger = await open_log(settings, paths, store, clock, chance, sinks=sinks, points=points, serving=serving)
        keys, vault = Keys(store, clock, chance), Vault(store, vault_key, clock, chance)
        await keys.load()
        await vault.load()
        subjects = Subjects(store, personal_keys(paths.personal_key, ledger.origin, chance), clock, chance)
        yield Office(
            settings=settings,
            paths=paths,
            store=store,
            exporter=ledger.exporter,
            publisher=ledger.publisher,
            anchoring=ledger.anchoring,
            keys=keys,
            vault=vault,
            subjects=subjects,
            log_keys=ledger.log_keys,
            origin=ledger.origin,
            quarantine=ledger.quarantine,
        )
        if store.failed is None:
            await store.close_log()
            published = await _export_rest(store, ledger)
            if serving and published is not None and ledger.anchoring.cosigners is not None:
                await _cosign_last(ledger, published)
    finally:
        await store.close()
        if ledger is not None:
            ledger.exporter.close()


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


async def _export_rest(store: SqlStore, ledger: Ledger) -> Published | None:
    """At a clean end the files are complete, so that whoever looks at them next sees a closed segment."""
    epochs = ledger.anchoring.epochs
    try:
        while tail := await store.tail(2000, origin=ledger.origin):
            ledger.exporter.export([Row(item.segment, item.seq, item.frame) for item in tail])
            if epochs is not None:
                epochs.confirm(ledger.exporter.durable_size)
            await store.prune(tail[-1].seq, ledger.origin)
            await store.put_meta("exported", str(tail[-1].seq).encode(), ())
        published = ledger.publisher.publish()
        ledger.log_keys.settle()
    except (LogError, OSError, BadNote) as error:
        log.warning("audit_export_postponed", reason=str(error))
        return None
    for number, reason in () if published is None else published.failed:
        # Nobody looks again before the next start, and a checkpoint that is nowhere else vouches for nothing.
        log.warning("audit_anchor_failed", reason=f"{ledger.anchoring.names[number]}: {reason}")
    return published


async def _cosign_last(ledger: Ledger, published: Published) -> None:
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


def _print_note(note: str) -> None:
    sys.stdout.write(f"{note}\n")
    sys.stdout.flush()
