"""Makes the logs in tests/golden/audit, once (`python -m tests.unit.audit.golden_logs`), and never anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.checkpoint import CHECKPOINT
from audit.kem import KEM_HYBRID
from audit.keyring import RecipientKey, Role
from audit.memory import MemoryDirectory
from audit.rotate import policy_after
from audit.trust import TrustPolicy
from tests.unit.audit.logs import entropy, refile, sealed_journal
from tests.unit.audit.operations import Diary, disclosed, interleaved, text_of
from tests.unit.audit.test_disclosure import LIES
from tests.unit.audit.test_rotate import Archive
from tests.unit.audit.test_tamper import CASES, drop_own_checkpoints

FOLDER = Path(__file__).parents[2] / "golden" / "audit"
MANIFEST = FOLDER / "manifest.json"
UNSEALED_MAX = 5

TAMPERED = {
    "good": "untouched",
    "bit-in-ciphertext": "01 bit in ciphertext",
    "edit-rechained": "05 edit, rechained",
    "cut-between-seals": "12 cut between seals",
    "cut-at-old-seal": "13 cut at an old seal",
    "middle-segment-removed": "16 middle segment removed",
    "seals-stripped": "18 seals stripped, rechained",
    "empty-checkpoint": "own checkpoint emptied",
    "newer-version": "37 newer version",
}
# Cut or stripped by someone who took the log's own checkpoints away as well.
BARE = {"cut-between-seals", "cut-at-old-seal", "seals-stripped"}
LIED = {
    "second-key": "34 second key",
    "middle-left-out": "35 middle record left out",
    "last-left-out": "last record left out",
}


class Shelf:
    """Puts cases in place and remembers what the manifest says of them."""

    def __init__(self) -> None:
        self.logs: list[dict[str, Any]] = []
        self.disclosures: list[dict[str, Any]] = []

    def put(self, name: str, directory: MemoryDirectory) -> None:
        for path, data in directory.files().items():
            target = FOLDER / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def policy(self, name: str, policy: TrustPolicy) -> str:
        (FOLDER / name).write_text(policy.to_text(), encoding="utf-8")
        return name

    def log(
        self, name: str, policy: str, now_ms: int, code: int, *, anchor: str | None = None, alone: bool = False
    ) -> None:
        self.logs.append(
            {
                "log": name,
                "policy": policy,
                "anchor": anchor,
                "accept_unanchored": alone,
                "unsealed_max": UNSEALED_MAX,
                "now_ms": now_ms,
                "exit": code,
            }
        )

    def disclosure(self, name: str, policy: str | None, now_ms: int, code: int, text: bytes | None = None) -> None:
        if text is not None:
            (FOLDER / f"{name}.disclosure").write_bytes(text)
        case = {"disclosure": f"{name}.disclosure", "policy": policy, "now_s": now_ms // 1000, "exit": code}
        self.disclosures.append(case)


def _tampered(shelf: Shelf) -> None:
    cases = {name: (tamper, alone, anchored) for name, tamper, alone, anchored in CASES}
    # One journal for all, since two never are the same bytes: sealing to a reader takes fresh randomness.
    journal = sealed_journal()
    files = journal.directory.files()
    now_ms = journal.now_ms + 1000
    for name, title in TAMPERED.items():
        tamper, alone, anchored = cases[title]
        journal.directory = _with(files)
        tamper(journal)
        if name in BARE:
            drop_own_checkpoints(journal)
            shelf.log(name, "trust.policy", now_ms, int(alone))
        shelf.put(name, journal.directory)
        shelf.log(name, "trust.policy", now_ms, int(anchored), anchor="anchor")
    shelf.log("good", "trust.policy", now_ms, 4)
    shelf.log("good", "trust.policy", now_ms, 0, alone=True)
    journal.directory = _with(files)
    refile(journal.directory, lambda data: data[:-30], journal.sealer.head.segment)
    shelf.put("torn-end", journal.directory)
    shelf.log("torn-end", "trust.policy", now_ms, 3, anchor="anchor")
    shelf.policy("trust.policy", journal.policy)
    (FOLDER / "anchor").write_bytes(journal.anchor.files()[CHECKPOINT])


def _with(files: dict[str, bytes]) -> MemoryDirectory:
    directory = MemoryDirectory()
    for name, data in files.items():
        directory.put(name, data)
    return directory


def _changed_keys(shelf: Shelf) -> None:
    archive = Archive()
    hybrid = RecipientKey.generate(Role.AUDITOR, "hybrid", entropy("golden hybrid"), KEM_HYBRID)
    archive.newcomer = hybrid
    rotated = archive.rotate(new_key=archive.new_key)
    after = policy_after(archive.journal.policy, rotated)
    shelf.put("changed-keys", archive.journal.directory)
    (FOLDER / "changed-keys.anchor").write_bytes(archive.journal.anchor.files()[CHECKPOINT])
    now_ms = archive.journal.now_ms + 1000
    for name, policy, code in (
        ("changed-keys.policy", after, 0),
        ("changed-keys-new-only.policy", TrustPolicy((rotated.new_key,)), 4),
        ("changed-keys-old-only.policy", archive.journal.policy, 4),
    ):
        shelf.policy(name, policy)
        shelf.log("changed-keys", name, now_ms, code, anchor="changed-keys.anchor")


def _disclosures(shelf: Shelf) -> None:
    diary = interleaved()
    records = disclosed(diary, "op-b")
    shelf.policy("disclosure.policy", diary.policy)
    text = text_of("op-b", records)
    shelf.disclosure("good", "disclosure.policy", diary.now_ms, 0, text)
    shelf.disclosure("good", None, diary.now_ms, 4)
    shelf.disclosure("cut", "disclosure.policy", diary.now_ms, 3, text[: len(text) // 2])
    shelf.disclosure("byte-changed", "disclosure.policy", diary.now_ms, 1, text[:-70] + b"X" + text[-69:])
    lies = {title: (lie, code) for title, lie, code in LIES}
    for name, title in LIED.items():
        lie, code = lies[title]
        shelf.disclosure(name, "disclosure.policy", diary.now_ms, int(code), text_of("op-b", lie(records)))
    other = Diary(origin="gw.example/audit/other", seed="other")
    other.step("op-b", final=True)
    other.finish()
    shelf.disclosure("other-log", "disclosure.policy", diary.now_ms, 4, text_of("op-b", disclosed(other, "op-b")))


PARTS: tuple[Callable[[Shelf], None], ...] = (_tampered, _changed_keys, _disclosures)


def main() -> None:
    """Make everything, unless it is there."""
    if MANIFEST.exists():
        raise SystemExit(f"{MANIFEST} exists: old logs must stay, or nobody knows that they can still be read")
    FOLDER.mkdir(parents=True, exist_ok=True)
    shelf = Shelf()
    for part in PARTS:
        part(shelf)
    manifest = {
        "what": "Logs and disclosures with the exit codes of audit/FORMAT.md. An anchor is a file with one note."
        " Each case states its limit of unsealed entries; an anchor may be 24 hours old.",
        "logs": shelf.logs,
        "disclosures": shelf.disclosures,
    }
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
