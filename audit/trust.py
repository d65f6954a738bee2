"""Trust policies: pinned log keys, witnesses, and how many of them must agree, as c2sp.org/tlog-policy writes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from audit.cosign import CosignerKey, cosigned_at, signature_lines
from audit.keyring import KeyProblem
from audit.note import NoteKey

AHEAD_MAX_S = 300
"""A cosignature made later than this after now is not believed: clocks differ, but not by more."""
NONE = "none"
OWN = "#agl1"
"""Begins what this package adds to the format; to other readers it is a comment."""
_SIZES = re.compile(r"(0|[1-9][0-9]{0,17})-((?:0|[1-9][0-9]{0,17})?)")


class BadPolicy(ValueError):
    """A policy file that cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class Group:
    """Witnesses, by a checkpoint, if at least `least` of its members do; members are witnesses or earlier groups."""

    least: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness by its key; `url` is where checkpoints are submitted, if known."""

    key: CosignerKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """The pinned keys; a log may have several, old ones included. It must come from elsewhere than the log."""

    logs: tuple[NoteKey, ...]
    witnesses: dict[str, Witness] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    quorum: str = NONE

    def keys_of(self, origin: str) -> tuple[NoteKey, ...]:
        return tuple(key for key in self.logs if key.name == origin)

    @property
    def asks_witnesses(self) -> bool:
        return self.quorum != NONE

    def cosigners(self, note: str, now_s: int) -> set[str]:
        """Names of the witnesses whose cosignatures on a checkpoint are right and not from the future.

        Raises:
            BadNote: the note has no signature lines, or one that is not one.
        """
        text = note.rpartition("\n\n")[0] + "\n"
        found = set()
        for line in signature_lines(note):
            for name, witness in self.witnesses.items():
                time_s = cosigned_at(line, text, witness.key)
                if time_s is not None and time_s <= now_s + AHEAD_MAX_S:
                    found.add(name)
        return found

    def met_by(self, cosigners: Collection[str]) -> bool:
        """Whether these witnesses are enough; each counts once."""
        return not self.asks_witnesses or self._agrees(self.quorum, cosigners)

    def _agrees(self, name: str, cosigners: Collection[str]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return name in cosigners
        return sum(self._agrees(member, cosigners) for member in group.members) >= group.least

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a policy; raise BadPolicy."""
        reader = _Reader()
        for number, line in enumerate(text.split("\n"), 1):
            if any((char < " " and char != "\t") or char == "\x7f" for char in line):
                raise BadPolicy(f"line {number}: a control character; lines end in a newline alone")
            # By spaces and tabs only: what else Unicode calls a space is part of a name to every reader of the format.
            words = [word for word in line.replace("\t", " ").split(" ") if word]
            if not words or (words[0].startswith("#") and not words[0].startswith(OWN)):
                continue
            try:
                reader.read(words)
            except (KeyProblem, BadPolicy) as error:
                raise BadPolicy(f"line {number}: {error}") from error
        if reader.sizes is not None:
            raise BadPolicy("the last line '#agl1 sizes' is followed by no log that it could speak of")
        if not reader.logs:
            raise BadPolicy("the policy pins no log: add a line 'log VKEY'")
        if reader.witnesses and reader.quorum is None:
            raise BadPolicy("the policy names witnesses but no quorum: add a line 'quorum NAME' or 'quorum none'")
        return cls(tuple(reader.logs), reader.witnesses, reader.groups, reader.quorum or NONE)

    def to_text(self) -> str:
        """The policy as a file."""
        lines: list[str] = []
        for key in self.logs:
            if key.since or key.until is not None:
                lines.append(f"{OWN} sizes {key.since}-{'' if key.until is None else key.until}")
            lines.append(f"log {key}")
        for name, witness in self.witnesses.items():
            lines.append(f"witness {name} {witness.key}" + (f" {witness.url}" if witness.url else ""))
        lines += [f"group {name} {group.least} {' '.join(group.members)}" for name, group in self.groups.items()]
        return "".join(f"{line}\n" for line in (*lines, f"quorum {self.quorum}"))


