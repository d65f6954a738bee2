"""The documents that every door shows: pydantic models from which OpenAPI and the CLI's `--json` are made."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

OutcomeName = Literal["success", "error", "unknown"]
ExecutedName = Literal["no", "yes", "unknown"]
StateName = Literal[
    "held", "ready", "sending", "accepted", "in_doubt", "unresolved", "succeeded", "failed", "cancelled"
]
BasisName = Literal["answer", "handle", "probe", "state", "fence", "absence", "unsent", "attestation"]
NextStepName = Literal["done", "wait", "do_not_repeat", "ask_person", "fix_and_resubmit"]


class Document(BaseModel):
    """Base of every document: closed, so that a typo in this program is an error here and not a field out there."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Target(Document):
    """Where the operation goes; the credential is not part of it."""

    service: str
    url: str


class AttemptDocument(Document):
    """One try, or one fence. Times are RFC 3339 in UTC."""

    number: int
    kind: Literal["send", "fence", "cancel"]
    standing: Literal["open", "doubt", "unsent", "refused", "absent", "fenced", "settled"]
    phase: str | None
    bytes_written: int | None
    status: int | None
    started_at: str
    ended_at: str | None
    observation: str | None


class EvidenceDocument(Document):
    """One thing seen; equal looks in a row are counted."""

    source: Literal["attempt", "probe", "handle", "fence", "cancel", "baseline", "attestation", "restart"]
    finding: Literal["executed_ok", "executed_failed", "in_progress", "absent", "fenced", "inconclusive"]
    at: str
    last_at: str | None = None
    count: int = 1
    detail: str
    attempt: int | None = None


class StepDocument(Document):
    """One command of a job of several, by the host's own record; what it printed stands in `result`."""

    name: str
    state: Literal["not_begun", "sent", "running", "succeeded", "failed", "lost", "never_ran"]
    exit: int | None = None


class ReconcileDocument(Document):
    """The authoritative look-up, and when the gateway asks next."""

    method: str
    path: str
    next_at: str | None
    probes: int


class Authorization(Document):
    """What allowed it: never evidence that it was carried out."""

    rule: str | None
    approval: str | None = None


class Deadlines(Document):
    """`request` bounds the attempt under way; `recovery` and `start` are absolute."""

    request: str | None
    recovery: str | None
    start: str


class ReceiptDocument(Document):
    """Where the audit log holds this operation's newest record."""

    origin: str
    seq: int
    leaf: str


class FailureDocument(Document):
    """Why it failed or was cancelled."""

    code: str
    detail: str
    status: int | None = None


class AttestationDocument(Document):
    """A person settled it without proof."""

    person: str
    reason: str
    at: str
    digest: str


class Links(Document):
    """Where to look again."""

    self: str


class OperationDocument(Document):
    """What the caller asked for, what is known about it, and what to do next. The same object at every door."""

    operation_id: str = Field(examples=["op_01jd3v6k8n5q7r9s2t4w6x8y0z"])
    action: str
    run: str | None
    caller: str
    key: str | None
    state: StateName
    outcome: OutcomeName | None = Field(description="Null: nothing was sent, so there is nothing to claim.")
    executed: ExecutedName
    basis: BasisName | None
    target: Target
    request_sha256: str = Field(description="Of the exact request, credential left out, as the audit log has it.")
    last_confirmed: str | None = Field(description="When evidence last said anything definite.")
    retry_allowed: bool = Field(description="Whether the caller may submit it again; false in every unsettled state.")
    correlation_id: str | None
    trace_id: str | None
    parent: str | None
    supersedes: str | None
    transport_observation: str | None
    reconcile: ReconcileDocument | None
    result: Any
    output_valid: bool | None
    error: FailureDocument | None
    guidance: str
    next_step: NextStepName
    steps: list[StepDocument] = Field(description="Of a job of several commands, in order; else empty.")
    attempts: list[AttemptDocument]
    evidence: list[EvidenceDocument]
    authorization: Authorization
    attestation: AttestationDocument | None
    attest_digest: str | None = Field(description="What a person confirms when they settle an unresolved operation.")
    contradicted: bool
    deadlines: Deadlines
    joined: bool
    replayed: bool
    already_ended: bool | None = Field(
        default=None, description="Only in the answer to a cancel: it had ended before, and nothing was cancelled."
    )
    receipt: ReceiptDocument | None
    links: Links


class FieldErrorDocument(Document):
    """One thing wrong with the input: JSON pointer, sentence, and what to do."""

    pointer: str
    detail: str
    guidance: str


class ProblemDocument(Document):
    """RFC 9457 problem details with the gateway's own members."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    operation_id: str | None = None
    guidance: str
    errors: list[FieldErrorDocument] | None = None
    operation: OperationDocument | None = None
    digest: str | None = None


class Submission(Document):
    """The body of `POST /v1/operations`."""

    action: str = Field(min_length=1, max_length=200)
    args: dict[str, Any] = Field(default_factory=dict)
    run: str | None = Field(default=None, min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Your own key of this task. A tool whose user gave none makes one of the form `minted-` and 32"
        " hexadecimal digits, to ask by it after a lost answer; repeats are then judged as without a key.",
    )
    parent: str | None = Field(default=None, pattern=r"^op_[0-7][0-9a-hjkmnp-tv-z]{25}$")
    supersedes: str | None = Field(default=None, pattern=r"^op_[0-7][0-9a-hjkmnp-tv-z]{25}$")
    correlation_id: str | None = Field(default=None, min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")


class AttestRequest(Document):
    """The body of `POST /v1/operations/{id}/attest`; `digest` is `attest_digest` of the document that was read."""

    outcome: Literal["success", "error"]
    executed: ExecutedName
    reason: str = Field(min_length=1, max_length=2000)
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class OperationPage(Document):
    """Newest first; `cursor` leads to the next page, null at the end."""

    operations: list[OperationDocument]
    cursor: str | None


class RunDocument(Document):
    """Every operation of a run, oldest first."""

    run: str
    operations: list[OperationDocument]
    unsettled: int
    guidance: str


class ActionDocument(Document):
    """What a caller may run, with what it must know before it does."""

    name: str
    description: str
    effect: Literal["read", "reversible", "irreversible"]
    service: str
    input_schema: Any
    output_schema: Any = None
    hints: dict[str, bool]
    repeat: str = Field(description="What happens to a repeat, in one sentence.")
    steps: list[str] = Field(description="Names of the commands that it runs one after the other, if several.")
    definition: str = Field(description="Digest of the definition that operations pin.")


class ActionList(Document):
    """The actions that this key may run."""

    actions: list[ActionDocument]
