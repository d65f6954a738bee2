"""One request at the REST door: who asks, what they sent within bounds, and the reply."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from gateway.core.strictjson import JsonError, parse
from gateway.engine.clock import Clock
from gateway.engine.gateway import Gateway
from gateway.engine.keys import Keys
from gateway.engine.log_keeper import LogKeeper
from gateway.engine.log_keys import LogKeys
from gateway.engine.subjects import Subjects
from gateway.engine.upkeep import HostServices
from gateway.engine.vault import Vault
from gateway.model.principal import Principal
from gateway.model.problem import Code, FieldError, Problem, present
from gateway.settings import Settings
from gateway.store.port import Store
from gateway.surfaces.rest.words import SEE_FORM, form_of, told

ModelT = TypeVar("ModelT", bound=BaseModel)

_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,6})\"?\s*", re.ASCII)
_SEND_INPUT = "Send the document that the interface describes, see `/openapi.json`."


@dataclass(frozen=True, slots=True)
class SitePorts:
    """What the REST door needs of the running gateway."""

    gateway: Gateway
    keys: Keys
    vault: Vault
    settings: Settings
    clock: Clock
    store: Store
    keeper: LogKeeper
    subjects: Subjects
    log_keys: LogKeys
    hosts: HostServices


@dataclass(slots=True)
class Call:
    """A request on its way to a handler. `principal` is None at open routes only."""

    request: web.BaseRequest
    ports: SitePorts
    parameters: Mapping[str, str] = field(default_factory=dict)
    principal: Principal | None = None

    @property
    def who(self) -> Principal:
        """The principal, at routes that need one."""
        return present(self.principal, "the route needs a key")

    @property
    def now_ms(self) -> int:
        """Wall-clock milliseconds."""
        return self.ports.clock.wall_ms()

    def path(self, name: str) -> str:
        """A path parameter."""
        return self.parameters[name]

    def header(self, name: str) -> str | None:
        """A header that may come once only. Raises Problem(malformed) for two, of which nobody knows which is meant."""
        found = self.request.headers.getall(name, ())
        if len(found) > 1:
            raise Problem(
                Code.MALFORMED, f"The header {name} came more than once; nothing was done.", "Send it once only."
            )
        return found[0] if found else None

    async def body(self, model: type[ModelT]) -> ModelT:
        """The body as a document of that model. Raises Problem: malformed, too_large, invalid_input and others."""
        coding = self.request.headers.get("Content-Encoding", "identity")
        if self.request.content_type != "application/json" or coding.lower() != "identity":
            raise Problem(
                Code.UNSUPPORTED_MEDIA_TYPE,
                "The body must be JSON, and not compressed.",
                "Send it with `Content-Type: application/json` and without `Content-Encoding`.",
            )
        try:
            value = parse(await self._read())
        except JsonError as error:
            raise Problem(
                Code.MALFORMED, f"The body is not JSON that can be read in one way only: {error}", _SEND_INPUT
            ) from error
        return check(model, value)

    async def _read(self) -> bytes:
        bound = self.ports.settings.limits.body_max_bytes
        if (self.request.content_length or 0) > bound:
            raise _too_large(bound)
        if self.request.headers.get("Expect", "").lower() == "100-continue":
            # Only now: the key was good and the announced length within bounds.
            await self.request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.request.writer.output_size = 0
        content = self.request.content
        pieces, size = [], 0
        try:
            if content.is_eof() and content.total_bytes <= bound:
                # The usual case: the whole body came with the head, so there is nothing to wait for.
                return content.read_nowait()
            async with asyncio.timeout(self.ports.settings.server.body_seconds):
                async for piece in content.iter_any():
                    size += len(piece)
                    if size > bound:
                        raise _too_large(bound)
                    pieces.append(piece)
        except TimeoutError as error:
            raise Problem(
                Code.BODY_TIMEOUT, "The body arrived too slowly; nothing was done.", "Send it again in one piece."
            ) from error
        except web.RequestPayloadError as error:
            raise Problem(Code.MALFORMED, "The body's framing is broken; nothing was done.", _SEND_INPUT) from error
        return b"".join(pieces)

    def query(self, allowed: Mapping[str, re.Pattern[str]]) -> dict[str, str]:
        """The query parameters, each at most once and of its form. Raises Problem(invalid_input)."""
        found: dict[str, str] = {}
        for name, value in self.request.query.items():
            if name not in allowed:
                raise invalid_query(None)
            if name in found or allowed[name].fullmatch(value) is None:
                raise invalid_query(name, allowed[name])
            found[name] = value
        return found

    def wait_seconds(self, asked: str | None) -> float:
        """How long to wait for an outcome: `?wait=`, else `Prefer: wait=` (RFC 7240), else the default; bounded."""
        bound = self.ports.settings.limits.wait_seconds_max
        if asked is not None:
            return min(float(asked), bound)
        for preference in self.request.headers.get("Prefer", "").split(","):
            if (match := _WAIT.fullmatch(preference)) is not None:
                return min(float(match[1]), bound)
        return bound


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back: a JSON document, or ready bytes of another kind."""

    status: int
    document: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    content_type: str = "application/json"
    written: Callable[[], Awaitable[None]] | None = None
    """Awaited once the whole reply was handed to the connection."""


def check(model: type[ModelT], value: Any) -> ModelT:  # noqa: ANN401 - any JSON value
    """A JSON value as a document. Raises Problem(invalid_input) with a pointer per error and no input echoed."""
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as error:
        raise Problem(
            Code.INVALID_INPUT,
            "The body does not have the declared form; nothing was done.",
            _SEND_INPUT,
            errors=[_field_error(item) for item in error.errors(include_url=False, include_input=False)[:50]],
        ) from None


def _field_error(item: Mapping[str, Any]) -> FieldError:
    pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in item["loc"])
    if item["type"] == "extra_forbidden":
        pointer = pointer.rpartition("/")[0]
        return FieldError(pointer, "There is a member that is not declared here.", "Leave it out; see `/openapi.json`.")
    said = told(item["type"], item.get("ctx", {}), _SEND_INPUT)
    if said is not None:
        return FieldError(pointer, *said)
    context = {name: value for name, value in item.get("ctx", {}).items() if isinstance(value, int | float | str)}
    hint = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in context.items() if name != "error")
    return FieldError(pointer, f"{item['msg']}.", f"Expected: {hint}." if hint else _SEND_INPUT)


def _too_large(bound: int) -> Problem:
    return Problem(
        Code.TOO_LARGE,
        f"The body is larger than {bound} bytes; nothing was done.",
        "Send less, or ask the gateway's owner to raise `limits.body_max_bytes`.",
    )


def invalid_query(name: str | None, form: re.Pattern[str] | None = None) -> Problem:
    """A query parameter that is unknown, repeated or malformed. `form` is what it should have had."""
    if name is None:
        errors = [FieldError("", "There is a query parameter that is not declared here.", "Leave it out.")]
    else:
        wanted = None if form is None else form_of(form.pattern)
        guidance = SEE_FORM if wanted is None else f"Give {wanted}, once."
        errors = [FieldError(f"/{name}", "It has another form than is declared, or comes twice.", guidance)]
    return Problem(
        Code.INVALID_INPUT, "The query does not have the declared form.", "See `/openapi.json`.", errors=errors
    )
