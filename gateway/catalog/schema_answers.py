"""The form of what a catalog says about answers: tests, rules, refusals, limits and acceptance."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gateway.catalog.values import Duration, Status, Word, problem
from gateway.core.strictjson import Json


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


class RejectedForm(Form):
    """Answers that are definite refusals, beside those of the built-in list."""

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
