"""A word of the command line becomes the value that the action's schema has room for."""

import pytest

from gateway.core.strictjson import Json
from gateway.surfaces.cli.argument import typed

SCHEMA: dict[str, Json] = {"$defs": {"size": {"enum": [1, 2.5, "1"]}, "count": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("declared", "text", "meant"),
    [
        ({"type": "string"}, "42", "42"),
        ({"type": "integer"}, "42", 42),
        ({"type": "boolean"}, "true", True),
        ({"type": "integer"}, "many", "many"),
        ({"type": "integer"}, "1e400", "1e400"),
        ({}, "42", "42"),
        (True, "42", "42"),
        (None, "42", "42"),
        ({"enum": [1, 2]}, "1", 1),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": ["1", 1]}, "1", "1"),
        ({"enum": [1, 2]}, "3", "3"),
        ({"const": 5}, "5", 5),
        ({"const": True}, "true", True),
        ({"type": ["string", "null"]}, "42", "42"),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "42", 42),
        ({"type": ["string", "integer"]}, "v42", "v42"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"$ref": "#/$defs/count"}, "7", 7),
        ({"$ref": "#/$defs/size"}, "1", "1"),
        ({"$ref": "#/$defs/size"}, "2.5", 2.5),
        ({"$ref": "#/properties/other"}, "7", "7"),
    ],
)
def test_the_reading_that_fits_is_meant(declared: Json, text: str, meant: Json) -> None:
    value = typed(text, declared, SCHEMA)

    assert (value, type(value)) == (meant, type(meant))
