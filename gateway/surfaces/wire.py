"""The one rendering of operations and problems, for every door."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from audit.rotate import Rotated
from audit.trust import TrustPolicy
from gateway.core.guidance import guidance, next_step
from gateway.core.judge import claim
from gateway.core.steps import steps_of
from gateway.engine.gateway import View, attest_digest
from gateway.engine.keys import KeyLine
from gateway.engine.vault import CredentialLine
from gateway.model.evidence import Evidence, Finding
from gateway.model.operation import Attempt, Operation, State
from gateway.model.problem import Problem

PROBLEM_TYPE = "https://action-gateway.invalid/problems/{code}"
"""Names a code, not a page: RFC 9457 section 4 allows types that do not resolve."""


def instant(wall_ms: int | None) -> str | None:
    """Milliseconds since the epoch as RFC 3339 in UTC."""
    if wall_ms is None:
        return None
    seconds, millis = divmod(wall_ms, 1000)
    return f"{_second(seconds)}.{millis:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """The times of one document, and of those beside it, lie close together."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


def operation_document(view: View, *, now_ms: int) -> dict[str, Any]:
    """An operation as `documents.OperationDocument` describes it, JSON-ready. Hot path: plain dictionaries."""
    operation = view.operation
    shown = claim(operation)
    return {
        "operation_id": operation.id,
        "action": operation.action,
        "run": operation.run,
        "caller": operation.caller,
        "key": operation.key,
        "state": operation.state.value,
        "outcome": None if shown.outcome is None else shown.outcome.value,
        "executed": shown.executed.value,
        "basis": operation.basis,
        "target": {"service": operation.target_service, "url": operation.target_url},
        "request_sha256": operation.request_sha256,
        "last_confirmed": instant(_last_confirmed(operation)),
        "retry_allowed": _retry_allowed(view),
        "correlation_id": operation.correlation_id or operation.run,
        "trace_id": operation.trace_id,
        "parent": operation.parent,
        "supersedes": operation.supersedes,
        "transport_observation": operation.attempts[-1].observation if operation.attempts else None,
        "reconcile": _reconcile(view),
        "result": None if view.result is None else orjson.loads(view.result),
        "output_valid": operation.output_valid,
        "error": _failure(operation),
        "guidance": guidance(operation, view.action, now_ms=now_ms),
        "next_step": next_step(operation),
        "steps": _steps(view) if view.action.steps else [],
        "attempts": [_attempt(item) for item in operation.attempts],
        "evidence": [_evidence(item) for item in operation.evidence],
        "authorization": {"rule": operation.rule, "approval": None},
        "attestation": _attestation(operation),
        "attest_digest": attest_digest(operation) if operation.state is State.UNRESOLVED else None,
        "contradicted": operation.contradicted,
        "deadlines": {
            "request": instant(_request_deadline(view)),
            "recovery": instant(operation.recovery_ms),
            "start": instant(operation.start_by_ms),
        },
        "joined": view.joined,
        "replayed": view.replayed,
        "receipt": _receipt(view),
        "links": {"self": f"/v1/operations/{operation.id}"},
    }


def problem_document(problem: Problem, *, now_ms: int) -> dict[str, Any]:
    """A problem as `documents.ProblemDocument` describes it (RFC 9457)."""
    info = problem.info
    document: dict[str, Any] = {
        "type": PROBLEM_TYPE.format(code=problem.code.value),
        "title": info.title,
        "status": info.status,
        "detail": problem.detail,
        "code": problem.code.value,
        "retryable": info.retryable,
        "guidance": problem.guidance,
    }
    if problem.operation_id is not None:
        document["operation_id"] = problem.operation_id
    if problem.errors:
        document["errors"] = [
            {"pointer": item.pointer, "detail": item.detail, "guidance": item.guidance} for item in problem.errors
        ]
    view = problem.extra.get("view")
    if isinstance(view, View):
        document["operation"] = operation_document(view, now_ms=now_ms)
    if "digest" in problem.extra:
        document["digest"] = problem.extra["digest"]
    return document


