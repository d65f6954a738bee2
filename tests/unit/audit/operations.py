"""Logs whose records belong to operations, chained to each other as a gateway chains them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from audit.checkpoint import Publisher
from audit.cosign import Cosigner
from audit.discloser import disclose, newest_signed
from audit.disclosure import DisclosedRecord, render
from audit.disclosure_check import DisclosureReport, check_disclosure
from audit.keyring import RecipientKey
from audit.seal import SegmentLimits
from audit.trust import TrustPolicy
from tests.unit.audit.logs import Journal
from tests.unit.audit.oracle import oracle_disclosure


class Diary(Journal):
    """A journal whose records carry `op`, `op_n`, `op_prev`."""

    def __init__(self, **settings: Any) -> None:
        self.chains: dict[str, tuple[int, str | None]] = {}
        super().__init__(**{"limits": SegmentLimits(entries_max=8), **settings})

    def step(self, op: str, *, final: bool = False, **fields: Any) -> None:
        """One record of an operation."""
        number, before = self.chains.get(op, (0, None))
        document = {"ev": "step", "op": op, "op_n": number, "op_prev": before, **fields}
        if final:
            document["op_final"] = True
        frames = self.sealer.record(json.dumps(document).encode(), self.tick())
        self.frames += frames
        self.chains[op] = (number + 1, frames[-1].leaf.hex())

    def finish(self) -> None:
        """Seal, export and publish what is there."""
        self.seal()
        self.export()
        self.publish()

    def witnessed(self, cosigner: Cosigner, *, time_s: int | None = None) -> None:
        """Publish with a witness's cosignature."""
        publisher = Publisher(self.directory, self.signer, [self.anchor])
        published = publisher.publish()
        assert published is not None
        now_s = self.now_ms // 1000 if time_s is None else time_s
        publisher.add_signatures(cosigner.cosign(published.checkpoint.to_text(), now_s))
        publisher.publish()


def interleaved() -> Diary:
    """Three operations over several segments; `op-b` is the one to disclose, with texts that no other shares."""
    diary = Diary()
    for number in range(4):
        diary.step("op-a", secret=f"alpha-{number}")
        diary.step("op-b", secret=f"beta-{number}")
        diary.step("op-c", secret=f"gamma-{number}")
    diary.step("op-a", secret="alpha-end", final=True)
    diary.step("op-b", secret="beta-end", final=True)
    diary.finish()
    return diary


def disclosed(
    journal: Journal, op: str, *, key: RecipientKey | None = None, policy: TrustPolicy | None = None
) -> list[DisclosedRecord]:
    signed = newest_signed(journal.directory, policy=policy, now_s=journal.now_ms // 1000)
    return disclose(journal.directory, key or journal.auditor, op, signed)


def text_of(op: str, records: Sequence[DisclosedRecord]) -> bytes:
    return "".join(render(op, records)).encode()


def checked(text: bytes, policy: TrustPolicy | None, now_ms: int) -> DisclosureReport:
    return check_disclosure(io.BytesIO(text), policy, now_ms // 1000)


def verdicts(diary: Diary, text: bytes, policy: TrustPolicy | None = None) -> int:
    """The exit code, on which both verifiers agree."""
    policy = policy or diary.policy
    found = checked(text, policy, diary.now_ms).exit
    assert oracle_disclosure(text, policy.to_text(), diary.now_ms // 1000) == found
    return found
