"""Every setting says its unit in its name, has a sentence of its own, and stands on the settings page."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import ROOT, stale

SETTINGS = ROOT / "gateway" / "settings.py"
PAGE = ROOT / "gateway" / "SETTINGS.md"
UNITS = re.compile(r"(?:^|_)(?:seconds|days|bytes|max|ratio)(?:_|$)")

# class.field -> why a number has no unit in its name
WITHOUT_UNIT = {"ServerSettings.port": "a port is a number, not an amount"}


def _fields() -> Iterator[tuple[str, str, str, str | None]]:
    """(class, field, type, the sentence below it) of every setting."""
    for node in ast.parse(SETTINGS.read_text()).body:
        if isinstance(node, ast.ClassDef):
            for statement, following in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    yield node.name, statement.target.id, ast.unparse(statement.annotation), _sentence(following)


def _sentence(node: ast.stmt) -> str | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return None


FIELDS = list(_fields())


@pytest.mark.parametrize("name", [f"{owner}.{field}" for owner, field, _, sentence in FIELDS])
def test_a_setting_has_a_sentence_of_its_own(name: str) -> None:
    (sentence,) = (text for owner, field, _, text in FIELDS if f"{owner}.{field}" == name)

    assert sentence or name.startswith("Settings."), f"{name} is not explained"


def test_an_amount_says_its_unit() -> None:
    bare = {
        f"{owner}.{field}"
        for owner, field, kind, _ in FIELDS
        if re.search(r"\b(?:int|float)\b", kind) and not UNITS.search(field)
    }

    assert bare - set(WITHOUT_UNIT) == set()
    assert stale(WITHOUT_UNIT, bare) == set()


def test_settings_cannot_change_while_the_gateway_runs() -> None:
    for node in ast.parse(SETTINGS.read_text()).body:
        if isinstance(node, ast.ClassDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            assert any("frozen=True" in text for text in decorators), f"{node.name} can be changed"


def test_the_settings_page_names_every_setting() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE.read_text()))

    assert {field for _, field, _, _ in FIELDS} - named == set()
