"""Where an attempt may go: rules over the address dialled, spellings of hosts, rebinding names, own listeners."""

import asyncio
from collections.abc import Sequence

import pytest

from adapters.contract import Hooks, Phase
from adapters.http.addresses import refusal
from adapters.http.client import HttpAdapter
from tests.unit.adapters.conftest import AdapterMaker, CountingClock, Exchanger, Owner
from tests.unit.adapters.raw_server import Conversation, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

PRIVATE = (
    "127.0.0.1",
    "127.8.9.10",
    "::1",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.1.1",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "fd12:3456::1",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:7f00:1::f7f7:f7f7",
    "2001:0:808:808::80ff:fffe",
    "::127.0.0.1",
    "2001:470::5efe:7f00:1",
)
NEVER = (
    "169.254.169.254",
    "169.254.170.2",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "239.1.2.3",
    "ff02::1",
    "240.0.0.1",
    "255.255.255.255",
    "::ffff:0.0.0.0",
    "64:ff9b::e000:1",
    "not an address",
    "",
)
PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
    "172.32.0.1",
)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_address_is_refused_unless_the_service_allows_it(address: str) -> None:
    assert refusal(address, allow_private=False) is not None
    assert refusal(address, allow_private=True) is None


@pytest.mark.parametrize("address", NEVER)
def test_metadata_multicast_unspecified_and_reserved_are_refused_always(address: str) -> None:
    assert refusal(address, allow_private=False) is not None
    assert refusal(address, allow_private=True) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_allowed(address: str) -> None:
    assert refusal(address, allow_private=False) is None


async def answer(conversation: Conversation) -> None:
    await conversation.read_request()
    await conversation.send(OK)


