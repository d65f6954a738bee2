"""Keeps the audit log's files up with the store: exports frames, seals, publishes checkpoints, beats when idle.

The records are durable in the store before anything here runs. A frame is forgotten by the store only after the file
that holds it was synced. Nothing here decides what the log contains.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from audit.checkpoint import Published, PublishRefused, RolledBack
from audit.disk import LogError
from audit.epochs import EpochKeys
from audit.export import ExportFailed, Row
from audit.note import BadNote
from audit.patience import SilentSink
from gateway.engine.anchoring import Answer, Cosigned, Cosigners, NotedSealer, Taken
from gateway.engine.clock import Clock
from gateway.engine.log_keys import LogKeys
from gateway.engine.log_retention import LogRetention, tried
from gateway.engine.ports import Points
from gateway.engine.tasks import Tasks
from gateway.store.port import Store, Unavailable

log = structlog.get_logger(__name__)

BATCH_FRAMES = 2000
LAG_FRAMES_MAX = 200_000
"""Frames that may wait in the store for their files; beyond it new operations are refused rather than piled up."""
EXPORT_INTERVAL_SECONDS = 0.2
HEARTBEAT_SECONDS = 3600.0
RETENTION_SECONDS = 3600.0
"""How often old segments are looked for."""


_FILES, _CHECKPOINT, _SEAL_KEY, _COSIGNATURES = "files", "checkpoint", "seal key", "cosignatures"
_RETENTION, _ROOM = "retention", "room"
_BY_ANCHOR = (
    "Stop the gateway. If another copy of its folder is newer or runs elsewhere, keep that one; if not, start this one"
    " again, which holds writes until `gateway recover`."
)
_BY_WITNESS = (
    "Stop the gateway. If another copy of its folder is newer or runs elsewhere, keep that one; if not,"
    " `gateway recover --accept-loss` goes on under a new log."
)


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often what happens, in seconds."""

    seal_seconds: float
    checkpoint_seconds: float
    export_seconds: float = EXPORT_INTERVAL_SECONDS


class Files(Protocol):
    """Where the log's frames go: the shape of `audit.export.Exporter` and of the one that waits only for so long."""

    @property
    def durable_size(self) -> int: ...
    @property
    def crowded(self) -> bool: ...
    def export(self, rows: Sequence[Row]) -> int: ...


