"""The audit log by itself: verifying beside `openssl dgst`, appending beside a bare write, and what a record costs."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.disk import DiskDirectory
from audit.generate import ORIGIN, RECORD_BYTES, START_MS, Generated, generate, plaintext_of, repeatable_entropy
from audit.keyring import Entropy, RecipientKey, Role, SealKey
from audit.note import NoteSigner
from audit.seal import Sealer
from audit.writer import LogWriter
from tests.bench.processes import ROOT, Strangers, environment
from tests.bench.rows import Row

IDLE_CORES = 0.2
"""With more than this used by others, two processes at once say nothing."""
NO_OPENSSL = "openssl is missing: apt-get install openssl"


@dataclass(frozen=True, slots=True)
class Ended:
    """What a process used: seconds of processor and of wall time, and the most memory it had, in MB."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float


def run(command: Sequence[str]) -> Ended:
    """Run to the end, descendants included. Raises CalledProcessError for anything but exit code 0."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return Ended(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024)


def measure(folder: Path, records: int, appends: int) -> list[Row]:
    """Every figure of the log, in a folder on the disk in question."""
    return [*_verifying(generate(folder / "generated", records)), _appending(folder / "appended", appends), *_records()]


def _verifying(made: Generated) -> list[Row]:
    openssl = shutil.which("openssl")
    alone = Row("a", "keyless verify / openssl dgst, CPU of one process", (), 0.22, note=NO_OPENSSL)
    paired = Row("a", "keyless verify with two processes / openssl dgst, wall time", (), 0.36, note=NO_OPENSSL)
    verify = [sys.executable, "-m", "audit", "verify"]
    order = [*verify, str(made.log), "--trust", str(made.trust), "--anchor", str(made.anchor)]
    order += ["--max-anchor-age", "99999d"]
    start = run([*verify, "--help"])
    one = run(order)
    memory = Row("a", "memory of a verify, at most", (one.peak_mb,), 100, most=True, unit="MB")
    if openssl is None:
        return [alone, paired, memory]
    files = sorted(str(path) for path in made.log.rglob("*") if path.is_file())
    hashed = run([openssl, "dgst", "-sha256", *files])
    size = sum(Path(name).stat().st_size for name in files) / 1e6
    note = f"{size:.0f} MB; what the program takes to start is left out"
    ratio = hashed.cpu_seconds / (one.cpu_seconds - start.cpu_seconds)
    strangers = Strangers()
    two = run([*order, "--jobs", "2"])
    both = hashed.wall_seconds / (two.wall_seconds - start.wall_seconds)
    busy = strangers.cores()
    idle = busy <= IDLE_CORES
    return [
        Row("a", alone.measure, (ratio,), alone.target, note=note),
        Row("a", paired.measure, (both,) if idle else (), paired.target, note="" if idle else f"{busy:.1f} cores busy"),
        memory,
    ]


def _appending(folder: Path, count: int) -> Row:
    """One producer: `append` beside writing the same bytes to a file and making them durable, in turn."""
    draw = repeatable_entropy("append")
    signer = NoteSigner.generate(ORIGIN, draw)
    auditor = RecipientKey.generate(Role.AUDITOR, "auditor", draw)
    folder.mkdir(parents=True)
    writer = LogWriter.open(
        DiskDirectory(folder / "log"),
        origin=ORIGIN,
        recipients=[auditor.recipient],
        seal_key=SealKey.issue(signer.signer, ORIGIN, draw),
        entropy=draw,
        writer_id="bench",
        boot_id="bench",
        t_ms=START_MS,
    )
    sample = _sealer(draw)
    sample.start(START_MS)
    frame = sample.record(plaintext_of(0, RECORD_BYTES), START_MS)[-1].data
    appended, bare = [], []
    with (folder / "bare").open("wb", buffering=0) as file:
        for number in range(count):
            record = plaintext_of(number, RECORD_BYTES)
            began = time.perf_counter()
            writer.append(record, START_MS)
            between = time.perf_counter()
            file.write(frame)
            os.fdatasync(file.fileno())
            appended.append(between - began)
            bare.append(time.perf_counter() - between)
    writer.close(START_MS)
    ratio = statistics.median(appended) / statistics.median(bare)
    note = f"bare: {statistics.median(bare) * 1e6:.0f} us"
    return Row("a", "append p50 / bare write and fdatasync of the same bytes", (ratio,), 1.8, most=True, note=note)


def _records() -> list[Row]:
    """What sealing a record costs, without any disk, and what the format adds to its text."""
    draw = repeatable_entropy("records")
    sealer = _sealer(draw)
    sealer.start(START_MS)
    texts = [plaintext_of(number, RECORD_BYTES) for number in range(5000)]
    began = time.process_time()
    for text in texts:
        sealer.record(text, START_MS)
    spent = (time.process_time() - began) / len(texts) * 1e6
    # Padding fills up to steps of 64 bytes: the text that needs least of it shows what the rest of a frame takes.
    added = min(
        len(sealer.record(b"x" * size, START_MS)[-1].data) - size for size in range(RECORD_BYTES, 64 + RECORD_BYTES)
    )
    return [
        Row("a", "CPU to seal a record of 600 bytes", (spent,), 15, most=True, unit="us"),
        Row("a", "bytes that the format adds to a record, padding left out", (added,), 130, most=True, unit="B"),
    ]


def _sealer(draw: Entropy) -> Sealer:
    signer = NoteSigner.generate(ORIGIN, draw)
    return Sealer(
        origin=ORIGIN,
        recipients=[RecipientKey.generate(Role.AUDITOR, "auditor", draw).recipient],
        seal_key=SealKey.issue(signer.signer, ORIGIN, draw),
        head=None,
        entropy=draw,
        writer_id="bench",
        boot_id="bench",
    )
