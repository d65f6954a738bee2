"""Who is asking: taken from the key alone, never from what the request says."""

from dataclasses import dataclass
from enum import StrEnum


class PrincipalKind(StrEnum):
    """Callers act, people decide. Neither kind of key does the other's work."""

    CALLER = "caller"
    PERSON = "person"


class Deed(StrEnum):
    """What a key may be used for, apart from which action: the access rules decide about actions."""

    SUBMIT = "submit"
    """Hand in an operation."""
    SUPERSEDE = "supersede"
    """Hand in an operation that takes the place of an unresolved one."""
    READ_OWN = "read_own"
    """Read operations that this key's holder submitted."""
    READ_ALL = "read_all"
    """Read everybody's operations."""
    PROBE = "probe"
    """Ask for a look at the service now."""
    CANCEL = "cancel"
    """Cancel while nothing may have left."""
    ATTEST = "attest"
    """Settle without proof, by a person's word."""
    DECIDE = "decide"
    """Approve or deny a held operation."""
    READ_AUDIT = "read_audit"
    """Read the audit log."""
    ADMINISTER = "administer"
    """Make and revoke keys, set and remove credentials."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key that was just checked."""

    kind: PrincipalKind
    name: str
    owner: str
    """The person who answers for the key; a person answers for themselves."""
    key_id: str
    """The public part of the key; names it in lists and records."""

    @property
    def is_person(self) -> bool:
        """People decide and administer; everyone else acts."""
        return self.kind is PrincipalKind.PERSON
