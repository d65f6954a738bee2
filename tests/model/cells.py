"""States that a run of many seeds must reach: a simulator that never gets there proves nothing about them."""

from collections import Counter
from typing import Final

from tests.model.faults import LOOKS, SENDS
from tests.model.host_faults import HOST_FENCES, HOST_LOOKS, HOST_SENDS
from tests.model.kinds import KINDS
from tests.model.points import FAILING, POINTS

_NOT_FOR_FENCES = frozenset({
    "slow",
    "work fails", "work fails, cut", "handle vanishes", "handle vanishes, cut", "sent twice on the way",
    "404 for the second copy", "412 for the second copy", "422", "429, done", "503, done",
})  # fmt: skip
_ENDS = (
    "succeeded by answer", "succeeded by probe", "succeeded by handle", "succeeded by state",
    "succeeded by attestation", "failed by answer", "failed by unsent", "failed by probe", "failed by handle",
    "failed by absence",
    "failed by fence", "failed by attestation", "failed by None", "cancelled by unsent", "unresolved by None",
)  # fmt: skip
_STATES = ("sending", "accepted", "in_doubt", "unresolved", "succeeded", "failed")

CELLS: Final[frozenset[str]] = frozenset({
    *(f"send: {name}" for name in SENDS),
    *(f"fence: {name}" for name in SENDS.keys() - _NOT_FOR_FENCES),
    *(f"look: {name}" for name in LOOKS),
    *(f"send: {name}" for name in HOST_SENDS),
    *(f"fence: {name}" for name in HOST_FENCES),
    *(f"look: {name}" for name in HOST_LOOKS),
    *(f"host says: {phase}" for phase in ("absent", "running", "exited", "fenced", "lost", "unverifiable")),
    *(f"host refuses: {reason}" for reason in ("store_mismatch", "store_write", "below_gc_floor")),
    "cancel: fine",
    "host: rebooted",
    "host: put back, and a run is forgotten",
    "host: a fence came between gate and begin",
    "host: a late delivery meets a fence",
    *(f"died: {name}" for name in POINTS),
    *(f"failed: {name}" for name in FAILING),
    *(f"end: {name}" for name in _ENDS),
    *(f"again while {state}" for state in _STATES),
    *(f"changed while {state}: key_reused" for state in _STATES),
    *(f"kind: {name}" for name in KINDS),
    "send: refused before the first byte",
    "fence: place taken by the operation",
    "fence: place taken by a fence",
    "service: repeat met its memory",
    "late effect: after the first look that found nothing",
    "late effect: after the recovery deadline",
    "late evidence: an unresolved operation is settled by a look",
    "look: forgotten by the service",
    "settled by the first look",
    "settled by a later look",
    "log: torn tail set aside",
    "machine: power loss",
    "start: takes over",
    "process: stopped in order",
    "clock: forward",
    "clock: back",
    "disk: full",
    "cancelled",
    "refused: predecessor_unsettled",
    "refused: wrong_state",
    "refused: store_unavailable",
    "refused: audit_unavailable",
    "agent: cut off while submit",
    "agent: cut off while wait",
})  # fmt: skip
"""Fault by phase, crash by point, end by basis, and the meetings of two that are rare."""


def missing(reached: Counter[str]) -> list[str]:
    """Cells that were never reached."""
    return sorted(cell for cell in CELLS if not reached[cell])
