"""The form of hosts, and of the commands that run on them."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from gateway.catalog.schema_answers import Form
from gateway.catalog.schema_declared import DeclaredForm, ServiceLimitsForm
from gateway.catalog.schema_lookup import Identification
from gateway.catalog.values import Duration, Name, Word, problem
from gateway.core.strictjson import Json

STEPS_MAX = 16
"""Of one job. A longer one is several operations, or a script of its own."""
_STEP = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,38}[A-Za-z0-9])?")
_EXITS = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")


def exit_ranges(value: Json) -> tuple[tuple[int, int], ...]:
    """`0`, `1-3` or a list of these, as inclusive ranges. Raises `ValueError` for anything else."""
    if isinstance(value, list):
        return tuple(pair for item in value for pair in exit_ranges(item))
    match = _EXITS.fullmatch(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not low <= high <= 255:
        raise ValueError("not an exit status")
    return ((low, high),)


def _check_exit(value: Json) -> Json:
    try:
        ranges = exit_ranges(value)
    except ValueError:
        ranges = ()
    if not ranges:
        raise problem("This is no exit status.", "Write 0, 1-3, or a list of these; they go from 0 to 255.")
    return value


Exit = Annotated[
    Json,
    BeforeValidator(_check_exit),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 255},
                {"type": "string", "pattern": f"^(?:{_EXITS.pattern})$"},
                {"type": "array", "minItems": 1, "items": {"type": ["integer", "string"]}},
            ]
        }
    ),
]
"""One or more exit statuses."""


class HostForm(Form):
    """A host that is reached over SSH: the only place an address and the keys it is believed by come from."""

    address: Word
    """Name or address; behind a jump host, as that host sees it."""
    port: int = Field(default=22, ge=1, le=65_535)
    user: Word
    credential: Name
    """Name of a private key in the vault (kind `ssh_key`); used for this host only."""
    host_keys: list[Word] = Field(default_factory=list)
    """Public keys of the host, as `gateway host enroll` prints them: `ssh-ed25519 AAAA…`. Never learned in passing."""
    host_authorities: list[Word] = Field(default_factory=list)
    """Public keys of authorities whose host certificates count; a certificate must name the address."""
    revoked_keys: list[Word] = Field(default_factory=list)
    """Public keys that never count."""
    jump: Name | None = None
    """The host to go through, with its own keys and credential."""
    store: Word | None = None
    """Absolute path, on the host, of the folder in which the runner remembers what ran. Durable, and the user's own."""
    store_id: Word | None = None
    """The identity that the store was given when it was made (`gateway host script`): another is never taken for it."""
    limits: ServiceLimitsForm = ServiceLimitsForm()
    allow_private: bool = False
    """Loopback, private and link-local addresses are allowed."""

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.store is None) != (self.store_id is None):
            given = "store_id" if self.store is None else "store"
            raise problem("“store” and “store_id” go together.", "`gateway host script` makes a store.", given)
        return self


class ExitForm(Form):
    """A test of a command that has ended. Every given part must hold."""

    exit: Exit | None = None
    """An exit status, a range (`1-3`) or a list of these. Default: 0."""
    path: Word | None = None
    """JMESPath into what the runner tells: `exit`, `stdout.text`, `stdout.bytes`, `stderr.text`."""
    equals: Json = None
    """The value to equal, with JSON's types."""
    in_: Annotated[list[Json] | None, Field(alias="in", min_length=1)] = None
    """The values of which one must be equal."""

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        _check_one_value(self)
        return self


class StatusRuleForm(Form):
    """A test of what a status command printed, and what it shows. The first that matches wins."""

    path: Word
    """JMESPath into the JSON object that it printed: what it finds must be truthy, or equal `equals` or `in`."""
    equals: Json = None
    in_: Annotated[list[Json] | None, Field(alias="in", min_length=1)] = None
    finding: Literal["executed_ok", "executed_failed", "in_progress", "absent", "inconclusive"]
    """What a match shows about the operation."""
    executed: Literal["yes", "no", "unknown"] | None = None
    """With `executed_failed`: whether the effect happened before it failed. Quote it."""

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if self.executed is not None and self.finding != "executed_failed":
            raise problem("“executed” only refines the finding “executed_failed”.", "Remove it.", "executed")
        _check_one_value(self)
        return self


def _check_one_value(form: ExitForm | StatusRuleForm) -> None:
    given = form.model_fields_set
    if form.path is None and ("equals" in given or form.in_ is not None):
        raise problem("“equals” and “in” need a “path” to look at.", "Say what must be equal.")
    if "equals" in given and form.in_ is not None:
        raise problem("Give “equals” or “in”, not both.", "“in” with one value is “equals”.", "in")


class StatusCommandForm(Form):
    """A status command of your own, run on the host: it must end with 0 and print one JSON object."""

    command: Annotated[list[Word], Field(min_length=1)]
    """Its words; it must change nothing."""
    identify: Identification | None = None
    """How the finding is known to be about our operation; `state` if only the state of the world can be seen."""
    rules: Annotated[list[StatusRuleForm], Field(min_length=1)]
    compare: dict[str, Json] = Field(default_factory=dict)
    """JMESPath to what it must equal: what was found against what was asked for."""
    result: Word | None = None
    """JMESPath of the result within the answer."""
    interval: Duration = "1s"
    """Shortest time between two looks."""
    watch: Duration = "7d"
    """How long an unresolved operation is still looked after."""


def _check_step(value: str) -> str:
    if _STEP.fullmatch(value) is None:
        hint = "Up to 40 letters, digits, dashes and underscores, a letter or digit at both ends: migrate."
        raise problem("This is no name of a step.", hint)
    return value


class StepForm(Form):
    """One command of a job of several."""

    name: Annotated[str, AfterValidator(_check_step)]
    """What the step is called, once in a job; its record on the host carries it."""
    command: Annotated[list[Word], Field(min_length=1)]
    """The program and its arguments, as in `command` of an action."""
    success: ExitForm = ExitForm(exit=0)
    """When the next step may begin; every other end stops the job, and the operation has failed."""
    lock: Word | None = None
    """Held while this step runs, not between two steps: `conflict_key` keeps others out for the whole job."""


class CommandForm(DeclaredForm):
    """An action that runs a command on a host, or several as the steps of one job."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["command"]}, {"required": ["steps"]}]})

    host: Word
    command: Annotated[list[Word] | None, Field(min_length=1)] = None
    """The program and its arguments. Each element is one word, whatever a placeholder in it is filled with."""
    steps: Annotated[list[StepForm] | None, Field(min_length=1, max_length=STEPS_MAX)] = None
    """Instead of `command`: commands that run one after the other, each with a record of its own on the host. After
    a loss the job goes on at the first step without one; a step that has ended never runs again."""
    marker: Literal["runner", "command", "none"] | None = None
    """Who remembers on the host what ran: `runner` (default: at most once, can be asked for and fenced), `command`
    (your own status command tells of it), `none` (default of reads)."""
    lock: Word | None = None
    """Only one command under this name runs on the host at a time, whoever asked for it; another one is not run."""
    success: ExitForm = ExitForm(exit=0)
    """When the command counts as carried out; every other end is a failure."""
    reconcile: StatusCommandForm | None = None
    """Default with the runner: the runner itself."""

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if self.command is None and self.steps is None:
            raise problem("Nothing says what is run.", "Give “command”, or “steps” for several commands.")
        if self.command is not None and self.steps is not None:
            hint = "Remove one; a single command needs no steps."
            raise problem("Give “command” or “steps”, not both.", hint, "steps")
        return self
