"""Makes large logs to measure with: `python -m audit.generate`. Its keys are known to everyone; never use them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import shake_128
from pathlib import Path
from typing import Annotated

import typer

from audit.checkpoint import Publisher
from audit.disk import DiskDirectory, log_folder
from audit.export import Exporter, rows_of
from audit.keyfiles import write_key
from audit.keyring import Entropy, RecipientKey, Role, SealKey
from audit.note import NoteSigner
from audit.record import Frame
from audit.seal import Sealer, SegmentLimits
from audit.trust import TrustPolicy

ORIGIN = "generated.example/audit/not-a-real-log"
START_MS = 1_750_000_000_000
RECORD_BYTES = 600
_SEAL_EVERY = 1000
_PIECE_BYTES = 1 << 16


def repeatable_entropy(seed: str) -> Entropy:
    """Bytes that look random and are the same for one seed: fast, and for measuring only."""
    count, waiting = 0, b""

    def draw(length: int) -> bytes:
        nonlocal count, waiting
        while len(waiting) < length:
            count += 1
            waiting += shake_128(f"{seed}/{count}".encode()).digest(_PIECE_BYTES)
        drawn, waiting = waiting[:length], waiting[length:]
        return drawn

    return draw


@dataclass(frozen=True, slots=True)
class Generated:
    """Where a made log lies, with what its verifier needs; `end_ms` is the time of its last entry."""

    log: Path
    anchor: Path
    trust: Path
    key: Path
    end_ms: int


def generate(
    folder: Path, records: int, *, record_bytes: int = RECORD_BYTES, progress: Callable[[int], None] = lambda _: None
) -> Generated:
    """Make a log of so many records of that plaintext size below an empty folder; a record a millisecond.

    Raises:
        FileExistsError: the folder is in use.
        EntryTooLarge: records of that size do not fit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = Generated(
        log_folder(folder / "log", ORIGIN),
        folder / "anchor",
        folder / "trust.policy",
        folder / "auditor.key",
        START_MS + records,
    )
    draw = repeatable_entropy("generated")
    signer = NoteSigner.generate(ORIGIN, draw)
    auditor = RecipientKey.generate(Role.AUDITOR, "auditor", draw)
    write_key(made.key, auditor.to_line())
    made.trust.write_text(TrustPolicy((signer.key,)).to_text(), encoding="utf-8")
    sealer = Sealer(
        origin=ORIGIN,
        recipients=[auditor.recipient],
        seal_key=SealKey.issue(signer.signer, ORIGIN, draw),
        head=None,
        entropy=draw,
        writer_id="generator",
        boot_id="generator",
        limits=SegmentLimits(),
    )
    directory = DiskDirectory(made.log)
    exporter = Exporter(directory)
    try:
        _write(exporter, sealer, records, record_bytes, progress)
    finally:
        exporter.close()
    Publisher(directory, signer, [DiskDirectory(made.anchor)]).publish()
    return made


def _write(
    exporter: Exporter, sealer: Sealer, records: int, record_bytes: int, progress: Callable[[int], None]
) -> None:
    frames: list[Frame] = sealer.start(START_MS)
    leaf = b""
    for number in range(records):
        frames += sealer.record(plaintext_of(number, record_bytes, leaf), START_MS + number)
        leaf = frames[-1].leaf
        if number % _SEAL_EVERY == _SEAL_EVERY - 1:
            frames += sealer.seal(START_MS + number)
            exporter.export(rows_of(frames))
            frames = []
            progress(number + 1)
    frames += sealer.close(START_MS + records)
    exporter.export(rows_of(frames))


def plaintext_of(number: int, size: int, before: bytes = b"") -> bytes:
    """A record of about that many bytes, behind the record with that leaf; ten records make an operation."""
    document: dict[str, object] = {"op": f"op-{number // 10}", "op_n": number % 10, "ev": "generated", "filling": ""}
    document["op_prev"] = before.hex() if number % 10 else None
    if number % 10 == 9:
        document["op_final"] = True
    document["filling"] = "x" * max(0, size - len(json.dumps(document)))
    return json.dumps(document).encode()


def main(
    folder: Annotated[Path, typer.Argument(help="New or empty folder for the log, its policy and its keys.")],
    records: Annotated[int, typer.Option(min=1, help="How many records.")] = 1_000_000,
    record_bytes: Annotated[int, typer.Option(min=64, help="Plaintext bytes of a record.")] = RECORD_BYTES,
) -> None:
    """Make a large log to measure with. Its keys are known to everyone."""
    made = generate(folder, records, record_bytes=record_bytes)
    typer.echo(f"audit verify {made.log} --trust {made.trust} --anchor {made.anchor} --max-anchor-age 99999d")


if __name__ == "__main__":
    typer.run(main)
