"""What a host presents: its keys, a sentence for each way of having none, and nothing said beyond the key exchange."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from adapters.contract import HostPlace, HostTarget, Secret
from adapters.ssh.host_keys import HostKeyReader
from fixtures.ssh.service import USER, SshService
from tests.unit.adapters.ssh_stand import new_key, public_text

SECONDS = 10.0


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[SshService]:
    async with SshService(tmp_path / "sessions") as service:
        yield service


def place(port: int, **more: object) -> HostPlace:
    return HostPlace("127.0.0.1", port, **{"allow_private": True, **more})  # type: ignore[arg-type]  # each test knows


def text_of(key: asyncssh.SSHKey) -> str:
    return " ".join(public_text(key).split()[:2])


async def test_the_keys_are_those_of_the_host(service: SshService) -> None:
    port = int(service.address.rpartition(":")[2])
    seen = await HostKeyReader().presented(place(port), connect_seconds=SECONDS, seconds=SECONDS)

    assert (seen.keys, seen.failure) == ((text_of(service.host_keys[0]),), None)


async def test_a_key_of_each_kind_is_asked_for_and_nobody_logs_in() -> None:
    kinds = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")
    keys = [asyncssh.generate_private_key(kind) for kind in kinds]
    asked: list[str] = []

    class Listener(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            asked.append(username)
            return True

    async with asyncssh.listen("127.0.0.1", 0, server_factory=Listener, server_host_keys=keys, config=None) as server:
        seen = await HostKeyReader().presented(place(server.get_port()), connect_seconds=SECONDS, seconds=SECONDS)

    assert (seen.keys, seen.failure) == (tuple(text_of(key) for key in keys), None)
    assert asked == []


async def test_behind_a_jump_host_the_jump_host_is_believed_by_its_own_pins(service: SshService) -> None:
    port = int(service.address.rpartition(":")[2])
    credential = Secret("ssh_key", "", service.client_key.export_private_key().decode())
    way = HostTarget(
        "bastion", "127.0.0.1", port, USER, credential, (public_text(service.host_keys[0]),), allow_private=True
    )
    behind = await HostKeyReader().presented(place(port, jump=way), connect_seconds=SECONDS, seconds=SECONDS)
    assert (behind.keys, behind.failure) == ((text_of(service.host_keys[0]),), None)

    other = HostTarget("bastion", "127.0.0.1", port, USER, credential, (public_text(new_key()),), allow_private=True)
    refused = await HostKeyReader().presented(place(port, jump=other), connect_seconds=SECONDS, seconds=SECONDS)
    assert (refused.keys, refused.failure) == ((), "the jump host's key is none of those it is believed by")
    assert refused.hops_short == 1

    gone = replace(way, port=1)
    unreached = await HostKeyReader().presented(place(port, jump=gone), connect_seconds=SECONDS, seconds=SECONDS)
    assert (unreached.failure, unreached.hops_short) == ("the jump host refused the connection", 1)
    further = replace(way, jump=gone)
    unreached = await HostKeyReader().presented(place(port, jump=further), connect_seconds=SECONDS, seconds=SECONDS)
    assert (unreached.failure, unreached.hops_short) == ("the jump host refused the connection", 2)
    behind = await HostKeyReader().presented(place(1, jump=way), connect_seconds=SECONDS, seconds=SECONDS)
    assert (behind.failure, behind.hops_short) == ("the jump host did not reach the host behind it", 0)


async def test_a_port_where_nobody_listens_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    seen = await HostKeyReader().presented(place(port), connect_seconds=SECONDS, seconds=SECONDS)

    assert (seen.keys, seen.failure) == ((), "the host refused the connection")


async def test_an_address_that_is_not_allowed_is_not_dialled(service: SshService) -> None:
    port = int(service.address.rpartition(":")[2])
    seen = await HostKeyReader().presented(place(port, allow_private=False), connect_seconds=SECONDS, seconds=SECONDS)

    assert seen.keys == ()
    assert "not allowed" in (seen.failure or "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (b"", "the host did not present its keys in time"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n" * 40, "what answers there speaks no SSH"),
        (b"x" * 100_000, "what answers there speaks no SSH"),
        (b"HTTP/1.0 400 Bad Request\r\n", "the host ended the connection before it presented a key"),
        (b"SSH-2.0-x\r\nhello, who is there?", "what answers there speaks no SSH"),
        (b"SSH-2.0-x\r\n" + (30).to_bytes(4) + b"\4\x15" + bytes(28), "what answers there speaks no SSH"),
        (b"SSH-2.0-x\r\n" + (30).to_bytes(4) + b"\4", "the host ended the connection before it presented a key"),
    ],
)
async def test_whoever_speaks_no_ssh_is_given_up_on(words: bytes, sentence: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(words)
        if not words:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        seen = await HostKeyReader().presented(place(port), connect_seconds=SECONDS, seconds=SECONDS if words else 0.2)

    assert seen.keys == ()
    assert seen.failure == sentence
