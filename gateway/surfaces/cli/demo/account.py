"""The demo's accounting: answers of the gateway held against the ledger of the service. Pure; nothing is assumed."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]

FINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Totals:
    """What `gateway demo --json` prints, and what was wrong in words."""

    operations: int
    success: int
    error: int
    unknown_seen: int
    unsettled: int
    effects: int
    duplicate_effects: int
    wrong_outcomes: int
    audit: str
    wrong: tuple[str, ...] = ()
    """One sentence for each thing that is not as it must be."""

    @property
    def fine(self) -> bool:
        """Whether all is as it must be."""
        return not (self.wrong or self.unsettled or self.duplicate_effects or self.wrong_outcomes) and (
            self.audit == "OK"
        )

    def to_json(self) -> dict[str, Any]:
        """The object that other programs rely on."""
        return {
            "operations": self.operations,
            "success": self.success,
            "error": self.error,
            "unknown_seen": self.unknown_seen,
            "unsettled": self.unsettled,
            "effects": self.effects,
            "duplicate_effects": self.duplicate_effects,
            "wrong_outcomes": self.wrong_outcomes,
            "audit": self.audit,
        }


def effects_by_operation(entries: Iterable[Document]) -> Counter[str]:
    """How often each operation took effect, from the entries of a ledger. What names no operation counts as itself."""
    effects: Counter[str] = Counter()
    for entry in entries:
        if entry["effect"] != "none":
            effects[str(entry["op"] or entry["fp"])] += 1
    return effects


def contradiction(document: Document, effects: int) -> str | None:
    """Why an operation's claim does not fit the ledger, or None. `unknown` claims nothing and fits always."""
    outcome, executed = document["outcome"], document["executed"]
    if outcome == "unknown":
        return None
    if document["action"] in READS:
        return "a read changed something" if effects else None
    if (outcome == "success" or executed == "yes") and not effects:
        return f"{outcome}, executed {executed}, but the ledger shows no effect"
    if executed == "no" and effects:
        return f"{outcome}, executed no, but the ledger shows {effects}"
    return None


READS = frozenset({"environments.get"})


def settle_accounts(
    documents: Collection[Document],
    entries: Collection[Document],
    *,
    told_unknown: Collection[str],
    audit: str,
    wrong: Iterable[str] = (),
) -> Totals:
    """Hold every operation against the ledger, and the ledger against the operations.

    `told_unknown` are the ids of operations whose caller was told `unknown` at least once; `audit` is the verifier's
    verdict; `wrong` are sentences about anything else that went wrong.
    """
    effects = effects_by_operation(entries)
    sentences = list(wrong)
    false = 0
    for document in documents:
        identity = document["operation_id"]
        reason = contradiction(document, effects[identity])
        if reason is not None:
            false += 1
            sentences.append(f"{identity} ({document['action']}): {reason}.")
    known = {document["operation_id"] for document in documents}
    strangers = sorted(set(effects) - known)
    sentences += [f"{identity}: the ledger shows an effect that no operation asked for." for identity in strangers]
    repeated = {identity: count for identity, count in effects.items() if count > 1}
    sentences += [f"{identity}: took effect {count} times." for identity, count in sorted(repeated.items())]
    unsettled = [document for document in documents if document["state"] not in FINAL_STATES]
    sentences += [f"{document['operation_id']}: still {document['state']}." for document in unsettled]
    if audit != "OK":
        sentences.append(f"The audit log does not verify: {audit}.")
    return Totals(
        operations=len(documents),
        success=sum(document["outcome"] == "success" for document in documents),
        error=sum(document["outcome"] == "error" for document in documents),
        unknown_seen=len(set(told_unknown) & known),
        unsettled=len(unsettled),
        effects=effects.total(),
        duplicate_effects=sum(count - 1 for count in repeated.values()),
        wrong_outcomes=false + len(strangers),
        audit=audit,
        wrong=tuple(sentences),
    )
