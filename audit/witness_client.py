"""Submits a log's checkpoints to witnesses and collects their cosignatures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp

from audit.chain import CompactRange
from audit.checkpoint import Published
from audit.cosign import CosignerKey, cosigned_at, signature_lines
from audit.disk import Directory
from audit.log import chunks, read_open, segments
from audit.note import BadNote
from audit.proofs import HashTree
from audit.trust import AHEAD_MAX_S, Witness
from audit.witness import SIZE_TYPE, request_of

ANSWER_BYTES_MAX = 1 << 16
SECONDS_MAX = 10.0


def leaves_of(directory: Directory, start: int, end: int) -> list[bytes]:
    """Leaf hashes of the entries from `start` up to `end`, out of the segment files; raise LookupError if not all."""
    found: list[bytes] = []
    firsts = segments(directory)
    for index, first in enumerate(firsts):
        following = firsts[index + 1] if index + 1 < len(firsts) else None
        if first >= end or (following is not None and following <= start):
            continue
        seq = first
        for chunk in chunks(directory, first):
            leaves = chunk.parsed.leaves
            found += leaves[max(0, start - seq) : max(0, end - seq)]
            seq += len(leaves)
            if seq >= end:
                break
    if len(found) != end - start:
        raise LookupError(f"entries {start} to {end - 1} are not all in the files")
    return found


def begin_tree(directory: Directory) -> HashTree:
    """A tree for proofs over a log's files: from its first entry on, or from what retention left of its beginning."""
    first = next(iter(segments(directory)), 0)
    dropped = CompactRange(first, read_open(directory, first).range_hashes) if first else None
    return HashTree(lambda start, end: leaves_of(directory, start, end), dropped)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A witness that gave no cosignature, and why. `reached`: it answered at all."""

    witness: str
    reason: str
    reached: bool


@dataclass(frozen=True, slots=True)
class Gathered:
    """Signature lines ready for `Publisher.add_signatures`, and who gave none."""

    lines: str
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """How many entries of a log a witness has seen; `agrees`: it cosigns the checkpoint that it was asked with."""

    size: int
    agrees: bool


async def ask_seen(session: aiohttp.ClientSession, witness: Witness, published: Published, now_s: int) -> Seen:
    """Ask a witness with a checkpoint that it may have cosigned last; nothing of the log is read for that.

    One that has seen another size says which; one that disagrees says the size of the checkpoint.

    Raises:
        aiohttp.ClientError, TimeoutError, OSError: no answer.
        ValueError: an answer that tells nothing of the log.
    """
    size = published.checkpoint.size
    status, body = await _submit(session, witness, request_of(size, (), published.note))
    if status == 200 and _cosignature(body, published, witness.key, now_s) is not None:
        return Seen(size, agrees=True)
    seen = _size_in(body) if status == 409 else None
    if seen is None:
        raise ValueError(f"answered {status}: {body.strip()[:200]}")
    return Seen(seen, agrees=False)


class Submitter:
    """Keeps what the proofs need and what each witness has seen; `gather` may be called after every publication."""

    def __init__(self, directory: Directory, witnesses: Mapping[str, Witness]) -> None:
        """Take the log's folder and the witnesses that have a URL, by their names in the policy."""
        self._directory = directory
        self._witnesses = {name: witness for name, witness in witnesses.items() if witness.url}
        self._tree: HashTree | None = None
        # One thread at a time makes the tree longer, or anew.
        self._turn = threading.RLock()
        self._seen: dict[str, int] = {}

    async def gather(self, session: aiohttp.ClientSession, published: Published, now_s: int) -> Gathered:
        """Ask every witness at once; one that does not answer within ten seconds is left out.

        Raises:
            OSError: the segment files cannot be read.
            LookupError: they do not hold the entries that the proofs need.
        """
        await asyncio.to_thread(self._grow, published.checkpoint.size)
        asked = [self._ask(session, name, published, now_s) for name in self._witnesses]
        answers: Sequence[str | Refusal] = await asyncio.gather(*asked)
        lines = "".join(answer for answer in answers if isinstance(answer, str))
        return Gathered(lines, tuple(answer for answer in answers if isinstance(answer, Refusal)))

    def _prove(self, old_size: int, size: int) -> list[bytes]:
        """The consistency proof, from what is left of the log now."""
        with self._turn:
            try:
                return self._grow(size).consistency(old_size, size)
            except LookupError:
                if self._tree is None or self._tree.first == next(iter(segments(self._directory)), 0):
                    raise
                # Retention dropped leaves that this tree counted on to read again. What it left in place of them is in
                # the opening that comes first now.
                self._tree = None
                return self._grow(size).consistency(old_size, size)

    def _grow(self, size: int) -> HashTree:
        with self._turn:
            if self._tree is None:
                self._tree = begin_tree(self._directory)
            if self._tree.size < size:
                self._tree.extend(leaves_of(self._directory, self._tree.size, size))
            return self._tree

    async def _ask(self, session: aiohttp.ClientSession, name: str, published: Published, now_s: int) -> str | Refusal:
        try:
            async with asyncio.timeout(SECONDS_MAX):
                status, body = await self._post(session, name, published)
                if status == 409 and self._learn(name, body, published.checkpoint.size):
                    status, body = await self._post(session, name, published)
        except LookupError as error:
            # It was away for longer than the log is kept: nothing that is left leads from there to here.
            return Refusal(name, str(error), reached=True)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Refusal(name, str(error) or type(error).__name__, reached=False)
        if status != 200:
            return Refusal(name, f"answered {status}: {body.strip()[:200]}", reached=True)
        line = _cosignature(body, published, self._witnesses[name].key, now_s)
        if line is None:
            return Refusal(name, "its answer holds no cosignature by the key in the policy", reached=True)
        self._seen[name] = published.checkpoint.size
        return line

    async def _post(self, session: aiohttp.ClientSession, name: str, published: Published) -> tuple[int, str]:
        size = published.checkpoint.size
        old_size = min(self._seen.get(name, 0), size)
        proof = await asyncio.to_thread(self._prove, old_size, size)
        return await _submit(session, self._witnesses[name], request_of(old_size, proof, published.note))

    def _learn(self, name: str, body: str, size: int) -> bool:
        """Take the size that the witness has seen; False if asking again would be no use."""
        seen = _size_in(body)
        if seen is None:
            return False
        before = self._seen.get(name, 0)
        self._seen[name] = seen
        return seen <= size and seen != before


async def _submit(session: aiohttp.ClientSession, witness: Witness, request: bytes) -> tuple[int, str]:
    url = f"{(witness.url or '').rstrip('/')}/add-checkpoint"
    async with session.post(url, data=request, allow_redirects=False) as answer:
        body = await answer.content.read(ANSWER_BYTES_MAX)
        if answer.status == 409 and answer.content_type != SIZE_TYPE:
            return 400, "a conflict without the size"
        return answer.status, body.decode(errors="replace")


def _size_in(body: str) -> int | None:
    digits = body.removesuffix("\n")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 19 else None


def _cosignature(body: str, published: Published, key: CosignerKey, now_s: int) -> str | None:
    text = published.checkpoint.to_text()
    try:
        for line in signature_lines(f"{text}\n{body}"):
            time_s = cosigned_at(line, text, key)
            if time_s is not None and time_s <= now_s + AHEAD_MAX_S:
                return f"{line}\n"
    except BadNote:
        return None
    return None
