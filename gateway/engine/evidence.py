"""What the audit log's files say of one operation, to be taken elsewhere: the signed head, and a disclosure."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from audit.discloser import disclose, newest_signed
from audit.disclosure import render
from audit.disk import DiskDirectory, LogError, log_folder
from audit.keyfiles import read_recipient_key
from audit.keyring import KeyProblem
from gateway.store.port import Refused


@dataclass(frozen=True, slots=True)
class Proof:
    """The newest checkpoint with everybody's signatures; the operation's records with proofs, if they were opened."""

    checkpoint: str | None
    disclosure: str | None = None


def prove(logs: Path, origin: str, operation_id: str, key: Path | None, skipped: Callable[[str], None]) -> Proof:
    """Read the files of one log, which may be in use. `key` is an auditor's key file; without one no record is opened.

    Raises `store.port.Refused` if what is asked for cannot be had: a key that does not fit, an operation that is not
    final or not yet under a checkpoint, files that are damaged.
    """
    directory = DiskDirectory(log_folder(logs, origin))
    try:
        signed = newest_signed(directory)
        note = None if signed is None else signed.note
        if key is None:
            return Proof(note)
        records = disclose(directory, read_recipient_key(key), operation_id, signed, skipped=skipped)
        return Proof(note, "".join(render(operation_id, records)))
    except (KeyProblem, LogError) as error:
        raise Refused(f"The operation cannot be disclosed: {error}.") from error
    except OSError as error:
        raise Refused(f"{error.filename or directory.path} cannot be read: {error.strerror}.") from error
