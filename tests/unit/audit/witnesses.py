"""A log and witnesses of it, with keys that are the same each time."""

from __future__ import annotations

from audit.checkpoint import Publisher
from audit.cosign import Cosigner
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.proofs import HashTree
from audit.trust import TrustPolicy
from audit.witness import Witness, request_of
from tests.unit.audit.logs import ORIGIN, START_MS, Journal, entropy, sign_checkpoint
from tests.unit.audit.test_proofs import numbered

NOW_S = START_MS // 1000


def cosigner(name: str = "w1") -> Cosigner:
    return Cosigner.generate(f"witness.example/{name}", entropy(name))


class Log:
    """A log seen from a witness: leaves and a key."""

    def __init__(self, seed: str = "log") -> None:
        self.signer = NoteSigner.generate(ORIGIN, entropy("witnessed"))
        self.leaves = [leaf + seed.encode() for leaf in numbered(40)]
        self.leaves = [leaf[:32] if seed == "log" else leaf[-32:] for leaf in self.leaves]
        self.tree = HashTree(lambda start, end: self.leaves[start:end])
        self.tree.extend(self.leaves)

    def note(self, size: int) -> str:
        return sign_checkpoint(self.signer, size, self.tree.root(size)).decode()

    def request(self, old: int, size: int) -> bytes:
        return request_of(old, self.tree.consistency(old, size), self.note(size))


def witness_of(log: Log, directory: MemoryDirectory | None = None) -> Witness:
    return Witness(directory or MemoryDirectory(), cosigner(), [log.signer.key])


def policy_of(journal: Journal, quorum: str = "both", names: tuple[str, ...] = ("w1", "w2")) -> TrustPolicy:
    lines = [f"log {journal.signer.key}"]
    lines += [f"witness {name} {cosigner(name).key} https://witness.example/{name}" for name in names]
    lines += [f"group both all {' '.join(names)}", f"quorum {quorum}"]
    return TrustPolicy.parse("\n".join(lines))


def published(journal: Journal) -> tuple[Publisher, str]:
    journal.records(6)
    journal.seal()
    journal.export()
    publisher = Publisher(journal.directory, journal.signer)
    found = publisher.publish()
    assert found is not None
    return publisher, found.note
