"""Receipts: what a log answered to those who used it, each a claim about one entry that the log must still keep."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from audit.chain import HASH_BYTES

_SEQ_MAX = 1 << 63


class BadReceipts(ValueError):
    """A file that holds something other than receipts; the message names the line."""


class Receipt(NamedTuple):
    """Proof for whoever asked: the log, the place in it, and the entry's leaf hash."""

    origin: str
    seq: int
    leaf: bytes


def read_receipts(text: str) -> list[Receipt]:
    """Receipts, one JSON object a line with `origin`, `seq` and `leaf` (hex), alone or as the member `receipt`.

    Raises:
        BadReceipts: a line that is none.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(_receipt(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadReceipts(f"line {number} is no receipt: expected origin, seq and leaf") from error
    return found


def _receipt(value: Any) -> Receipt:  # noqa: ANN401 - whatever a line of JSON holds
    fields = value.get("receipt", value)
    origin, seq, leaf = fields["origin"], fields["seq"], bytes.fromhex(fields["leaf"])
    if type(origin) is not str or type(seq) is not int or not 0 <= seq < _SEQ_MAX or len(leaf) != HASH_BYTES:
        raise ValueError("not a receipt")
    return Receipt(origin, seq, leaf)


class Expected:
    """The receipts of one log in order of seq, handed out as the verifier comes by."""

    def __init__(self, receipts: Iterable[Receipt], origin: str) -> None:
        given = set(receipts)
        self._left = sorted(receipt for receipt in given if receipt.origin == origin)
        self._left.reverse()
        self.given = len(given)
        self.foreign = self.given - len(self._left)

    def passed(self, start: int, leaves: Sequence[bytes]) -> tuple[int, list[Receipt]]:
        """Those about the entries from `start` on that have these leaves: how many agree, and which do not."""
        agree, differ = 0, []
        for receipt in self._until(start + len(leaves)):
            if receipt.seq < start:
                continue
            if receipt.leaf == leaves[receipt.seq - start]:
                agree += 1
            else:
                differ.append(receipt)
        return agree, differ

    def rest(self) -> list[Receipt]:
        """Those about entries behind everything that was passed."""
        return self._left[::-1]

    def _until(self, end: int) -> list[Receipt]:
        taken = []
        while self._left and self._left[-1].seq < end:
            taken.append(self._left.pop())
        return taken
