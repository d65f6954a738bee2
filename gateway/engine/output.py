"""Makes of a service's answer what an agent may see: masked, selected, checked, cut, and always valid JSON.

What a service says is untrusted: it stays inside the result, and is never templated, executed or mixed into guidance.
A body that cannot be read as JSON becomes `{"truncated": false, "bytes": n, "text": "…"}`, one that is too long the
same with `true` and its beginning. Where the owner chose what may be seen (`select`, `redact`) and there is nothing to
choose from, the text is withheld: showing all of it would show what was to be left out.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import jsonschema_rs
import orjson
import structlog

from adapters.contract import Observation
from gateway.catalog.arguments import compile_schema
from gateway.core.matching import MISSING, read_body, read_path
from gateway.core.redact import Mask, mask_fields
from gateway.core.strictjson import Json
from gateway.engine.ports import Shaped
from gateway.model.action import Action

_SCHEMAS_MAX: Final = 1024
_CHARSETS: Final = {"iso-8859-1": "latin-1", "latin1": "latin-1", "windows-1252": "cp1252", "utf-16": "utf-16"}
"""Encodings of text that are still met; everything else is read as UTF-8."""
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_-]{1,20})", re.ASCII)
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")

log = structlog.get_logger(__name__)


class Shaping:
    """The engine's shaper. `masks` gives the mask of this moment: the vault may change while an attempt runs."""

    def __init__(self, masks: Callable[[], Mask]) -> None:
        """Cheap; schemas are compiled when they are first needed."""
        self._masks = masks

    def mask(self, observation: Observation) -> Observation:
        """The observation without any secret in its texts, headers and body; the same object if there was none."""
        mask = self._masks()
        cut = observation.body_cut or (not observation.body_complete and bool(observation.body))
        body = mask_body(observation.body, mask, cut=cut)
        if body is not observation.body:
            observation = replace(observation, body=body)
        if not mask.finds("\n".join(_texts(observation)).encode("utf-8", "surrogatepass")):
            return observation

        def clean(text: str | None) -> str | None:
            return None if text is None else mask.apply_text(text)

        return replace(
            observation,
            summary=mask.apply_text(observation.summary),
            headers=tuple((mask.apply_text(name), mask.apply_text(value)) for name, value in observation.headers),
            error_class=clean(observation.error_class),
            error_cause=clean(observation.error_cause),
            peer=clean(observation.peer),
            tls=clean(observation.tls),
            contradictions=tuple(map(mask.apply_text, observation.contradictions)),
        )

    def shape(self, action: Action, body: bytes, content_type: str | None) -> Shaped:
        """What the agent may see of a body. Never raises."""
        return shape(action, body, content_type, self._masks())

    def shape_value(self, action: Action, value: Json) -> Shaped:
        """The same for a value that was found inside an answer, for example by a look-up."""
        return shape_value(action, value, self._masks())


def mask_body(body: bytes, mask: Mask, *, cut: bool = False) -> bytes:
    """A masked body that is still JSON if it was: a secret in the place of a number becomes a string."""
    masked = mask.apply(body, cut=cut)
    if masked is body or cut or read_body(masked) is not MISSING:
        return masked
    value = read_body(body)
    if value is MISSING:
        return masked
    rebuilt = _dump(mask.apply_json(value))
    return masked if mask.finds(rebuilt) else rebuilt


def shape(action: Action, body: bytes, content_type: str | None, mask: Mask) -> Shaped:
    """Pipeline step 10 for a body, masked before or not. Never raises, whatever the service sent.

    `valid` is None where no output schema is declared. It says nothing about the outcome: what happened, happened.
    """
    try:
        body = mask_body(body, mask)
        value = read_body(body) if body else None
        if value is MISSING:
            return Shaped(_as_text(action, body, content_type, mask), None if action.output.schema is None else False)
        return _shaped(action, value, mask)
    except Exception as error:  # noqa: BLE001 - an answer that we trip over must not cost the outcome
        return _failed(action, len(body), error)


