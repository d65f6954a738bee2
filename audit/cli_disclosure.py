"""The commands that give contents of a log to others: one operation with proofs, or every entry as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TextIO

import typer

from audit import machine
from audit.arguments import (
    Anchors,
    BlobsFolder,
    JsonFlag,
    LogFolder,
    Reshared,
    TrustFile,
    duration_ms,
    log_at,
    policy_at,
    reader_key,
    refusals,
    refuse_inside,
    unpacking,
    usage,
    warn,
)
from audit.claims import AnchorSource, anchor_sources
from audit.cli_upkeep import PersonalKeyPath, SubjectsPath, opening
from audit.discloser import CannotDisclose, disclose, newest_signed
from audit.disclosure import render
from audit.disclosure_check import DisclosureReport, check_disclosure
from audit.disk import DiskDirectory
from audit.extract import extract
from audit.inputs import open_input
from audit.log import read_open, segments
from audit.report import Exit, Report, worst
from audit.reshare import check_handed
from audit.verify import Extra, VerifyOptions, verify


def disclose_command(
    directory: LogFolder,
    *,
    op: Annotated[str, typer.Option(help="The operation's id.")],
    key: Annotated[Path, typer.Option(help="An auditor's or recovery private key file.")],
    out: Annotated[Path | None, typer.Option(help="New file; never overwritten. Default: standard output.")] = None,
    trust: TrustFile = None,
    anchor: Anchors = None,
    reshared: Reshared = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --out: print what was written as JSON.")] = False,
) -> None:
    """Write one final operation's records with proofs that a stranger can check, and no other record.

    Personal fields stay in their boxes: a key that opened one would open every other box of that person.
    """
    if as_json and out is None:
        usage("--json tells what was written to a file: give --out")
    private, policy, folder = reader_key(key, reshared), policy_at(trust), log_at(directory)
    log = DiskDirectory(folder)
    with refusals():
        if reshared:
            check_handed(log, private)
        sources = _sources(log, anchor or ())
        signed = newest_signed(log, sources, policy=policy, now_s=machine.now_s())
        if signed is None and policy is not None:
            raise CannotDisclose("no checkpoint that the trust policy accepts: nothing could be checked by others yet")
        records = disclose(log, private, op, signed, skipped=warn)
    with _output(out) as file:
        for piece in render(op, records):
            file.write(piece)
    if as_json and signed is not None:
        seqs = [record.proof.index for record in records]
        facts = {"file": str(out), "op": op, "origin": signed.checkpoint.origin, "size": signed.checkpoint.size}
        typer.echo(json.dumps(facts | {"records": len(records), "seqs": seqs}))


def _sources(log: DiskDirectory, anchors: Sequence[Path]) -> list[AnchorSource]:
    firsts = segments(log)
    origin = read_open(log, firsts[0]).origin if anchors and firsts else ""
    return [source for path in anchors for source in anchor_sources(path, origin)]


@contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a new file that is removed again if writing it fails."""
    if path is None:
        yield sys.stdout
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        usage(f"{path}: {error.strerror or error}")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
            yield file
    except BaseException:
        path.unlink()
        raise


def check_disclosure_command(
    file: Annotated[Path, typer.Argument(help="The disclosure.")],
    *,
    trust: TrustFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a disclosed operation against a trust policy, without the log and without its keys.

    Exits 0 OK, 1 tampered, 2 usage, 3 incomplete, 4 not proven, 5 unreadable.
    """
    policy = policy_at(trust)
    try:
        with open_input(file) as opened:
            report = check_disclosure(opened, policy, machine.now_s())
    except OSError as error:
        report = DisclosureReport()
        report.add("unreadable", Exit.UNREADABLE, f"{file}: {error.strerror or error}")
    typer.echo(json.dumps(report.to_json(), indent=2) if as_json else "\n".join(report.to_lines()))
    raise typer.Exit(report.exit)


def export_command(
    directory: LogFolder,
    *,
    key: Annotated[
        Path | None, typer.Option(help="An auditor's or recovery key; without one no record is opened.")
    ] = None,
    trust: TrustFile = None,
    anchor: Anchors = None,
    max_anchor_age: Annotated[str, typer.Option(help="How old the newest anchored entry may be.")] = "24h",
    accept_unanchored: Annotated[bool, typer.Option(help="Let the pinned key alone be enough.")] = False,
    reshared: Reshared = None,
    personal_key: PersonalKeyPath = None,
    subjects: SubjectsPath = None,
    blobs: BlobsFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line; the only form there is.")] = True,
) -> None:
    """Print every entry as a JSON object a line, marked as anchored, sealed or unverified.

    The log is verified first; the exit code is that of `audit verify`. Without a policy nothing counts as verified.
    """
    del as_json
    private = None if key is None else reader_key(key, reshared)
    policy, folder = policy_at(trust), log_at(directory)
    refuse_inside([trust, *(anchor or ())], folder)
    log = DiskDirectory(folder)
    options = VerifyOptions(duration_ms(max_anchor_age), accept_unanchored=accept_unanchored)
    with refusals():
        if private is not None and reshared:
            check_handed(log, private)
        report: Report | None = None
        if policy is not None:
            report = verify(
                log,
                policy=policy,
                anchors=anchor or (),
                now_ms=machine.now_ms(),
                options=options,
                settle=machine.settle,
                extra=Extra(),
            )
            for finding in report.findings:
                warn(finding.message)
        unpacked = unpacking(log, blobs, folder)
        with opening(folder, personal_key, subjects) as unbox:
            for entry in extract(log, private, report, skipped=warn):
                shown = entry if entry.content is None else replace(entry, content=unbox(entry.content))
                if unpacked is not None and shown.kind == "data" and shown.content is not None:
                    unpacked.take(shown.seq, shown.content)
                sys.stdout.write(json.dumps(shown.to_json()) + "\n")
    verdict = Exit.NOT_PROVEN if report is None else report.exit
    raise typer.Exit(verdict if unpacked is None else worst([verdict, unpacked.exit]))


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("disclose")(disclose_command)
    app.command("check-disclosure")(check_disclosure_command)
    app.command("export")(export_command)
