"""The file that discloses one operation: each of its records with the key that opens it and the proof of its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO

from audit.record import HEADER_BYTES, MAX_ENTRY_BYTES
from audit.tlog_proof import BadForm, TlogProof, decimal, decode, encode, field, read_proof

MAGIC = "agl1-disclosure@v1"
RECORDS_MAX = 1 << 20
KEY_BYTES = 32
_LINE_BYTES_MAX = 96 * 1024
_NAME = "agl1-disclosure@"


class OtherFormat(BadForm):
    """A file of another kind, or a disclosure of a newer format."""


class CutShort(BadForm):
    """A disclosure that ends before everything that it announces."""


@dataclass(frozen=True, slots=True)
class DisclosedRecord:
    """One record: the bytes of its entry (header and ciphertext), and a proof whose `extra` is the record's key."""

    entry: bytes
    proof: TlogProof


def render(op: str, records: Sequence[DisclosedRecord]) -> Iterator[str]:
    """The file in pieces of text."""
    digest = sha256()
    for piece in _pieces(op, records):
        digest.update(piece.encode())
        yield piece
    # Finds a damaged byte anywhere, also where no key is known: in the cosignature of an unknown witness.
    yield f"end {digest.hexdigest()}\n"


def _pieces(op: str, records: Sequence[DisclosedRecord]) -> Iterator[str]:
    yield f"{MAGIC}\nop {json.dumps(op)}\nrecords {len(records)}\n\n"
    for record in records:
        yield f"entry {encode(record.entry)}\n{record.proof.to_text()}\n"


class DisclosureReader:
    """Reads a disclosure record by record, and insists on its one form to the last byte."""

    def __init__(self, file: BinaryIO) -> None:
        """Read the head.

        Raises:
            OtherFormat: not a disclosure of this format.
            CutShort: the file ends too early.
            BadForm: anything else that is not as it must be.
            OSError: the file cannot be read.
        """
        self._file = file
        self._digest = sha256()
        self._raw = b""
        first = self._file.readline(_LINE_BYTES_MAX)
        if first != f"{MAGIC}\n".encode():
            newer = "a disclosure of a newer format" if first.startswith(_NAME.encode()) else "not a disclosure"
            raise OtherFormat(newer)
        self._raw = first
        self.op = self._op(field(self._line(), "op"))
        self.count = decimal(field(self._line(), "records"))
        if not 0 < self.count <= RECORDS_MAX:
            raise BadForm("a disclosure holds at least one record and not more than an operation can have")
        if self._line():
            raise BadForm("a blank line was expected")

    def records(self) -> Iterator[DisclosedRecord]:
        """The records, in the order of the file; the same errors as for the head, BadForm also for a wrong end."""
        for _ in range(self.count):
            entry = decode(field(self._line(), "entry"))
            if not HEADER_BYTES <= len(entry) <= MAX_ENTRY_BYTES:
                raise BadForm("an entry of an impossible size")
            proof = read_proof(self._line)
            if len(proof.extra) != KEY_BYTES:
                raise BadForm("a record's key has 32 bytes")
            yield DisclosedRecord(entry, proof)
        line = self._line()
        if field(line, "end") != self._digest.hexdigest():
            raise BadForm("the file was changed: its checksum differs")
        if self._file.read(1):
            raise BadForm("something stands behind the end")

    def _line(self) -> str:
        """The next line without its newline; only the lines before it are in the digest."""
        self._digest.update(self._raw)
        self._raw = self._file.readline(_LINE_BYTES_MAX)
        if not self._raw.endswith(b"\n"):
            if len(self._raw) < _LINE_BYTES_MAX:
                raise CutShort("the file ends before everything that it announces")
            raise BadForm("a line that is too long")
        try:
            return self._raw[:-1].decode()
        except UnicodeDecodeError as error:
            raise BadForm("text that is not UTF-8") from error

    @staticmethod
    def _op(value: str) -> str:
        try:
            op = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise BadForm("the operation's id is no JSON string") from error
        if type(op) is not str or json.dumps(op) != value:
            raise BadForm("the operation's id is not in its one form")
        return op
