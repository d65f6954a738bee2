"""Founding a gateway (`gateway init`) and going on after a loss (`gateway recover`): rare, careful, audited."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from audit.disk import DiskDirectory, log_folder
from audit.keyfiles import read_recipient_key, write_key
from audit.keyring import KeyProblem, Recipient, RecipientKey, Role
from audit.note import NoteSigner
from audit.trust import TrustPolicy
from gateway.assembly import StoredDefinitions
from gateway.catalog.config import read_settings
from gateway.catalog.starter import CATALOG_FILE, STARTER_CATALOG, starter_settings
from gateway.engine.chance import Chance, Ids
from gateway.engine.clock import Clock
from gateway.engine.hub import Hub
from gateway.engine.journal import Journal
from gateway.engine.keys import check_names
from gateway.engine.log_keys import KeyFile
from gateway.engine.log_opening import ORIGIN_META, QUARANTINE_META, next_origin
from gateway.engine.log_rollback import is_rollback
from gateway.engine.reimport import Reimport, Reimported, read_logs
from gateway.engine.revive import Revival
from gateway.engine.vaultkey import create_vault_key
from gateway.model.principal import PrincipalKind
from gateway.office import Office, Paths, open_office, open_store
from gateway.settings import Settings
from gateway.store.cipher import create_key
from gateway.store.port import Record, Refused
from gateway.surfaces.cli.composition import Initialised, InitOptions

CALLER = "agent-a"
_NOT_HERE = (
    " The log itself was rolled back: what came after this copy is in no file here, so nothing keeps it from being done"
    " a second time."
)


async def found(options: InitOptions, environment: Mapping[str, str], clock: Clock, chance: Chance) -> Initialised:
    """Make data folder, keys, starter catalog and settings in `options.folder`, and the first two API keys.

    Raises `store.port.Refused` before anything is written if any of it exists already.
    """
    folder = options.folder.resolve()
    config, catalog, trust = folder / "gateway.yaml", folder / CATALOG_FILE, folder / "trust.policy"
    paths, anchors = Paths(folder / "data"), folder / "anchors"
    for path in (config, catalog, trust, paths.folder, anchors):
        if path.exists():
            raise Refused(f"{path} exists already; `gateway init` overwrites nothing. Choose an empty folder.")
    auditor, auditor_key = _recipient(options.auditor, Role.AUDITOR, folder / "auditor.key", chance)
    recovery, recovery_key = _recipient(options.recovery, Role.RECOVERY, folder / "recovery.key", chance)
    signer = _signer(options.origin, chance)
    check_names(PrincipalKind.PERSON, options.person, options.person)
    check_names(PrincipalKind.CALLER, CALLER, options.person)
    text = starter_settings(origin=options.origin, recipients=[str(auditor), str(recovery)], anchors=[str(anchors)])
    settings = read_settings(text.encode(), str(config), environment)
    # Nothing is written before this line: a refusal leaves the folder as it was.
    for directory in (folder, catalog.parent):
        directory.mkdir(parents=True, exist_ok=True)
    for directory in (paths.folder, paths.log_key.parent, anchors):
        directory.mkdir(mode=0o700)
    create_key(paths.data_key, chance.bytes)
    create_vault_key(paths.folder / "vault.key", chance)
    write_key(paths.log_key, signer.to_line())
    trust.write_text(TrustPolicy((signer.key,)).to_text(), encoding="utf-8")
    catalog.write_text(STARTER_CATALOG, encoding="utf-8")
    private = {folder / "auditor.key": auditor_key, folder / "recovery.key": recovery_key}
    private_files = tuple(path for path, key in private.items() if key is not None)
    for path, key in private.items():
        if key is not None:
            write_key(path, key.to_line())
    config.write_text(text, encoding="utf-8")
    async with open_office(settings, environment, clock, chance) as office:
        person = await office.keys.create(PrincipalKind.PERSON, options.person, options.person, by="init")
        caller = await office.keys.create(PrincipalKind.CALLER, CALLER, options.person, by="init")
    return Initialised(
        files=(config, catalog, trust, paths.folder, anchors),
        private_files=private_files,
        config=config,
        log_vkey=str(signer.key),
        person_key=person.text,
        caller=CALLER,
        caller_key=caller.text,
    )


def _recipient(given: str | None, role: Role, path: Path, chance: Chance) -> tuple[Recipient, RecipientKey | None]:
    """The public key, and the private one if it is made here."""
    if given is None:
        if path.exists():
            raise Refused(f"{path} exists already; a key file is never overwritten.")
        key = RecipientKey.generate(role, role.name.lower(), chance.bytes)
        return key.recipient, key
    try:
        return Recipient.parse(given), None
    except KeyProblem as error:
        raise Refused(f"The {role.name.lower()} key cannot be used: {error}. `audit keygen` makes one.") from error


def _signer(origin: str, chance: Chance) -> NoteSigner:
    try:
        return NoteSigner.generate(origin, chance.bytes)
    except KeyProblem as error:
        raise Refused(f"The name of the log cannot be used: {error}.") from error


async def go_on(
    settings: Settings,
    environment: Mapping[str, str],
    clock: Clock,
    chance: Chance,
    *,
    person: str,
    reason: str,
    accept_loss: bool,
    auditor_key: Path | None = None,
) -> str:
    """Let a gateway go on after its store was restored. Writes were held until a person answered for it.

    With `auditor_key` the logs are read, and what they know is never done a second time; without it, whatever the store
    believes to be unsent goes into doubt, and operations that it does not know are only in the logs.
    With `accept_loss` also when store and files contradict each other: the log goes on under a new origin, and the old
    files stay as they are. Raises `store.port.Refused`.
    """
    key = None if auditor_key is None else _read_key(auditor_key)
    if accept_loss:
        await _leave_the_old_log(settings, environment, chance, clock)
    async with open_office(settings, environment, clock, chance) as office:
        if office.quarantine is None and not accept_loss:
            return (
                "Nothing to recover: store, audit log and its checkpoints agree, and no writes are held. If a witness"
                " refuses the log as rolled back, add `--accept-loss`."
            )
        done = await _take_back(office, clock, chance, key)
        body = {
            "at": clock.wall_ms(),
            "person": person,
            "reason": reason,
            "why_held": office.quarantine,
            "log_read": key is not None,
            **asdict(done),
        }
        await office.store.put_meta(QUARANTINE_META, None, (Record("quarantine_lifted", body),))
        vkey = str(office.log_keys.signer.key)
    missing = _NOT_HERE if is_rollback(office.quarantine) else ""
    return (
        f"{_said(done, log_read=key is not None)}{missing} Writes go on. The audit log is {office.origin}; pin its key"
        f" in your trust policy: log {vkey}"
    )


def _read_key(path: Path) -> RecipientKey:
    try:
        return read_recipient_key(path)
    except OSError as error:
        raise Refused(f"The auditor's key in {path} cannot be read: {error.strerror or error}.") from error
    except KeyProblem as error:
        raise Refused(f"The auditor's key in {path} cannot be used: {error}.") from error


async def _take_back(office: Office, clock: Clock, chance: Chance, key: RecipientKey | None) -> Reimported:
    """Apply to the store what the logs before the present one know."""
    journal = Journal(office.store, clock, chance, Hub(), owner=Ids(clock, chance).token())
    work = Reimport(journal, Revival(office.store, StoredDefinitions(())))
    if key is None:
        return await work.apply(None)
    # A log may have had several keys.
    names = dict.fromkeys(signer.name for signer in KeyFile(office.paths.log_key).read())
    earlier = [name for name in names if name != office.origin]
    folders = [log_folder(office.paths.audit, origin) for origin in earlier]
    try:
        return await work.apply(read_logs([DiskDirectory(folder) for folder in folders if folder.is_dir()], key))
    except KeyProblem as error:
        raise Refused(f"The audit log cannot be read with this key: {error}.") from error


def _said(done: Reimported, *, log_read: bool) -> str:
    doubted = f"{done.doubted} operations that seemed to be unsent are in doubt now and are looked for."
    if not log_read:
        return f"{doubted} The log was not read: what came after the backup is not known to the store."
    return (
        f"From the log: {done.buried} operations that the store does not know keep their keys; {doubted}"
        f" {done.cancelled} were cancelled again; {done.revoked} keys were revoked again."
    )


async def _leave_the_old_log(settings: Settings, environment: Mapping[str, str], chance: Chance, clock: Clock) -> None:
    """Name a new origin in the store; the next opening starts it. The old files are evidence and stay untouched."""
    paths = Paths(Path(settings.data_folder))
    store = await open_store(settings, paths, environment, clock, chance)
    try:
        origin = next_origin(settings, paths, chance)
        await store.put_meta(ORIGIN_META, origin.encode(), ())
        await store.put_meta(QUARANTINE_META, b"store and audit log contradicted each other", ())
    finally:
        await store.close()
