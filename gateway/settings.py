"""Every setting of the gateway in one frozen object, with its unit in its name and a safe default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

POSITIVE: Final[dict[str, Any]] = {"gt": 0}
WITHIN_A_DAY: Final[dict[str, Any]] = {"gt": 0, "le": 86_400}
"""Of what should happen often. A time without a bound may be none in milliseconds, or one that no database holds: then
housekeeping is put off for ever, with whatever shares its transaction.
"""
COUNT: Final[dict[str, Any]] = {"ge": 1}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where the gateway listens, and how patient it is with whoever connects."""

    host: str = "127.0.0.1"
    """Address to bind; loopback unless you say otherwise. Environment: the host part of `GATEWAY_ADDR`."""
    port: int = field(default=8420, metadata={"ge": 0, "le": 65535})
    """TCP port; 0 lets the system choose. Environment: the port part of `GATEWAY_ADDR`."""
    head_seconds: float = field(default=10.0, metadata=WITHIN_A_DAY)
    """Longest time from a connection to the end of its first request's head; then it is closed."""
    body_seconds: float = field(default=10.0, metadata=WITHIN_A_DAY)
    """Longest time that the body of a request may take to arrive."""
    drain_seconds: float = field(default=20.0, metadata={"ge": 0, "le": 86_400})
    """After SIGTERM: how long attempts under way may go on before they are aborted and left to recovery."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The database of operations."""

    url: str | None = field(default=None, repr=False)
    """SQLAlchemy URL, or none for SQLite in the data folder. May hold a password: never shown. Environment:
    `GATEWAY_STORE_URL`."""
    batch_max: int = field(default=256, metadata=COUNT)
    """Most events that one commit may carry."""
    ballast_bytes: int = field(default=16_777_216, metadata={"ge": 0})
    """Disk space kept aside so that outcomes of operations under way can be stored on a full disk."""


