"""What the engine needs from parts that `app` brings: credentials, shaping of answers, and pinned definitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from adapters.contract import Observation, Secret
from gateway.model.action import Action
from gateway.model.problem import FieldError


class Credentials(Protocol):
    """The vault as the driver sees it. Raises Problem(credential_missing) for a name that is not there."""

    def secret_for(self, name: str, origin: str) -> Secret: ...


@dataclass(frozen=True, slots=True)
class Shaped:
    """A result fit for the caller: JSON, masked, selected, cut, and whether it fits the declared schema."""

    json: bytes
    valid: bool | None


class Shaper(Protocol):
    """Masks and shapes what a service sent. Never raises, whatever the service sent."""

    def mask(self, observation: Observation) -> Observation: ...
    def shape(self, action: Action, body: bytes, content_type: str | None) -> Shaped: ...
    def shape_value(self, action: Action, value: object) -> Shaped: ...


class Definitions(Protocol):
    """The catalog as the engine sees it; `compile` also revives definitions stored by earlier catalogs."""

    @property
    def actions(self) -> Mapping[str, Action]: ...
    def definition(self, action: Action) -> bytes: ...
    def compile(self, definition: bytes) -> Action: ...
    def validate(self, action: Action, arguments: object) -> list[FieldError]: ...
    def built_in(self, name: str, host: str) -> Action | None: ...


class Points(Protocol):
    """Named places where a test may crash, delay or cancel; free when nobody listens."""

    def hit(self, name: str) -> None: ...


class NoPoints:
    """What production uses."""

    def hit(self, name: str) -> None:
        """Nothing happens here."""


POINTS = (
    "admit.before_commit",
    "admit.after_commit",
    "begin.after_commit",
    "send.before_first_byte",
    "send.after_answer",
    "head.before_commit",
    "outcome.before_commit",
    "outcome.after_commit",
    "probe.before",
    "probe.after",
    "fence.after_commit",
    "fence.after_answer",
    "export.before_write",
    "export.after_sync",
    "export.before_prune",
    "rekey.key_stored",
    "rekey.seal_key_stored",
    "rekey.committed",
    "rekey.settled",
)
"""Every point of the engine. The store has its own list."""
