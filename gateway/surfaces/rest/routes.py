"""The table of routes: what OpenAPI is generated from and what the door serves; a route that is not here is a 404."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from gateway.surfaces import documents
from gateway.surfaces.rest import administration, health, hosting, log_upkeep, operations
from gateway.surfaces.rest.call import Call, Reply

Handler = Callable[[Call], Awaitable[Reply]]

ID_SCHEMA: Mapping[str, Any] = {"type": "string", "pattern": "^op_[0-7][0-9a-hjkmnp-tv-z]{25}$"}
NAME_SCHEMA: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}


CREDENTIAL_SCHEMA: Mapping[str, Any] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"}


@dataclass(frozen=True, slots=True)
class Route:
    """One call. `open`: needs no key. `answers` maps status to model, None for an empty or non-JSON answer."""

    method: str
    path: str
    handler: Handler | None
    """None: served by the site itself."""
    summary: str
    answers: Mapping[int, type[BaseModel] | None]
    problems: tuple[int, ...] = ()
    body: type[BaseModel] | None = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    open: bool = False
    person: bool = False
    operation_id: str = ""

    @property
    def has_head(self) -> bool:
        """Whether HEAD is answered as well; a stream has no end that could be announced."""
        return self.path != "/v1/events"

    @property
    def statuses(self) -> tuple[int, ...]:
        """Every status with which a problem may come, in order: its own, and those of the door."""
        door = (403, 500) if self.open else (401, 403, 429, 500, 503)
        return tuple(sorted({*self.problems, *door} - set(self.answers)))


class Health(documents.Document):
    """`/healthz` and `/readyz`."""

    status: str
    reason: str | None = None


_WAIT_SCHEMA = {"type": "string", "pattern": r"^[0-9]{1,6}$"}
_STATES = list(documents.StateName.__args__)  # type: ignore[attr-defined]  # typing does not describe Literal's members
_ONE = {"id": ID_SCHEMA}
_HOST = {"name": NAME_SCHEMA}
_UPKEEP = {200: documents.OperationDocument, 202: documents.OperationDocument}
_HOST_PROBLEMS = (400, 403, 404, 408, 409, 413, 415, 422, 502, 503)
_UPKEEP_PROBLEMS = (400, 403, 404, 408, 409, 413, 415, 422, 429, 502, 503)

ROUTES: tuple[Route, ...] = (
    Route(
        "POST", "/v1/operations", operations.submit, "Submit an operation, or join the one it repeats.",
        {200: documents.OperationDocument, 202: documents.OperationDocument},
        (400, 403, 404, 408, 409, 413, 415, 422, 429, 503), body=documents.Submission,
        headers={
            "Idempotency-Key": NAME_SCHEMA,
            # Both are wishes: what cannot be read is passed over, as RFC 7240 and W3C Trace Context ask.
            "Prefer": {"type": "string", "examples": ["wait=10"]},
            "traceparent": {"type": "string"},
        },
        operation_id="submitOperation",
    ),
    Route(
        "GET", "/v1/operations", operations.list_operations, "List operations, newest first.",
        {200: documents.OperationPage}, (422,),
        query={
            "key": NAME_SCHEMA, "action": NAME_SCHEMA, "run": NAME_SCHEMA,
            "state": {"type": "string", "enum": _STATES},
            "outcome": {"type": "string", "enum": ["success", "error", "unknown"]},
            "since": {"type": "string", "format": "date-time"},
            "cursor": ID_SCHEMA,
            "limit": {"type": "string", "pattern": "^[1-9][0-9]{0,3}$"},
        },
        operation_id="listOperations",
    ),
    Route(
        "GET", "/v1/operations/{id}", operations.get, "Read an operation; with `wait` until it is final or unresolved.",
        {200: documents.OperationDocument}, (404, 422), query={"wait": _WAIT_SCHEMA}, parameters=_ONE,
        operation_id="getOperation",
    ),
    Route(
        "POST", "/v1/operations/{id}/reconcile", operations.reconcile, "Look now what became of it; sends nothing.",
        {200: documents.OperationDocument}, (404, 409, 422, 503), parameters=_ONE, operation_id="reconcileOperation",
    ),
    Route(
        "POST", "/v1/operations/{id}/cancel", operations.cancel,
        "Cancel while nothing may have left; a command on a host is fenced or sent a signal, and its record tells.",
        {200: documents.OperationDocument}, (404, 409, 422, 503), parameters=_ONE,
        query={"signal": {"type": "string", "enum": ["TERM", "INT", "KILL"]}}, operation_id="cancelOperation",
    ),
    Route(
        "POST", "/v1/operations/{id}/attest", operations.attest, "A person settles an unresolved operation.",
        {200: documents.OperationDocument}, (400, 403, 404, 408, 409, 413, 415, 422, 503), parameters=_ONE,
        body=documents.AttestRequest, person=True, operation_id="attestOperation",
    ),
    Route(
        "GET", "/v1/runs/{run}", operations.run, "Every operation of a run, oldest first.",
        {200: documents.RunDocument}, (404, 422), parameters={"run": NAME_SCHEMA}, operation_id="getRun",
    ),
    Route(
        "GET", "/v1/actions", operations.list_actions, "The actions that this key may run.",
        {200: documents.ActionList}, (422,), operation_id="listActions",
    ),
    Route(
        "GET", "/v1/actions/{name}", operations.get_action, "One action with its schemas and hints.",
        {200: documents.ActionDocument}, (404, 422), parameters={"name": NAME_SCHEMA}, operation_id="getAction",
    ),
    Route(
        "GET", "/v1/events", None, "Server-sent events: changes and alerts.", {200: None}, (422,),
        operation_id="streamEvents",
    ),
    Route(
        "GET", "/v1/keys", administration.list_keys, "Keys, without their secrets.",
        {200: administration.KeyList}, (403, 422), person=True, operation_id="listKeys",
    ),
    Route(
        "POST", "/v1/keys", administration.create_key, "Make a key; its text is in this answer only.",
        {201: administration.MadeKey}, (400, 403, 408, 413, 415, 422, 503), body=administration.NewKeyRequest,
        person=True, operation_id="createKey",
    ),
    Route(
        "DELETE", "/v1/keys/{id}", administration.revoke_key, "Revoke a key at once.",
        {204: None}, (403, 404, 422, 503), parameters={"id": NAME_SCHEMA}, person=True, operation_id="revokeKey",
    ),
    Route(
        "GET", "/v1/credentials", administration.list_credentials, "Credentials, without their values.",
        {200: administration.CredentialList}, (403, 422), person=True, operation_id="listCredentials",
    ),
    Route(
        "PUT", "/v1/credentials/{name}", administration.put_credential, "Set a credential for one origin.",
        {200: administration.CredentialDocument}, (400, 403, 408, 413, 415, 422, 503),
        parameters={"name": CREDENTIAL_SCHEMA}, body=administration.CredentialRequest, person=True,
        operation_id="setCredential",
    ),
    Route(
        "DELETE", "/v1/credentials/{name}", administration.remove_credential, "Forget a credential.",
        {204: None}, (403, 404, 422, 503), parameters={"name": CREDENTIAL_SCHEMA}, person=True,
        operation_id="removeCredential",
    ),
    Route(
        "POST", "/v1/subjects/shred", log_upkeep.shred_subject, "Erase what the audit log holds of a person.",
        {200: log_upkeep.ShredReport}, (400, 403, 408, 413, 415, 422, 503), body=log_upkeep.ShredRequest, person=True,
        operation_id="shredSubject",
    ),
    Route(
        "POST", "/v1/audit/rotate-keys", log_upkeep.change_log_key, "Let the audit log go on under a new key.",
        {200: log_upkeep.KeyChangeDocument}, (403, 422, 503), person=True, operation_id="rotateLogKey",
    ),
    Route(
        "POST", "/v1/hosts/{name}/keys", hosting.fetch_keys, "Fetch the keys that a host presents; believes none.",
        {200: hosting.HostKeysDocument}, _HOST_PROBLEMS, body=hosting.HostPlaceRequest,
        parameters=_HOST, person=True, operation_id="fetchHostKeys",
    ),
    Route(
        "POST", "/v1/hosts/{name}/enroll", hosting.enroll, "Confirm keys that were shown, for the log and the catalog.",
        {200: hosting.HostKeysDocument}, _HOST_PROBLEMS, body=hosting.EnrolRequest,
        parameters=_HOST, person=True, operation_id="enrollHost",
    ),
    Route(
        "GET", "/v1/hosts/{name}/check", hosting.check, "Look at what commands on a host rest on; changes nothing.",
        {200: hosting.HostCheckDocument}, (403, 404, 422), parameters=_HOST, person=True, operation_id="checkHost",
    ),
    Route(
        "GET", "/v1/hosts/{name}/operations", hosting.operations, "List what a host's store holds.",
        {200: hosting.StoredOperationPage}, (403, 404, 409, 422, 502), parameters=_HOST,
        query={"after": {"type": "string", "pattern": hosting.AFTER}}, person=True, operation_id="listStoredOperations",
    ),
    Route(
        "GET", "/v1/hosts/{name}/locks/{lock}", hosting.lock, "Who holds a lock on a host, and whether they live.",
        {200: hosting.LockDocument}, (403, 404, 409, 422, 502), parameters=_HOST | {"lock": NAME_SCHEMA}, person=True,
        operation_id="getLock",
    ),
    Route(
        "POST", "/v1/hosts/{name}/fence", hosting.fence, "Close a host to an operation that has not begun there.",
        _UPKEEP, _UPKEEP_PROBLEMS, body=hosting.FenceRequest, parameters=_HOST, person=True, operation_id="fenceOnHost",
    ),
    Route(
        "POST", "/v1/hosts/{name}/unlock", hosting.unlock, "Set aside a lock whose holder does not live.",
        _UPKEEP, _UPKEEP_PROBLEMS, body=hosting.UnlockRequest, parameters=_HOST, person=True,
        operation_id="unlockOnHost",
    ),
    Route(
        "POST", "/v1/hosts/{name}/collect", hosting.collect, "Let a host forget what is settled and old.",
        _UPKEEP, _UPKEEP_PROBLEMS, body=hosting.CollectRequest, parameters=_HOST, person=True,
        operation_id="collectOnHost",
    ),
    Route(
        "GET", "/healthz", health.healthz, "The process runs.", {200: Health}, (422,), open=True,
        operation_id="health",
    ),
    Route(
        "GET", "/readyz", health.readyz, "Operations are taken.", {200: Health, 503: Health}, (422,), open=True,
        operation_id="readiness",
    ),
    Route("GET", "/metrics", None, "Numbers in Prometheus' text format.", {200: None}, (422,), operation_id="metrics"),
    Route("GET", "/openapi.json", None, "This interface.", {200: None}, (), open=True, operation_id="openapi"),
    Route("GET", "/docs", None, "This interface, readable.", {200: None}, (), open=True, operation_id="docs"),
)  # fmt: skip
