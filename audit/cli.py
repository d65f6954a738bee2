"""The `audit` command: verify and show a log, make keys. Needs nothing of the gateway."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from audit.cosign import Cosigner
from audit.disk import DiskDirectory, LogError
from audit.keyfiles import read_key_line, read_log_key, read_recipient_key, write_key
from audit.keyring import KeyProblem, RecipientKey, Role, SealKey
from audit.log import SEGMENTS
from audit.note import NoteSigner
from audit.receipts import BadReceipts, Receipt, read_receipts
from audit.report import Exit, Finding, Report, moment, printable
from audit.show import BadDocument, Shown, show
from audit.trust import BadPolicy, TrustPolicy
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

_COLOURS = {Exit.OK: "green", Exit.TAMPERED: "red", Exit.INCOMPLETE: "yellow", Exit.NOT_PROVEN: "yellow"}
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class KeyKind(StrEnum):
    AUDITOR = "auditor"
    RECOVERY = "recovery"
    LOG = "log"
    SEAL = "seal"
    WITNESS = "witness"


def _usage(message: str) -> NoReturn:
    typer.echo(f"audit: {printable(message)}", err=True)
    raise typer.Exit(Exit.USAGE)


def duration_ms(value: str) -> int:
    """A duration like 90s, 30m, 24h or 7d in milliseconds; raise BadParameter."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", value.strip())
    if match is None:
        raise typer.BadParameter(f"{value!r} is not a duration; write for example 90s, 30m, 24h or 7d")
    return int(match[1]) * _UNITS[match[2]]


def find_log(path: Path) -> Path:
    """The log's own folder: the path itself, or the one log somewhere below it."""
    if not path.is_dir() or (path / SEGMENTS).exists():
        return path
    below = sorted(found.parent for found in path.rglob(SEGMENTS) if found.is_dir())
    if len(below) > 1:
        _usage(f"{path} holds {len(below)} logs; name one: {', '.join(str(folder) for folder in below[:5])}")
    return below[0] if below else path


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _policy(path: Path | None) -> TrustPolicy | None:
    if path is None:
        return None
    try:
        return TrustPolicy.parse(path.read_text(encoding="utf-8"))
    except (OSError, BadPolicy, UnicodeDecodeError) as error:
        _usage(f"trust policy {path}: {error}")


