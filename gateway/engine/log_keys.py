"""The log's own keys: which one is in force, which ones were before it, and its change while the log is written."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

import structlog

from audit.bodies import LOG_KEY, KeyChange
from audit.checkpoint import Publisher
from audit.disk import Directory, DiskDirectory, write_whole
from audit.epochs import EpochKeys
from audit.keyring import KeyProblem, SealKey
from audit.note import NoteKey, NoteSigner
from audit.record import Frame
from audit.rotate import Rotated, policy_after
from audit.trust import BadPolicy, TrustPolicy
from gateway.engine.chance import Chance
from gateway.engine.clock import Clock
from gateway.engine.ports import Points
from gateway.engine.subjects import BY_BYTES_MAX
from gateway.model.problem import present
from gateway.store.port import Record, Refused, Store, Unavailable

log = structlog.get_logger(__name__)

LOG_KEYS_META: Final = "audit_log_keys"
"""Under this name the store keeps the keys of the present log, as a trust policy; without it there has been but one."""


class Rekeyed(Protocol):
    """The attached sealer, as far as a change of its key goes."""

    def rekey(self, change: KeyChange, fresh: SealKey, t_ms: int) -> Sequence[Frame]: ...


class Checkpoints(Protocol):
    """Who signs checkpoints: the shape of `audit.checkpoint.Publisher`."""

    @property
    def handing_over(self) -> bool: ...
    def hand_over(self, signer: NoteSigner, cut: int) -> None: ...


class KeyFile:
    """Private note keys in a file for its owner alone, one a line: the log's, and those of other origins."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> list[NoteSigner]:
        """Every key, in the order in which they were made. Raises Refused."""
        try:
            lines = self._path.read_text(encoding="ascii").splitlines()
            return [NoteSigner.parse(line) for line in lines if line.strip()]
        except OSError as error:
            raise Refused(f"The log's key in {self._path} cannot be read: {error.strerror}.") from error
        except (KeyProblem, UnicodeDecodeError) as error:
            raise Refused(f"The log's key in {self._path} cannot be used: {error}.") from error

    def of(self, origin: str) -> list[NoteSigner]:
        """Those of one log."""
        return [signer for signer in self.read() if signer.name == origin]

    def write(self, signers: Sequence[NoteSigner]) -> None:
        """Put these in the place of all, in one step. Raises OSError."""
        text = "".join(f"{signer.to_line()}\n" for signer in signers)
        write_whole(DiskDirectory(self._path.parent), self._path.name, text.encode("ascii"))

    def add(self, signer: NoteSigner) -> None:
        """Keep one more. Raises OSError."""
        self.write([*self.read(), signer])

    def keep(self, origin: str, kept: Sequence[NoteKey]) -> None:
        """Forget what belongs to that log and is none of these. Raises OSError."""
        public = {key.public for key in kept}
        signers = self.read()
        left = [signer for signer in signers if signer.name != origin or signer.key.public in public]
        if left != signers:
            self.write(left)


@dataclass(frozen=True, slots=True)
class Held:
    """The keys of one log: their history as a policy, and the private halves that still have something to sign."""

    policy: TrustPolicy
    signers: tuple[NoteSigner, ...]
    """In the order of the policy; the last one is in force. One before it owes its last checkpoint, perhaps."""

    @property
    def signer(self) -> NoteSigner:
        """The key in force."""
        return self.signers[-1]

    @property
    def old(self) -> tuple[NoteKey, ...]:
        """Public halves of keys that sign nothing more."""
        known = {signer.key.public for signer in self.signers}
        return tuple(key for key in self.policy.logs if key.public not in known)

    def cut_after(self, signer: NoteSigner) -> int:
        """Where the range of a key that was replaced ends."""
        (key,) = (key for key in self.policy.logs if key.public == signer.key.public)
        return present(key.until, "a key that was replaced has an end")


def held_keys(file: KeyFile, origin: str, stored: bytes | None) -> Held:
    """What the store knows of the log's keys, with the private halves in the file. Raises Refused."""
    policy = policy_of(file, origin, stored)
    # A key that was made for a change that never came is in no history.
    by_public = {signer.key.public: signer for signer in file.of(origin)}
    found = tuple(by_public[key.public] for key in policy.logs if key.public in by_public)
    if not found or found[-1].key.public != policy.logs[-1].public:
        raise Refused(
            f"{file} lacks the key that signs for {origin} since it was changed, {policy.logs[-1].key_id.hex()}. Put"
            " back the folder `keys` as it was after that."
        )
    return Held(policy, found)


def policy_of(file: KeyFile, origin: str, stored: bytes | None) -> TrustPolicy:
    """Every key that a log has had, each with its part of it. Raises Refused."""
    history = _history(stored, origin)
    if history is not None:
        return history
    signers = file.of(origin)
    if not signers:
        raise Refused(f"{file} holds no key for the log {origin}; was `audit.origin` changed?")
    return TrustPolicy((signers[0].key,))


def _history(stored: bytes | None, origin: str) -> TrustPolicy | None:
    if stored is None:
        return None
    try:
        keys = TrustPolicy.parse(stored.decode()).keys_of(origin)
    except (BadPolicy, UnicodeDecodeError) as error:
        raise Refused(f"What the store knows of the log's keys cannot be read: {error}.") from error
    return TrustPolicy(keys) if keys else None


def publisher_of(
    directory: Directory,
    held: Held,
    anchors: Sequence[Directory],
    sinks: Sequence[Callable[[str], None]],
) -> Publisher:
    """It signs with the key in force, once those before it have said their last."""
    publisher = Publisher(directory, held.signers[0], anchors, sinks, old_keys=held.old)
    for before, after in pairwise(held.signers):
        publisher.hand_over(after, held.cut_after(before))
    return publisher


