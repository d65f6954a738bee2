"""The same against OpenSSH's own server: the runner travels, the command runs once, the host settles a cut."""

from pathlib import Path

import pytest

from fixtures.proxy.server import FaultProxy
from tests.contract.ssh_daemon import running_daemon
from tests.scenario.kit import Home
from tests.scenario.ssh_kit import command
from tests.unit.adapters.remote_host import Host
from tests.unit.adapters.ssh_stand import public_text

LOGIN_BYTES = 6_000
"""More than a login takes and less than the runner that follows it: a cut here tears the delivery."""


@pytest.mark.parametrize("cut", [None, "upstream", "downstream"])
async def test_a_command_on_a_real_host(home: Home, tmp_path: Path, cut: str | None) -> None:
    for name in ("host", "sshd"):
        (tmp_path / name).mkdir()
    store = Host(tmp_path / "host", "dash")
    store.init()
    with running_daemon(tmp_path / "sshd") as daemon:
        async with FaultProxy(daemon.address) as proxy:
            port = int(proxy.address.rpartition(":")[2])
            host = {
                "address": "127.0.0.1",
                "port": port,
                "user": daemon.user,
                "credential": "deploy-key",
                "host_keys": [public_text(daemon.host_key).strip()],
                "store": store.store,
                "store_id": store.store_id,
                "allow_private": True,
            }
            home.configure({}, {"migrate": command(tmp_path, "echo moved")}, hosts={"web-1": host})
            if cut is not None:
                proxy.toxics.add("cut_at", stream=cut, attributes={"bytes": LOGIN_BYTES}, times=1)
            async with home.running() as api:
                key = daemon.client_key.export_private_key().decode()
                body = {"kind": "ssh_key", "value": key, "origin": f"ssh://127.0.0.1:{port}"}
                made = await api.person.call("PUT", "/v1/credentials/deploy-key", body=body)
                assert not made.is_problem, made.document
                begun = await api.begin("migrate", name="v7")
                ended = await api.settled(begun["operation_id"])

    runs = (tmp_path / "runs").read_text().split() if (tmp_path / "runs").exists() else []
    assert runs in ([], [begun["operation_id"]])
    assert (ended["outcome"], ended["executed"]) == (("success", "yes") if runs else ("error", "no")), ended
    if cut is None:
        assert (ended["basis"], ended["result"]["stdout"]["text"]) == ("answer", "moved\n")
