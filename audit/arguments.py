"""Reads what the commands are given: folders, durations, policies, keys, receipts; each mistake ends in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from audit.claims import anchor_sources
from audit.discloser import CannotDisclose
from audit.disk import Directory, DiskDirectory, LogError, LogLocked
from audit.export import ExportFailed
from audit.inputs import STDIN, read_input, reason_of
from audit.keyfiles import read_recipient_key
from audit.keyring import KeyProblem, Recipient, RecipientKey
from audit.log import OWNER, SEGMENTS, origin_of
from audit.receipts import BadReceipts, Receipt, read_receipts
from audit.report import Exit, printable
from audit.reshare import holding, read_reshare
from audit.rotate import BadRotation
from audit.show import BadDocument
from audit.tlog_proof import BadForm
from audit.trust import BadPolicy, TrustPolicy
from audit.unpacked import Unpacked

_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

LogFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The log's folder.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TrustFile = Annotated[Path | None, typer.Option(help="Policy file with the pinned log key, from elsewhere.")]
Anchors = Annotated[list[Path] | None, typer.Option(help="Signed checkpoints kept elsewhere: file or folder.")]
BlobsFolder = Annotated[
    Path | None, typer.Option(help="Folder for the blobs that the records name: each opened, under its own name.")
]
Reshared = Annotated[list[Path] | None, typer.Option(help="Secrets handed on to the key, see `audit reshare`.")]


def usage(message: str) -> NoReturn:
    """End the command: what was asked for cannot be done like this."""
    warn(message)
    raise typer.Exit(Exit.USAGE)


def warn(message: str) -> None:
    """A line on standard error that cannot steer the terminal."""
    typer.echo(f"audit: {printable(message)}", err=True)


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
        usage(f"{path} holds {len(below)} logs; name one: {', '.join(str(folder) for folder in below[:5])}")
    return below[0] if below else path


def log_at(path: Path) -> Path:
    """The log's own folder, which must be there."""
    folder = find_log(path)
    if not (folder / SEGMENTS).is_dir():
        warn(f"{folder} holds no log")
        raise typer.Exit(Exit.UNREADABLE)
    return folder


def own_log_at(path: Path) -> Path:
    """The folder of a log that may be written here: not of one that another program keeps in a store of its own."""
    folder = log_at(path)
    if (folder / OWNER).exists():
        # Entries that the store does not know would make it look like an old copy.
        usage(f"{folder} is written by a gateway, which has commands of its own: see `gateway --help`")
    return folder


def refuse_inside(paths: Sequence[Path | None], folder: Path) -> None:
    """End the command if what should vouch for a log lies in its folder."""
    own = folder.resolve()
    for path in paths:
        if path is None or path == STDIN:
            continue
        if any(place.resolve().is_relative_to(own) for place in (path, *_read_for(path, folder))):
            usage(f"{path} lies in the log's own folder: whoever can change the log can change it too")


def _read_for(path: Path, folder: Path) -> Iterator[Path]:
    """The files that a folder of anchors is read for: it may be one above the log, and lead back into it."""
    if not path.is_dir():
        return
    for source in anchor_sources(path, origin_of(DiskDirectory(folder))):
        if isinstance(source.directory, DiskDirectory):
            yield source.directory.path / source.name


def unpacking(log: Directory, blobs: Path | None, folder: Path) -> Unpacked | None:
    """Where opened blobs go, if they are asked for. Raises OSError."""
    if blobs is None:
        return None
    if blobs.resolve().is_relative_to(folder.resolve()):
        usage(f"{blobs} lies in the log's own folder: what is in the open does not belong there")
    return Unpacked(log, blobs, warn)


def policy_at(path: Path | None) -> TrustPolicy | None:
    if path is None:
        return None
    try:
        return TrustPolicy.parse(read_input(path))
    except (OSError, BadPolicy, UnicodeDecodeError) as error:
        usage(f"trust policy {path}: {reason_of(error)}")


def receipts_at(path: Path | None) -> list[Receipt]:
    if path is None:
        return []
    try:
        found = read_receipts(read_input(path))
    except (OSError, BadReceipts, UnicodeDecodeError) as error:
        usage(f"receipts {path}: {reason_of(error)}")
    if not found:
        # Who gives receipts wants them compared; an empty file must not look as if they had been.
        usage(f"receipts {path}: the file holds none")
    return found


def reader_key(path: Path, reshared: Sequence[Path] | None = None) -> RecipientKey:
    """A reader's private key, with what was handed on to it."""
    try:
        key = read_recipient_key(path)
    except (OSError, KeyProblem) as error:
        usage(f"key {path}: {reason_of(error)}")
    for file in reshared or ():
        try:
            key = holding(key, [read_reshare(read_input(file))])
        except (OSError, BadForm, KeyProblem, UnicodeDecodeError) as error:
            usage(f"handed-on secrets {file}: {reason_of(error)}")
    return key


def recipients_in(texts: Sequence[str]) -> list[Recipient]:
    """Public keys given as lines, or as files of lines."""
    found: list[Recipient] = []
    for text in texts:
        try:
            lines = [text] if text.startswith("agl1-recipient+") else read_input(Path(text)).splitlines()
            found += [Recipient.parse(line) for line in lines if line.strip() and not line.startswith("#")]
        except (OSError, KeyProblem, UnicodeDecodeError) as error:
            usage(f"recipient {text[:60]}: {reason_of(error)}")
    return found


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what stops a reader of a log into a sentence and an exit code."""
    try:
        yield
    except (KeyProblem, BadDocument, LogError) as error:
        warn(str(error))
        raise typer.Exit(_code_of(error)) from error
    except BrokenPipeError:
        # Not the log: whoever read the answer has gone, which is said where the program ends.
        raise
    except OSError as error:
        warn(f"{error.filename}: {error.strerror}" if error.filename else reason_of(error))
        raise typer.Exit(Exit.UNREADABLE) from error


def _code_of(error: Exception) -> Exit:
    match error:
        case CannotDisclose():
            return error.exit
        case LogLocked() | BadRotation():
            return Exit.USAGE
        case ExportFailed():
            return Exit.UNREADABLE
        case KeyProblem():
            return Exit.NOT_PROVEN
        case _:
            return Exit.TAMPERED
