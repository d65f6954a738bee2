"""The catalog of the demo on hosts is one that the gateway itself finds in order, and holds no key of a host's user."""

from pathlib import Path

import asyncssh

from gateway.catalog.lint import check
from gateway.surfaces.cli.demo.ssh_cases import HOST_CASES, HOSTS
from gateway.surfaces.cli.demo.ssh_catalog import credential, ssh_catalog_text
from gateway.surfaces.cli.demo.ssh_kit import DemoHost


def host(folder: Path, name: str) -> DemoHost:
    keys = folder / name / "keys"
    keys.mkdir(parents=True)
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(keys / "client")
    made = DemoHost({
        "control": "http://127.0.0.1:1",
        "proxy_control": "http://127.0.0.1:2",
        "proxy": "127.0.0.1:2200",
        "user": "fixture",
        "key": str(keys / "client"),
        "host_key": key.export_public_key().decode().strip(),
    })  # fmt: skip
    made.store_id = f"store-of-{name}"
    return made


def test_it_has_every_action_of_the_cases_and_no_mistake(tmp_path: Path) -> None:
    hosts = [host(tmp_path, name) for name in HOSTS]

    text = ssh_catalog_text(hosts)

    checked = check({"demo.yaml": text.encode()})
    assert [mistake for mistake in checked.mistakes if not mistake.warning] == []
    assert checked.catalog is not None
    assert set(checked.catalog.actions) == {case.action for case in HOST_CASES}
    assert "PRIVATE" not in text


def test_a_key_is_good_for_its_own_host_only(tmp_path: Path) -> None:
    body = credential(host(tmp_path, "web-1"))

    assert body["kind"] == "ssh_key"
    assert body["origin"] == "ssh://127.0.0.1:2200"
    assert body["value"].startswith("-----BEGIN OPENSSH")
