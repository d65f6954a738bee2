"""The form of a catalog file: what may be written in YAML, before anything is compiled from it."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator
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
from gateway.catalog.schema_lookup import ReconcileForm, RequestForm
from gateway.catalog.values import Bytes, Duration, Name, Word, problem
from gateway.core.strictjson import Json

ARRIVES: Final[Mapping[str, str]] = {
    "hosts": "SSH actions",
    "host": "SSH actions",
    "command": "SSH actions",
    "marker": "SSH actions",
    "lock": "SSH actions",
    "steps": "SSH actions",
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


class DeadlinesForm(Form):
    connect: Duration = "5s"
    request: Duration = "10s"
    """Bounds one attempt."""
    recovery: Duration = "5m"
    """Bounds the search for the truth, from the first attempt on."""
    start: Duration = "1h"
    """Bounds the wait for a place."""


class ReadsForm(Form):
    """What a read that decides writes may be trusted for."""

    consistency: Literal["strong", "eventual"] = "strong"
    settle: Duration = "0s"
    """How long a write may stay invisible to this read."""


class OutputForm(Form):
    """What the caller may see of the answer."""

    select: Word | None = None
    """JMESPath applied to the body."""
    max_bytes: Bytes = 65_536
    redact: list[Word] = Field(default_factory=list)
    """Names of members whose values are masked wherever they occur."""
    personal: list[Word] = Field(default_factory=list)
    """Names of members that hold personal data."""
    schema_: Annotated[Json, Field(alias="schema")] = None
    """JSON Schema of the result."""


class ActionForm(Form):
    """One action."""

    description: Annotated[Word, Field(max_length=2000)]
    effect: Literal["read", "reversible", "irreversible"]
    service: Word
    input: dict[str, Json]
    """JSON Schema 2020-12 of the arguments."""
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
    attempts_max: int = Field(default=3, ge=1, le=20)
    deadlines: DeadlinesForm = DeadlinesForm()
    conflict_key: Word | None = None
    """Operations with the same key never run at the same time: `deploy:{environment}`."""
    repeat_window: Duration = "10m"
    """How long after the end the same request is taken for a repeat."""
    reads: ReadsForm | None = None
    output: OutputForm = OutputForm()
    unknown_accepted: Literal[True] | None = None
    """The owner accepts that an unknown outcome of this irreversible action stays unknown."""
    reason: Word | None = None
    """Why `unknown_accepted` is acceptable."""

    @model_validator(mode="after")
    def _reasoned(self) -> Self:
        if (self.unknown_accepted is None) != (self.reason is None):
            given = "reason" if self.unknown_accepted is None else "unknown_accepted"
            raise problem("“unknown_accepted: true” and “reason” go together.", "Say why nobody needs to know.", given)
        return self


class ServiceLimitsForm(Form):
    concurrency: int = Field(default=8, ge=1, le=10_000)
    """Attempts under way at once."""


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


class CatalogForm(Form):
    """A catalog file."""

    services: dict[Name, ServiceForm] = Field(default_factory=dict)
    actions: dict[Name, ActionForm] = Field(default_factory=dict)
    schema_: Annotated[SkipJsonSchema[str | None], Field(alias="$schema")] = None
    """Ignored; some editors look for it."""
