"""Keeps every test on loopback: another address is refused on the spot and fails the test that used it."""

import ipaddress
import sys
from collections.abc import Iterator

import pytest

_WATCHED = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"})
_LOOKUPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
_violations: list[str] = []


class NotLoopbackError(PermissionError):
    """Code under test may take this for a failed connection; the violation is on record all the same."""


def is_loopback(host: str) -> bool:
    """True for 127.0.0.0/8, ::1, its IPv4-mapped form and the name localhost. The empty host means every interface."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def may_look_up(host: str) -> bool:
    """True where looking a host up asks no name server: addresses, and the name localhost."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return is_loopback(host)
    return True


def _text(host: object) -> str | None:
    if isinstance(host, bytes | bytearray):
        return host.decode("ascii", "replace")
    return host if isinstance(host, str) else None


def _watch(event: str, args: tuple[object, ...]) -> None:
    if not event.startswith("socket."):
        return
    if event in _WATCHED:
        address = args[1]
        # Unix sockets have a path, netlink has numbers; only an address with a host can leave the machine.
        host = _text(address[0]) if isinstance(address, tuple) and address else None
        allowed = host is None or is_loopback(host)
    elif event in _LOOKUPS:
        host = _text(args[0])
        allowed = host is None or may_look_up(host)
    else:
        return
    if not allowed:
        violation = f"{event} to {host!r}: tests stay on loopback"
        _violations.append(violation)
        raise NotLoopbackError(violation)


def pytest_configure() -> None:
    # An audit hook sees every way into the socket module and cannot be taken out again by code under test.
    sys.addaudithook(_watch)


def _take_violations() -> list[str]:
    taken = list(_violations)
    _violations.clear()
    return taken


@pytest.fixture(autouse=True)
def _stay_on_loopback() -> Iterator[None]:
    yield
    violations = _take_violations()
    if violations:
        pytest.fail("\n".join(violations), pytrace=False)


@pytest.fixture
def expected_violations() -> Iterator[list[str]]:
    """For tests of this guard alone: what they provoke on purpose, taken off the record."""
    provoked: list[str] = []
    yield provoked
    provoked += _take_violations()