def shape_value(action: Action, value: Json, mask: Mask) -> Shaped:
    """Pipeline step 10 for a JSON value. Never raises."""
    try:
        return _shaped(action, value, mask)
    except Exception as error:  # noqa: BLE001 - as above
        return _failed(action, 0, error)


def _shaped(action: Action, value: Json, mask: Mask) -> Shaped:
    output = action.output
    # The schema describes what the service sends, so it is held against the value before names are masked in it.
    valid = _fits_schema(action, value if output.select is None else read_path(output.select, value))
    value = mask_fields(value, output.redact)
    if output.select is not None:
        value = mask_fields(read_path(output.select, value), output.redact)
    result = _dump(value)
    if mask.finds(result):
        # Selecting joined what stood apart, or the value did not come from a masked body.
        result = _dump(mask.apply_json(value))
        if mask.finds(result):
            return Shaped(_envelope(len(result), "", withheld=True), valid)
    if len(result) > output.max_bytes:
        result = _cut(result.decode(), len(result), output.max_bytes)
    return Shaped(result, valid)


def _dump(value: Json) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # Whole numbers of more than 64 bits, and nesting beyond what orjson takes.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _as_text(action: Action, body: bytes, content_type: str | None, mask: Mask) -> bytes:
    if action.output.select is not None or action.output.redact:
        return _envelope(len(body), "", withheld=True)
    # Without its NUL characters, wide or binary text shows what it spells, and is masked for it.
    text = mask.apply_text(_decode(body, content_type).replace("\0", ""))
    whole = _envelope(len(body), text)
    if mask.finds(whole):
        return _envelope(len(body), "", withheld=True)
    return whole if len(whole) <= action.output.max_bytes else _cut(text, len(body), action.output.max_bytes)


def _decode(body: bytes, content_type: str | None) -> str:
    named = _CHARSET.search(content_type.lower()) if content_type else None
    charset = "utf-16" if body.startswith(_UTF16) else _CHARSETS.get(named[1] if named else "", "utf-8-sig")
    # Wide encodings can spell surrogates, which no JSON may hold.
    return body.decode(charset, "replace").encode("utf-8", "replace").decode("utf-8")


def _cut(text: str, size: int, max_bytes: int) -> bytes:
    """The longest beginning of the text whose envelope keeps within the limit; an empty one if none does."""
    low, high = 0, min(len(text), max_bytes)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_envelope(size, text[:middle], truncated=True)) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return _envelope(size, text[:low], truncated=True)


def _envelope(size: int, text: str, *, truncated: bool = False, withheld: bool = False) -> bytes:
    note: dict[str, Any] = {"truncated": truncated, "bytes": size, "text": text}
    return orjson.dumps({**note, "withheld": True} if withheld else note)


def _failed(action: Action, size: int, error: Exception) -> Shaped:
    # The kind of error only: its text may quote the answer.
    log.error("answer_withheld", action=action.name, error=type(error).__name__)
    return Shaped(_envelope(size, "", withheld=True), None if action.output.schema is None else False)


_validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
"""By definition digest. Old digests live as long as operations that pin them; the oldest is dropped at the limit."""


def _fits_schema(action: Action, value: Json) -> bool | None:
    if action.output.schema is None:
        return None
    validator = _validators.get(action.digest)
    if validator is None:
        validator = compile_schema(action.output.schema)
        if len(_validators) >= _SCHEMAS_MAX:
            _validators.pop(next(iter(_validators)))
        _validators[action.digest] = validator
    try:
        return validator.is_valid(value)
    except (ValueError, OverflowError, RecursionError):
        return False  # numbers or depths that the validator does not take fit no schema


def _texts(observation: Observation) -> Iterator[str]:
    yield observation.summary
    for name, value in observation.headers:
        yield name
        yield value
    yield from observation.contradictions
    for text in (observation.error_class, observation.error_cause, observation.peer, observation.tls):
        if text is not None:
            yield text
