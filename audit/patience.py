"""Patience with a limit: a disk or anchor that does not answer in time has failed, and is not waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from audit.checkpoint import Published, Publisher
from audit.export import Exporter, ExportFailed, Row
from audit.note import NoteSigner

T = TypeVar("T")

DEADLINE_SECONDS = 2.0


class SilentSink(ExportFailed, TimeoutError):
    """No answer within the deadline. What was asked may still happen later; ask again, and it is compared."""


class _Call(Generic[T]):
    """One piece of work in a thread of its own, which the end of the process does not wait for."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._done = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="audit-sink", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits, whatever it is
            self._error = error
        finally:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def answer(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]


class Patience:
    """Runs work one after the other, each for no longer than the deadline.

    While an earlier piece still hangs, the next ones fail at once: they would only wait behind it.
    """

    def __init__(self, sink: str, seconds: float = DEADLINE_SECONDS) -> None:
        """`sink` names what is waited for."""
        self._sink = sink
        self._seconds = seconds
        self._hanging: _Call[Any] | None = None

    @property
    def hangs(self) -> bool:
        """Whether an earlier piece of work has still not come back."""
        if self._hanging is not None and self._hanging.wait(0):
            self._hanging = None
        return self._hanging is not None

    def call(self, work: Callable[[], T]) -> T:
        """Do it and return its answer, or raise what it raises; SilentSink if that takes too long."""
        if self.hangs:
            raise SilentSink(f"{self._sink} still does not answer")
        call = _Call(work)
        if call.wait(self._seconds):
            return call.answer()
        self._hanging = call
        raise SilentSink(f"{self._sink} did not answer within {self._seconds:g} s")


class PatientExporter:
    """An exporter that is given up on after the deadline. Rows of a call that hung are offered again and compared."""

    def __init__(self, exporter: Exporter, seconds: float = DEADLINE_SECONDS) -> None:
        self._exporter = exporter
        self._patience = Patience("the disk of the audit log", seconds)

    @property
    def durable_size(self) -> int:
        """As the exporter's."""
        return self._exporter.durable_size

    @property
    def crowded(self) -> bool:
        """As the exporter's."""
        return self._exporter.crowded

    def export(self, rows: Sequence[Row]) -> int:
        """As the exporter's, but raises SilentSink (an ExportFailed) rather than wait for longer."""
        return self._patience.call(lambda: self._exporter.export(rows))

    def close(self) -> None:
        """Give up files and lock; those of a call that still hangs go with the process."""
        if not self._patience.hangs:
            self._patience.call(self._exporter.close)


class PatientPublisher:
    """A publisher that is given up on after the deadline: an anchor may lie on a disk that never answers.

    Entries may be exported while a call hangs, so each publication says how far it may read.
    """

    def __init__(self, publisher: Publisher, seconds: float = DEADLINE_SECONDS) -> None:
        self._publisher = publisher
        self._patience = Patience("an anchor of the audit log, or its own folder,", seconds)

    def publish(self, size: int | None = None) -> Published | None:
        """As the publisher's, but raises SilentSink rather than wait for longer."""
        return self._patience.call(lambda: self._publisher.publish(size))

    @property
    def handing_over(self) -> bool:
        """As the publisher's."""
        return self._publisher.handing_over

    def hand_over(self, signer: NoteSigner, cut: int) -> None:
        """As the publisher's; nothing is waited for."""
        self._publisher.hand_over(signer, cut)

    def add_signatures(self, lines: str) -> None:
        """As the publisher's, but raises SilentSink rather than wait for longer."""
        self._patience.call(lambda: self._publisher.add_signatures(lines))
