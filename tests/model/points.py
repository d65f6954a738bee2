"""Places at which a simulated process dies or its disk fails: of the engine, the store, and the files of the log."""

from gateway.engine.ports import POINTS as ENGINE_POINTS
from gateway.store import points as store_points

FENCE_POINTS = ("fence.after_commit", "fence.after_answer")
DISK_POINTS = ("disk.append", "disk.sync", "disk.rename", "disk.sync_folder")
"""The disk of the log's files, before each step."""
_NOBODY_ASKS = frozenset(name for name in ENGINE_POINTS if name.startswith("rekey."))
"""Nobody changes the log's keys here; a process that dies there has a test in tests/scenario."""
POINTS = (*(name for name in ENGINE_POINTS if name not in _NOBODY_ASKS), *store_points.POINTS, *DISK_POINTS)
FAILING = (*DISK_POINTS, store_points.BEGIN, store_points.RULED, store_points.SEALED, store_points.WRITTEN,
            store_points.COMMITTED, store_points.REPLYING)  # fmt: skip
