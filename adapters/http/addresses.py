"""Which network addresses may be dialled: pure rules over the address itself, never over a name.

The standard library's `is_global` is no guard: it holds for addresses that carry an IPv4 address inside (NAT64, 6to4)
and for multicast. So the embedded address is taken out and judged by the same rules as the outer one.
"""

import functools
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA: frozenset[Address] = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google, OpenStack, DigitalOcean
        "169.254.170.2",  # AWS container credentials
        "169.254.170.23",  # AWS pod identity
        "169.254.169.253",  # AWS resolver, the same door
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure host agent: a public address that never leaves the machine's host
        "192.0.0.192",  # Oracle classic
        "fd00:ec2::254",  # AWS over IPv6
        "fd00:ec2::23",  # AWS pod identity over IPv6
        "fd00:ec2::253",  # AWS resolver over IPv6
        "fd20:ce::254",  # Google over IPv6
    )
)
"""Services on a cloud machine's inside that hand out the machine's credentials. Allowed to no target, ever."""


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_NEVER = (
    ("multicast", _networks("224.0.0.0/4", "ff00::/8")),
    ("unspecified", _networks("0.0.0.0/8", "::/128")),
    ("reserved", _networks("240.0.0.0/4", "100::/64", "5f00::/16")),
)
_PRIVATE = (
    ("loopback", _networks("127.0.0.0/8", "::1/128")),
    ("link-local", _networks("169.254.0.0/16", "fe80::/10", "fec0::/10")),
    (
        "private",
        _networks(
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "fc00::/7",
            "2001:db8::/32",
            "3fff::/20",
        ),
    ),
)
_NAT64 = _networks("64:ff9b::/96", "64:ff9b:1::/48")
_COMPATIBLE = ip_network("::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_LOW32 = 0xFFFF_FFFF


def embedded(address: Address) -> tuple[IPv4Address, ...]:
    """IPv4 addresses that a packet to this address may end up at: mapped, NAT64, 6to4, Teredo and two old forms."""
    if isinstance(address, IPv4Address):
        return ()
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    number = int(address)
    old_form = address in _COMPATIBLE and number > 1
    if old_form or any(address in network for network in _NAT64) or (number >> 32) & _LOW32 in _ISATAP:
        return (IPv4Address(number & _LOW32),)
    return ()


@functools.lru_cache(maxsize=4096)
def spellings(text: str) -> tuple[Address, ...]:
    """The address and every address inside it; empty when the text is no address.

    A zone (`%eth0`) is dropped: it chooses the interface, not the address.
    """
    try:
        outer = ip_address(text.partition("%")[0])
    except ValueError:
        return ()
    return (outer, *embedded(outer))


@functools.lru_cache(maxsize=4096)
def written(text: str) -> tuple[str, ...]:
    """The same as texts, in the one form that `ipaddress` writes."""
    return tuple(map(str, spellings(text)))


@functools.lru_cache(maxsize=4096)
def refusal(text: str, *, allow_private: bool) -> str | None:
    """Why this address must not be dialled, as the last words of a sentence; None when it may be."""
    found = spellings(text)
    if not found:
        return "no network address"
    for address in found:
        kind = _kind(address, allow_private=allow_private)
        if kind is not None:
            return kind
    return None


def _kind(address: Address, *, allow_private: bool) -> str | None:
    if address in METADATA:
        return "a cloud metadata address"
    kinds = _NEVER if allow_private else _NEVER + _PRIVATE
    for name, networks in kinds:
        if any(address in network for network in networks):
            return f"a {name} address"
    return None
