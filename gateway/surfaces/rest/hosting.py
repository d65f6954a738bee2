"""Hosts over REST, for people: their keys, what they offer and hold, and the operations that change them."""

import re
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from gateway.catalog.declared_hosts import LOCK, OPERATION
from gateway.core.acl import require_deed
from gateway.engine.enrolling import Place
from gateway.engine.gateway import View
from gateway.model.principal import Deed
from gateway.model.problem import Code, Problem
from gateway.surfaces.documents import Document
from gateway.surfaces.host_wire import check_document, keys_document, stored_page
from gateway.surfaces.rest.administration import Name, administered
from gateway.surfaces.rest.call import Call, Reply
from gateway.surfaces.rest.operations import later, operation_reply

AFTER: Final = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"
_AFTER: Final = re.compile(AFTER)
_LOCK: Final = re.compile(LOCK)
_ADDRESS: Final = r"^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{0,45}:[0-9A-Fa-f:.]{0,45})$"
_FINGERPRINT: Final = r"^SHA256:[A-Za-z0-9+/]{43}$"
_DIGEST: Final = r"^[0-9a-f]{64}$"


def _whole(value: object) -> object:
    """JSON knows one kind of number: 60.0 is an integer there (JSON Schema 2020-12, section 6.1.1)."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
Reason = Annotated[str, Field(min_length=1, max_length=2000)]
OperationKey = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")]


class HostPlaceRequest(Document):
    """The body of `POST /v1/hosts/{name}/keys`: where a host is that the catalog does not declare yet."""

    address: str | None = Field(default=None, pattern=_ADDRESS, description="Null: as the catalog declares.")
    port: Whole = Field(default=22, ge=1, le=65_535)
    allow_private: bool = Field(default=False, description="Loopback, private and link-local addresses are allowed.")
    jump: Name | None = Field(default=None, description="A declared host to go through.")


class EnrolRequest(HostPlaceRequest):
    """The body of `POST /v1/hosts/{name}/enroll`; `digest` is that of the keys which were shown."""

    digest: str = Field(pattern=_DIGEST)
    replaces: list[Annotated[str, Field(pattern=_FINGERPRINT)]] = Field(
        default_factory=list, max_length=16, description="Fingerprints it was believed by and no longer presents."
    )


class HostKeyDocument(Document):
    """A key that the host has proven to hold."""

    algorithm: str
    fingerprint: str
    line: str = Field(description="What `host_keys` in the catalog takes.")


class HostKeysDocument(Document):
    """What a host presents, held against what it is believed by. Nothing is believed before a person confirms it."""

    host: str
    address: str
    port: int
    keys: list[HostKeyDocument]
    believed: list[str] = Field(description="Fingerprints: by the catalog, else those last confirmed.")
    authorities: list[str] = Field(
        description="Fingerprints of authorities whose certificates it is believed by as well."
    )
    missing: list[str] = Field(description="Of these, those that it does not present.")
    changed: bool
    digest: str
    enrolled: bool = Field(description="Whether this call recorded a confirmation.")


class HostFinding(Document):
    """One thing that was looked at, as a sentence, and what to do about it."""

    check: str
    level: Literal["fine", "note", "finding"]
    detail: str
    advice: str


class HostCheckDocument(Document):
    """A look at a host; `fine` if nothing stands in the way of commands there."""

    host: str
    fine: bool
    findings: list[HostFinding]


class StoredOperation(Document):
    """What a host's store holds of an operation: its last attempt there."""

    operation: str
    attempt: int
    phase: str
    issued_ms: int
    began: int | None = Field(description="By the host's clock, seconds since 1970.")
    ended: int | None
    exit: int | None


class StoredOperationPage(Document):
    """By name; `after` leads to the next page, null at the end."""

    operations: list[StoredOperation]
    after: str | None


class LockDocument(Document):
    """Who holds a lock on a host. `digest` is what a person confirms when they set it aside."""

    host: str
    lock: str
    number: int
    state: str
    holder: str
    holder_attempt: int
    holder_phase: str
    until: int = Field(description="By the host's clock, seconds since 1970: until then it stays with a dead holder.")
    digest: str


