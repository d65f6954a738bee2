"""What the definitions of requests and of commands have in common, from form to model."""

from typing import Final

from pydantic import BaseModel

from gateway.catalog.schema_declared import DeclaredForm
from gateway.catalog.schema_lookup import IdentifyForm
from gateway.catalog.values import seconds
from gateway.core.strictjson import Json
from gateway.model.action import Deadlines, Identify, Output, Reads

FORMAT: Final = 1
"""Version of the normalised definition. Definitions outlive the program that wrote them."""


def dump(value: Json) -> Json:
    """A form as JSON. What is absent stays absent, and a null that was written stays: `equals: null` is a test."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {
            field.alias or name: dump(getattr(value, name))
            for name, field in fields.items()
            if getattr(value, name) is not None or name in value.model_fields_set
        }
    if isinstance(value, dict):
        return {key: dump(item) for key, item in value.items()}
    if isinstance(value, list):
        return [dump(item) for item in value]
    return value


def deadlines(form: DeclaredForm) -> Deadlines:
    """How long each step may take."""
    given = form.deadlines
    return Deadlines(seconds(given.connect), seconds(given.request), seconds(given.recovery), seconds(given.start))


def output(form: DeclaredForm) -> Output:
    """What the caller may see."""
    given = form.output
    return Output(given.select, given.max_bytes, tuple(given.redact), tuple(given.personal), given.schema_)


def reads(form: DeclaredForm) -> Reads | None:
    """What a read may be trusted for."""
    return Reads(form.reads.consistency, seconds(form.reads.settle)) if form.reads else None


def identify(form: IdentifyForm | str | None) -> Identify:
    """How a look-up knows the operation."""
    if isinstance(form, IdentifyForm):
        return Identify(form.path, form.equals)
    return Identify(state=form is not None)
