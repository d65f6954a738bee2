"""Every option of a connection is said, and each does what it is said for."""

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from adapters.contract_ssh import SshLimits, SshPins, SshRoute, Stage
from adapters.ssh.recipe import SESSION, options_of, quiet_library
from adapters.ssh.trust import Gatekeeper, identity_of, known_hosts
from tests.unit.adapters.conftest import CountingClock
from tests.unit.adapters.ssh_stand import LOOK_SECONDS, Stand, limited, new_key, public_text

# What asyncssh reads from the operator's home, configuration or environment where it is not told.
SAID: dict[str, Any] = {
    "config": None,
    "passphrase": None,
    "password": None,
    "agent_path": None,
    "agent_identities": None,
    "agent_forwarding": False,
    "pkcs11_provider": None,
    "client_certs": [],
    "client_host_keys": None,
    "client_host_keysign": False,
    "gss_host": None,
    "gss_auth": False,
    "gss_kex": False,
    "x11_forwarding": False,
    "x509_trusted_certs": None,
    "x509_trusted_cert_paths": [],
    "proxy_command": None,
    "canonicalize_hostname": False,
    "request_pty": False,
    "term_type": None,
    "env": None,
    "send_env": None,
    "command": None,
    "encoding": None,
    "utf8_decode_errors": "replace",
    "disable_trivial_auth": True,
    "preferred_auth": ["publickey"],
    "keepalive_interval": 7.0,
    "keepalive_count_max": 2,
    "host": "127.0.0.1",
    "host_key_alias": "host",
    "username": "fixture",
    "client_username": "fixture",
}


@pytest.fixture
def options(stand: Stand) -> dict[str, Any]:
    route = stand.direct
    limits = SshLimits(keepalive_seconds=7.0, keepalive_misses=2)
    return options_of(route, known_hosts(route.pins), identity_of(route.credential), limits, Gatekeeper())


@pytest.mark.parametrize("name", SAID)
async def test_the_option_is_said(options: dict[str, Any], name: str) -> None:
    assert options[name] == SAID[name]
    assert type(options[name]) is type(SAID[name])


async def test_keys_and_pins_are_objects_in_hand_and_not_names_of_files(options: dict[str, Any]) -> None:
    (key,) = options["client_keys"]
    keys, authorities, revoked = options["known_hosts"]

    assert isinstance(key, asyncssh.SSHKey)
    assert [type(found).__name__ for found in keys] == [type(key).__name__]
    assert (authorities, revoked) == ([], [])


async def test_the_library_has_limits_of_its_own_behind_ours(options: dict[str, Any]) -> None:
    assert SshLimits().login_seconds < options["login_timeout"] < options["connect_timeout"]


async def test_no_option_that_reads_configuration_is_left_to_its_default(options: dict[str, Any]) -> None:
    """What `prepare` takes from a configuration file is what stands there with `()` as its default."""
    prepare = inspect.signature(asyncssh.SSHClientConnectionOptions.prepare)
    open_to_files = {name for name, given in prepare.parameters.items() if given.default == ()}
    harmless = {  # algorithms, addresses, and what follows from `config`, which is None
        "canonical_domains", "canonicalize_fallback_local", "canonicalize_max_dots", "canonicalize_permitted_cnames",
        "client_host_certs", "client_version", "encryption_algs", "family", "gss_delegate_creds", "kex_algs",
        "local_addr", "mac_algs", "rekey_bytes", "rekey_seconds", "server_host_key_algs", "signature_algs", "tunnel",
    }  # fmt: skip

    assert open_to_files - set(options) <= harmless


@pytest.fixture
async def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """An agent that counts who comes, and a home whose files would change everything."""
    came: list[int] = []

    async def count(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        writer.close()

    server = await asyncio.start_unix_server(count, tmp_path / "agent")
    home = tmp_path / "home" / ".ssh"
    home.mkdir(parents=True)
    (home / "config").write_text("Host *\n  UserKnownHostsFile none\n  User mallory\n  Port 1\n  RemoteCommand false\n")
    (home / "id_ed25519").write_bytes(new_key().export_private_key())
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    yield came
    server.close()
    await server.wait_closed()


async def test_neither_home_nor_agent_is_asked(stand: Stand, agent: list[int]) -> None:
    assert (await stand.attempt()).answered
    assert agent == []


async def test_a_home_that_turns_checking_off_turns_nothing_off(
    agent: list[int], tmp_path: Path, clock: CountingClock
) -> None:
    (tmp_path / "b").mkdir()
    async with Stand(tmp_path / "b", clock) as stand:
        stand.direct = _pinned_to(stand, new_key())
        seen = await stand.attempt()

    assert seen.host_key_refused
    assert agent == []


def _pinned_to(stand: Stand, key: asyncssh.SSHKey) -> SshRoute:
    return replace(stand.direct, pins=SshPins((public_text(key),)))


async def test_no_terminal_and_no_environment_is_asked_for(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.service.real = True
    monkeypatch.setenv("TERM", "xterm")
    seen = await stand.attempt(command="tty")

    assert b"not a tty" in seen.stdout.head
    assert SESSION["request_pty"] is False


async def test_a_host_that_lets_anybody_in_is_refused(stand: Stand) -> None:
    class Open(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return False

    key = stand.service.host_keys[0]
    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Open, server_host_keys=[key])
    seen = await stand.attempt(replace(stand.direct, port=server.get_port()))
    server.close()
    await server.wait_closed()

    assert (seen.stage, seen.nothing_left, seen.error_class) == (Stage.CONNECTING, True, "PermissionDenied")


async def test_a_host_that_falls_silent_is_given_up_by_keepalive(stand: Stand) -> None:
    stand.service.plan.add("ssh_accept_run_hang")
    stand.proxy.toxics.add("drop_at", attributes={"stage": "ran"}, stream="downstream")
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(stand.attempt(stand.proxied, limits=limited(keepalive_misses=2)))
        await stand.reached("ran")
        (flight,) = stand.adapter._flights
        while flight.stage is not Stage.ACCEPTED:
            await asyncio.sleep(LOOK_SECONDS)
        # From here on, as a busy machine may answer too late before.
        assert flight.line is not None
        flight.line.last.set_keepalive(0.1)
    seen = under_way.result()

    assert (seen.stage, seen.error_class) == (Stage.ACCEPTED, "ConnectionLost")
    assert not seen.nothing_left
    assert seen.closed_boot_ms is not None


async def test_the_library_says_nothing_about_hosts_and_commands(
    stand: Stand, caplog: pytest.LogCaptureFixture
) -> None:
    quiet_library()
    caplog.set_level("DEBUG")
    stand.service.plan.add("ssh_run_abort")
    await stand.attempt()
    await stand.attempt()

    assert [record for record in caplog.records if record.name.startswith("asyncssh")] == []


async def _read_to_the_end(sock: socket.socket) -> str:
    try:
        while await asyncio.get_running_loop().sock_recv(sock, 4096):
            pass
    except ConnectionResetError:
        return "reset"
    return "end"


async def test_the_sockets_of_a_command_given_up_reset(stand: Stand) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        route = replace(stand.direct, port=listening.getsockname()[1])
        under_way = group.create_task(stand.attempt(route, limits=limited(login_seconds=0.2)))
        taken, _ = await loop.sock_accept(listening)
        await under_way
    with taken, listening:
        assert await _read_to_the_end(taken) == "reset"
    assert under_way.result().nothing_left
