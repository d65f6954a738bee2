"""The writer under every fault at every step: the next start recovers, the log verifies, no outcome is lost."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.disk import DiskDirectory, DiskFile, append_all
from audit.epochs import EpochKeys, EpochLimits, SealKeyFile
from audit.export import ExportFailed
from audit.keyring import RecipientKey, Role, SealKey
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.receipts import Receipt
from audit.report import Exit
from audit.seal import SegmentLimits
from audit.show import show
from audit.trust import TrustPolicy
from audit.verify import Extra, VerifyOptions, verify
from audit.writer import LogWriter
from tests.house.source import ROOT
from tests.unit.audit.logs import ORIGIN, START_MS, entropy
from tests.unit.audit.writer_process import AUDITOR, OPERATIONS, SIGNER, open_writer

ACCEPT = VerifyOptions(accept_unanchored=True)
EVENTS = [(operation, event) for operation in range(4) for event in ("intent", "outcome")]


class Killed(BaseException):
    """The process ends here, whatever it was doing."""


class Bench:
    """A direct writer with evolving keys and small segments, on one disk in memory."""

    def __init__(self) -> None:
        self.draw = entropy("bench")
        self.signer = NoteSigner.generate(ORIGIN, self.draw)
        self.auditor = RecipientKey.generate(Role.AUDITOR, "auditor", self.draw)
        self.disk = MemoryDirectory()
        SealKeyFile(self.disk, "keys/seal.key").save(ORIGIN, [SealKey.issue(self.signer.signer, ORIGIN, self.draw)])
        self.receipts: list[Receipt] = []
        self.boots = 0
        self.open()

    def open(self) -> None:
        self.boots += 1
        self.writer = LogWriter.open(
            self.disk,
            origin=ORIGIN,
            recipients=[self.auditor.recipient],
            seal_key=EpochKeys(SealKeyFile(self.disk, "keys/seal.key"), ORIGIN, EpochLimits(entries_max=5)),
            entropy=self.draw,
            writer_id="w",
            boot_id=f"boot-{self.boots}",
            t_ms=START_MS + self.boots * 1000,
            limits=SegmentLimits(entries_max=8),
        )

    def work(self, *, retried: Callable[[], None] | None = None) -> None:
        """Intents and outcomes; whatever is refused is offered again after `retried` was told."""
        for operation, event in EVENTS:
            text = f'{{"op":"op-{operation}","ev":"{event}"}}'.encode()
            try:
                self.receipts.append(self.writer.append(text, START_MS, seal=event == "outcome"))
            except ExportFailed:
                if retried is None:
                    raise
                retried()
                self.writer.seal(START_MS)

    def steps(self) -> list[str]:
        found: list[str] = []
        self.disk.hook = lambda operation, _name, _length: found.append(operation) if operation != "read" else None
        self.work()
        self.disk.hook = None
        return found

    def events(self) -> list[tuple[int, str]]:
        shown = (entry.content for entry in show(self.disk, self.auditor))
        return [(int(content["op"].removeprefix("op-")), content["ev"]) for content in shown]

    def check(self, where: object) -> None:
        report = verify(
            self.disk,
            policy=TrustPolicy((self.signer.key,)),
            now_ms=START_MS + 1000,
            options=ACCEPT,
            extra=Extra(self.receipts, self.auditor),
        )
        assert report.exit is Exit.OK, (where, report.to_lines())
        assert report.receipts_checked == len(self.receipts)


LOSSES: dict[str, Callable[[MemoryDirectory], MemoryDirectory]] = {
    "kill": MemoryDirectory.after_kill,
    "power, nothing kept": lambda disk: disk.after_power_loss(lambda _: 0),
    "power, half kept": lambda disk: disk.after_power_loss(lambda count: count - count // 2),
}


@pytest.mark.parametrize("torn", [0, 1, 2], ids=["whole", "half written", "one byte short"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_33_killed_at_every_step(loss: Callable[[MemoryDirectory], MemoryDirectory], torn: int) -> None:
    steps = Bench().steps()
    assert {"append", "sync", "open", "sync_folder", "rename"} <= set(steps)
    for last, operation in enumerate(steps):
        if torn and operation != "append":
            continue
        bench = Bench()
        left = last

        def kill(operation: str, _name: str, length: int) -> int | None:
            nonlocal left
            left -= operation != "read"
            if left == -1 and torn and operation == "append":
                return length // 2 if torn == 1 else length - 1
            if left < 0:
                raise Killed
            return None

        bench.disk.hook = kill
        with pytest.raises(Killed):
            bench.work()
        bench.disk = loss(bench.disk)
        bench.open()
        # What was acknowledged is there, in order; of what was under way, at most one record more.
        events, known = bench.events(), len(bench.receipts)
        assert events == EVENTS[: len(events)]
        assert known <= len(events) <= known + 1, (last, operation)
        bench.check((last, operation))
        bench.work()
        bench.writer.close(START_MS)
        bench.check((last, operation))


def full(length: int) -> int | None:
    raise OSError(errno.ENOSPC, "No space left on device")


def short(length: int) -> int | None:
    """Takes a part; the rest is refused with the next call."""
    return length // 2 if length > 1 else full(length)


def broken(_length: int) -> int | None:
    raise OSError(errno.EIO, "Input/output error")


FAULTS: dict[str, tuple[frozenset[str], Callable[[int], int | None]]] = {
    "ENOSPC": (frozenset({"append", "open", "rename"}), full),
    "short write, then ENOSPC": (frozenset({"append"}), short),
    "EIO on sync": (frozenset({"sync", "sync_folder"}), broken),
    "EIO on anything": (frozenset({"append", "open", "rename", "sync", "sync_folder", "truncate"}), broken),
    "EIO on reading back": (frozenset({"read"}), broken),
}


class Trouble:
    """A disk that refuses some operations from a step on, until it relents."""

    def __init__(self, operations: frozenset[str], fault: Callable[[int], int | None], passes: int) -> None:
        self._operations = operations
        self._fault = fault
        self._passes = passes
        self._refusing = True
        self.refused = False

    def __call__(self, operation: str, _name: str, length: int) -> int | None:
        self._passes -= 1
        if self._passes >= 0 or not self._refusing or operation not in self._operations:
            return None
        if self.refused and self._fault is short:
            return full(length)
        self.refused = True
        return self._fault(length)

    def relent(self) -> None:
        self._refusing = False


@pytest.mark.parametrize("survives", [True, False], ids=["goes on", "dies of it"])
@pytest.mark.parametrize(("operations", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_32_a_disk_that_refuses_at_every_step(
    operations: frozenset[str], fault: Callable[[int], int | None], *, survives: bool
) -> None:
    """Once the disk takes writes again, all that was refused meanwhile is written, in order and once."""
    refusals = step = 0
    while True:
        bench = Bench()
        trouble = Trouble(operations, fault, step)
        bench.disk.hook = trouble
        try:
            bench.work(retried=trouble.relent if survives else None)
        except ExportFailed:
            bench.disk.hook = None
            bench.disk = bench.disk.after_power_loss(lambda _: 0)
            bench.open()
            assert bench.events()[: len(bench.receipts)] == EVENTS[: len(bench.receipts)]
        else:
            bench.disk.hook = None
            assert bench.events() == EVENTS, step
        bench.writer.close(START_MS)
        bench.check(step)
        if not trouble.refused:
            break
        refusals += 1
        step += 1
    assert refusals > 10


def test_a_device_that_is_always_full_is_an_error_not_a_loop() -> None:
    file = DiskFile(os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError, match="No space"):
        append_all(file, b"outcome")
    file.close()


def run(folder: Path, operation: str = "never", passes: int = 0, largest: int = 0) -> tuple[int, list[str]]:
    """A writer's process: how it ended, and what it acknowledged."""
    arguments = [str(folder), operation, str(passes), str(largest)]
    command = [sys.executable, "-m", "tests.unit.audit.writer_process", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def check_files(folder: Path, lines: list[str]) -> list[tuple[str, str]]:
    """Start again on what is there, verify, and return the events that are in the log."""
    writer = open_writer(DiskDirectory(folder), "boot-2", START_MS)
    writer.append(b'{"op":"op-new","ev":"intent"}', START_MS)
    writer.close(START_MS)
    words = [line.split() for line in lines if len(line.split()) == 4]
    receipts = [Receipt(ORIGIN, int(seq), bytes.fromhex(leaf)) for _, _, seq, leaf in words]
    report = verify(
        DiskDirectory(folder),
        policy=TrustPolicy((SIGNER.key,)),
        now_ms=START_MS,
        options=ACCEPT,
        extra=Extra(receipts, AUDITOR),
    )
    assert report.exit is Exit.OK, report.to_lines()
    events = [(shown.content["op"], shown.content["ev"]) for shown in show(DiskDirectory(folder), AUDITOR)]
    assert set(events) >= {(f"op-{operation}", event) for operation, event, _, _ in words}
    return events


KILLS = [
    ("open", 2),
    ("append", 3),
    ("half", 3),
    ("half", 5),
    ("sync", 6),
    ("synced", 6),
    ("sync_folder", 2),
    ("synced", 11),
]


@pytest.mark.parametrize(("operation", "passes"), KILLS, ids=[f"{name} {passes}" for name, passes in KILLS])
def test_33_a_process_killed_at_a_named_point(tmp_path: Path, operation: str, passes: int) -> None:
    code, lines = run(tmp_path / "log", operation, passes)
    assert code == -signal.SIGKILL
    assert "closed" not in lines
    events = check_files(tmp_path / "log", lines)
    # An intent whose outcome was not written yet is there alone: that operation is unknown, not forgotten.
    assert events[-1] == ("op-new", "intent")
    assert len(events) - 1 - len(lines) in {0, 1}


@pytest.mark.parametrize("largest", [700, 1501, 2333, 2900])
def test_32_a_process_whose_files_may_not_grow_keeps_every_outcome(tmp_path: Path, largest: int) -> None:
    code, lines = run(tmp_path / "log", largest=largest)
    assert (code, lines[-1]) == (0, "closed")
    assert "refused" in lines
    events = check_files(tmp_path / "log", lines)
    assert len(events) == 2 * OPERATIONS + 1
    assert events.count(("op-0", "outcome")) == 1
