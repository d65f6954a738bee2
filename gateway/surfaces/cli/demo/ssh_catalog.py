"""The catalog of the demo on hosts: four hosts whose keys are pinned, and one command on each."""

from collections.abc import Iterable
from typing import Any, Final

from gateway.surfaces.cli.demo.catalog import written_out
from gateway.surfaces.cli.demo.ssh_kit import DemoHost

_HEAD: Final = """\
# Written by `gateway demo --ssh`. A host is believed by the key that is written here and by no other; a command is a
# list of words, never a line for a shell; and what ran is remembered by the host itself, in its store.

"""
_INPUT: Final = {
    "type": "object",
    "properties": {"version": {"type": "string", "pattern": "^[a-z0-9-]{1,20}$"}},
    "required": ["version"],
    "additionalProperties": False,
}
DEADLINES: Final = {"connect": "9s", "request": "10s", "recovery": "2m"}


def credential_name(host: DemoHost) -> str:
    """What the host's key is called in the vault."""
    return f"{host.name}-key"


def credential(host: DemoHost) -> dict[str, str]:
    """The body that puts it there: good for this host only."""
    return {"kind": "ssh_key", "value": host.private_key(), "origin": f"ssh://127.0.0.1:{host.port}"}


def ssh_catalog_text(hosts: Iterable[DemoHost]) -> str:
    """The catalog for hosts that run and are prepared."""
    all_hosts = tuple(hosts)
    document: dict[str, Any] = {
        "hosts": {host.name: _host(host) for host in all_hosts},
        "actions": {f"{host.name}.release": _action(host) for host in all_hosts},
    }
    return _HEAD + written_out(document)


def _host(host: DemoHost) -> dict[str, Any]:
    return {
        "address": "127.0.0.1",
        "port": host.port,
        "user": host.user,
        "credential": credential_name(host),
        "host_keys": [host.host_key],
        "store": str(host.store),
        "store_id": host.store_id,
        "allow_private": True,
    }


def _action(host: DemoHost) -> dict[str, Any]:
    return {
        "description": f"Release a version on {host.name}.",
        "effect": "irreversible",
        "host": host.name,
        "input": _INPUT,
        "command": ["/bin/sh", str(host.folder / "release"), str(host.folder), "{version}"],
        "deadlines": DEADLINES,
    }
