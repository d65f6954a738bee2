"""The `audit` command: verify and show a log, serve as a witness. Needs nothing of the gateway."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from audit import cli_disclosure, cli_keys, cli_upkeep, machine
from audit.arguments import (
    Anchors,
    BlobsFolder,
    LogFolder,
    Reshared,
    TrustFile,
    duration_ms,
    find_log,
    log_at,
    policy_at,
    reader_key,
    receipts_at,
    refusals,
    refuse_inside,
    unpacking,
    usage,
    warn,
)
from audit.cli_trust import trust_app
from audit.cli_upkeep import PersonalKeyPath, SubjectsPath, opening
from audit.cosign import Cosigner
from audit.disk import DiskDirectory, LogError
from audit.keyfiles import read_key_line
from audit.keyring import KeyProblem, RecipientKey
from audit.record import Kind
from audit.report import Exit, Finding, Report, moment, printable
from audit.reshare import check_handed
from audit.show import Shown, show
from audit.verify import Extra, VerifyOptions, verify
from audit.witness import Witness

app = typer.Typer(
    name="audit",
    help="Check and read a gateway's audit log. Works on files alone: no network, no database.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

witness_app = typer.Typer(help="Anchor other logs by cosigning their checkpoints.", no_args_is_help=True)
app.add_typer(witness_app, name="witness")
app.add_typer(trust_app, name="trust")

_PORT_MAX = 65_535

_COLOURS = {Exit.OK: "green", Exit.TAMPERED: "red", Exit.INCOMPLETE: "yellow", Exit.NOT_PROVEN: "yellow"}


@app.command("verify")
def verify_command(
    directory: LogFolder,
    *,
    trust: TrustFile = None,
    anchor: Anchors = None,
    max_anchor_age: Annotated[str, typer.Option(help="How old the newest anchored entry may be.")] = "24h",
    max_unsealed: Annotated[int, typer.Option(min=0, help="Entries at the end that may be without a seal.")] = 4096,
    accept_unanchored: Annotated[bool, typer.Option(help="Let the pinned key alone be enough.")] = False,
    receipts: Annotated[
        Path | None, typer.Option(help="Receipts of those who used the log, a JSON object a line.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="An auditor's private key: open every record as well.")] = None,
    reshared: Reshared = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Processes that read.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check every entry, link, root, seal and checkpoint; needs no secret key.

    Exits 0 OK, 1 tampered, 2 usage, 3 incomplete, 4 not proven, 5 unreadable.
    """
    options = VerifyOptions(duration_ms(max_anchor_age), max_unsealed, accept_unanchored)
    policy = policy_at(trust)
    folder = find_log(directory)
    refuse_inside([trust, *(anchor or ())], folder)
    given = receipts_at(receipts)
    private = None if key is None else _checked_key(key, reshared, folder)
    with progress_bar("verifying", shown=sys.stderr.isatty() and not as_json) as (started, progress):
        report = verify(
            DiskDirectory(folder),
            policy=policy,
            anchors=anchor or (),
            now_ms=machine.now_ms(),
            options=options,
            settle=machine.settle,
            extra=Extra(given, private, jobs, started, progress),
        )
    if not folder.is_dir():
        report.add(Finding("unreadable", Exit.UNREADABLE, f"{folder} is not a folder"))
    print_report(report, as_json=as_json)
    raise typer.Exit(report.exit)


def _checked_key(key: Path, reshared: list[Path] | None, folder: Path) -> RecipientKey:
    private = reader_key(key, reshared)
    if reshared:
        # What was handed on is held against the log first: a bad file must not look like a bad log.
        with refusals():
            check_handed(DiskDirectory(folder), private)
    return private


@contextmanager
def progress_bar(what: str, *, shown: bool) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """A bar of bytes on standard error; what is given out is told the total and then each part."""
    bar = Progress(console=Console(stderr=True), disable=not shown, transient=True)
    task = bar.add_task(what, total=None)

    def started(total: int) -> None:
        # Not before: the bar has a thread of its own, and processes are made more cheaply while there is none.
        bar.update(task, total=total)
        bar.start()

    try:
        yield started, lambda done: bar.advance(task, done)
    finally:
        if bar.live.is_started:
            bar.stop()


def print_report(report: Report, *, as_json: bool) -> None:
    """Print a report to standard output."""
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    *lines, verdict = report.to_lines()
    for line in lines:
        console.print(line)
    console.print(verdict, style=_COLOURS.get(report.exit, "yellow"))


