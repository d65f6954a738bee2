"""Writing a log without a gateway: one process appends, seals and exports directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from audit.bodies import Body, Succession
from audit.disk import Directory
from audit.epochs import EpochKeys
from audit.export import Exporter, Row, rows_of
from audit.head import Head
from audit.keyring import Entropy, Recipient, SealKey
from audit.log import files_head
from audit.receipts import Receipt
from audit.record import Frame, Kind
from audit.recover import recover
from audit.seal import Sealer, SegmentLimits


class LogWriter:
    """Appends records straight to the segment files; every call returns when its entries are durable."""

    def __init__(self, exporter: Exporter, sealer: Sealer, origin: str, epochs: EpochKeys | None = None) -> None:
        self._exporter = exporter
        self._epochs = epochs
        self._sealer = sealer
        self._origin = origin
        self._waiting: list[Row] = []

    @classmethod
    def open(
        cls,
        directory: Directory,
        *,
        origin: str,
        recipients: Sequence[Recipient],
        seal_key: SealKey | EpochKeys,
        entropy: Entropy,
        writer_id: str,
        boot_id: str,
        t_ms: int,
        limits: SegmentLimits | None = None,
        succession: Succession | None = None,
    ) -> Self:
        """Lock the log, clean its end, and open a segment. A new log may say with `succession` which one it continues.

        Raises:
            LogLocked: another process writes it.
            LogContradiction: it is damaged; nothing may be appended.
            ExportFailed: the disk refused.
        """
        exporter = Exporter(directory)
        try:
            found = recover(directory, boot_id=boot_id)
            head = files_head(directory, origin)
            sealer = Sealer(
                origin=origin,
                recipients=recipients,
                seal_key=seal_key,
                head=head,
                entropy=entropy,
                writer_id=writer_id,
                boot_id=boot_id,
                limits=limits,
            )
            writer = cls(exporter, sealer, origin, seal_key if isinstance(seal_key, EpochKeys) else None)
            writer._store(sealer.start(t_ms, recovery=found if succession is None else (succession,)))
        except BaseException:
            exporter.close()
            raise
        return writer

    @property
    def head(self) -> Head:
        return self._sealer.head

    def append(self, plaintext: bytes, t_ms: int, *, seal: bool = False) -> Receipt:
        """Add one record and make it durable, sealed at once if asked. After ExportFailed it is tried again later."""
        frames = self._sealer.record(plaintext, t_ms)
        record = frames[-1]
        self._store([*frames, *(self._sealer.seal(t_ms) if seal else ())])
        return Receipt(self._origin, record.seq, record.leaf)

    def seal(self, t_ms: int) -> None:
        """Seal what is not sealed yet."""
        self._store(self._sealer.seal(t_ms))

    def note(self, body: Body, kind: Kind, t_ms: int) -> None:
        """Add a clear entry (erasure, key change, anchor result), sealed at once."""
        self._store([*self._sealer.note(body, kind, t_ms), *self._sealer.seal(t_ms)])

    def heartbeat(self, t_ms: int) -> None:
        """Record and seal that nothing happened."""
        self._store(self._sealer.heartbeat(t_ms))

    def close(self, t_ms: int) -> None:
        """End the log cleanly and give up the lock; the lock goes even if the disk refuses."""
        try:
            self._store(self._sealer.close(t_ms))
        finally:
            self._exporter.close()

    def abandon(self) -> None:
        """Give up the lock without a clean end, as a crash would."""
        self._exporter.close()

    def _store(self, frames: Sequence[Frame]) -> None:
        self._waiting += rows_of(frames)
        self._exporter.export(self._waiting)
        self._waiting = []
        if self._epochs is not None:
            self._epochs.confirm(self._exporter.durable_size)
