"""Trust policies: which log keys an auditor has pinned, in the format of c2sp.org/tlog-policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from audit.keyring import KeyProblem
from audit.note import NoteKey


class BadPolicy(ValueError):
    """A policy file that cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """The pinned keys; a log may have several, old ones included. It must come from elsewhere than the log."""

    logs: tuple[NoteKey, ...]

    def keys_of(self, origin: str) -> tuple[NoteKey, ...]:
        return tuple(key for key in self.logs if key.name == origin)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a policy; raise BadPolicy, also for lines of parts that this version does not check."""
        logs: list[NoteKey] = []
        quorum = False
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "log" and len(words) in {2, 3}:
                try:
                    logs.append(NoteKey.parse(words[1]))
                except KeyProblem as error:
                    raise BadPolicy(f"line {number}: {error}") from error
            elif words == ["quorum", "none"] and not quorum:
                quorum = True
            elif words[0] in {"witness", "group", "quorum"}:
                raise BadPolicy(f"line {number}: {words[0]!r}: this version checks no witnesses; only 'quorum none'")
            else:
                raise BadPolicy(f"line {number}: expected 'log VKEY' or 'quorum none'")
        if not logs:
            raise BadPolicy("the policy pins no log: add a line 'log VKEY'")
        return cls(tuple(logs))

    def to_text(self) -> str:
        """The policy as a file."""
        return "".join(f"log {key}\n" for key in self.logs) + "quorum none\n"
