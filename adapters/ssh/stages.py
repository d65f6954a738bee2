"""What the last stage of an attempt proves, as a table: the only place where that is said."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import asyncssh

from adapters.contract_ssh import Stage


class Proof(StrEnum):
    NEVER_EXECUTED = "never_executed"
    UNKNOWN = "unknown"
    EXITED = "exited"
    """Judge by status and output. A later loss of the connection changes nothing."""
    SIGNALLED = "signalled"
    """Executed, maybe in part."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What was seen, apart from the stage."""

    refused: bool = False
    """The library raised "session request failed": a refusal message, or a channel that ended in place of one."""
    channel_lost: bool = False
    """The channel's end had been announced by the time of the raise. A refusal message leaves the channel standing."""
    signalled: bool = False
    """The end was a signal."""


@dataclass(frozen=True, slots=True)
class Row:
    """Holds where the stage is one of `stages` and each sign that is not None is as given. The first such counts."""

    stages: frozenset[Stage]
    proof: Proof
    refused: bool | None = None
    channel_lost: bool | None = None
    signalled: bool | None = None

    def holds(self, stage: Stage, signs: Signs) -> bool:
        asked = (
            (self.refused, signs.refused),
            (self.channel_lost, signs.channel_lost),
            (self.signalled, signs.signalled),
        )
        return stage in self.stages and all(wanted is None or wanted is seen for wanted, seen in asked)


_BEFORE_LOGIN: Final = frozenset({Stage.PREPARED, Stage.CONNECTING})
_BEFORE_CHANNEL: Final = frozenset({Stage.CONNECTED})
_BEFORE_COMMAND: Final = frozenset({Stage.OPENED})
_ASKED: Final = frozenset({Stage.ASKED})
_ACCEPTED: Final = frozenset({Stage.ACCEPTED})
_ENDED: Final = frozenset({Stage.ENDED})

TABLE: Final[tuple[Row, ...]] = (
    Row(_BEFORE_LOGIN, Proof.NEVER_EXECUTED),
    Row(_BEFORE_CHANNEL, Proof.NEVER_EXECUTED),
    Row(_BEFORE_COMMAND, Proof.NEVER_EXECUTED),
    Row(_ASKED, Proof.NEVER_EXECUTED, refused=True, channel_lost=False),
    Row(_ASKED, Proof.UNKNOWN),
    Row(_ACCEPTED, Proof.UNKNOWN),
    Row(_ENDED, Proof.SIGNALLED, signalled=True),
    Row(_ENDED, Proof.EXITED),
)


def proof_of(stage: Stage, signs: Signs) -> Proof:
    """What is proven. Every stage has a row without conditions, so there always is one."""
    return next(row.proof for row in TABLE if row.holds(stage, signs))


def is_refusal(error: BaseException | None) -> bool:
    """Whether the library says that the request for the command failed; alone that proves nothing."""
    return isinstance(error, asyncssh.ChannelOpenError) and error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED
