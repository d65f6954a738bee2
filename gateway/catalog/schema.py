"""The form of a catalog file: what may be written in YAML, before anything is compiled from it."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from gateway.catalog.values import Bytes, Duration, Name, Status, Word, problem
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


class Form(BaseModel):
    """Strict: no field beyond those declared, no type beyond the one declared."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class PredicateForm(Form):
    """A test of an answer. Every given part must hold."""

    status: Status | None = None
    """A status, a class (`2xx`), a range (`200-204`) or a list of these."""
    header: Word | None = None
    """A response header: it must be there, or its value must equal what `equals` or `in` says."""
    path: Word | None = None
    """JMESPath into the JSON body: what it finds must be truthy, or equal what `equals` or `in` says."""
    equals: Json = None
    """The value to equal, with JSON's types."""
    in_: Annotated[list[Json] | None, Field(alias="in", min_length=1)] = None
    """The values of which one must be equal."""

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if self.header is not None and self.path is not None:
            raise problem("A test looks at a header or at a path, not at both.", "Write two rules.", "header")
        has_value = "equals" in self.model_fields_set or self.in_ is not None
        if has_value and self.header is None and self.path is None:
            raise problem("“equals” and “in” need a “path” or a “header” to look at.", "Say what must be equal.")
        if "equals" in self.model_fields_set and self.in_ is not None:
            raise problem("Give “equals” or “in”, not both.", "“in” with one value is “equals”.", "in")
        if self.status is None and self.header is None and self.path is None:
            raise problem("The test is empty and would match every answer.", "Give a “status” or a “path”.")
        return self


def _expand(value: Json) -> Json:
    items = value if isinstance(value, list) and value else [value]
    is_status = all(isinstance(item, int | str) and not isinstance(item, bool) for item in items)
    return {"status": value} if is_status else value


def _listed(value: Json) -> Json:
    return value if isinstance(value, list) else [value]


Test = Annotated[PredicateForm, BeforeValidator(_expand, json_schema_input_type=Status | PredicateForm)]
"""A test of an answer, or just its status."""

Tests = Annotated[list[Test], Field(min_length=1), BeforeValidator(_listed, json_schema_input_type=list[Test] | Test)]
"""One test or several, of which one must hold."""


class RuleForm(PredicateForm):
    """A test and what it shows. Of a list of rules the first that matches wins; an unmatched answer is inconclusive."""

    finding: Literal["executed_ok", "executed_failed", "in_progress", "absent", "fenced", "inconclusive"]
    """What a match shows about the operation."""
    executed: Literal["yes", "no", "unknown"] | None = None
    """With `executed_failed`: whether the effect happened before it failed. Quote it."""

    @model_validator(mode="after")
    def _refines_failure(self) -> Self:
        if self.executed is not None and self.finding != "executed_failed":
            raise problem("“executed” only refines the finding “executed_failed”.", "Remove it.", "executed")
        return self


class RequestForm(Form):
    """A request. `{name}` stands for an argument or a variable of the gateway."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: Word
    """Appended to the path of the service's `base_url`; starts with `/`."""
    query: dict[str, Json] = Field(default_factory=dict)
    """Query parameters; a list repeats the parameter, an absent optional argument drops it."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Request headers; an absent optional argument drops the header."""
    body: Json = None
    """JSON body; an absent optional argument drops its member."""
    opaque: list[Word] = Field(default_factory=list)
    """Placeholders of the path whose value may hold `/`, `\\` and `%`; sent percent-encoded as one segment."""


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


class RejectedForm(Form):
    """Answers that are definite refusals, in place of the built-in list."""

    first_attempt: Tests | None = None
    """Definite on a first and only attempt."""
    any_attempt: Tests | None = None
    """Definite on any attempt that follows no doubtful one."""


class SourceForm(Form):
    """A place in an answer."""

    header: Word | None = None
    path: Word | None = None
    """JMESPath into the body."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.header is None) == (self.path is None):
            raise problem("Give either a “header” or a “path”.", "One of the two says where to look.")
        return self


def _as_path(value: Json) -> Json:
    return {"path": value} if isinstance(value, str) else value


Source = Annotated[SourceForm, BeforeValidator(_as_path, json_schema_input_type=str | SourceForm)]
"""A JMESPath into the body, or a header."""


class RateLimitForm(Form):
    """How the service says "not now"."""

    signals: Tests
    wait: Source | None = None
    """Where it names the wait, in seconds or as a date."""


class AcceptedForm(Form):
    """How "accepted, ask later" is recognised and followed."""

    status: Status = 202
    path: Word | None = None
    """JMESPath that must be truthy beside the status."""
    handle: Source
    """Where the answer names the place to follow; it must stay on the service's own origin."""
    rules: Annotated[list[RuleForm], Field(min_length=1)]
    interval: Duration = "1s"
    result: Word | None = None
    """JMESPath of the result within the last answer."""


class IdentifyForm(Form):
    """The proof that what a look-up found is our operation."""

    path: Word
    """JMESPath to the value that the service keeps."""
    equals: Word
    """What it must equal, for example `{operation_id}`."""


class SettleForm(Form):
    settle: Duration
    """Longest time for which a sent request can be held up, be worked on, and stay invisible to the look-up."""


class FenceRequestForm(Form):
    """Occupies the operation's place, so that a late copy of it loses."""

    request: RequestForm
    won: Test
    """The place is ours now: the operation never ran and never will."""
    lost: Test
    """Somebody was there first: look again."""


class FenceForm(Form):
    fence: FenceRequestForm


def _kind_of_identify(value: Json) -> str:
    """Which form was meant, so that a mistake is told about that one only."""
    return "Word" if isinstance(value, str) else "Object"


def _kind_of_absence(value: Json) -> str:
    if isinstance(value, str):
        return "Word"
    is_fence = isinstance(value, FenceForm) or (isinstance(value, dict) and "fence" in value)
    return "Fence" if is_fence else "Settle"


Identification = Annotated[
    Annotated[IdentifyForm, Tag("Object")] | Annotated[Literal["state"], Tag("Word")], Discriminator(_kind_of_identify)
]
Absence = Annotated[
    Annotated[SettleForm, Tag("Settle")] | Annotated[FenceForm, Tag("Fence")] | Annotated[Literal["none"], Tag("Word")],
    Discriminator(_kind_of_absence),
]


class ControlForm(PredicateForm):
    """Something that must be visible, so that "not there" is not "cannot see"."""

    request: RequestForm


class ReconcileForm(Form):
    """The service's own answer to "did it happen?"."""

    request: RequestForm
    identify: Identification | None = None
    """How the finding is known to be about our operation; `state` if only the state of the world can be seen."""
    rules: Annotated[list[RuleForm], Field(min_length=1)]
    compare: dict[str, Json] = Field(default_factory=dict)
    """JMESPath to what it must equal: what was found against what was asked for."""
    positive_control: ControlForm | None = None
    absence: Absence = "none"
    """How "not there now" becomes "never happened". Default: it does not."""
    result: Word | None = None
    """JMESPath of the result within the answer."""
    interval: Duration = "1s"
    """Shortest time between two looks."""
    watch: Duration = "7d"
    """How long an unresolved operation is still looked after."""


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
