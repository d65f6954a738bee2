"""The form of a catalog file: what may be written in YAML, before anything is compiled from it."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from gateway.catalog.schema_answers import (
    AcceptedForm,
    Form,
    PredicateForm,
    RateLimitForm,
    RejectedForm,
    Test,
    Tests,
)
from gateway.catalog.schema_declared import DeclaredForm, ServiceLimitsForm
from gateway.catalog.schema_hosts import CommandForm, HostForm
from gateway.catalog.schema_lookup import ReconcileForm, RequestForm
from gateway.catalog.values import Duration, Name, Word, problem
from gateway.core.strictjson import Json

ARRIVES: Final[Mapping[str, str]] = {
    "approval": "approvals",
    "preview": "approvals",
    "ask": "approvals",
    "use": "recipes",
}
"""Fields that are known but belong to parts of the gateway that do not exist yet."""


class WindowForm(Form):
    """How long the service remembers the value that makes repeats one operation."""

    min: Duration
    """The shortest time that the service promises."""
    margin: Duration
    """Kept off `min`: longer than any sent request can be held up on its way."""


class BindForm(Form):
    """What makes the service see repeats as one operation: the operation's own id, in a place it looks at."""

    in_: Annotated[Literal["header", "body", "query", "path", "none"], Field(alias="in")]
    name: Word | None = None
    """Header, query parameter or member of the body; `a.b` is a member within a member."""
    format: Literal["op", "uuid", "hex"] = "op"
    """`op` and 26 digits, a UUID, or 32 hex digits."""
    max: int | None = Field(default=None, ge=1)
    """Longest value that the service takes, in characters."""
    charset: Word | None = None
    """Characters that the service takes, as in a regular expression's brackets: `a-z0-9-`."""
    window: WindowForm | None = None
    scope: Literal["account", "region", "zone", "credential", "device"] | None = None
    """Within what the service remembers; a repeat elsewhere is a new operation."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.in_ in {"header", "body", "query"} and self.name is None:
            raise problem(f"A bind in the {self.in_} needs a “name”.", "Name the header, member or parameter.")
        if self.in_ in {"path", "none"} and self.name is not None:
            raise problem(f"A bind with “in: {self.in_}” has no name.", "Remove “name”.", "name")
        return self


class PreconditionForm(Form):
    """A conditional write."""

    header: Word
    """For example `If-Match`."""
    from_: Annotated[Word, Field(alias="from")]
    """The argument that holds the value."""

    @model_validator(mode="after")
    def _no_preview(self) -> Self:
        if self.from_.startswith("preview."):
            raise problem("A precondition from a preview arrives with approvals.", "Name an argument.", "from")
        return self


class ActionForm(DeclaredForm):
    """An action that sends a request to a service."""

    service: Word
    request: RequestForm
    precondition: PreconditionForm | None = None
    bind: BindForm | None = None
    success: Test = PredicateForm(status="2xx")
    rejected: RejectedForm | None = None
    refused_before_work: Tests | None = None
    """Answers that prove that nothing ran."""
    exists: Tests | None = None
    """Answers that mean "already there": they always lead to the look-up."""
    in_flight: Tests | None = None
    """Answers that mean "the same operation is still running"."""
    rate_limit: RateLimitForm | None = None
    replay_after_5xx: Literal["same_outcome", "reexecutes", "unknown"] = "unknown"
    """What the service does with the same value after it answered 5xx once."""
    accepted: AcceptedForm | None = None
    reconcile: ReconcileForm | None = None
    resend: Literal["never", "same_key", "on_absence"] = "never"
    """When another attempt may follow one that may have been carried out."""


class ServiceForm(Form):
    """A service: the only place a request's scheme and host come from."""

    base_url: Word
    """A request's path is appended to the path of this URL, never resolved against it."""
    credential: Name | None = None
    """Name of a credential in the vault; joined at the last moment, only for this origin."""
    limits: ServiceLimitsForm = ServiceLimitsForm()
    allow_private: bool = False
    """Loopback, private and link-local addresses are allowed."""
    ca_file: Word | None = None
    """PEM file to trust instead of the system's certificates."""
    proxy: Word | None = None
    """HTTP proxy; the environment is never consulted."""
    connection: Literal["close", "reuse"] = "close"
    """`reuse` keeps connections open between reads; writes never share one."""


_OF_A_COMMAND: Final = frozenset({"host", "command", "marker", "lock", "steps"})
_OF_A_REQUEST: Final = frozenset({"service", "request"})


def runs_command(value: Json) -> bool:
    """Whether an action as it is written is one on a host, so that mistakes are told about that form only."""
    return isinstance(value, dict) and not _OF_A_COMMAND.isdisjoint(value) and _OF_A_REQUEST.isdisjoint(value)


def _kind_of_action(value: Json) -> str:
    return "Command" if isinstance(value, CommandForm) or runs_command(value) else "Request"


AnyAction = Annotated[
    Annotated[ActionForm, Tag("Request")] | Annotated[CommandForm, Tag("Command")], Discriminator(_kind_of_action)
]


class CatalogForm(Form):
    """A catalog file."""

    services: dict[Name, ServiceForm] = Field(default_factory=dict)
    hosts: dict[Name, HostForm] = Field(default_factory=dict)
    actions: dict[Name, AnyAction] = Field(default_factory=dict)
    schema_: Annotated[SkipJsonSchema[str | None], Field(alias="$schema")] = None
    """Ignored; some editors look for it."""
