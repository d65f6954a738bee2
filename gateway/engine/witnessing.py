"""Asks witnesses to cosign the log's checkpoints: beside every operation's way, and again until they do."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from audit.checkpoint import CHECKPOINT, Checkpoint, Published, open_checkpoint
from audit.cosign import cosigned_at, signature_lines
from audit.disk import Directory, LogError
from audit.head import Head
from audit.history import NOTE_BYTES_MAX
from audit.note import BadNote, NoteKey
from audit.trust import Witness
from audit.witness_client import Refusal, Seen, Submitter, ask_seen
from gateway.engine.anchoring import Answer, Cosigned, Taken, newest_cosignature_ms
from gateway.engine.clock import Clock
from gateway.engine.log_rollback import rolled_back

log = structlog.get_logger(__name__)

ASK_SECONDS_MAX: Final = 15.0
"""Longest time for all witnesses together; each has its own bound below it."""
AGAIN_SECONDS: Final = 60.0
AGAIN_SECONDS_MAX: Final = 900.0
"""Pauses before witnesses that did not cosign are asked again: doubled each time, up to this."""

_ROLLED_BACK: Final = (
    " It has seen this log longer or otherwise than it is now: the log was rolled back or rewritten, or a restored copy"
    " of it is running."
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What witnesses said at a start."""

    contradiction: str | None
    """Why the log is not the newest there was; None if nobody has seen more or others."""
    sentence: str
    """What was decided, for people."""


async def hear(
    directory: Directory,
    head: Head,
    keys: Sequence[NoteKey],
    witnesses: Mapping[str, Witness],
    *,
    now_s: int,
    seconds: float,
) -> Heard | None:
    """Ask all at once, and wait so long for their answers, whether they have seen more of a log than there is.

    `directory` holds its files, `head` is the store's. None if the log has not been signed for yet.
    """
    published = _newest(directory, head.origin, keys)
    if published is None:
        return None
    async with _session() as session:

        async def ask(witness: Witness) -> Seen | str:
            try:
                async with asyncio.timeout(seconds):
                    return await ask_seen(session, witness, published, now_s)
            except (ClientError, TimeoutError, OSError, ValueError) as error:
                return str(error) or f"no answer within {seconds:g} s"

        answers = dict(zip(witnesses, await asyncio.gather(*map(ask, witnesses.values())), strict=True))
    size = published.checkpoint.size
    for name, seen in answers.items():
        if isinstance(seen, Seen) and seen.size > head.size:
            reason = rolled_back(f"the witness {name} has seen {seen.size} entries, this log has {head.size}")
            return Heard(reason, reason)
        if isinstance(seen, Seen) and seen.size == size and not seen.agrees:
            reason = rolled_back(f"the witness {name} has seen other entries among the first {size} than those here")
            return Heard(reason, reason)
    silent = "; ".join(f"{name}: {seen}" for name, seen in answers.items() if isinstance(seen, str))
    answered = ", ".join(name for name, seen in answers.items() if isinstance(seen, Seen))
    if not answered:
        log.warning("audit_start_not_witnessed", reason=silent)
        return Heard(None, f"no witness could say whether this folder is the newest, writes went on ({silent})")
    log.info("audit_start_witnessed", answered=answered, silent=silent)
    return Heard(None, f"no witness that answered knew more of the log than its folder holds ({answered})")


def _newest(directory: Directory, origin: str, keys: Sequence[NoteKey]) -> Published | None:
    """The checkpoint in the log's own folder, without what others signed below it."""
    try:
        note = directory.read(CHECKPOINT, 0, NOTE_BYTES_MAX)
        checkpoint = open_checkpoint(note, keys)
    except (OSError, BadNote):
        # Of whatever cannot be read there the start itself has told by now.
        return None
    text, _, lines = note.decode().partition("\n\n")
    return Published(checkpoint, f"{text}\n\n{lines.splitlines()[0]}\n") if checkpoint.origin == origin else None


