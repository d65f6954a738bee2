"""Lets the audit log go on at a start: holds files, unexported rows and the stored head against each other first."""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.bodies import Recovery
from audit.disk import Directory
from audit.export import Row
from audit.head import Head
from audit.log import files_head
from audit.recover import Join, check_join, recover
from audit.seal import Sealer
from gateway.store.port import Record, Store

TAIL_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """Where a log was left, and what the next opening must record."""

    join: Join
    head: Head | None
    recoveries: Sequence[Recovery]


async def find_log(store: Store, directory: Directory, origin: str, boot_id: str) -> Found:
    """Clean the end of the files and see whether they, the store's rows and its head are one log.

    A head or rows of another log, which this one follows after a loss, are none of this one's.
    The caller holds the directory's lock. Raises `audit.disk.LogError` if the files are damaged.
    """
    rows = [Row(item.segment, item.seq, item.frame) for item in await store.tail(TAIL_MAX, origin=origin)]
    recoveries = recover(directory, boot_id=boot_id, rows=rows)
    stored = await store.head()
    head = None if stored is None else Head.from_bytes(stored)
    if head is not None and head.origin != origin:
        head = None
    return Found(check_join(files_head(directory, origin), rows, head), head, recoveries)


async def start_log(
    store: Store, sealer: Sealer, recoveries: Sequence[Recovery], *, now_ms: int, quarantine: str | None
) -> None:
    """Open a segment with what recovery found, and record the start. Raises Unavailable, StoreUnknown."""
    await store.attach(sealer, sealer.start(now_ms, recovery=recoveries))
    await store.note((Record("started", {"at": now_ms, "origin": sealer.origin, "quarantine": quarantine}),))
