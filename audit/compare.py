"""Holds what others say about a log, checkpoints and receipts, against the entries that the verifier passes."""

from __future__ import annotations

from collections.abc import Sequence

from audit.chain import CompactRange
from audit.claims import Claim, Claims
from audit.receipts import Expected
from audit.report import Exit, Finding, Report


class Comparison:
    """Compares each claim about a size with the tree of that size, and each receipt with its entry."""

    def __init__(self, report: Report, claims: Claims, receipts: Expected) -> None:
        self._report = report
        self._claims = claims
        self._receipts = receipts
        self._differs = False
        self._before: Claim | None = None
        self.attested_size = 0
        """The largest size at which a checkpoint signed by a pinned key agrees with the tree."""

    @property
    def next_size(self) -> int | None:
        """The next size that a checkpoint speaks about."""
        return self._claims.next_size

    def pass_leaves(self, start: int, leaves: Sequence[bytes]) -> None:
        """Hold receipts against the entries from `start` on."""
        agree, differ = self._receipts.passed(start, leaves)
        self._report.receipts_checked += agree
        for receipt in differ:
            message = f"a receipt was given for another entry {receipt.seq} than the one here"
            found = leaves[receipt.seq - start][:8].hex()
            expected = receipt.leaf[:8].hex()
            hint = "whoever holds the receipt can show what the log answered then"
            finding = Finding("receipt", Exit.TAMPERED, message, receipt.seq, None, None, expected, found, hint)
            self._report.add(finding)

    def meet(self, size: int, tree: CompactRange | None, t_ms: int) -> None:
        """Compare every claim about this size with the tree; claims about sizes already passed cannot be compared."""
        while (next_size := self._claims.next_size) is not None and next_size <= size:
            claim = self._pop()
            if claim.size == 0:
                continue
            if tree is None or tree.size != claim.size:
                self._not_compared(claim)
                continue
            root = tree.root()
            if claim.root != root:
                self._differ(claim, root)
                continue
            self.attested_size = claim.size
            if claim.anchor is None:
                self._report.checkpoints += 1
            else:
                state = self._claims.states[claim.anchor]
                state.checked += 1
                state.newest_size, state.covers_t_ms = claim.size, t_ms

    def end(self, size: int, segment: int, *, excused: bool) -> None:
        """Claims and receipts about more entries than there are: the log was cut or an old copy took its place."""
        ahead: dict[str, Claim] = {}
        while self._claims.next_size is not None:
            claim = self._pop()
            if claim.size:
                ahead[claim.source] = claim
        for claim in ahead.values():
            if excused:
                self._not_compared(claim)
                continue
            code = "rollback" if claim.anchor is not None else "rollback_own"
            message = f"{claim.source} shows {claim.size} entries, the log has {size}: {claim.size - size} are gone"
            self._cut(code, message, size, segment)
        rest = self._receipts.rest()
        if rest and not excused:
            message = f"a receipt was given for entry {rest[-1].seq}, the log has {size}: it was cut"
            self._cut("receipt_rollback", message, size, segment)
        lost = self._receipts.given - self._receipts.foreign - self._report.receipts_checked
        if lost and not self._report.findings:
            self._report.notes.append(f"{lost} receipts are about entries that are not here")
        if self._receipts.given and self._receipts.foreign == self._receipts.given:
            self._report.add(Finding("no_receipt", Exit.NOT_PROVEN, "none of the receipts is about this log"))

    def _pop(self) -> Claim:
        """The next claim, held against the one before: two roots of one size are a fork, whatever entries are here."""
        claim, before = self._claims.pop(), self._before
        self._before = claim
        if before is not None and before.size == claim.size and before.root != claim.root:
            message = f"{before.source} and {claim.source} show two different logs of {claim.size} entries, both signed"
            hint = "the signer of this log told two stories: keep both checkpoints as evidence"
            found, expected = claim.root.hex(), before.root.hex()
            self._report.add(
                Finding("fork", Exit.TAMPERED, message, expected=expected, found=found, hint=hint, seq=claim.size - 1)
            )
        return claim

    def _cut(self, code: str, message: str, size: int, segment: int) -> None:
        hint = "the end was cut off, or an older copy was put in its place"
        self._report.add(Finding(code, Exit.TAMPERED, message, seq=size, segment=segment, hint=hint))

    def _not_compared(self, claim: Claim) -> None:
        if claim.size <= self._report.pruned_size:
            return
        if not self._report.findings:
            message = f"{claim.source}: the checkpoint at size {claim.size} cannot be compared with what is here"
            self._report.add(Finding("not_compared", Exit.INCOMPLETE, message))

    def _differ(self, claim: Claim, root: bytes) -> None:
        code = "checkpoint_root" if claim.anchor is None else "anchor_root"
        message = f"{claim.source}: the signed checkpoint at size {claim.size} was made for other entries than these"
        hint = "both exist: the checkpoint is signed evidence of another history"
        finding = Finding(
            code, Exit.TAMPERED, message, expected=claim.root.hex(), found=root.hex(), hint=hint, seq=claim.size - 1
        )
        if not self._differs:
            self._report.add(finding)
        # Once one differs, all later ones must: say so once, with the earliest.
        self._differs = True