@dataclass(frozen=True, slots=True)
class WitnessSettings:
    """Who cosigns the log's checkpoints (c2sp.org/tlog-witness); `gateway audit witness serve` runs one."""

    vkey: str
    """Its public key, as `gateway audit keygen witness` prints it: NAME+ID+KEY."""
    url: str
    """Where it listens, without `/add-checkpoint`."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit log: who can read it and where its heads are anchored."""

    origin: str = "gateway.local/audit"
    """Name of this log in its checkpoints: like a URL without a scheme, without spaces or `+`; never reused after a
    loss."""
    recipients: tuple[str, ...] = ()
    """Public keys of the auditors who can open the records; the gateway itself cannot."""
    anchors: tuple[str, ...] = ()
    """Folders, best on other machines, that receive every signed checkpoint."""
    print_checkpoints: bool = False
    """While serving, also write every signed checkpoint to standard output, for whatever collects that elsewhere."""
    witnesses: tuple[WitnessSettings, ...] = ()
    """Who is asked to cosign every checkpoint. While serving, a witness that is away or slow holds nothing up."""
    witness_policy: str | None = None
    """A trust policy (c2sp.org/tlog-policy) whose witnesses with a URL are asked as well."""
    witness_start_seconds: float = field(default=10.0, metadata={"ge": 0, "le": 15})
    """Where no anchor holds a checkpoint, witnesses are asked at a start whether they know more of the log than this
    folder, and nothing is sent before they answered or this time is over; 0: they are not asked."""
    seal_interval_seconds: float = field(default=1.0, metadata=WITHIN_A_DAY)
    """Longest time for which written records wait for their seal."""
    checkpoint_interval_seconds: float = field(default=60.0, metadata=WITHIN_A_DAY)
    """How often a signed checkpoint is published if anything changed."""
    segment_max_bytes: int = field(default=67_108_864, metadata={"ge": 4096})
    """Size at which a segment file is closed and the next one begun."""
    keep_days: float | None = field(default=None, metadata=POSITIVE | {"le": 36_500})
    """How long entries of the audit log are kept at least; older segments are dropped whole, and the log says so.
    Without a value everything is kept."""
    keep_large_results: bool = True
    """Whether a large result is kept with the audit log as well, as the caller was shown it: in a file of its own that
    the record of the outcome names, encrypted for those who can read the log."""
    large_result_bytes: int = field(default=65_000, metadata={"ge": 0})
    """A result of more bytes than this is large. Smaller ones are in the database only."""


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """Where the key comes from under which credentials are encrypted at rest."""

    key: str | None = field(default=None, repr=False, metadata={"file": False})
    """The key itself, from the environment only (`GATEWAY_VAULT_KEY`); never written into a file or shown."""
    key_file: str = "data/vault.key"
    """File with the key, readable by its owner alone; used when the environment names none."""


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """What holds for a caller, or for all whose name fits a pattern, whatever the access rules say."""

    name: str
    """Name of the caller; `*` stands for any run of characters."""
    writes: bool = True
    """False: this caller may run actions of effect `read` only."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One line of the access list. The first line that fits decides; if none fits, the answer is no."""

    decision: Literal["allow", "deny"]
    """What happens to a call that fits."""
    name: str = ""
    """Shown as the reason wherever the decision is; `rule-1`, `rule-2` and so on if not given."""
    caller: str = "*"
    """Name of the caller; `*` stands for any run of characters."""
    action: str = "*"
    """Name of the action; `*` stands for any run of characters."""
    effect: Literal["*", "read", "reversible", "irreversible"] = "*"
    """The declared effect of the action."""
    service: str = "*"
    """Name of the service that the action calls; `*` stands for any run of characters."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Values that arguments must have, by name: `{environment: staging}`. A list names several, `*` works in text. An
    `allow` fits only if all are given and as told; a `deny` also fits where one is missing."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Bounds on what callers may ask for and on what is under way."""

    body_max_bytes: int = field(default=1_000_000, metadata={"ge": 1024, "le": 100_000_000})
    """Largest body of a request to the gateway."""
    answer_max_bytes: int = field(default=1_000_000, metadata={"ge": 1024, "le": 100_000_000})
    """Largest body of a service's answer after decompression; what exceeds it is cut and marked."""
    service_concurrency_max: int = field(default=8, metadata=COUNT)
    """Attempts under way per service, for services that declare no limit of their own."""
    in_flight_max: int = field(default=1024, metadata=COUNT)
    """Unsettled operations that are being carried out at once, over all callers."""
    in_flight_per_caller_max: int = field(default=256, metadata=COUNT)
    """Unsettled operations that one caller may have."""
    rate_per_key_per_second_max: float = field(default=50.0, metadata=POSITIVE)
    """Steady rate of requests under one key."""
    burst_per_key_max: int = field(default=100, metadata=COUNT)
    """Requests under one key that may come at once before the steady rate applies."""
    wait_seconds_max: float = field(default=25.0, metadata={"ge": 0, "le": 300})
    """Longest time for which a call waits for an outcome before it is answered with a handle; also the default."""
    call_depth_max: int = field(default=4, metadata=COUNT)
    """How many operations deep a chain of parents may go."""
    page_max: int = field(default=200, metadata={"ge": 1, "le": 1000})
    """Most operations in one page of a list."""


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """How long things are kept."""

    operations_seconds: float = field(default=30 * 86_400.0, metadata={"ge": 86_400, "le": 3_153_600_000})
    """Operations, keys and results stay at least this long after their end; then only key and fingerprint do."""


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """How operations in doubt are looked after."""

    sweep_interval_seconds: float = field(default=5.0, metadata=WITHIN_A_DAY)
    """How often lost leases are collected and due operations are looked for."""
    probes_concurrency_max: int = field(default=16, metadata=COUNT)
    """Looks under way at once, over all services."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that `gateway.yaml` and the environment decide. Paths are absolute once loaded."""

    data_folder: str = "data"
    """Database, audit log and vault live here; one process at a time."""
    catalog_folder: str = "catalog"
    """Every `*.yaml` file in it is part of the catalog."""
    server: ServerSettings = field(default_factory=ServerSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    vault: VaultSettings = field(default_factory=VaultSettings)
    callers: tuple[CallerSettings, ...] = ()
    """Limits per caller. Keys are not here: they live in the store, hashed."""
    access: tuple[AccessRule, ...] = ()
    """Who may run what. Empty: nobody may run anything."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    recovery: RecoverySettings = field(default_factory=RecoverySettings)
