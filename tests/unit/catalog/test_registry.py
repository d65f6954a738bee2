"""The catalog in use: actions by name, and arguments checked without repeating them."""

from pathlib import Path

import jsonschema_rs
import pytest

from gateway.catalog.arguments import ERRORS_MAX, check_arguments, compile_schema
from gateway.catalog.lint import open_catalog
from gateway.catalog.mistake import MistakesError
from gateway.catalog.registry import Catalog
from gateway.core.strictjson import Json
from tests.unit.catalog.examples import BASE, changed, checked, compiled

SECRET = "hunter2-swordfish"

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 2, "maxLength": 30, "pattern": "^[a-z0-9-]*$"},
        "kind": {"enum": ["a", "b", 3]},
        "fixed": {"const": "x"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2},
        "open": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": True},
        "mail": {"type": "string", "format": "email"},
        "either": {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
        "never": False,
        "map": {"type": "object", "maxProperties": 1, "minProperties": 1},
        "any": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
        "not": {"not": {"type": "string"}},
        "a/b~c": {"type": "string"},
    },
    "required": ["text"],
    "additionalProperties": False,
}

REFUSED = [
    ({}, "/text", "missing", "Add it"),
    ({"text": 5}, "/text", "must be text", "quotes"),
    ({"text": "a"}, "/text", "at least 2 characters", "fit"),
    ({"text": SECRET * 2}, "/text", "at most 30 characters", "fit"),
    ({"text": SECRET.upper()}, "/text", "declared form", "^[a-z0-9-]*$"),
    ({"text": "ok", "kind": SECRET}, "/kind", "none of the declared values", '"a", "b", 3'),
    ({"text": "ok", "fixed": SECRET}, "/fixed", "not the declared value", '"x"'),
    ({"text": "ok", "count": True}, "/count", "whole number", "quotes"),
    ({"text": "ok", "count": 0}, "/count", "at least 1", "fit"),
    ({"text": "ok", "count": 10}, "/count", "at most 9", "fit"),
    ({"text": "ok", "count": 3}, "/count", "multiple of 2", "fit"),
    ({"text": "ok", "open": 0}, "/open", "greater than 0", "fit"),
    ({"text": "ok", "open": 1}, "/open", "less than 1", "fit"),
    ({"text": "ok", "list": []}, "/list", "at least 1 entries", "fit"),
    ({"text": "ok", "list": ["a", "b", "c"]}, "/list", "at most 2 entries", "fit"),
    ({"text": "ok", "list": ["a", "a"]}, "/list", "twice", "Remove"),
    ({"text": "ok", "list": ["a", 1]}, "/list/1", "must be text", "quotes"),
    ({"text": "ok", "mail": SECRET}, "/mail", "not a valid email", "format"),
    ({"text": "ok", "either": 5}, "/either", "none of the declared forms", "schema"),
    ({"text": "ok", "any": 5}, "/any", "none of the declared forms", "schema"),
    ({"text": "ok", "never": SECRET}, "/never", "not declared", "Remove"),
    ({"text": "ok", "map": {}}, "/map", "at least 1 members", "fit"),
    ({"text": "ok", "map": {"a": 1, "b": 2}}, "/map", "at most 1 members", "fit"),
    ({"text": "ok", "not": SECRET}, "/not", "“not”", "schema"),
    ({"text": "ok", "a/b~c": 5}, "/a~1b~0c", "must be text", "quotes"),
    ({"text": "ok", SECRET: 1}, "", "not declared", "Remove"),
    ([], "", "must be an object", "declared type"),
    ("x", "", "must be an object", "declared type"),
    (None, "", "must be an object", "declared type"),
]


@pytest.mark.parametrize(("arguments", "pointer", "words", "guidance"), REFUSED)
def test_arguments_that_do_not_fit_are_pointed_at(arguments: Json, pointer: str, words: str, guidance: str) -> None:
    errors = check_arguments(compile_schema(SCHEMA), arguments)
    found = [error for error in errors if error.pointer == pointer and words in error.detail]
    assert found, errors
    assert guidance in found[0].guidance
    assert SECRET not in str(errors)


def test_fitting_arguments_have_no_errors() -> None:
    good = {"text": "ok", "kind": 3, "count": 4.0, "list": ["a"], "either": True, "map": {"x": None}}
    assert check_arguments(compile_schema(SCHEMA), good) == []


def test_the_number_of_errors_is_bounded() -> None:
    validator = compile_schema({"type": "array", "items": {"type": "string"}})
    assert len(check_arguments(validator, list(range(1000)))) == ERRORS_MAX


def test_a_pattern_that_backtracks_without_end_refuses_quickly() -> None:
    validator = compile_schema({"type": "string", "pattern": r"^(?:(a*)*)*\1!$"})
    errors = check_arguments(validator, "a" * 5000)
    assert [error.detail for error in errors] == ["This could not be checked against its pattern."]


def test_a_value_that_fits_two_forms_at_once_is_refused() -> None:
    validator = compile_schema({"oneOf": [{"type": "string"}, {"minLength": 1}]})
    assert "more than one" in check_arguments(validator, "x")[0].detail


@pytest.mark.parametrize("target", ["https://evil.example/x.json", "file:///etc/passwd", "other.json", "urn:x:y"])
def test_schemas_fetch_nothing(target: str) -> None:
    with pytest.raises((ValueError, jsonschema_rs.ReferencingError)):
        compile_schema({"$ref": target})


def test_actions_are_found_by_name_and_validated_by_their_own_schema() -> None:
    catalog = checked(BASE).catalog
    assert catalog is not None
    action = catalog.get("things.create")
    assert action is not None
    assert catalog.get("things.delete") is None
    assert list(catalog.services) == ["api"]
    assert catalog.validate(action, {"name": "x", "list": []}) == []
    assert [error.pointer for error in catalog.validate(action, {})] == ["/name", "/list"]


def test_an_action_of_another_catalog_is_not_validated_by_this_one() -> None:
    catalog = checked(BASE).catalog
    assert catalog is not None
    other = compiled(changed(("https://api.example.com/v1", "https://other.example")))
    with pytest.raises(KeyError):
        catalog.validate(other, {})


def test_an_empty_catalog_knows_nothing() -> None:
    assert dict(Catalog().actions) == {}
    assert Catalog().get("x") is None


def test_a_folder_is_opened_with_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("".join(BASE.splitlines(keepends=True)[:2]))
    (tmp_path / "a.yml").write_text("".join(BASE.splitlines(keepends=True)[2:]))
    (tmp_path / "notes.txt").write_text("not a catalog")
    assert list(open_catalog(tmp_path).actions) == ["things.create"]


def test_a_folder_with_mistakes_is_not_opened_and_warnings_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(changed(("irreversible", "nothing"), ("      additionalProperties: false\n", "")))
    with pytest.raises(MistakesError) as caught:
        open_catalog(tmp_path)
    assert [mistake.warning for mistake in caught.value.mistakes] == [False]
    assert str(tmp_path / "a.yaml") in str(caught.value)


def test_no_folder_and_no_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MistakesError, match="cannot be read: no such file or directory"):
        open_catalog(tmp_path / "none")
    with pytest.raises(MistakesError, match="holds no catalog file"):
        open_catalog(tmp_path)