class Witnesses:
    """Fills `anchoring.Cosigners`. One at a time may be asking."""

    def __init__(self, directory: Directory, witnesses: Mapping[str, Witness], clock: Clock) -> None:
        """`directory` is the log's own; `witnesses` by the names under which they are reported."""
        self._witnesses = {name: witness for name, witness in witnesses.items() if witness.url}
        self._submitter = Submitter(directory, self._witnesses)
        self._clock = clock
        self._checkpoint: Checkpoint | None = None
        self._have: set[str] = set()
        self._again_boot_ms = 0
        self._pause_seconds = AGAIN_SECONDS
        self.newest_ms = newest_cosignature_ms(directory, [item.key for item in self._witnesses.values()])

    def wants(self, published: Published) -> bool:
        """Whether to ask now. Where nobody answered last time, a newer checkpoint waits for the pause as well."""
        fresh = published.checkpoint != self._checkpoint
        if self._clock.boot_ms() < self._again_boot_ms and not (fresh and self._have):
            return False
        return fresh or len(self._have) < len(self._witnesses)

    async def ask(self, published: Published) -> Cosigned:
        """Every witness at once."""
        if published.checkpoint != self._checkpoint:
            self._checkpoint, self._have = published.checkpoint, set()
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX), _session() as session:
                gathered = await self._submitter.gather(session, published, self._clock.wall_ms() // 1000)
        except (OSError, LookupError, LogError, TimeoutError) as error:
            # Our own files, or the time for all: nothing is known about any one of them.
            reason = str(error) or type(error).__name__
            self._put_off()
            return Cosigned("", tuple(Answer(f"witness {name}", Taken.NOT_REACHED, reason) for name in self._witnesses))
        lines, answers = self._taken(published, gathered.lines)
        size = published.checkpoint.size
        answers += [_refused(refusal, size) for refusal in gathered.refusals if refusal.witness not in self._have]
        if len(self._have) < len(self._witnesses):
            self._put_off()
        else:
            self._again_boot_ms, self._pause_seconds = 0, AGAIN_SECONDS
        return Cosigned(lines, tuple(answers))

    def _taken(self, published: Published, text: str) -> tuple[str, list[Answer]]:
        """The lines of witnesses whose cosignature was not there yet."""
        lines, answers = "", []
        signed = published.checkpoint.to_text()
        for line in signature_lines(f"{signed}\n{text}") if text else ():
            for name, witness in self._witnesses.items():
                time_s = cosigned_at(line, signed, witness.key)
                if time_s is None or name in self._have:
                    continue
                self._have.add(name)
                self.newest_ms = max(self.newest_ms or 0, time_s * 1000)
                lines += f"{line}\n"
                answers.append(Answer(f"witness {name}", Taken.TAKEN, line))
        return lines, answers

    def _put_off(self) -> None:
        self._again_boot_ms = self._clock.boot_ms() + int(self._pause_seconds * 1000)
        self._pause_seconds = min(self._pause_seconds * 2, AGAIN_SECONDS_MAX)


def _refused(refusal: Refusal, size: int) -> Answer:
    if not refusal.reached:
        return Answer(f"witness {refusal.witness}", Taken.NOT_REACHED, refusal.reason)
    conflict = refusal.reason.startswith(("answered 409", "answered 422"))
    reason = f"{refusal.reason}.{_ROLLED_BACK}" if conflict else refusal.reason
    return Answer(f"witness {refusal.witness}", Taken.REFUSED, reason, contradicts=_contradicts(refusal.reason, size))


def _contradicts(reason: str, size: int) -> bool:
    """Whether a witness has seen more than `size` entries, or others. One that saw fewer may just have been asked by
    two at once.
    """
    seen = reason.removeprefix("answered 409: ")
    if seen == reason:
        return reason.startswith("answered 422")
    return seen.isascii() and seen.isdecimal() and int(seen) >= size


def _session() -> ClientSession:
    """Nothing of the environment's proxies and nothing of an earlier answer goes along."""
    return ClientSession(
        connector=TCPConnector(force_close=True),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=ASK_SECONDS_MAX),
        trust_env=False,
    )