class _Reader:
    """A policy in the making; each line may use only what lines before it defined."""

    def __init__(self) -> None:
        self.logs: list[NoteKey] = []
        self.witnesses: dict[str, Witness] = {}
        self.groups: dict[str, Group] = {}
        self.quorum: str | None = None
        self.sizes: tuple[int, int | None] | None = None
        self._lines: dict[str, Callable[[Sequence[str]], None]] = {
            "log": self._log,
            "witness": self._witness,
            "group": self._group,
            "quorum": self._quorum,
            OWN: self._sizes,
        }

    def read(self, words: Sequence[str]) -> None:
        line = self._lines.get(words[0])
        if line is None:
            raise BadPolicy("expected 'log', 'witness', 'group' or 'quorum'")
        if self.sizes is not None and words[0] != "log":
            raise BadPolicy("a line '#agl1 sizes' must be followed by the log line that it speaks of")
        line(words[1:])

    def _sizes(self, words: Sequence[str]) -> None:
        match = _SIZES.fullmatch(words[1]) if len(words) == 2 and words[0] == "sizes" else None
        if match is None:
            # Passed over, a misspelt line would trust an old key with the whole log.
            raise BadPolicy(f"expected '{OWN} sizes FROM-TO' or '{OWN} sizes FROM-'")
        since, until = int(match[1]), int(match[2]) if match[2] else None
        if until is not None and until < since:
            raise BadPolicy(f"no log has sizes from {since} to {until}")
        self.sizes = since, until

    def _log(self, words: Sequence[str]) -> None:
        if len(words) not in {1, 2}:
            raise BadPolicy("expected 'log VKEY [URL]'")
        key = NoteKey.parse(words[0])
        if any(known.public == key.public for known in self.logs):
            raise BadPolicy("this log key stands here already")
        if self.sizes is not None:
            key = replace(key, since=self.sizes[0], until=self.sizes[1])
            self.sizes = None
        self.logs.append(key)

    def _witness(self, words: Sequence[str]) -> None:
        if len(words) not in {2, 3}:
            raise BadPolicy("expected 'witness NAME VKEY [URL]'")
        key = CosignerKey.parse(words[1])
        self._free(words[0])
        if any(known.key.public == key.public for known in self.witnesses.values()):
            raise BadPolicy("this witness key stands here already: one witness may count only once")
        self.witnesses[words[0]] = Witness(key, words[2] if len(words) == 3 else None)

    def _group(self, words: Sequence[str]) -> None:
        if len(words) < 3:
            raise BadPolicy("expected 'group NAME all|any|NUMBER MEMBER…'")
        name, least, members = words[0], words[1], tuple(words[2:])
        self._free(name)
        for member in members:
            self._known(member)
        if len(set(members)) != len(members) or self._listed() & set(members):
            raise BadPolicy("a member may be listed only once, in one group")
        words_for = {"all": len(members), "any": 1}
        if least not in words_for and not (least.isascii() and least.isdecimal()):
            raise BadPolicy("a group's threshold is 'all', 'any' or a number")
        count = words_for[least] if least in words_for else int(least)
        if not 1 <= count <= len(members):
            never = "is always met" if not count else "can never be met: it has too few members"
            raise BadPolicy(f"a group that asks for {count} of {len(members)} {never}")
        self.groups[name] = Group(count, members)

    def _quorum(self, words: Sequence[str]) -> None:
        if len(words) != 1 or self.quorum is not None:
            raise BadPolicy("expected one line 'quorum NAME' or 'quorum none'")
        if words[0] != NONE:
            self._known(words[0])
        self.quorum = words[0]

    def _listed(self) -> set[str]:
        return {member for group in self.groups.values() for member in group.members}

    def _free(self, name: str) -> None:
        if name == NONE or name in self.witnesses or name in self.groups:
            raise BadPolicy(f"the name {name!r} is taken")

    def _known(self, name: str) -> None:
        if name not in self.witnesses and name not in self.groups:
            raise BadPolicy(f"no witness or group before this line is called {name!r}")
