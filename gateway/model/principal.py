"""Who is asking: known from the key, never from arguments."""

from dataclasses import dataclass
from enum import StrEnum


class PrincipalKind(StrEnum):
    """Callers act, people decide. A caller's key can never decide; a person's key is never an agent's."""

    CALLER = "caller"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key. `owner` is the person who answers for it; a person answers for themselves."""

    kind: PrincipalKind
    name: str
    owner: str
    key_id: str

    @property
    def is_person(self) -> bool:
        """May decide, attest, and see every caller's operations."""
        return self.kind is PrincipalKind.PERSON
