"""The closed list of problems: what is refused before anything left, with a stable code (RFC 9457)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")


class Code(StrEnum):
    """Every code that a caller can meet. Public and tested: values are never renamed."""

    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    UNKNOWN_ACTION = "unknown_action"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    BODY_TIMEOUT = "body_timeout"
    PREDECESSOR_UNSETTLED = "predecessor_unsettled"
    PROBABLE_REPEAT = "probable_repeat"
    STALE_DIGEST = "stale_digest"
    WRONG_STATE = "wrong_state"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID_INPUT = "invalid_input"
    INVALID_KEY = "invalid_key"
    KEY_REUSED = "key_reused"
    CREDENTIAL_MISSING = "credential_missing"
    TARGET_REFUSED = "target_refused"
    TOO_MANY_REQUESTS = "too_many_requests"
    HOST_UNAVAILABLE = "host_unavailable"
    AUDIT_UNAVAILABLE = "audit_unavailable"
    STORE_UNAVAILABLE = "store_unavailable"
    QUARANTINED = "quarantined"
    SHUTTING_DOWN = "shutting_down"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """How a code is rendered: HTTP status, short title, and whether the same call may simply be made again."""

    status: int
    title: str
    retryable: bool


CODES: Mapping[Code, CodeInfo] = {
    Code.MALFORMED: CodeInfo(400, "The request could not be read", retryable=False),
    Code.UNAUTHENTICATED: CodeInfo(401, "A valid key is required", retryable=False),
    Code.FORBIDDEN: CodeInfo(403, "This key may not do that", retryable=False),
    Code.NOT_FOUND: CodeInfo(404, "No such thing is visible to this key", retryable=False),
    Code.UNKNOWN_ACTION: CodeInfo(404, "No such action is declared for this key", retryable=False),
    Code.METHOD_NOT_ALLOWED: CodeInfo(405, "This address does not take that method", retryable=False),
    Code.NOT_ACCEPTABLE: CodeInfo(406, "No offered form of the answer is acceptable", retryable=False),
    Code.BODY_TIMEOUT: CodeInfo(408, "The request arrived too slowly", retryable=True),
    Code.PREDECESSOR_UNSETTLED: CodeInfo(409, "An earlier operation is not settled", retryable=False),
    Code.PROBABLE_REPEAT: CodeInfo(409, "This looks like a repeat of a finished operation", retryable=False),
    Code.STALE_DIGEST: CodeInfo(409, "What you saw is no longer what is there", retryable=False),
    Code.WRONG_STATE: CodeInfo(409, "The operation's state does not allow that", retryable=False),
    Code.TOO_LARGE: CodeInfo(413, "The request is too large", retryable=False),
    Code.UNSUPPORTED_MEDIA_TYPE: CodeInfo(415, "Only application/json is taken here", retryable=False),
    Code.INVALID_INPUT: CodeInfo(422, "The input does not fit what is declared", retryable=False),
    Code.INVALID_KEY: CodeInfo(422, "The idempotency key is not usable", retryable=False),
    Code.KEY_REUSED: CodeInfo(422, "This key already names another request", retryable=False),
    Code.CREDENTIAL_MISSING: CodeInfo(409, "The action's credential is not in the vault", retryable=False),
    Code.TARGET_REFUSED: CodeInfo(422, "The request would leave its declared target", retryable=False),
    Code.TOO_MANY_REQUESTS: CodeInfo(429, "Too many requests are under way", retryable=True),
    Code.HOST_UNAVAILABLE: CodeInfo(502, "The host gave no usable answer; nothing was changed", retryable=False),
    Code.AUDIT_UNAVAILABLE: CodeInfo(503, "The audit log cannot take a record; nothing was sent", retryable=True),
    Code.STORE_UNAVAILABLE: CodeInfo(503, "The store's answer was lost; ask by key", retryable=False),
    Code.QUARANTINED: CodeInfo(503, "The store was restored; writes wait for an operator", retryable=False),
    Code.SHUTTING_DOWN: CodeInfo(503, "The gateway is shutting down; nothing was sent", retryable=True),
    Code.INTERNAL: CodeInfo(500, "The gateway failed in an unexpected way", retryable=False),
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with the input: a JSON pointer (RFC 6901), a plain sentence, and what to do about it."""

    pointer: str
    detail: str
    guidance: str


@dataclass(eq=False)
class Problem(Exception):
    """Raised before anything left. Never used for what a service answered, nor for an unknown outcome.

    `detail` and `guidance` never repeat the caller's input: it may be personal or secret.
    """

    code: Code
    detail: str
    guidance: str = ""
    operation_id: str | None = None
    errors: Sequence[FieldError] = ()
    retry_after_seconds: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The code and the sentence, for logs."""
        return f"{self.code.value}: {self.detail}"

    @property
    def info(self) -> CodeInfo:
        """Status, title and retryability of this problem's code."""
        return CODES[self.code]


class BrokenInvariantError(AssertionError):
    """The program's own reasoning was wrong. The process must stop rather than act on it."""


def ensure(condition: object, claim: str) -> None:
    """Check a claim that must hold whatever happens outside; unlike `assert` it survives `python -O`."""
    if not condition:
        raise BrokenInvariantError(claim)


def present(value: T | None, claim: str) -> T:
    """The value, which must be there; narrows the type where the reasoning says that it cannot be None."""
    if value is None:
        raise BrokenInvariantError(claim)
    return value