@dataclass(frozen=True, slots=True)
class Bench:
    """What a change of keys touches: the key file, the seal keys, the sealer, and who signs checkpoints."""

    file: KeyFile
    epochs: EpochKeys
    sealer: Rekeyed
    publisher: Checkpoints


class LogKeys:
    """The keys of the present log. One change at a time."""

    def __init__(self, held: Held, bench: Bench, store: Store, clock: Clock, *, chance: Chance, points: Points) -> None:
        self._held = held
        self._bench = bench
        self._store = store
        self._clock = clock
        self._chance = chance
        self._points = points
        self._changing = asyncio.Lock()
        self.on_change: Callable[[], None] = _nobody
        """Called after a change: checkpoints under the new key are wanted soon."""
        self.keys: list[NoteKey] = [held.signer.key, *(key for key in held.policy.logs if key.until is not None)]
        """Every key by which this log's checkpoints may be signed; grows in place, for whoever reads them."""

    @property
    def signer(self) -> NoteSigner:
        """The key in force."""
        return self._held.signer

    @property
    def policy(self) -> TrustPolicy:
        """Every key of this log, each with the part of the log that it speaks for."""
        return self._held.policy

    @property
    def owing(self) -> bool:
        """Whether a key that was replaced has not signed its last checkpoint yet."""
        return self._bench.publisher.handing_over

    async def rotate(self, *, by: str) -> Rotated:
        """Let the log go on under a new key of its own; `by` is who decided it, on record in at most 255 bytes.

        The order makes every crash harmless: the new key is in the file, then a seal key that it vouches for is stored,
        then one transaction holds the entry that announces it, the last seal under the old key, the next segment, and
        which key is in force. The old private key goes once its last checkpoint is out.

        Raises Refused if `by` does not fit. Unavailable: nothing has changed. StoreUnknown: the next start reads which
        key is in force.
        """
        if not by or len(by.encode()) > BY_BYTES_MAX:
            raise Refused(f"Who asks for the change is on record, in at most {BY_BYTES_MAX} bytes.")
        async with self._changing:
            fresh = NoteSigner.generate(self.signer.name, self._chance.bytes)
            try:
                await asyncio.to_thread(self._keep, fresh)
                self._points.hit("rekey.key_stored")
                seal_key = await asyncio.to_thread(self._bench.epochs.prepare, fresh.signer, self._chance.bytes)
            except OSError as error:
                raise Unavailable(f"The new key cannot be stored ({error.strerror}); nothing was changed.") from error
            except Refused as error:
                # Whoever serves is not at its start any more: there, only a store that refuses is expected.
                raise Unavailable(f"{error} Nothing was changed.") from error
            self._points.hit("rekey.seal_key_stored")
            change = _Change(self, fresh, seal_key, by)
            body = {"at": self._clock.wall_ms(), "person": by, "old": str(self.signer.key), "new": str(fresh.key)}
            try:
                taken = await self._store.rekey(change.make, (Record("log_key_changed", body),))
            except Unavailable:
                self._bench.epochs.withdraw()
                raise
            if not taken:
                raise Unavailable("The log's key is being changed already.")
            self._points.hit("rekey.committed")
            rotated = present(change.rotated, "the writer made it")
            log.warning("audit_log_key_changed", origin=fresh.name, key_id=fresh.key.key_id.hex(), cut=rotated.cut)
            self.on_change()
            return rotated

    def _keep(self, fresh: NoteSigner) -> None:
        file = self._bench.file
        # One that an earlier try left behind signs nothing.
        file.keep(fresh.name, self.policy.logs)
        file.add(fresh)

    def change(self, fresh: NoteSigner, seal_key: SealKey, *, by: str, now_ms: int) -> tuple[Rotated, Sequence[Frame]]:
        """Have the sealer go on under that key; on the writer's thread, before its transaction is committed."""
        before = self._held
        entry = KeyChange(LOG_KEY, before.signer.key.digest, fresh.key.digest, by)
        frames = self._bench.sealer.rekey(entry, seal_key, now_ms)
        rotated = Rotated(frames[-1].segment, False, before.signer.key, fresh.key)
        # Before the frames can be in the files: the old key must not sign for what is the new one's.
        self._bench.publisher.hand_over(fresh, rotated.cut)
        self._held = Held(policy_after(before.policy, rotated), (*before.signers, fresh))
        self.keys.append(fresh.key)
        return rotated, frames

    def settle(self) -> None:
        """Forget private keys that have signed their last. Waits for the disk; a failure is told and tried again."""
        if len(self._held.signers) == 1 or self.owing or self._changing.locked():
            return
        kept = self._held.signers[-1:]
        try:
            self._bench.file.keep(self.signer.name, [signer.key for signer in kept])
        except (OSError, Refused) as error:
            log.warning("audit_old_log_key_kept", reason=str(error))
            return
        self._held = Held(self._held.policy, kept)
        self._points.hit("rekey.settled")


class _Change:
    """One change in the making; the writer says where the cut is."""

    def __init__(self, keys: LogKeys, fresh: NoteSigner, seal_key: SealKey, by: str) -> None:
        self._keys = keys
        self._fresh = fresh
        self._seal_key = seal_key
        self._by = by
        self.rotated: Rotated | None = None

    def make(self, now_ms: int) -> tuple[Sequence[Frame], Mapping[str, bytes]]:
        """Fills `store.port.Rekeying`."""
        self.rotated, frames = self._keys.change(self._fresh, self._seal_key, by=self._by, now_ms=now_ms)
        return frames, {LOG_KEYS_META: self._keys.policy.to_text().encode()}


def _nobody() -> None:
    return