LOOPBACK_SPELLINGS = (
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "0X7F.1",
    "127.0.0.1.",
    "127.0.0.01",
    "127.0.0.1%00",
    "127.0.0.1%2f",
    "127.0.0.1\\@example.com",
    "127。0。0。1",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "0.0.0.0",
    "0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "LocalHost.localdomain",
    "ip6-localhost",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[::1%25lo]",
    "user@127.0.0.1",
    "user:pw@localhost",
    "127.0.0.1#@example.com",
    "127.0.0.1?@example.com",
    " 127.0.0.1",
    "127.0.0.1\t",
    "127.0.0.1\r\nX: y",
)
METADATA_SPELLINGS = (
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[fd00:ec2::254]",
    "169。254。169。254",
)


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
async def test_no_spelling_of_loopback_is_reached_by_a_service_that_may_not(
    host: str, make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger
) -> None:
    """The look-up here is as obliging as a system resolver at its worst: whatever it is asked means this machine."""

    async def obliging(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1", "::1"]

    adapter = make_adapter(lookup=obliging)
    async with serving(answer) as peer:
        seen = await adapter.attempt(exchange(f"http://{host}:{peer.port}", allow_private=False), owner.hooks)
    assert seen.nothing_left
    assert peer.connections == 0
    assert owner.asked == 0


@pytest.mark.parametrize("host", METADATA_SPELLINGS)
async def test_no_spelling_of_metadata_is_dialled_even_when_private_is_allowed(
    host: str, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    seen = await adapter.attempt(exchange(f"http://{host}", allow_private=True, connect_seconds=0.2), owner.hooks)
    assert seen.nothing_left
    assert seen.error_class in {"Refused", "AddressRefused"}
    assert owner.asked == 0


async def test_refusal_stays_one_when_a_name_has_several_addresses(
    make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger
) -> None:
    """Racing connections swallow what is no OSError; the reason must survive that."""

    async def lookup(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1", "::1", "10.0.0.1"]

    adapter = make_adapter(lookup=lookup)
    adapter._resolver._judge = lambda _host, _port: None
    async with serving(answer) as peer:
        seen = await adapter.attempt(exchange(f"http://a.example:{peer.port}", allow_private=False), owner.hooks)
    assert seen.nothing_left
    assert peer.connections == 0
    assert seen.error_class == "AddressRefused"


async def test_name_that_turns_to_loopback_after_the_check_is_not_followed(
    clock: CountingClock, make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger
) -> None:
    """The list that was vetted is the list that is dialled: there is no second look-up to lie to."""
    asked: list[str] = []

    async def rebinding(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

    adapter = make_adapter(lookup=rebinding)
    async with serving(answer) as peer:
        first = await adapter.attempt(exchange(f"http://rebind.example:{peer.port}"), owner.hooks)
        assert len(asked) == 1
        assert first.nothing_left
        assert first.error_cause == "ConnectionRefusedError ECONNREFUSED"
        clock.now += 60_000
        sent = exchange(f"http://rebind.example:{peer.port}", allow_private=False)
        second = await adapter.attempt(sent, owner.hooks)
    assert len(asked) == 2
    assert second.nothing_left
    assert second.error_class == "AddressRefused"
    assert peer.connections == 0


async def test_looked_up_name_is_asked_for_again_only_when_its_time_is_over(
    clock: CountingClock, make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger
) -> None:
    asked: list[str] = []

    async def lookup(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    adapter = make_adapter(lookup=lookup)
    async with serving(answer) as peer:
        sent = exchange(f"http://service.example:{peer.port}")
        assert (await adapter.attempt(sent, owner.hooks)).answered
        assert (await adapter.attempt(sent, owner.hooks)).answered
        assert len(asked) == 1
        other = exchange(f"http://service.example:{peer.port}", allow_private=False)
        assert (await adapter.attempt(other, owner.hooks)).error_class == "AddressRefused"
        clock.now += 60_000
        assert (await adapter.attempt(sent, owner.hooks)).answered
    assert len(asked) == 2


async def test_own_listener_is_refused_as_a_target(
    make_adapter: AdapterMaker, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as peer:
        adapter = make_adapter(denied=lambda host, port: host == "127.0.0.1" and port == peer.port)
        plain = await adapter.attempt(exchange(peer), owner.hooks)
        mapped = await adapter.attempt(exchange(f"http://[::ffff:127.0.0.1]:{peer.port}"), owner.hooks)
        proxied = await adapter.attempt(exchange("http://a.example", proxy=peer.origin), owner.hooks)
    assert peer.connections == 0
    for seen in (plain, mapped, proxied):
        assert seen.nothing_left
        assert seen.summary == "the target is a listener of this gateway itself"


async def test_address_literal_behind_a_proxy_is_judged_although_the_proxy_would_dial_it(
    adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as proxy:
        sent = exchange("http://169.254.169.254", proxy=proxy.origin)
        seen = await adapter.attempt(sent, owner.hooks)
    assert seen.nothing_left
    assert seen.phase is Phase.PREPARED
    assert proxy.connections == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
async def test_redirect_is_an_answer_and_sends_no_byte_to_the_new_place(
    method: str, status: int, adapter: HttpAdapter, owner: Owner, exchange: Exchanger
) -> None:
    async with serving(answer) as canary:

        async def redirecting(conversation: Conversation) -> None:
            await conversation.read_request()
            where = f"{canary.origin}/elsewhere".encode()
            await conversation.send(b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, where))

        async with serving(redirecting) as peer:
            seen = await adapter.attempt(exchange(peer, method), owner.hooks)
    assert seen.status == status
    assert seen.answered
    assert seen.header("location") == f"{canary.origin}/elsewhere"
    assert canary.connections == 0
    assert peer.connections == 1


async def test_exchange_is_judged_by_its_own_target_while_others_run(adapter: HttpAdapter, exchange: Exchanger) -> None:
    """The attempt travels beside the call: a neighbour that may reach loopback lends nothing to one that may not."""
    hooks = Hooks(before_send=lambda: None)
    async with serving(answer) as peer:
        allowed = [adapter.attempt(exchange(peer), hooks) for _ in range(20)]
        forbidden = [adapter.attempt(exchange(peer, allow_private=False), hooks) for _ in range(20)]
        seen = await asyncio.gather(*(one for pair in zip(allowed, forbidden, strict=True) for one in pair))
    assert all(one.answered for one in seen[0::2])
    assert all(one.nothing_left for one in seen[1::2])
    assert peer.connections == 20
