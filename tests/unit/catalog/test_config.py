"""Settings: strict like a catalog, expanded from the environment, and silent about secrets."""

import dataclasses
from pathlib import Path

import jsonschema_rs
import pytest

from gateway.catalog.config import config_path, open_settings, read_settings, settings_schema
from gateway.catalog.mistake import MistakesError
from gateway.catalog.starter import starter_settings
from gateway.catalog.yamltext import read_yaml
from gateway.settings import AccessRule, CallerSettings, Settings

SECRET = "hunter2-swordfish"
FILE = "/srv/gw/gateway.yaml"


def read(text: str, **environment: str) -> Settings:
    return read_settings(text.encode(), FILE, environment)


def refused(text: str, **environment: str) -> str:
    with pytest.raises(MistakesError) as caught:
        read(text, **environment)
    return str(caught.value)


def test_an_empty_file_gives_every_default_with_absolute_paths() -> None:
    settings = read("")
    assert settings.data_folder == "/srv/gw/data"
    assert settings.catalog_folder == "/srv/gw/catalog"
    assert settings.vault.key_file == "/srv/gw/data/vault.key"
    assert dataclasses.replace(
        settings, data_folder="data", catalog_folder="catalog", vault=Settings().vault
    ) == Settings()  # fmt: skip


def test_defaults_are_safe() -> None:
    settings = Settings()
    assert settings.server.host == "127.0.0.1"
    assert settings.access == ()
    assert settings.limits.wait_seconds_max == 25.0


def test_what_is_written_is_what_holds() -> None:
    settings = read(
        """
server: {host: 0.0.0.0, port: 9000, drain_seconds: 5}
data_folder: /var/lib/gw
audit: {origin: gw.example/audit/one, recipients: [k1, k2], anchors: [../anchor, /media/anchor]}
callers: [{name: "report-*", writes: false}]
access:
  - {name: one, caller: a, action: "x.*", effect: read, decision: allow}
  - {decision: deny, service: deploys, where: {environment: [production]}}
limits: {in_flight_max: 7, wait_seconds_max: 3.5}
retention: {operations_seconds: 86400}
recovery: {sweep_interval_seconds: 0.5}
"""
    )
    assert (settings.server.host, settings.server.port, settings.server.drain_seconds) == ("0.0.0.0", 9000, 5.0)
    assert settings.data_folder == "/var/lib/gw"
    assert settings.audit.recipients == ("k1", "k2")
    assert settings.audit.anchors == ("/srv/gw/../anchor", "/media/anchor")
    assert settings.callers == (CallerSettings("report-*", writes=False),)
    assert settings.access == (
        AccessRule("allow", "one", "a", "x.*", "read"),
        AccessRule("deny", "rule-2", service="deploys", where={"environment": ["production"]}),
    )
    assert (settings.limits.in_flight_max, settings.limits.wait_seconds_max) == (7, 3.5)
    assert settings.recovery.sweep_interval_seconds == 0.5


REFUSED = [
    ("server: {prt: 1}\n", 1, "no field “prt”", "Did you mean “port”"),
    ("sever: {}\n", 1, "no field “sever”", "Did you mean “server”"),
    ("server:\n  port: 70000\n", 2, "at most 65535", ""),
    ("server:\n  port: '1'\n", 2, "whole number", ""),
    ("server: 5\n", 1, "must be a mapping", ""),
    ("server: {host: no}\n", 1, "true or false to some readers", "Quote it"),
    ("limits:\n  in_flight_max: 0\n", 2, "at least 1", ""),
    ("limits:\n  in_flight_max: 1.5\n", 2, "whole number", ""),
    ("limits:\n  wait_seconds_max: 301\n", 2, "at most 300", ""),
    ("limits:\n  wait_seconds_max: 25s\n", 2, "must be a number", ""),
    ("retention: {operations_seconds: 60}\n", 1, "at least 86400", ""),
    ("access:\n  - {caller: x}\n", 2, "“decision” is missing", "Add it"),
    ("access:\n  - {decision: alow}\n", 2, "one of: allow, deny", "Did you mean “allow”"),
    ("access:\n  - {decision: allow, effect: write}\n", 2, "one of: *, read", ""),
    ("access: {decision: allow}\n", 1, "must be a list", ""),
    ("access:\n  - {decision: allow, name: a}\n  - {decision: deny, name: a}\n", 3, "named “a”", "Rename"),
    ("callers:\n  - {writes: false}\n", 2, "“name” is missing", "Add it"),
    ("callers:\n  - {name: a, key: x}\n", 2, "no field “key”", "gateway keys create"),
    ("people: {}\n", 1, "no field “people”", "gateway keys create"),
    ("vault: {key: x}\n", 1, "no field “key”", ""),
    ("store:\n  url: ${NOT_SET}\n", 2, "environment variable NOT_SET is not set", "Set it"),
    ("audit: {origin: 'https://x'}\n", 1, "An origin has no scheme", "gw.example"),
    ("server: {port: 1, port: 2}\n", 1, "appears twice", "Remove"),
    ("server: &a {port: 1}\n", 1, "Anchors", "Write"),
    ("- a\n", 1, "settings are a mapping", "server:"),
]


