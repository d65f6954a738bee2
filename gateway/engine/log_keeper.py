"""Keeps the audit log's files up with the store: exports frames, seals, publishes checkpoints, beats when idle.

The records are durable in the store before anything here runs. A frame is forgotten by the store only after the file
that holds it was synced. Nothing here decides what the log contains.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from audit.checkpoint import Publisher, PublishRefused
from audit.disk import LogError
from audit.export import Exporter, ExportFailed, Row
from gateway.engine.clock import Clock
from gateway.engine.ports import Points
from gateway.store.port import Store, Unavailable

log = structlog.get_logger(__name__)

BATCH_FRAMES = 2000
LAG_FRAMES_MAX = 200_000
"""Frames that may wait in the store for their files; beyond it new operations are refused rather than piled up."""
EXPORT_INTERVAL_SECONDS = 0.2
HEARTBEAT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often what happens, in seconds."""

    seal_seconds: float
    checkpoint_seconds: float
    export_seconds: float = EXPORT_INTERVAL_SECONDS


class LogKeeper:
    """One background loop; `drain` does what is left at the end."""

    def __init__(
        self,
        store: Store,
        exporter: Exporter,
        publisher: Publisher,
        *,
        origin: str,
        clock: Clock,
        cadence: Cadence,
        points: Points,
        alert: Callable[[str, str], None],
    ) -> None:
        """`origin` names the log. `alert` gets a name and a sentence when a person should look at the log's disk."""
        self._store = store
        self._exporter = exporter
        self._publisher = publisher
        self._origin = origin
        self._clock = clock
        self._cadence = cadence
        self._points = points
        self._alert = alert
        self._stopping = asyncio.Event()
        self._ailing: str | None = None
        self._moved_boot_ms = clock.boot_ms()
        self.lag_frames = 0
        """Frames that were waiting when the exporter last looked."""

    def refusal(self) -> str | None:
        """Why no new operation should be taken for the log's sake, or None."""
        if self.lag_frames < LAG_FRAMES_MAX:
            return None
        return f"The audit log's files cannot be written ({self._ailing or 'too slow'}) and too much waits for them."

    async def run(self) -> None:
        """Work until `stop`. Raises StoreUnknown as soon as the store is lost by anyone: the process must end."""
        sealed_ms = published_ms = self._clock.boot_ms()
        while not self._stopping.is_set():
            try:
                moved = await self.export_all()
                now_ms = self._clock.boot_ms()
                if moved:
                    self._moved_boot_ms = now_ms
                if now_ms - sealed_ms >= self._cadence.seal_seconds * 1000:
                    sealed_ms = now_ms
                    await self._store.seal()
                if now_ms - published_ms >= self._cadence.checkpoint_seconds * 1000:
                    published_ms = now_ms
                    await self.publish()
                if now_ms - self._moved_boot_ms >= HEARTBEAT_SECONDS * 1000:
                    await self._store.heartbeat()
            except Unavailable as refused:
                log.warning("seal_postponed", reason=refused.reason)
            await self._pause()

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
            if not waiting:
                return moved
            rows = [Row(item.segment, item.seq, item.frame) for item in waiting]
            self._points.hit("export.before_write")
            try:
                await asyncio.to_thread(self._exporter.export, rows)
            except ExportFailed as failed:
                self._unwell("audit_export_failed", str(failed))
                self.lag_frames = await self._count_lag()
                return moved
            except LogError as broken:
                self._unwell("audit_log_contradiction", str(broken))
                self.lag_frames = LAG_FRAMES_MAX
                return moved
            self._points.hit("export.after_sync")
            self._ailing = None
            moved += len(rows)
            self._points.hit("export.before_prune")
            await self._store.prune(rows[-1].seq, self._origin)
            if len(rows) < BATCH_FRAMES:
                self.lag_frames = 0
                return moved

    async def _count_lag(self) -> int:
        return len(await self._store.tail(LAG_FRAMES_MAX, origin=self._origin))

    async def publish(self) -> None:
        """Sign a checkpoint over what the files hold and hand it to the anchors."""
        try:
            published = await asyncio.to_thread(self._publisher.publish)
        except PublishRefused as refused:
            self._unwell("audit_checkpoint_refused", str(refused))
            return
        except OSError as error:
            self._unwell("audit_checkpoint_failed", error.strerror or str(error))
            return
        for number, reason in published.failed if published is not None else ():
            self._unwell("audit_anchor_failed", f"anchor {number + 1}: {reason}")

    def _unwell(self, name: str, reason: str) -> None:
        if self._ailing != reason:
            log.error(name, reason=reason)
            self._alert(name, reason)
        self._ailing = reason

    def stop(self) -> None:
        """End the loop after the round under way."""
        self._stopping.set()

    async def drain(self) -> None:
        """At the end: everything to the files, and a last checkpoint."""
        await self.export_all()
        await self.publish()
