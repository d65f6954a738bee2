"""The commands that keep a log written without a gateway: recover its end, erase a subject, drop old segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from audit import machine
from audit.arguments import JsonFlag, LogFolder, duration_ms, log_at, own_log_at, recipients_in, refusals, usage
from audit.boxes import Unboxer, erased_subjects
from audit.checkpoint import Publisher
from audit.disk import DiskDirectory
from audit.epochs import EpochKeys, SealKeyFile
from audit.head import Head
from audit.inputs import reason_of
from audit.keyfiles import read_key_line, read_log_key
from audit.keyring import KeyProblem
from audit.log import SEGMENTS, LogContradiction, files_head, read_open, segments
from audit.note import NoteSigner
from audit.recover import QUARANTINE, statement_of_loss
from audit.report import Exit
from audit.retention import Retention, retire
from audit.shred import shred
from audit.subjects import KeptKeys, PersonalKey, SubjectFile
from audit.writer import LogWriter

SealKeyPath = Annotated[Path, typer.Option(help="The file of the log's seal keys.")]
Readers = Annotated[list[str], typer.Option(help="Who may read from now on, all of them: public line or file.")]
By = Annotated[str, typer.Option(help="Who decided it; written into the log.")]
LogKeyPath = Annotated[Path, typer.Option(help="The log's private key file.")]
PersonalKeyPath = Annotated[Path | None, typer.Option(help="The log's key for personal data.")]
SubjectsPath = Annotated[Path | None, typer.Option(help="The file of subject keys.")]

Open = Callable[[dict[str, Any]], dict[str, Any]]

Elsewhere = Callable[[Path], AbstractContextManager[tuple[PersonalKey, KeptKeys] | None]]
"""The keys for a log's personal fields, given its folder, where another program keeps them; None: not there."""

ELSEWHERE: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)
"""Set by a program that has these commands inside it and keeps subject keys in a store of its own."""


@contextmanager
def opening(folder: Path, personal_key: Path | None, subjects: Path | None) -> Iterator[Open]:
    """What opens the boxes of personal fields in a record; without keys it only says which ones were erased."""
    if (personal_key is None) != (subjects is None):
        usage("--personal-key and --subjects belong together")
    erased = erased_subjects(DiskDirectory(folder))
    if personal_key is not None and subjects is not None:
        key = _personal_key(personal_key)
        _refuse_foreign(folder, personal_key, key)
        yield Unboxer(erased, key, _subject_file(subjects, key)).open
        return
    elsewhere = ELSEWHERE.get()
    with nullcontext() if elsewhere is None else elsewhere(folder) as found:
        yield Unboxer(erased, *(found or ())).open


def _personal_key(path: Path) -> PersonalKey:
    try:
        return PersonalKey.parse(read_key_line(path))
    except (OSError, KeyProblem) as error:
        usage(f"key {path}: {reason_of(error)}")


def _subject_file(path: Path, key: PersonalKey) -> SubjectFile:
    """The file, which must be there and hold subject keys only: another one would leave every box closed in silence."""
    directory = DiskDirectory(path.parent)
    store = SubjectFile(directory, path.name, key.origin)
    try:
        directory.size(path.name)
        store.pending()
    except (OSError, KeyProblem) as error:
        usage(f"subjects {path}: {reason_of(error)}")
    return store


def _refuse_foreign(folder: Path, personal_key: Path, key: PersonalKey) -> None:
    """End the command if the key for personal data is another log's."""
    try:
        origin = _origin_of(folder) if segments(DiskDirectory(folder)) else key.origin
    except LogContradiction:
        # What is wrong with the log is said where it is read.
        return
    if origin != key.origin:
        usage(f"{personal_key} belongs to {key.origin}, the log is {origin}")


def _log_key(path: Path) -> NoteSigner:
    try:
        return read_log_key(path)
    except (OSError, KeyProblem) as error:
        usage(f"key {path}: {reason_of(error)}")


def _writer(folder: Path, origin: str, seal_key: Path, readers: list[str], lost: Path | None = None) -> LogWriter:
    recipients = recipients_in(readers)
    if not recipients:
        usage("a log without recipients could never be read")
    return LogWriter.open(
        DiskDirectory(folder),
        origin=origin,
        recipients=recipients,
        seal_key=EpochKeys(SealKeyFile(DiskDirectory(seal_key.parent), seal_key.name), origin),
        entropy=machine.entropy,
        writer_id="audit",
        boot_id=machine.boot_id(),
        t_ms=machine.now_ms(),
        succession=None if lost is None else statement_of_loss(_head_of(lost)),
    )


def _head_of(folder: Path) -> Head:
    directory = DiskDirectory(folder)
    return files_head(directory, _origin_of(folder))


