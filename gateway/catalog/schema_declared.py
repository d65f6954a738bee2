"""The form of what every action declares, whether it sends a request or runs a command."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.catalog.schema_answers import Form
from gateway.catalog.values import Bytes, Duration, Word, problem
from gateway.core.strictjson import Json


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


class ServiceLimitsForm(Form):
    concurrency: int | None = Field(default=None, ge=1, le=10_000)
    """Attempts under way at once; default: the setting `limits.service_concurrency_max`."""


class DeclaredForm(Form):
    """What every action declares."""

    description: Annotated[Word, Field(max_length=2000)]
    effect: Literal["read", "reversible", "irreversible"]
    input: dict[str, Json]
    """JSON Schema 2020-12 of the arguments."""
    attempts_max: int = Field(default=3, ge=1, le=20)
    deadlines: DeadlinesForm = DeadlinesForm()
    conflict_key: Word | None = None
    """Operations with the same key never run at the same time: `deploy:{environment}`."""
    subject: Word | None = None
    """Whose data the arguments marked `personal: true` are: `{customer}`. The audit log boxes them under a key of that
    person, which can be deleted."""
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
