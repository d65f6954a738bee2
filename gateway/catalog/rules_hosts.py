"""Are hosts reachable as written, and believed by something?"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping

from gateway.catalog.finding import Finding
from gateway.catalog.load import Loaded
from gateway.catalog.mistake import Mistake, did_you_mean
from gateway.catalog.rules_request import is_local
from gateway.catalog.schema_hosts import HostForm
from gateway.catalog.yamltext import Path

_ADDRESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_STORE = re.compile(r"(?!.*/\.\.(/|$))(/[A-Za-z0-9._@+-]+)+")
_STORE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PASSING = ("/tmp", "/var/tmp", "/run", "/dev")  # noqa: S108 - named to be refused
_KEY = re.compile(r"((?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+) ([A-Za-z0-9+/]+={0,3})(?: .*)?")


def host_rules(name: str, form: HostForm, loaded: Loaded) -> Iterator[Finding]:
    """The address, the keys it is believed by, the store, and the way to it."""
    if name in loaded.names:
        yield Finding((), f"There is a service “{name}” as well.", "Give one of them another name.")
    if _ADDRESS.fullmatch(form.address) is None:
        yield Finding(("address",), "This is no address of a host.", "Write web-1.example.com or 192.0.2.7, no more.")
    elif is_local(form.address) and not form.allow_private:
        hint = "Add “allow_private: true” if meant."
        yield Finding(("address",), "The address is a private one, which is refused.", hint)
    if _USER.fullmatch(form.user) is None:
        yield Finding(("user",), "This is no name of a user.", "For example deploy.")
    if not form.host_keys and not form.host_authorities:
        hint = f"`gateway host enroll {name}` fetches its keys, for you to compare with what the host's owner says."
        yield Finding((), "Nothing says by which key this host is believed.", hint)
    for field in ("host_keys", "host_authorities", "revoked_keys"):
        for index, line in enumerate(getattr(form, field)):
            if not _is_public_key(line):
                hint = "For example ssh-ed25519 AAAA…, without a host's name before it."
                yield Finding((field, index), "This is no public key.", hint)
    yield from _store(form)
    if form.jump is not None:
        yield from _way(name, form, loaded)


def _store(form: HostForm) -> Iterator[Finding]:
    where: Path = ("store",)
    if form.store is None or form.store_id is None:
        return
    if _STORE.fullmatch(form.store) is None:
        yield Finding(where, "This is no plain absolute path.", "For example /var/lib/gateway-runner.")
    elif any(form.store == place or form.store.startswith(f"{place}/") for place in _PASSING):
        hint = "Use a folder that stays: without its record, what ran before cannot be told from what never did."
        yield Finding(where, "What lies there may be lost at a restart of the host.", hint, warning=True)
    if _STORE_ID.fullmatch(form.store_id) is None:
        yield Finding(("store_id",), "This is no identity of a store.", "Take what the host answered at its making.")


def _way(name: str, form: HostForm, loaded: Loaded) -> Iterator[Finding]:
    seen, jump = [name], form.jump
    while jump is not None:
        if jump in seen:
            yield Finding(("jump",), "The way to this host leads in a circle.", "Name a host that is reached directly.")
            return
        seen.append(jump)
        entry = loaded.hosts.get(jump)
        if entry is None:
            if jump not in loaded.host_names and loaded.complete and jump == form.jump:
                hint = did_you_mean(jump, loaded.host_names) or "Declare it under “hosts”."
                yield Finding(("jump",), f"There is no host “{jump}”.", hint)
            return
        jump = entry.form.jump


def way_is_known(name: str, hosts: Mapping[str, HostForm]) -> bool:
    """Whether the host and every host on the way to it are declared, and the way ends."""
    seen: set[str] = set()
    at: str | None = name
    while at is not None:
        if at in seen or at not in hosts:
            return False
        seen.add(at)
        at = hosts[at].jump
    return True


def unknown_host(name: str, loaded: Loaded, mistake: Callable[[str, str], Mistake]) -> Iterator[Mistake]:
    """The mistake of an action whose host is not there; one that is there and wrong has mistakes of its own."""
    if name not in loaded.host_names and loaded.complete:
        hint = did_you_mean(name, loaded.host_names) or "Declare it under “hosts”."
        yield mistake(f"There is no host “{name}”.", hint)


def _is_public_key(line: str) -> bool:
    match = _KEY.fullmatch(line)
    if match is None:
        return False
    try:
        data = base64.b64decode(match[2], validate=True)
    except binascii.Error:
        return False
    kind = match[1].encode()
    return data[:4] == len(kind).to_bytes(4) and data[4 : 4 + len(kind)] == kind