@app.command("show")
def show_command(
    directory: LogFolder,
    *,
    key: Annotated[Path, typer.Option(help="An auditor's or recovery private key file.")],
    op: Annotated[str | None, typer.Option(help="Only records of this operation.")] = None,
    reshared: Reshared = None,
    personal_key: PersonalKeyPath = None,
    subjects: SubjectsPath = None,
    clear: Annotated[bool, typer.Option("--all", help="Also seals, openings and other clear entries.")] = False,
    blobs: BlobsFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    r"""Decrypt and print the records. Whether they can be relied on is what `audit verify` says.

    Personal fields stay in their boxes without the keys for them; those of an erased subject read `\[shredded]`.
    With `--blobs` it ends with 3 if one is missing and 1 if one is not what its record names.
    """
    private, folder = reader_key(key, reshared), log_at(directory)
    with refusals():
        if reshared:
            check_handed(DiskDirectory(folder), private)
        unpacked = unpacking(DiskDirectory(folder), blobs, folder)
        with opening(folder, personal_key, subjects) as unbox:
            for found in show(DiskDirectory(folder), private, op=op, clear=clear, skipped=warn):
                shown = replace(found, content=unbox(found.content))
                if unpacked is not None and shown.kind is Kind.DATA:
                    unpacked.take(shown.seq, shown.content)
                typer.echo(json.dumps(shown.to_json()) if as_json else _line(shown))
    if unpacked is not None:
        raise typer.Exit(unpacked.exit)


def _line(shown: Shown) -> str:
    content = dict(shown.content)
    title = f"{content.pop('op', '-')} {content.pop('ev', '-')}" if "op" in content else shown.kind.name.lower()
    return printable(f"{shown.seq:>8}  {moment(shown.t_ms)}  {title}  {json.dumps(content)}")


@witness_app.command("serve")
def witness_serve_command(
    state: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that keeps what was cosigned last.")],
    *,
    key: Annotated[Path, typer.Option(help="The witness's private key file.")],
    trust: Annotated[Path, typer.Option(help="Policy file; its log lines say whose checkpoints are taken.")],
    listen: Annotated[str, typer.Option(help="Address and port; port 0 takes any free one.")] = "127.0.0.1:8467",
) -> None:
    """Cosign other logs' checkpoints over HTTP (c2sp.org/tlog-witness), each only if it extends the one before."""
    from audit.witness_server import serve  # noqa: PLC0415 - only this command needs HTTP; the others start twice as fast

    host, separator, port = listen.rpartition(":")
    if not separator or not re.fullmatch("[0-9]{1,5}", port) or int(port) > _PORT_MAX:
        usage(f"{listen!r} is not ADDRESS:PORT")
    policy = policy_at(trust)
    logs = () if policy is None else policy.logs
    try:
        witness = Witness(DiskDirectory(state), Cosigner.parse(read_key_line(key)), logs)
    except (OSError, KeyProblem, LogError) as error:
        usage(str(error))
    try:
        asyncio.run(serve(witness, (host, int(port)), machine.now_s, typer.echo, warn))
    except OSError as error:
        usage(f"cannot listen on {listen}: {error.strerror or error}")
    finally:
        witness.close()


cli_keys.register(app)
cli_upkeep.register(app)
cli_disclosure.register(app)


def main() -> None:
    """Run the command; the entry point of the script."""
    guarded(lambda: app(prog_name="audit", args=sys.argv[1:]))


def guarded(command: Callable[[], object]) -> None:
    """Run a command of this program, also inside another one's.

    Exit 1 accuses a log. Only a verdict may end so, and neither an answer that nobody could take nor a fault of ours.
    """
    try:
        command()
    except SystemExit as end:
        if end.code != Exit.TAMPERED or isinstance(end.__context__, typer.Exit):
            raise
        _no_verdict("the answer could not be written: whoever should read it is gone")
    except OSError as error:
        _no_verdict(f"the answer could not be written: {error.strerror or error}")
    except Exception:  # noqa: BLE001 - Python itself would end with 1, which says "tampered"
        traceback.print_exc()
        _no_verdict("a fault of this program, shown above; it says nothing about the log")


def _no_verdict(reason: str) -> NoReturn:
    warn(reason)
    drop_output()
    raise SystemExit(Exit.UNREADABLE) from None


def drop_output() -> None:
    """Let go of what could not be written: it would fail again when Python ends, and change the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
