"""Founding a gateway (`gateway init`) and going on after a loss (`gateway recover`): rare, careful, audited."""

from collections.abc import Mapping
from pathlib import Path

from audit.keyfiles import write_key
from audit.keyring import KeyProblem, Recipient, RecipientKey, Role
from audit.note import NoteSigner
from audit.trust import TrustPolicy
from gateway.catalog.config import open_settings
from gateway.catalog.starter import CATALOG_FILE, STARTER_CATALOG, starter_settings
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.vaultkey import create_vault_key
from gateway.model.principal import PrincipalKind
from gateway.office import ORIGIN_META, QUARANTINE_META, Paths, next_origin, open_office, open_store, read_signers
from gateway.settings import Settings
from gateway.store.cipher import create_key
from gateway.store.port import Record, Refused
from gateway.surfaces.cli.composition import Initialised, InitOptions

CALLER = "agent-a"


async def found(options: InitOptions, environment: Mapping[str, str], clock: Clock, chance: Chance) -> Initialised:
    """Make data folder, keys, starter catalog and settings in `options.folder`, and the first two API keys.

    Raises `store.port.Refused` before anything is written if any of it exists already.
    """
    folder = options.folder.resolve()
    config, catalog, trust = folder / "gateway.yaml", folder / CATALOG_FILE, folder / "trust.policy"
    paths = Paths(folder / "data")
    for path in (config, catalog, trust, paths.folder):
        if path.exists():
            raise Refused(f"{path} exists already; `gateway init` overwrites nothing. Choose an empty folder.")
    auditor, auditor_file = _recipient(options.auditor, Role.AUDITOR, folder / "auditor.key", chance)
    recovery, recovery_file = _recipient(options.recovery, Role.RECOVERY, folder / "recovery.key", chance)
    signer = _signer(options.origin, chance)
    for directory in (folder, catalog.parent):
        directory.mkdir(parents=True, exist_ok=True)
    for directory in (paths.folder, paths.log_key.parent, folder / "anchors"):
        directory.mkdir(mode=0o700)
    create_key(paths.data_key, chance.bytes)
    create_vault_key(paths.folder / "vault.key", chance)
    write_key(paths.log_key, signer.to_line())
    trust.write_text(TrustPolicy((signer.key,)).to_text(), encoding="utf-8")
    catalog.write_text(STARTER_CATALOG, encoding="utf-8")
    text = starter_settings(
        origin=options.origin, recipients=[str(auditor), str(recovery)], anchors=[str(folder / "anchors")]
    )
    config.write_text(text, encoding="utf-8")
    made = {auditor_file, recovery_file} - {None}
    private_files = tuple(sorted(path for path in made if path is not None))
    async with open_office(open_settings(config, environment), environment, clock, chance) as office:
        person = await office.keys.create(PrincipalKind.PERSON, options.person, options.person, by="init")
        caller = await office.keys.create(PrincipalKind.CALLER, CALLER, options.person, by="init")
    return Initialised(
        files=(config, catalog, trust, paths.folder, folder / "anchors"),
        private_files=private_files,
        config=config,
        log_vkey=str(signer.key),
        person_key=person.text,
        caller=CALLER,
        caller_key=caller.text,
    )


def _recipient(given: str | None, role: Role, path: Path, chance: Chance) -> tuple[Recipient, Path | None]:
    if given is None:
        if path.exists():
            raise Refused(f"{path} exists already; a key file is never overwritten.")
        path.parent.mkdir(parents=True, exist_ok=True)
        key = RecipientKey.generate(role, role.name.lower(), chance.bytes)
        write_key(path, key.to_line())
        return key.recipient, path
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
) -> str:
    """Let a gateway go on after its store was restored. Writes were held until a person answered for it.

    With `accept_loss` also when store and files contradict each other: the log goes on under a new origin, and the old
    files stay as they are. Raises `store.port.Refused`.
    """
    if accept_loss:
        await _leave_the_old_log(settings, environment, chance, clock)
    async with open_office(settings, environment, clock, chance) as office:
        if office.quarantine is None and not accept_loss:
            return "Nothing to recover: store and audit log agree, and no writes are held."
        body = {"at": clock.wall_ms(), "person": person, "reason": reason, "why_held": office.quarantine}
        await office.store.put_meta(QUARANTINE_META, None, (Record("quarantine_lifted", body),))
        signers = read_signers(office.paths.log_key)
    vkey = next(str(signer.key) for signer in signers if signer.name == office.origin)
    return f"Writes go on. The audit log is {office.origin}; pin its key in your trust policy: log {vkey}"


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
