"""Keys and credentials over REST, for people; secrets go in and never come out again."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Final, Literal

from pydantic import Field

from gateway.core.acl import require_deed
from gateway.model.principal import Deed, PrincipalKind
from gateway.model.problem import Code, FieldError, Problem
from gateway.surfaces.documents import Document
from gateway.surfaces.rest.call import Call, Reply
from gateway.surfaces.wire import credential_document, key_document, parse_instant

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$")]
INSTANT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$"


class NewKeyRequest(Document):
    """The body of `POST /v1/keys`; a person is their own owner."""

    kind: Literal["caller", "person"]
    name: Name
    owner: Name | None = Field(default=None, description="Who answers for it; null: who makes it.")
    expires_at: str | None = Field(
        default=None,
        pattern=INSTANT,
        json_schema_extra={"format": "date-time"},
        description="RFC 3339, in the future; null: never.",
    )


class KeyDocument(Document):
    """A key without its secret."""

    key_id: str
    prefix: str
    kind: Literal["caller", "person"]
    name: str
    owner: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    usable: bool


class KeyList(Document):
    """Every key."""

    keys: list[KeyDocument]


class MadeKey(Document):
    """A key that was just made; `key` is shown this once."""

    key: str
    line: KeyDocument


class CredentialRequest(Document):
    """The body of `PUT /v1/credentials/{name}`. The value is sent to `origin` only and never shown again."""

    kind: Literal["bearer", "header", "basic", "query", "ssh_key"]
    value: str = Field(
        min_length=4, max_length=8192, description="For `basic` as user:password, for `ssh_key` a file of ssh-keygen's."
    )
    origin: str = Field(pattern=r"^(?:https?|ssh)://[^\s/?#@]{1,290}/?$", description="scheme://host[:port]")
    header_name: str | None = Field(
        default=None,
        pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$",
        description="Name of the header or the query parameter, for these two kinds.",
    )


class CredentialDocument(Document):
    """A credential without its value."""

    name: str
    kind: str
    origin: str
    changed_at: str
    readable: bool


class CredentialList(Document):
    """Every credential."""

    credentials: list[CredentialDocument]


def administered(handler: Callable[[Call], Awaitable[Reply]]) -> Callable[[Call], Awaitable[Reply]]:
    """A handler that only people reach, and that takes no query: nothing is read of a body before both are certain.

    Raises Problem(forbidden) for a caller's key, Problem(invalid_input) for a query.
    """

    @wraps(handler)
    async def guarded(call: Call) -> Reply:
        require_deed(call.who, Deed.ADMINISTER)
        call.query({})
        return await handler(call)

    return guarded


@administered
async def list_keys(call: Call) -> Reply:
    """`GET /v1/keys`."""
    return Reply(200, {"keys": [key_document(line) for line in call.ports.keys.list()]})


@administered
async def create_key(call: Call) -> Reply:
    """`POST /v1/keys`: the text of the key is in this answer and nowhere else."""
    body = await call.body(NewKeyRequest)
    kind = PrincipalKind(body.kind)
    owner = body.owner or (body.name if kind is PrincipalKind.PERSON else call.who.name)
    made = await call.ports.keys.create(kind, body.name, owner, by=call.who.name, expires_ms=_expiry(body.expires_at))
    return Reply(201, {"key": made.text, "line": key_document(made.line)}, {"Cache-Control": "no-store"})


@administered
async def revoke_key(call: Call) -> Reply:
    """`DELETE /v1/keys/{id}`: ends it at once, open streams included."""
    await call.ports.keys.revoke(call.path("id"), by=call.who.name)
    return Reply(204)


@administered
async def list_credentials(call: Call) -> Reply:
    """`GET /v1/credentials`."""
    return Reply(200, {"credentials": [credential_document(line) for line in call.ports.vault.list()]})


@administered
async def put_credential(call: Call) -> Reply:
    """`PUT /v1/credentials/{name}`."""
    body = await call.body(CredentialRequest)
    line = await call.ports.vault.set(
        call.path("name"),
        body.kind,
        body.value,
        origin=body.origin,
        by=call.who.name,
        header_name=body.header_name,
    )
    return Reply(200, credential_document(line))


@administered
async def remove_credential(call: Call) -> Reply:
    """`DELETE /v1/credentials/{name}`."""
    if not await call.ports.vault.remove(call.path("name"), by=call.who.name):
        raise Problem(Code.NOT_FOUND, "There is no credential of that name.", "List the credentials to see the names.")
    return Reply(204)


def _expiry(text: str | None) -> int | None:
    if text is None:
        return None
    moment = parse_instant(text)
    if moment is None:
        error = FieldError("/expires_at", "That is not a time.", "Use RFC 3339 with a zone, `2027-01-31T00:00:00Z`.")
        raise Problem(Code.INVALID_INPUT, "The expiry is not a time.", error.guidance, errors=(error,))
    return moment
