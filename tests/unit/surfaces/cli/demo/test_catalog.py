"""The demo's catalog is one that the gateway itself finds in order."""

from pathlib import Path

from gateway.catalog.config import open_settings
from gateway.catalog.lint import check
from gateway.catalog.load import read_folder
from gateway.catalog.starter import starter_settings
from gateway.surfaces.cli.demo.cases import CASES
from gateway.surfaces.cli.demo.catalog import catalog_text, write_configuration

HTTP = catalog_text(service="http://127.0.0.1:1", proxy="http://127.0.0.1:2", nobody="http://127.0.0.1:3")


def configured(folder: Path, catalog: str = HTTP) -> Path:
    (folder / "catalog").mkdir()
    (folder / "catalog" / "starter.yaml").write_text("services: {}\n")
    (folder / "gateway.yaml").write_text(starter_settings(origin="gw.example/audit/demo", recipients=["k"]))
    write_configuration(folder, catalog)
    return folder


def test_its_catalog_has_every_action_of_the_cases_and_no_mistake(tmp_path: Path) -> None:
    checked = check(read_folder(configured(tmp_path) / "catalog"))

    assert [mistake for mistake in checked.mistakes if not mistake.warning] == []
    assert checked.catalog is not None
    assert set(checked.catalog.actions) == {case.action for case in CASES}


def test_its_settings_keep_the_log_and_listen_on_loopback_only(tmp_path: Path) -> None:
    settings = open_settings(configured(tmp_path) / "gateway.yaml", {})

    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 0)
    assert (settings.audit.origin, settings.audit.recipients) == ("gw.example/audit/demo", ("k",))
    assert [rule.decision for rule in settings.access] == ["allow"]