def _retry_allowed(view: View) -> bool:
    """About the caller: may it submit the same thing again? Only where the end is known and nothing was executed."""
    operation = view.operation
    if not operation.final:
        return False
    return view.action.is_read or (operation.state is not State.SUCCEEDED and operation.executed.value == "no")


def _last_confirmed(operation: Operation) -> int | None:
    definite = [item for item in operation.evidence if item.finding is not Finding.INCONCLUSIVE]
    return (definite[-1].last_at_ms or definite[-1].at_ms) if definite else None


def _reconcile(view: View) -> dict[str, Any] | None:
    operation, reconcile = view.operation, view.action.reconcile
    if operation.handle is not None:
        method, path = "GET", operation.handle.url
    elif reconcile is not None:
        method = reconcile.request.method
        path = reconcile.request.path.replace("{operation_id}", operation.id)
    else:
        return None
    due = None if operation.final else instant(operation.next_ms)
    return {"method": method, "path": path, "next_at": due, "probes": operation.probes_total}


def _steps(view: View) -> list[dict[str, Any]]:
    return [
        {"name": item.name, "state": item.state.value, "exit": item.exit}
        for item in steps_of(view.action, view.operation)
    ]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "kind": attempt.kind.value,
        "standing": attempt.standing.value,
        "phase": attempt.phase,
        "bytes_written": attempt.bytes_written,
        "status": attempt.status,
        "started_at": instant(attempt.started_ms),
        "ended_at": instant(attempt.ended_ms),
        "observation": attempt.observation,
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return {
        "source": item.source.value,
        "finding": item.finding.value,
        "at": instant(item.at_ms),
        "last_at": instant(item.last_at_ms),
        "count": item.count,
        "detail": item.detail,
        "attempt": item.attempt,
    }


def _failure(operation: Operation) -> dict[str, Any] | None:
    failure = operation.failure
    if failure is None:
        return None
    return {"code": failure.code, "detail": failure.detail, "status": failure.status}


def _attestation(operation: Operation) -> dict[str, Any] | None:
    seen = operation.attestation
    if seen is None:
        return None
    return {"person": seen.person, "reason": seen.reason, "at": instant(seen.at_ms), "digest": seen.digest}


def _request_deadline(view: View) -> int | None:
    if view.operation.state is not State.SENDING:
        return None
    deadlines = view.action.deadlines
    return view.operation.attempts[-1].started_ms + int((deadlines.connect_seconds + deadlines.request_seconds) * 1000)


def _receipt(view: View) -> dict[str, Any] | None:
    receipt = view.receipt
    return None if receipt is None else {"origin": receipt.origin, "seq": receipt.seq, "leaf": receipt.leaf}


def parse_instant(text: str) -> int | None:
    """RFC 3339 with a zone as milliseconds since the epoch, None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def key_document(line: KeyLine) -> dict[str, Any]:
    """A key without its secret."""
    return {
        "key_id": line.key_id,
        "prefix": line.prefix,
        "kind": line.kind.value,
        "name": line.name,
        "owner": line.owner,
        "created_at": instant(line.created_ms),
        "expires_at": instant(line.expires_ms),
        "revoked_at": instant(line.revoked_ms),
        "usable": line.usable,
    }


def key_change_document(rotated: Rotated, policy: TrustPolicy) -> dict[str, Any]:
    """A new key of the audit log, and what auditors need to go on."""
    return {
        "origin": rotated.new_key.name,
        "cut": rotated.cut,
        "old_key": str(rotated.old_key),
        "new_key": str(rotated.new_key),
        "policy": policy.to_text(),
    }


def credential_document(line: CredentialLine) -> dict[str, Any]:
    """A credential without its value."""
    return {
        "name": line.name,
        "kind": line.kind,
        "origin": line.origin,
        "changed_at": instant(line.changed_ms),
        "readable": line.readable,
    }