@pytest.mark.parametrize(("text", "line", "words", "hint"), REFUSED)
def test_each_mistake_is_told_with_line_and_hint(text: str, line: int, words: str, hint: str) -> None:
    with pytest.raises(MistakesError) as caught:
        read(text)
    found = [mistake for mistake in caught.value.mistakes if words in mistake.detail]
    assert found, str(caught.value)
    assert (found[0].file, found[0].line) == (FILE, line)
    assert hint in found[0].hint


def test_all_mistakes_are_told_at_once() -> None:
    text = "server: {prt: 1, port: x}\nlimits: {a: 1}\nstore: {url: '${NOPE}'}\n"
    assert len(refused(text).splitlines()) == 4


def test_variables_are_expanded_inside_texts() -> None:
    text = "store: {url: 'postgresql://gw:${DB_PASSWORD}@db/gw'}\naudit: {recipients: ['${AUDITOR}']}\n"
    settings = read(text, DB_PASSWORD=SECRET, AUDITOR="k1")
    assert settings.store.url == f"postgresql://gw:{SECRET}@db/gw"
    assert settings.audit.recipients == ("k1",)


@pytest.mark.parametrize(
    "origin", ["", ".", "/a", "a/", "a//b", "a/../b", "a/.", "x" * 256, "a b", "a\\tb", "a+b", "s://a"]
)
def test_an_origin_that_cannot_be_a_folder_is_a_mistake_and_not_a_crash_later(origin: str) -> None:
    assert refused(f'audit: {{origin: "{origin}"}}\n').startswith("/srv/gw/gateway.yaml:1:9: An origin ")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("data_folder: ~nobody-here/d\n", "1:1"),
        ("catalog_folder: ~nobody-here/c\n", "1:1"),
        ("vault: {key_file: ~nobody-here/k}\n", "1:9"),
        ("audit: {anchors: [/a, ~nobody-here/b]}\n", "1:23"),
        ("audit: {witness_policy: ~nobody-here/p}\n", "1:9"),
    ],
)
def test_a_home_folder_that_does_not_exist_is_a_mistake_at_its_place(text: str, place: str) -> None:
    assert refused(text).startswith(f"/srv/gw/gateway.yaml:{place}: There is no home folder of that name.")


@pytest.mark.parametrize(
    "text",
    [
        "retention: {operations_seconds: 1.0e+18}\n",
        "audit: {keep_days: 1.0e+300}\n",
        "audit: {seal_interval_seconds: 1.0e+300}\n",
        "recovery: {sweep_interval_seconds: 1.0e+308}\n",
        "server: {drain_seconds: 1.0e+308}\n",
        'data_folder: "a\\0b"\n',
        'vault: {key_file: "a\\0b"}\n',
    ],
)
def test_what_no_clock_and_no_file_system_can_hold_is_a_mistake(text: str) -> None:
    assert refused(text).startswith("/srv/gw/gateway.yaml:1:")


def test_every_time_has_a_bound_that_a_database_can_hold() -> None:
    for group in _groups(Settings):
        value = getattr(Settings(), group.name)
        for item in _groups(type(value)) if dataclasses.is_dataclass(value) else []:
            if item.name.endswith(("_seconds", "_days")):
                assert item.metadata.get("le", 2**63) <= 3_153_600_000, item.name


