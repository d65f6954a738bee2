"""The reference pages say what the program reads, and the map of the house shows the table that the core obeys."""

import re

from gateway.catalog.schema import ActionForm, CatalogForm, ServiceForm
from gateway.catalog.schema_hosts import CommandForm, HostForm
from gateway.core.repeat import may_repeat
from gateway.core.transitions import ARROWS, diagram
from gateway.engine.ports import POINTS
from gateway.store import points
from tests.house.references import CATALOG, SETTINGS, catalog_text, settings_text
from tests.house.source import ROOT

MAP = ROOT / "gateway" / "README.md"


def test_the_settings_page_is_current() -> None:
    assert SETTINGS.read_text() == settings_text(), "run `make docs`"


def test_the_catalog_page_is_current() -> None:
    assert CATALOG.read_text() == catalog_text(), "run `make docs`"


def test_the_catalog_page_explains_every_field_or_names_its_form() -> None:
    page = catalog_text()
    rows = re.findall(r"^\| `([\w$]+)` \| (.+?) \|", page, re.MULTILINE)

    names = {name for name, _ in rows}
    for form in (ActionForm, ServiceForm, CommandForm, HostForm):
        assert {field.alias or name for name, field in form.model_fields.items()} <= names
    assert {"services", "hosts", "actions"} <= set(CatalogForm.model_fields)
    assert [name for name, kind in rows if not kind.strip()] == []


def test_the_diagram_on_the_map_is_the_table() -> None:
    shown = re.search(r"<!-- diagram -->\n```mermaid\n(.*?)```\n<!-- end of diagram -->", MAP.read_text(), re.DOTALL)

    assert shown is not None
    assert shown[1] == diagram(), "copy what gateway.core.transitions.diagram() returns"


def test_the_transition_table_on_the_map_is_the_table() -> None:
    section = MAP.read_text().partition("<!-- transitions -->\n")[2].partition("<!-- end of transitions -->")[0]
    rows = [
        tuple(cell.strip() for cell in line.strip("|\n ").split(" | ")) for line in section.splitlines()[2:] if line
    ]

    assert rows == [(f"{arrow.source} → {arrow.target}", f"`{arrow.event}`", arrow.when) for arrow in ARROWS]


def test_the_map_names_every_crash_point() -> None:
    text = MAP.read_text()

    assert [name for name in (*POINTS, *points.POINTS) if f"`{name}`" not in text] == []


def test_the_map_has_the_section_to_which_the_permission_to_repeat_refers() -> None:
    text = MAP.read_text()
    section = text.partition("## When may it be sent again?\n")[2].partition("\n## ")[0]

    assert "When may it be sent again?" in (may_repeat.__globals__["__doc__"] or "")
    assert [letter for letter in "abcd" if f"**{letter}**" not in section] == []
