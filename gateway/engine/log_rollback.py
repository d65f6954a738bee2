"""Sees at a start that a log was rolled back or forked: a checkpoint that its own key signed tells of another tree."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from audit.chain import CompactRange
from audit.checkpoint import Checkpoint, newest_signed
from audit.disk import Directory, LogError
from audit.export import Row
from audit.head import Head
from audit.log import Follower, segment_name, segments
from audit.note import NoteKey
from audit.patience import Patience
from audit.record import parse

log = structlog.get_logger(__name__)

_BEGINNING: Final = "the log was rolled back or forked: "


def is_rollback(reason: str | None) -> bool:
    """Whether writes are held for what `contradiction` said."""
    return reason is not None and reason.startswith(_BEGINNING)


def rolled_back(detail: str) -> str:
    """Why writes are held, as `is_rollback` knows it again."""
    return f"{_BEGINNING}{detail}"


def contradiction(
    directory: Directory,
    head: Head,
    rows: Sequence[Row],
    keys: Sequence[NoteKey],
    places: Sequence[tuple[str, Directory]],
    *,
    compared: Callable[[str], None] = lambda _: None,
) -> str | None:
    """Why this log is not the one that was signed for, or None.

    `directory` holds its files, `head` is the store's, `rows` what is not in the files yet. `places` are where
    checkpoints of it are kept, each with its name; `compared` hears of those that hold one. A place that cannot be
    read is told and passed over: that it is away says nothing about the log.
    """
    for name, place in places:
        try:
            # A disk that never answers must not keep a gateway from starting.
            checkpoint = Patience(name).call(partial(newest_signed, place, head.origin, keys))
            if checkpoint is None:
                continue
            reason = _difference(checkpoint, directory, head, rows)
            compared(name)
        except (OSError, LogError, ValueError) as error:
            log.warning("audit_anchor_not_compared", anchor=name, reason=str(error))
            continue
        if reason is not None:
            return rolled_back(f"{name} holds a checkpoint of {checkpoint.size} entries, {reason}")
    return None


def _difference(checkpoint: Checkpoint, directory: Directory, head: Head, rows: Sequence[Row]) -> str | None:
    if checkpoint.size > head.size:
        return f"this log has {head.size}"
    root = head.root() if checkpoint.size == head.size else root_at(directory, rows, checkpoint.size)
    if root is None or root == checkpoint.root:
        return None
    return "made of others than those of this log"


def root_at(directory: Directory, rows: Sequence[Row], size: int) -> bytes | None:
    """Root of the tree over the first `size` entries, in the files or behind them; None if they are not there any more.

    Raises LogError, OSError.
    """
    firsts = [first for first in segments(directory) if directory.size(segment_name(first))]
    first = max((first for first in firsts if first <= size), default=None)
    if first is None and firsts:
        # Retention dropped them: nothing is left to compare with.
        return None
    tree = CompactRange()
    if first is not None:
        follower = Follower(directory, first)
        follower.advance(size)
        tree = follower.tree.copy()
    if tree.size < size:
        for row in rows:
            if row.seq == tree.size and tree.size < size:
                tree.append(parse(row.data).leaves[0])
    return tree.root() if tree.size == size else None
