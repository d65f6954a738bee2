"""Proofs that travel alone, c2sp.org/tlog-proof@v1: an entry's index, its inclusion proof, and the checkpoint."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

from audit.chain import HASH_BYTES
from audit.proofs import PROOF_HASHES_MAX

MAGIC = "c2sp.org/tlog-proof@v1"
_INDEX_MAX = 1 << 63
_SIGNATURES_MAX = 100
_DASH = "\N{EM DASH} "


class BadForm(ValueError):
    """Text that does not follow its format to the byte."""


@dataclass(frozen=True, slots=True)
class TlogProof:
    """Entry `index` is in the tree of the checkpoint in `note`; `extra` is for the reader, and no proof covers it."""

    index: int
    hashes: tuple[bytes, ...]
    note: str
    extra: bytes

    def to_text(self) -> str:
        """The proof as the specification writes it, ending with the checkpoint's last newline."""
        lines = [MAGIC, f"extra {encode(self.extra)}", f"index {self.index}", *map(encode, self.hashes), ""]
        return "".join(f"{line}\n" for line in lines) + self.note


def encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def decode(value: str) -> bytes:
    """Standard base64 in its one form; raise BadForm otherwise."""
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadForm("base64 was expected") from error
    if encode(raw) != value:
        raise BadForm("base64 that is not in its one form")
    return raw


def decimal(value: str) -> int:
    """A number without sign or leading zeros; raise BadForm otherwise."""
    if not value.isascii() or not value.isdecimal() or len(value) > 19 or str(int(value)) != value:
        raise BadForm("a number was expected")
    number = int(value)
    if number >= _INDEX_MAX:
        raise BadForm("a number that is too large")
    return number


def field(line: str, name: str) -> str:
    """What stands behind `name ` in a line; raise BadForm if the line is another."""
    if not line.startswith(f"{name} "):
        raise BadForm(f"a line {name!r} was expected")
    return line[len(name) + 1 :]


def read_proof(line: Callable[[], str]) -> TlogProof:
    """Read a proof with an extra line, line by line, up to and with the blank line behind its checkpoint.

    Raises:
        BadForm: the lines are no such proof.
    """
    if line() != MAGIC:
        raise BadForm(f"a line {MAGIC!r} was expected")
    extra = decode(field(line(), "extra"))
    index = decimal(field(line(), "index"))
    hashes: list[bytes] = []
    while text := line():
        hashes.append(decode(text))
        if len(hashes[-1]) != HASH_BYTES or len(hashes) > PROOF_HASHES_MAX:
            raise BadForm("a proof has at most 63 hashes of 32 bytes")
    note = [line(), line(), line(), line()]
    if note[3] or not all(note[:3]):
        raise BadForm("a checkpoint of three lines and a blank one was expected")
    while text := line():
        note.append(text)
        if not text.startswith(_DASH) or len(note) > 4 + _SIGNATURES_MAX:
            raise BadForm("a signature line was expected")
    return TlogProof(index, tuple(hashes), "".join(f"{text}\n" for text in note), extra)
