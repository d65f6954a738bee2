"""A witness: cosigns a checkpoint of a known log if it extends the one before (c2sp.org/tlog-witness)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from audit.chain import HASH_BYTES
from audit.checkpoint import Checkpoint, open_checkpoint
from audit.cosign import Cosigner
from audit.disk import Directory, LogError, write_whole
from audit.note import BadNote, BadSignature, NoteKey, UnknownSigner
from audit.proofs import PROOF_HASHES_MAX, BadProof, check_consistency

REQUEST_BYTES_MAX = 1 << 16
SIZE_TYPE = "text/x.tlog.size"
TEXT_TYPE = "text/plain; charset=utf-8"
_FORKED = "forked"
_TOLD_CHARS = 100
_OLD = re.compile(r"old (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status with its body.

    A refusal has a `reason` for whoever runs the witness, and the `origin` of the log if a key of that log signed what
    was refused; both may hold whatever was sent.
    """

    status: int
    body: str
    content_type: str = TEXT_TYPE
    reason: str = ""
    origin: str = ""


class _Refused(Exception):
    def __init__(
        self, status: int, body: str, content_type: str = TEXT_TYPE, *, reason: str = "", origin: str = ""
    ) -> None:
        super().__init__(body)
        self.answer = Answer(status, f"{body}\n", content_type, reason or body, origin)


class Witness:
    """Keeps the newest cosigned checkpoint of every log in a folder. One at a time may use a folder.

    `add` is synchronous and complete: between looking at what was cosigned last and storing what is cosigned now
    nothing else can happen, so a slower request cannot take the record back.
    """

    def __init__(self, directory: Directory, cosigner: Cosigner, logs: Sequence[NoteKey]) -> None:
        """Lock the folder; raise LogLocked if another witness has it."""
        directory.lock()
        self._directory = directory
        self._cosigner = cosigner
        self._logs = tuple(logs)

    def close(self) -> None:
        self._directory.unlock()

    def add(self, request: bytes, now_s: int) -> Answer:
        """Answer one add-checkpoint request; `now_s` is Unix time in seconds.

        Raises:
            OSError: the record could not be read or stored: nothing was cosigned.
            LogError: the stored record is damaged.
        """
        try:
            return self._add(request, now_s)
        except _Refused as refused:
            return refused.answer

    def latest(self, origin: str) -> Checkpoint | None:
        """The newest checkpoint of a log that was cosigned here; None if there is none. Raises LogError, OSError."""
        try:
            name = _record(origin)
            text = self._directory.read(name, 0, self._directory.size(name)).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise LogError(f"the record of {origin} is damaged: it is not text") from error
        try:
            return Checkpoint.from_text(text)
        except BadNote as error:
            raise LogError(f"the record of {origin} is damaged: {error}") from error

    def _add(self, request: bytes, now_s: int) -> Answer:
        old_size, proof, note = _split(request)
        checkpoint = self._open(note)
        origin, known = checkpoint.origin, self.latest(checkpoint.origin)
        known_size = 0 if known is None else known.size
        facts = f"a checkpoint of {checkpoint.size} entries on top of {old_size}, while {known_size} were cosigned"
        meaning = _meaning(known, checkpoint)
        if old_size > checkpoint.size:
            body = "the old size is larger than the checkpoint's"
            raise _Refused(400, body, reason=f"{meaning}: {facts}", origin=origin)
        if old_size != known_size or meaning == _FORKED:
            raise _Refused(409, str(known_size), SIZE_TYPE, reason=f"{meaning}: {facts}", origin=origin)
        try:
            old_root = b"" if known is None else known.root
            check_consistency(old_size, old_root, checkpoint.size, checkpoint.root, proof)
        except BadProof as error:
            reason = f"{_FORKED}, or a wrong proof: {facts}: {error}"
            raise _Refused(422, str(error), reason=reason, origin=origin) from error
        line = self._cosigner.cosign(checkpoint.to_text(), now_s)
        # Stored before it is given out: after a crash a smaller tree must never be cosigned.
        write_whole(self._directory, _record(checkpoint.origin), checkpoint.to_text().encode())
        return Answer(200, line)

    def _open(self, note: bytes) -> Checkpoint:
        origin = note.partition(b"\n")[0].decode(errors="replace")
        keys = [key for key in self._logs if key.name == origin]
        if not keys:
            body = "this witness does not know that log"
            raise _Refused(404, body, reason=f"{body}: {origin[:_TOLD_CHARS]}")
        try:
            return open_checkpoint(note, keys)
        except UnknownSigner as error:
            body = "no signature by a key of that log"
            raise _Refused(403, body, reason=f"{body}: {origin}{_size_in(note)}") from error
        except BadSignature as error:
            raise _Refused(403, str(error), reason=f"{error}: {origin}{_size_in(note)}") from error
        except BadNote as error:
            raise _Refused(400, str(error)) from error


def _meaning(known: Checkpoint | None, checkpoint: Checkpoint) -> str:
    """What it says of a log that its checkpoint does not go on from the one that was cosigned last."""
    if known is not None and checkpoint.size < known.size:
        return "rolled back"
    if known is not None and checkpoint.size == known.size and checkpoint.root != known.root:
        return _FORKED
    return "out of step"


def _size_in(note: bytes) -> str:
    """The size that an unsigned checkpoint claims, for people."""
    claimed = note.split(b"\n", 2)[1:2]
    return f", {claimed[0].decode()} entries" if claimed and re.fullmatch(b"[0-9]{1,19}", claimed[0]) else ""


def _record(origin: str) -> str:
    return f"{sha256(origin.encode()).hexdigest()}.checkpoint"


def _split(request: bytes) -> tuple[int, list[bytes], bytes]:
    head, separator, note = request.partition(b"\n\n")
    lines = head.decode(errors="replace").split("\n")
    match = _OLD.fullmatch(lines[0])
    if not separator or match is None or int(match[1]) >= 1 << 63 or len(lines) - 1 > PROOF_HASHES_MAX:
        raise _Refused(400, "expected 'old SIZE', up to 63 hashes, a blank line and a checkpoint")
    return int(match[1]), [_hash(line) for line in lines[1:]], note


def _hash(line: str) -> bytes:
    try:
        raw = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != HASH_BYTES or base64.b64encode(raw).decode() != line:
        raise _Refused(400, "a line of the proof is not a hash in base64")
    return raw


def request_of(old_size: int, proof: Sequence[bytes], note: str) -> bytes:
    """The body of an add-checkpoint request."""
    lines = "".join(f"{base64.b64encode(item).decode()}\n" for item in proof)
    return f"old {old_size}\n{lines}\n{note}".encode()