def _origin_of(folder: Path) -> str:
    directory = DiskDirectory(folder)
    firsts = segments(directory)
    if not firsts:
        usage(f"{folder} holds no segment")
    return read_open(directory, firsts[0]).origin


def shred_command(
    directory: LogFolder,
    *,
    subject: Annotated[str, typer.Option(help="Whose personal fields; the name under which they were recorded.")],
    personal_key: Annotated[Path, typer.Option(help="The log's key for personal data.")],
    subjects: Annotated[Path, typer.Option(help="The file of subject keys.")],
    seal_key: SealKeyPath,
    recipient: Readers,
    by: By,
    as_json: JsonFlag = False,
) -> None:
    """Erase one subject's personal fields: delete the key and record it. Every hash stays valid.

    For a stopped log that is written without a gateway; a gateway keeps subject keys in its store. Ends with 4 if
    there is no key of that subject: erased before, or never recorded.
    """
    folder, key = own_log_at(directory), _personal_key(personal_key)
    store = _subject_file(subjects, key)
    with refusals():
        origin = _origin_of(folder)
        _refuse_foreign(folder, personal_key, key)
        writer = _writer(folder, origin, seal_key, recipient)
        try:
            t_ms = machine.now_ms()
            tags = shred(writer, store, key, subject, by=by, directory=DiskDirectory(folder), t_ms=t_ms)
        finally:
            writer.close(machine.now_ms())
    sentence = f"erased: {', '.join(tag.hex() for tag in tags)}" if tags else "there is no key of that subject"
    typer.echo(json.dumps({"erased": [tag.hex() for tag in tags]}) if as_json else sentence)
    if not tags:
        raise typer.Exit(Exit.NOT_PROVEN)


def retain_command(
    directory: LogFolder,
    *,
    older_than: Annotated[str, typer.Option(help="Drop whole segments whose entries are all older: 365d, 24h.")],
    log_key: LogKeyPath,
    seal_key: SealKeyPath,
    recipient: Readers,
    by: By,
    anchor: Annotated[list[Path] | None, typer.Option(help="Folders that keep copies of checkpoints.")] = None,
    witnessed: Annotated[
        int | None, typer.Option(min=0, help="Smallest size that a witness has cosigned; what it needs stays.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Drop old segments of a stopped log that is written without a gateway: first the record, then the files."""
    before_ms = machine.now_ms() - duration_ms(older_than)
    folder, signer = own_log_at(directory), _log_key(log_key)
    files, anchors = DiskDirectory(folder), [DiskDirectory(path) for path in anchor or ()]
    with refusals():
        writer = _writer(folder, signer.name, seal_key, recipient)
        try:
            kept = retire(
                writer,
                files,
                Retention(before_ms, by),
                keys=[signer.key],
                publish=Publisher(files, signer, anchors).publish,
                t_ms=machine.now_ms(),
                anchors=anchors,
                keep_from=witnessed,
            )
        finally:
            writer.close(machine.now_ms())
    typer.echo(json.dumps({"first_seq": kept}) if as_json else f"the log begins at entry {kept} now")


def recover_command(
    directory: LogFolder,
    *,
    seal_key: SealKeyPath,
    recipient: Readers,
    accept_loss: Annotated[
        Path | None,
        typer.Option(metavar="OLD", help="Folder of a log whose end is lost: DIR becomes a new log that says so."),
    ] = None,
    log_key: Annotated[Path | None, typer.Option(help="With --accept-loss: the new log's private key file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Set the torn end of a stopped log aside and record it; or go on in a new log after a loss.

    For a log that is written without a gateway; `gateway recover` is a gateway's own.
    """
    if (accept_loss is None) != (log_key is None):
        usage("--accept-loss and --log-key belong together: the new log has a new origin, and so a new key")
    with refusals():
        if accept_loss is None or log_key is None:
            folder = own_log_at(directory)
            writer = _writer(folder, _origin_of(folder), seal_key, recipient)
        else:
            folder, old = directory, log_at(accept_loss)
            if (folder / SEGMENTS).exists():
                usage(f"{folder} holds a log already; a new one needs a folder of its own")
            writer = _writer(folder, _log_key(log_key).name, seal_key, recipient, old)
        writer.close(machine.now_ms())
    torn = DiskDirectory(folder).names(QUARANTINE)
    facts = {"entries": writer.head.size, "quarantine": torn}
    sentence = f"the log ends at entry {writer.head.size - 1}; {len(torn)} torn ends are in quarantine"
    typer.echo(json.dumps(facts) if as_json else sentence)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("shred")(shred_command)
    app.command("retain")(retain_command)
    app.command("recover")(recover_command)
