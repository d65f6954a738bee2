"""`gateway schema` agrees with the check about what a catalog may look like."""

import jsonschema_rs
import pytest

from gateway.catalog.jsonschema_export import catalog_schema
from gateway.catalog.starter import STARTER_CATALOG
from gateway.catalog.yamltext import read_yaml
from tests.unit.catalog.examples import BASE
from tests.unit.catalog.test_compile import FULL

VALIDATOR = jsonschema_rs.Draft202012Validator(catalog_schema(), offline=True)


@pytest.mark.parametrize("text", [BASE, FULL, STARTER_CATALOG])
def test_right_catalogs_fit_the_exported_schema(text: str) -> None:
    errors = [error.message for error in VALIDATOR.iter_errors(read_yaml(text.encode(), "f").value)]
    assert errors == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("effect:", "efect:"),
        ("irreversible", "maybe"),
        ("method: POST", "method: post"),
        ("settle: 30s", "settle: 30"),
        ("finding: absent", "finding: gone"),
        ("in: header", "in: cookie"),
    ],
)
def test_mistakes_do_not_fit_the_exported_schema(old: str, new: str) -> None:
    assert old in BASE
    assert not VALIDATOR.is_valid(read_yaml(BASE.replace(old, new).encode(), "f").value)


def test_every_field_of_an_action_is_offered_to_the_editor() -> None:
    fields = catalog_schema()["$defs"]["ActionForm"]["properties"]
    assert {"description", "effect", "bind", "reconcile", "resend", "deadlines", "output", "input"} <= set(fields)
    assert "in" in catalog_schema()["$defs"]["BindForm"]["properties"]