@app.command("verify")
def verify_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The log's folder.")],
    *,
    trust: Annotated[Path | None, typer.Option(help="Policy file with the pinned log key, from elsewhere.")] = None,
    anchor: Annotated[
        list[Path] | None, typer.Option(help="Signed checkpoints kept elsewhere: file or folder.")
    ] = None,
    max_anchor_age: Annotated[str, typer.Option(help="How old the newest anchored entry may be.")] = "24h",
    max_unsealed: Annotated[int, typer.Option(min=0, help="Entries at the end that may be without a seal.")] = 4096,
    accept_unanchored: Annotated[bool, typer.Option(help="Let the pinned key alone be enough.")] = False,
    receipts: Annotated[
        Path | None, typer.Option(help="Receipts of those who used the log, a JSON object a line.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="An auditor's private key: open every record as well.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Processes that read.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check every entry, link, root, seal and checkpoint; needs no secret key.

    Exits 0 OK, 1 tampered, 2 usage, 3 incomplete, 4 not proven, 5 unreadable.
    """
    options = VerifyOptions(duration_ms(max_anchor_age), max_unsealed, accept_unanchored)
    policy = _policy(trust)
    now_ms = time.time_ns() // 1_000_000
    folder = find_log(directory)
    beside = [path for path in (trust, *(anchor or ())) if path is not None and _inside(path, folder)]
    if beside:
        _usage(f"{beside[0]} lies in the log's own folder: whoever can change the log can change it too")
    given = _receipts(receipts)
    private = None if key is None else _recipient_key(key)
    with _progress(shown=sys.stderr.isatty() and not as_json) as (started, progress):
        report = verify(
            DiskDirectory(folder),
            policy=policy,
            anchors=anchor or (),
            now_ms=now_ms,
            options=options,
            settle=lambda: time.sleep(0.05),
            extra=Extra(given, private, jobs, started, progress),
        )
    if not folder.is_dir():
        report.add(Finding("unreadable", Exit.UNREADABLE, f"{folder} is not a folder"))
    print_report(report, as_json=as_json)
    raise typer.Exit(report.exit)


def _receipts(path: Path | None) -> list[Receipt]:
    try:
        return [] if path is None else read_receipts(path.read_text(encoding="utf-8"))
    except (OSError, BadReceipts, UnicodeDecodeError) as error:
        _usage(f"receipts {path}: {error}")


def _recipient_key(path: Path) -> RecipientKey:
    try:
        return read_recipient_key(path)
    except (OSError, KeyProblem) as error:
        _usage(f"key {path}: {error}")


@contextmanager
def _progress(*, shown: bool) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """A bar of bytes on standard error; what is given out is told the total and then each part."""
    with Progress(console=Console(stderr=True), disable=not shown, transient=True) as bar:
        task = bar.add_task("verifying", total=None)
        yield lambda total: bar.update(task, total=total), lambda done: bar.advance(task, done)


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
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The log's folder.")],
    *,
    key: Annotated[Path, typer.Option(help="An auditor's or recovery private key file.")],
    op: Annotated[str | None, typer.Option(help="Only records of this operation.")] = None,
    clear: Annotated[bool, typer.Option("--all", help="Also seals, openings and other clear entries.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Decrypt and print the records. Whether they can be relied on is what `audit verify` says."""
    private = _recipient_key(key)
    folder = find_log(directory)
    if not (folder / SEGMENTS).is_dir():
        typer.echo(f"audit: {folder} holds no log", err=True)
        raise typer.Exit(Exit.UNREADABLE)
    try:
        for shown in show(DiskDirectory(folder), private, op=op, clear=clear, skipped=_warn):
            typer.echo(json.dumps(shown.to_json()) if as_json else _line(shown))
    except (KeyProblem, BadDocument, LogError) as error:
        typer.echo(f"audit: {printable(str(error))}", err=True)
        raise typer.Exit(Exit.TAMPERED if isinstance(error, BadDocument | LogError) else Exit.NOT_PROVEN) from error
    except OSError as error:
        typer.echo(f"audit: {error}", err=True)
        raise typer.Exit(Exit.UNREADABLE) from error


def _warn(message: str) -> None:
    typer.echo(f"audit: {printable(message)}", err=True)


def _line(shown: Shown) -> str:
    content = dict(shown.content)
    title = f"{content.pop('op', '-')} {content.pop('ev', '-')}" if "op" in content else shown.kind.name.lower()
    return printable(f"{shown.seq:>8}  {moment(shown.t_ms)}  {title}  {json.dumps(content)}")


@app.command("keygen")
def keygen_command(
    kind: Annotated[KeyKind, typer.Argument(help="What the key is for.")],
    out: Annotated[Path, typer.Option(help="New file for the private key, mode 0600; never overwritten.")],
    name: Annotated[str | None, typer.Option(help="Name of a reader's or witness's key; default: the kind.")] = None,
    origin: Annotated[str | None, typer.Option(help="The log's origin, for a log key.")] = None,
    log_key: Annotated[Path | None, typer.Option(help="The log key that certifies a seal key.")] = None,
) -> None:
    """Make a key: the private part goes into a file, the public part is printed."""
    try:
        private, public = _make_key(kind, name or kind.value, origin, log_key)
        write_key(out, private)
    except FileExistsError:
        _usage(f"{out} exists already; a key file is never overwritten")
    except (OSError, KeyProblem) as error:
        _usage(str(error))
    typer.echo(public)


def _make_key(kind: KeyKind, name: str, origin: str | None, log_key: Path | None) -> tuple[str, str]:
    if kind in {KeyKind.AUDITOR, KeyKind.RECOVERY}:
        key = RecipientKey.generate(Role[kind.name], name, secrets.token_bytes)
        return key.to_line(), str(key.recipient)
    if kind is KeyKind.LOG:
        if origin is None:
            _usage("a log key needs --origin, for example gw.example/audit/prod-1")
        signer = NoteSigner.generate(origin, secrets.token_bytes)
        return signer.to_line(), f"log {signer.key}"
    if kind is KeyKind.WITNESS:
        cosigner = Cosigner.generate(name, secrets.token_bytes)
        return cosigner.to_line(), f"witness {name} {cosigner.key}"
    if log_key is None:
        _usage("a seal key needs --log-key, the key that certifies it")
    certifier = read_log_key(log_key)
    seal_key = SealKey.issue(certifier.signer, certifier.name, secrets.token_bytes)
    return seal_key.to_line(), f"seal key of epoch {seal_key.epoch} for {seal_key.origin}: {seal_key.public.hex()}"


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
    if not separator or not port.isdecimal():
        _usage(f"{listen!r} is not ADDRESS:PORT")
    policy = _policy(trust)
    logs = () if policy is None else policy.logs
    try:
        witness = Witness(DiskDirectory(state), Cosigner.parse(read_key_line(key)), logs)
    except (OSError, KeyProblem, LogError) as error:
        _usage(str(error))
    try:
        asyncio.run(serve(witness, (host, int(port)), lambda: int(time.time()), typer.echo))
    except OSError as error:
        _usage(f"cannot listen on {listen}: {error.strerror or error}")
    finally:
        witness.close()


def main() -> None:
    """Run the command; the entry point of the script."""
    app(prog_name="audit", args=sys.argv[1:])
