"""Who may run what, as the owner of the gateway wrote it down: an ordered list, first fit decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One line of the access list. In every pattern `*` stands for any run of characters; nothing else is special.

    `decision` is `allow` or `deny`. A rule that holds anything it should not refuses whatever reaches it.
    """

    decision: str
    name: str
    """Shown as the reason wherever the decision is."""
    caller: str = "*"
    action: str = "*"
    effect: str = "*"
    service: str = "*"
    where: Mapping[str, Any] = field(default_factory=dict)
    """Argument name to the value it must have; a list names several allowed values, a string may be a pattern."""


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """What holds for a caller, or for all whose name fits the pattern, whatever the rules say."""

    name: str
    writes: bool = True
    """False: actions of effect `read` only."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All that decides about access. Empty: nobody may run anything."""

    rules: tuple[AccessRule, ...] = ()
    callers: tuple[CallerLimits, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer and the rule it rests on."""

    allowed: bool
    rule: str
    """Name of the rule that decided; `default-deny` if none fitted, `reads-only` if the caller may not write."""
    reason: str
    """A plain sentence that repeats no argument."""
