"""Asks witnesses to cosign the log's checkpoints: beside every operation's way, and again until they do."""

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from audit.checkpoint import Checkpoint, Published
from audit.cosign import cosigned_at, signature_lines
from audit.disk import Directory, LogError
from audit.trust import Witness
from audit.witness_client import Refusal, Submitter
from gateway.engine.anchoring import Answer, Cosigned, Taken, newest_cosignature_ms
from gateway.engine.clock import Clock

ASK_SECONDS_MAX: Final = 15.0
"""Longest time for all witnesses together; each has its own bound below it."""
AGAIN_SECONDS: Final = 60.0
AGAIN_SECONDS_MAX: Final = 900.0
"""Pauses before witnesses that did not cosign are asked again: doubled each time, up to this."""

_ROLLED_BACK: Final = (
    " It has seen this log longer or otherwise than it is now: the log was rolled back or rewritten, or a restored copy"
    " of it is running."
)


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