class FenceRequest(Document):
    """The body of `POST /v1/hosts/{name}/fence`."""

    operation: str = Field(pattern=OPERATION)
    attempts: Annotated[int, Field(ge=1, le=20), BeforeValidator(_whole)] | None = Field(
        default=None, description="Null: as many as there can be."
    )
    reason: Reason | None = None
    key: OperationKey | None = None


class UnlockRequest(Document):
    """The body of `POST /v1/hosts/{name}/unlock`; `digest` is that of the lock as it was shown."""

    lock: str = Field(pattern=LOCK)
    digest: str = Field(pattern=_DIGEST)
    reason: Reason
    key: OperationKey | None = None


class CollectRequest(Document):
    """The body of `POST /v1/hosts/{name}/collect`."""

    older_than_seconds: Whole = Field(default=2_592_000, ge=60, le=3_000_000_000)
    reason: Reason | None = None
    key: OperationKey | None = None


@administered
async def fetch_keys(call: Call) -> Reply:
    """`POST /v1/hosts/{name}/keys`: nothing is sent but the key exchange, and nothing is believed."""
    body = await call.body(HostPlaceRequest)
    found = await call.ports.hosts.enrolment.offer(call.who, _name(call), _place(body))
    return Reply(200, keys_document(found, enrolled=False))


@administered
async def enroll(call: Call) -> Reply:
    """`POST /v1/hosts/{name}/enroll`: a person believes the keys that were shown."""
    body = await call.body(EnrolRequest)
    found = await call.ports.hosts.enrolment.confirm(
        call.who, _name(call), _place(body), seen=body.digest, replaces=body.replaces
    )
    return Reply(200, keys_document(found, enrolled=True))


@administered
async def check(call: Call) -> Reply:
    """`GET /v1/hosts/{name}/check`."""
    return Reply(200, check_document(await call.ports.hosts.desk.check(_name(call))))


async def operations(call: Call) -> Reply:
    """`GET /v1/hosts/{name}/operations`."""
    require_deed(call.who, Deed.ADMINISTER)
    after = call.query({"after": _AFTER}).get("after", "")
    found, more = await call.ports.hosts.desk.operations(_name(call), after)
    return Reply(200, stored_page(found, more=more))


@administered
async def lock(call: Call) -> Reply:
    """`GET /v1/hosts/{name}/locks/{lock}`."""
    name = call.path("lock")
    if _LOCK.fullmatch(name) is None:
        raise Problem(Code.NOT_FOUND, "That is no name of a lock.", "Use the `lock` of an action in the catalog.")
    return Reply(200, await call.ports.hosts.desk.lock(_name(call), name))


@administered
async def fence(call: Call) -> Reply:
    """`POST /v1/hosts/{name}/fence`."""
    body = await call.body(FenceRequest)
    view = await call.ports.hosts.upkeep.fence(
        call.who, _name(call), body.operation, attempts=body.attempts, reason=body.reason, key=body.key
    )
    return await _reply(call, view)


@administered
async def unlock(call: Call) -> Reply:
    """`POST /v1/hosts/{name}/unlock`."""
    body = await call.body(UnlockRequest)
    view = await call.ports.hosts.upkeep.unlock(
        call.who, _name(call), body.lock, seen=body.digest, reason=body.reason, key=body.key
    )
    return await _reply(call, view)


@administered
async def collect(call: Call) -> Reply:
    """`POST /v1/hosts/{name}/collect`."""
    body = await call.body(CollectRequest)
    view = await call.ports.hosts.upkeep.collect(
        call.who, _name(call), older_than_seconds=body.older_than_seconds, reason=body.reason, key=body.key
    )
    return await _reply(call, view)


async def _reply(call: Call, first: View) -> Reply:
    seconds = call.wait_seconds(None)
    return operation_reply(call, await later(call, first, seconds) if seconds > 0 else first)


def _name(call: Call) -> str:
    return call.path("name")


def _place(body: HostPlaceRequest) -> Place | None:
    return None if body.address is None else Place(body.address, body.port, body.allow_private, body.jump)