class Checkpoints(Protocol):
    """Who signs checkpoints and hands them on: the shape of `audit.checkpoint.Publisher`."""

    def publish(self, size: int | None = None) -> Published | None: ...
    def add_signatures(self, lines: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Anchoring:
    """What a log may have beside its files; a log in memory has nothing of it."""

    names: Sequence[str] = ()
    """What the publisher's anchors and sinks are called, in its order."""
    cosigners: Cosigners | None = None
    notes: NotedSealer | None = None
    epochs: EpochKeys | None = None
    retention: LogRetention | None = None
    """None: everything is kept."""
    keys: LogKeys | None = None


NO_ANCHORING = Anchoring()


class LogKeeper:
    """One background loop; `drain` does what is left at the end."""

    def __init__(
        self,
        store: Store,
        exporter: Files,
        publisher: Checkpoints,
        *,
        origin: str,
        clock: Clock,
        cadence: Cadence,
        points: Points,
        alert: Callable[[str, str], None],
        anchoring: Anchoring = NO_ANCHORING,
    ) -> None:
        """`origin` names the log. `alert` gets a name and a sentence when a person should look at it."""
        self._store = store
        self._exporter = exporter
        self._publisher = publisher
        self._origin = origin
        self._clock = clock
        self._cadence = cadence
        self._points = points
        self._alert = alert
        self._anchoring = anchoring
        self._stopping = asyncio.Event()
        self._told: dict[str, str] = {}
        """What people were told of last, by what ails: they are told once of each."""
        self._newest: Published | None = None
        self._asking: asyncio.Task[Cosigned] | None = None
        self._tasks = Tasks(lambda name, error: log.error("audit_task_failed", task=name, error=repr(error)))
        self._retaining: asyncio.Task[int | LogError | OSError] | None = None
        self._moved_boot_ms = self._retain_boot_ms = clock.boot_ms()
        self._hurried = False
        self._contradicted: dict[str, str] = {}
        """Who has seen a larger or another tree of this log, each with what to say to whoever wants to act."""
        self.lag_frames = 0
        """Frames that were waiting when the exporter last looked."""

    def refusal(self) -> str | None:
        """Why no new operation should be taken for the log's sake, or None.

        A sink that failed is not waited for: what is under way ends, for the store keeps its records; nothing new
        begins until the files take something again.
        """
        failed = self._told.get(_FILES)
        if failed is not None:
            return f"The audit log's files cannot be written ({failed})."
        for reason in self._contradicted.values():
            # What is done now may have been done already, by what this folder does not know of.
            return reason
        if _ROOM in self._told:
            # What is kept for the segment at hand is for the outcomes of what is under way.
            return "The audit log's disk is nearly full."
        if self.lag_frames < LAG_FRAMES_MAX:
            return None
        return "The audit log's files cannot be written as fast as its records come, and too much waits for them."

    def ailing(self) -> Mapping[str, str]:
        """What does not work just now, by what it is, each with the reason; empty while all is well."""
        return dict(self._told)

    def cosigned_age_seconds(self) -> float | None:
        """How old the newest cosignature of a witness is: infinite if there never was one, None without witnesses."""
        cosigners = self._anchoring.cosigners
        if cosigners is None:
            return None
        newest_ms = cosigners.newest_ms
        return float("inf") if newest_ms is None else max(0.0, (self._clock.wall_ms() - newest_ms) / 1000)

    async def run(self) -> None:
        """Work until `stop`. Raises StoreUnknown as soon as the store is lost by anyone: the process must end."""
        sealed_ms = published_ms = self._clock.boot_ms()
        try:
            while not self._stopping.is_set():
                try:
                    moved = await self.export_all()
                    now_ms = self._clock.boot_ms()
                    if moved:
                        self._moved_boot_ms = now_ms
                    if now_ms - sealed_ms >= self._cadence.seal_seconds * 1000:
                        sealed_ms = now_ms
                        await self._store.seal()
                    await self._collect()
                    # Not while witnesses look at the last one: their cosignatures belong under that one.
                    due = self._hurried or now_ms - published_ms >= self._cadence.checkpoint_seconds * 1000
                    if self._asking is None and due:
                        published_ms, self._hurried = now_ms, False
                        await self.publish()
                    self._ask()
                    await self._retain(now_ms)
                    if now_ms - self._moved_boot_ms >= HEARTBEAT_SECONDS * 1000:
                        # Counted from here, not from its arrival in a file, which may be late.
                        self._moved_boot_ms = now_ms
                        await self._store.heartbeat()
                except Unavailable as refused:
                    log.warning("seal_postponed", reason=refused.reason)
                await self._pause()
        finally:
            await self._tasks.finish(0.0)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._cadence.export_seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def export_all(self) -> int:
        """Copy everything that waits to the files, then let the store forget it. Returns how many frames."""
        moved = 0
        while True:
            waiting = await self._store.tail(BATCH_FRAMES, origin=self._origin)
            self.lag_frames = len(waiting)
            # A full disk is looked at again, or nothing new would ever begin that could fill a row.
            if not waiting and not self._exporter.crowded:
                return moved
            rows = [Row(item.segment, item.seq, item.frame) for item in waiting]
            self._points.hit("export.before_write")
            try:
                await asyncio.to_thread(self._export, rows)
            except ExportFailed as failed:
                self._unwell(_FILES, "audit_export_failed", str(failed))
                self.lag_frames = await self._count_lag()
                return moved
            except LogError as broken:
                self._unwell(_FILES, "audit_log_contradiction", str(broken))
                self.lag_frames = LAG_FRAMES_MAX
                return moved
            self._points.hit("export.after_sync")
            self._well(_FILES)
            self._check_room()
            self._check_seal_key()
            if not rows:
                return moved
            moved += len(rows)
            self._points.hit("export.before_prune")
            await self._store.prune(rows[-1].seq, self._origin)
            if len(rows) < BATCH_FRAMES:
                self.lag_frames = 0
                return moved

    async def _count_lag(self) -> int:
        return len(await self._store.tail(LAG_FRAMES_MAX, origin=self._origin))

    def _export(self, rows: list[Row]) -> None:
        self._exporter.export(rows)
        if self._anchoring.epochs is not None:
            # After the sync: the key that signed the seals before is dropped once they survive a loss of power.
            self._anchoring.epochs.confirm(self._exporter.durable_size)

    def _check_room(self) -> None:
        if self._exporter.crowded:
            self._unwell(_ROOM, "audit_disk_full", "the audit log's disk is nearly full: nothing new begins")
        else:
            self._well(_ROOM)

    def _check_seal_key(self) -> None:
        epochs = self._anchoring.epochs
        if epochs is None or epochs.trouble is None:
            self._well(_SEAL_KEY)
        else:
            self._unwell(_SEAL_KEY, "audit_seal_key_kept", f"the seal key cannot be changed: {epochs.trouble}")

    async def publish(self) -> None:
        """Sign a checkpoint over what the files hold for certain and hand it to the anchors."""
        durable_size = self._exporter.durable_size
        if not durable_size:
            return
        try:
            published = await asyncio.to_thread(self._publisher.publish, durable_size)
        except PublishRefused as refused:
            self._refused(refused)
            return
        except SilentSink as silent:
            self._unwell(_CHECKPOINT, "audit_checkpoint_failed", str(silent))
            return
        except OSError as error:
            self._unwell(_CHECKPOINT, "audit_checkpoint_failed", error.strerror or str(error))
            return
        self._contradicted.pop(_CHECKPOINT, None)
        self._well(_CHECKPOINT)
        keys = self._anchoring.keys
        if keys is not None:
            keys.settle()
            # The files did not reach the cut between the keys yet: the next round tries again. Nor is it forgotten that
            # somebody asked for another one meanwhile.
            self._hurried = self._hurried or keys.owing
        if published is not None:
            self._newest = published
            self._hear(published, self._answers(published))

    def _refused(self, refused: PublishRefused) -> None:
        if isinstance(refused, RolledBack):
            self._contradicted[_CHECKPOINT] = f"The audit log is not the one signed for: {refused}. {_BY_ANCHOR}"
        self._unwell(_CHECKPOINT, "audit_checkpoint_refused", str(refused))

    def _answers(self, published: Published) -> list[Answer]:
        failed = dict(published.failed)
        names = enumerate(self._anchoring.names)
        return [
            Answer(name, Taken.NOT_REACHED, failed[number]) if number in failed else Answer(name, Taken.TAKEN)
            for number, name in names
        ]

    def _ask(self) -> None:
        cosigners, newest = self._anchoring.cosigners, self._newest
        if cosigners is None or newest is None or self._asking is not None or not cosigners.wants(newest):
            return
        self._asking = self._tasks.start(cosigners.ask(newest), "ask witnesses")

    async def _collect(self) -> None:
        """Put the cosignatures that came under their checkpoint, there and at the anchors."""
        asking, newest = self._asking, self._newest
        if asking is None or newest is None or not asking.done():
            return
        self._asking = None
        if asking.cancelled() or asking.exception() is not None:
            return
        await self.cosign(newest, asking.result())

    async def cosign(self, published: Published, cosigned: Cosigned) -> None:
        """Store what witnesses answered to the newest checkpoint."""
        self._hear(published, cosigned.answers)
        if not cosigned.lines:
            return
        try:
            await asyncio.to_thread(self._publisher.add_signatures, cosigned.lines)
            await asyncio.to_thread(self._publisher.publish, published.checkpoint.size)
        except PublishRefused as refused:
            self._refused(refused)
        except (OSError, LogError, BadNote) as error:
            self._unwell(_COSIGNATURES, "audit_cosignatures_not_stored", str(error))
        else:
            self._well(_COSIGNATURES)

    async def _retain(self, now_ms: int) -> None:
        """Drop old segments, step by step, none of which the files wait for: see what may go, say it, let it go."""
        retention = self._anchoring.retention
        if retention is None:
            return
        if self._retaining is None:
            if now_ms >= self._retain_boot_ms:
                self._retain_boot_ms = now_ms + int(RETENTION_SECONDS * 1000)
                self._retaining = self._tasks.start(asyncio.to_thread(tried, retention.plan), "plan retention")
            return
        # Not while witnesses look at the last checkpoint: one more is published here.
        if not self._retaining.done() or self._asking is not None:
            return
        end = self._retaining.result()
        self._retaining = None
        if not isinstance(end, int):
            self._unwell(_RETENTION, "audit_retention_postponed", str(end))
            return
        self._well(_RETENTION)
        if end:
            retention.announce(end)
            await self._store.seal()
            self._points.hit("retention.announced")
            await self.export_all()
            await self.publish()
            self._points.hit("retention.published")
            work = asyncio.to_thread(tried, lambda: retention.drop(end))
            self._retaining = self._tasks.start(work, "drop segments")

    def _hear(self, published: Published, answers: Sequence[Answer]) -> None:
        """Tell people of anchors that did not take it, and have the writer record what each did."""
        for answer in answers:
            if answer.contradicts:
                self._contradicted[answer.anchor] = f"{answer.anchor} {answer.detail} {_BY_WITNESS}"
            if answer.taken is Taken.TAKEN:
                self._contradicted.pop(answer.anchor, None)
                self._well(answer.anchor)
            elif answer.taken is Taken.REFUSED:
                self._unwell(answer.anchor, "audit_anchor_refused", f"{answer.anchor}: {answer.detail}")
            else:
                self._unwell(answer.anchor, "audit_anchor_failed", f"{answer.anchor}: {answer.detail}")
        if self._anchoring.notes is not None:
            self._anchoring.notes.tell(published.checkpoint, answers)

    def _well(self, what: str) -> None:
        if self._told.pop(what, None) is not None:
            log.info("audit_well_again", what=what)

    def _unwell(self, what: str, name: str, reason: str) -> None:
        if self._told.get(what) != reason:
            log.error(name, reason=reason)
            self._alert(name, reason)
        self._told[what] = reason

    def hasten(self) -> None:
        """Publish a checkpoint in the next round."""
        self._hurried = True

    def stop(self) -> None:
        """End the loop after the round under way."""
        self._stopping.set()

    async def drain(self) -> None:
        """At the end: everything to the files, and a last checkpoint."""
        await self.export_all()
        await self.publish()
