"""Hands the secrets of old segments on to a reader who came later: made by one who can open them, verified on use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from audit.disk import Directory
from audit.keyring import KeyProblem, Recipient, RecipientKey, WrongKey, handed_info, open_secret
from audit.log import read_open, segments
from audit.tlog_proof import BadForm, decimal, decode, encode, field

MAGIC = "agl1-reshare@v1"
SEALED_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Reshare:
    """What a file hands on: sealed secrets by the first seq of their segment."""

    origin: str
    giver: Recipient
    receiver: Recipient
    sealed: dict[int, bytes]


def reshare(
    directory: Directory,
    giver: RecipientKey,
    receiver: Recipient,
    *,
    skipped: Callable[[str], None] = lambda _: None,
) -> Reshare:
    """Seal the secret of every segment that the giver can open, and the receiver cannot, to the receiver.

    Raises:
        WrongKey: the giver opens no segment, or a share is not what the segment commits to.
        LogContradiction: a segment is damaged.
        OSError: the files cannot be read.
    """
    sealed: dict[int, bytes] = {}
    origin = ""
    for first in segments(directory):
        opened = read_open(directory, first)
        origin = opened.origin
        if any(share.key_id == receiver.key_id for share in opened.shares):
            continue
        try:
            secret = open_secret(giver, opened, first)
        except WrongKey as error:
            if giver.may_open(opened, first):
                raise
            skipped(str(error))
            continue
        sealed[first] = receiver.wrap(secret, handed_info(opened, first, receiver))
    if not sealed:
        raise WrongKey(f"there is nothing that {giver.recipient.label} could hand on to {receiver.label}")
    return Reshare(origin, giver.recipient, receiver, sealed)


def render_reshare(made: Reshare) -> Iterator[str]:
    """The file in pieces of text (FORMAT.md, section 15)."""
    yield f"{MAGIC}\norigin {made.origin}\nfrom {made.giver}\nto {made.receiver}\n\n"
    for first, sealed in sorted(made.sealed.items()):
        yield f"segment {first} {encode(sealed)}\n"
    yield f"end {len(made.sealed)}\n"


def read_reshare(text: str) -> Reshare:
    """Read the file. Nothing in it is believed yet: `open_secret` holds each secret against its segment.

    Raises:
        BadForm: it does not follow the format.
    """
    lines = iter(text.split("\n"))
    try:
        if next(lines) != MAGIC:
            raise BadForm(f"not a file of secrets handed on: expected a first line {MAGIC!r}")
        origin = field(next(lines), "origin")
        giver = Recipient.parse(field(next(lines), "from"))
        receiver = Recipient.parse(field(next(lines), "to"))
        if next(lines):
            raise BadForm("a blank line was expected")
        sealed = _segments(lines)
    except StopIteration as error:
        raise BadForm("the file ends too early") from error
    except KeyProblem as error:
        raise BadForm(str(error)) from error
    return Reshare(origin, giver, receiver, sealed)


def _segments(lines: Iterator[str]) -> dict[int, bytes]:
    sealed: dict[int, bytes] = {}
    while not (line := next(lines)).startswith("end "):
        number, _, encoded = field(line, "segment").partition(" ")
        first, raw = decimal(number), decode(encoded)
        if (sealed and first <= max(sealed)) or not 0 < len(raw) <= SEALED_BYTES_MAX:
            raise BadForm("segments out of order, or a secret of an impossible size")
        sealed[first] = raw
    if decimal(field(line, "end")) != len(sealed) or list(lines) != [""]:
        raise BadForm("the file does not end as it says")
    return sealed


def holding(key: RecipientKey, files: Iterable[Reshare]) -> RecipientKey:
    """The key with what these files hand on to it; raise WrongKey if one was made for another key."""
    for made in files:
        if made.receiver.key_id != key.recipient.key_id:
            raise WrongKey(f"these secrets were handed on to {made.receiver.label}, not to {key.recipient.label}")
        key = key.holding({(made.origin, first): sealed for first, sealed in made.sealed.items()})
    return key


def check_handed(directory: Directory, key: RecipientKey) -> int:
    """Open every secret handed on to this key for this log, and say how many there are.

    Raises:
        WrongKey: one is not the secret that its segment commits to, or was handed on for another log.
    """
    checked, origin = 0, ""
    for first in segments(directory):
        opened = read_open(directory, first)
        origin = opened.origin
        if (origin, first) in key.handed:
            open_secret(key, opened, first)
            checked += 1
    if not checked and key.handed:
        raise WrongKey(f"nothing in what was handed on belongs to this log, {origin}")
    return checked