def test_an_expanded_value_is_not_expanded_again() -> None:
    assert read("audit: {recipients: ['${A}']}\n", A="${B}", B="x").audit.recipients == ("${B}",)


@pytest.mark.parametrize(
    "text",
    [
        "server: {host: '${S}', port: '${S}'}\n",
        "access: [{decision: '${S}'}]\n",
        "limits: '${S}'\n",
        "audit: {origin: 'https://${S}'}\n",
        "store: '${S}'\ncallers: ['${S}']\n",
        "server: {'${S}': 1}\n",
    ],
)
def test_values_of_variables_are_never_shown(text: str) -> None:
    assert SECRET not in refused(text, S=SECRET)


def test_the_environment_overrides_the_file_and_its_secrets_are_not_shown() -> None:
    settings = read(
        "server: {host: 10.0.0.1, port: 1}\nstore: {url: a}\n",
        GATEWAY_ADDR="[::1]:9999",
        GATEWAY_STORE_URL=f"postgresql://u:{SECRET}@db/gw",
        GATEWAY_VAULT_KEY=SECRET,
    )
    assert (settings.server.host, settings.server.port) == ("::1", 9999)
    assert settings.store.url == f"postgresql://u:{SECRET}@db/gw"
    assert settings.vault.key == SECRET
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("127.0.0.1:80", "127.0.0.1", 80), ("http://localhost:8420", "localhost", 8420), ("gw:0", "gw", 0)],
)
def test_addresses_are_read_in_the_forms_that_clients_use(address: str, host: str, port: int) -> None:
    server = read("", GATEWAY_ADDR=address).server
    assert (server.host, server.port) == (host, port)


@pytest.mark.parametrize("address", ["localhost", "a:b", "a:99999", ":80", "http://u:p@h:1", f"{SECRET}"])
def test_a_bad_address_is_refused_without_repeating_it(address: str) -> None:
    told = refused("", GATEWAY_ADDR=address)
    assert told.startswith("environment: The environment variable GATEWAY_ADDR is no address.")
    assert SECRET not in told


def test_the_file_is_found_by_the_environment_or_by_its_name() -> None:
    assert config_path({}) == Path("gateway.yaml")
    assert config_path({"GATEWAY_CONFIG": "/etc/gw.yaml"}) == Path("/etc/gw.yaml")


def test_a_missing_file_is_told_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(MistakesError, match=r"no such file or directory\. “gateway init”"):
        open_settings(tmp_path / "gateway.yaml", {})
    (tmp_path / "gateway.yaml").write_text("data_folder: d\n")
    assert open_settings(tmp_path / "gateway.yaml", {}).data_folder == str(tmp_path / "d")


def test_the_schema_for_editors_accepts_the_starter_and_refuses_mistakes() -> None:
    validator = jsonschema_rs.Draft202012Validator(settings_schema(), offline=True)
    starter = read_yaml(starter_settings(origin="a/b").encode(), "f").value
    assert validator.is_valid(starter)
    assert not validator.is_valid({"server": {"prt": 1}})


def _groups(kind: type[object]) -> list[dataclasses.Field[object]]:
    return list(dataclasses.fields(kind))  # type: ignore[arg-type] # only called with dataclasses


def test_every_bounded_default_lies_within_its_bounds() -> None:
    for group in _groups(Settings):
        value = getattr(Settings(), group.name)
        for item in _groups(type(value)) if dataclasses.is_dataclass(value) else []:
            number = getattr(value, item.name)
            bounds = item.metadata
            assert number is None or "gt" not in bounds or number > bounds["gt"]
            assert number is None or "ge" not in bounds or number >= bounds["ge"]
            assert number is None or "le" not in bounds or number <= bounds["le"]


def test_every_number_carries_its_unit_in_its_name() -> None:
    for group in _groups(Settings):
        value = getattr(Settings(), group.name)
        for item in _groups(type(value)) if dataclasses.is_dataclass(value) else []:
            number = getattr(value, item.name)
            if isinstance(number, int | float) and not isinstance(number, bool) and item.name != "port":
                assert any(unit in item.name for unit in ("_seconds", "_bytes", "_max", "_ratio")), item.name
