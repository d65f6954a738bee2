"""Every kind of action that is simulated, written as a catalog and checked by the gateway's own rules.

What a kind declares is what its service keeps (see `services`): only then are the claims of the gateway binding. One
kind is a variant of each promise: what is remembered and for how long, how absence is shown, what an answer means.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from gateway.catalog.lint import check
from gateway.catalog.registry import Catalog

SETTLE_SECONDS = 15.0
MARGIN_SECONDS = 15.0
PROCESSING_SECONDS_MAX = 2.0
LAG_SECONDS_MAX = 2.0
HELD_SETTLED_MAX = SETTLE_SECONDS - PROCESSING_SECONDS_MAX - LAG_SECONDS_MAX
HELD_REMEMBERED_MAX = MARGIN_SECONDS - PROCESSING_SECONDS_MAX
HELD_FREE_MAX = 150.0
"""Where nothing is promised about it, a request can be held up past every deadline of its operation."""


@dataclass(frozen=True, slots=True)
class HostSide:
    """Of an action that runs a command: who on the host remembers it."""

    runner: bool = True
    own_status: bool = False
    """A status command of its own is asked."""
    lock: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """What a service keeps of what its action declares."""

    name: str
    dedupes_seconds: float | None = None
    """Remembers our value that long; None: every request is a new effect."""
    by_place: bool = False
    """A record's place can be taken once: a second request for it is refused."""
    accepts: bool = False
    before_work: tuple[int, ...] = ()
    """Statuses that the service gives only before any work."""
    held_max: float = HELD_FREE_MAX
    """Seconds for which a request can be held up behind its closed socket."""
    looks: bool = False
    control: bool = False
    state: bool = False
    read: bool = False
    lies: bool = False
    """The look-up may say "not there" of what is there: what rests on absence is worth as little as its word."""
    method: str = "POST"
    may_send_again: bool = False
    """After an attempt that may have been carried out."""
    host: HostSide | None = None


_RULES: list[dict[str, Any]] = [
    {"status": 200, "path": "state", "equals": "done", "finding": "executed_ok"},
    {"status": 200, "path": "state", "equals": "failed", "finding": "executed_failed", "executed": "no"},
    {"status": 200, "path": "state", "equals": "working", "finding": "in_progress"},
    {"status": 200, "path": "state", "equals": "tombstone", "finding": "fenced"},
    {"status": 404, "finding": "absent"},
]
_SETTLE = {"settle": "15s"}
_FENCE = {
    "fence": {
        "request": {"method": "PUT", "path": "/things/{operation_id}/fence", "body": {"fence": "{operation_id}"}},
        "won": 201,
        "lost": 409,
    }
}
_ACCEPTED = {"status": 202, "handle": {"header": "Location"}, "rules": _RULES[:3], "interval": "2s"}
_CONTROL = {"request": {"method": "GET", "path": "/control"}, "status": 200}
_INPUT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name", "size"],
    "additionalProperties": False,
}


def _lookup(absence: Any = None, *, control: bool = False, place: str = "/things/{operation_id}") -> dict[str, Any]:
    made: dict[str, Any] = {
        "request": {"method": "GET", "path": place},
        "identify": {"path": "key", "equals": "{operation_id}"},
        "rules": _RULES if absence is _FENCE else [rule for rule in _RULES if rule["finding"] != "fenced"],
        "compare": {"name": "{name}"},
        "interval": "2s",
        "watch": "60s",
    }
    if absence is not None:
        made["absence"] = absence
    if control:
        made["positive_control"] = _CONTROL
    return made


def _action(service: str, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "description": "Make a thing.",
        "effect": "irreversible",
        "service": service,
        "input": _INPUT,
        "request": {"method": "POST", "path": "/things", "body": {"name": "{name}", "size": "{size}"}},
        "bind": {"in": "header", "name": "Idempotency-Key"},
        "deadlines": {"connect": "2s", "request": "5s", "recovery": "60s", "start": "90s"},
    }
    return {name: value for name, value in (base | changes).items() if value is not None}


def _same_key(seconds: int) -> dict[str, Any]:
    return {
        "bind": {
            "in": "header",
            "name": "Idempotency-Key",
            "window": {"min": f"{seconds}s", "margin": f"{int(MARGIN_SECONDS)}s"},
        },
        "resend": "same_key",
        "replay_after_5xx": "same_outcome",
        "attempts_max": 4,
    }


_PLAIN_REASON = {"unknown_accepted": True, "reason": "Nobody needs to know."}
_PUT_BY_ID = {"method": "PUT", "path": "/things/{operation_id}", "body": {"name": "{name}", "size": "{size}"}}
_STATE = {
    "request": {"method": "PUT", "path": "/states/{name}", "body": {"size": "{size}"}},
    "conflict_key": "state:{name}",
    "effect": "reversible",
}
_STATE_LOOK = {
    "request": {"method": "GET", "path": "/states/{name}"},
    "identify": "state",
    "rules": [
        {"status": 200, "path": "size", "equals": "{size}", "finding": "executed_ok"},
        {"status": 200, "finding": "absent"},
        {"status": 404, "finding": "absent"},
    ],
    "interval": "2s",
    "watch": "60s",
}
_READ = {
    "request": {"method": "GET", "path": "/things/{name}", "headers": {"Idempotency-Key": "{operation_id}"}},
    "effect": "read",
    "bind": None,
}

_FREE, _SETTLED, _REMEMBERED = HELD_FREE_MAX, HELD_SETTLED_MAX, HELD_REMEMBERED_MAX
_LOOKS: dict[str, Any] = {"looks": True}
_AGAIN: dict[str, Any] = {"may_send_again": True}

_EVERY: tuple[tuple[Kind, dict[str, Any]], ...] = (
    (Kind("plain"), _PLAIN_REASON),
    (
        Kind("plain_busy", before_work=(429, 503)),
        _PLAIN_REASON | {"refused_before_work": [429, 503], "conflict_key": "thing:{name}"},
    ),
    (Kind("looked_up", **_LOOKS), {"reconcile": _lookup(), "in_flight": [409]}),
    (Kind("looked_up_put", by_place=True, method="PUT", **_LOOKS),
     {"request": _PUT_BY_ID, "bind": {"in": "path"}, "exists": [409, 412], "reconcile": _lookup()}),
    (Kind("settled", held_max=_SETTLED, **_LOOKS), {"reconcile": _lookup(_SETTLE), "conflict_key": "thing:{name}"}),
    (
        Kind("settled_busy", held_max=_SETTLED, before_work=(429,), control=True, **_LOOKS),
        {"reconcile": _lookup(_SETTLE, control=True), "refused_before_work": [429], "resend": "on_absence"},
    ),
    (Kind("on_absence", held_max=_SETTLED, **_LOOKS, **_AGAIN),
     {"reconcile": _lookup(_SETTLE), "resend": "on_absence"}),
    (Kind("on_absence_lies", held_max=_SETTLED, lies=True, **_LOOKS, **_AGAIN),
     {"reconcile": _lookup(_SETTLE), "resend": "on_absence"}),
    (Kind("settled_lies", held_max=_SETTLED, lies=True, **_LOOKS), {"reconcile": _lookup(_SETTLE)}),
    (Kind("same_key", dedupes_seconds=60, held_max=_REMEMBERED, **_LOOKS, **_AGAIN),
     {"reconcile": _lookup(), "in_flight": [409]} | _same_key(60)),
    (Kind("same_key_short", dedupes_seconds=30, held_max=_REMEMBERED, before_work=(503,), **_AGAIN),
     {"refused_before_work": [503]} | _PLAIN_REASON | _same_key(30)),
    (Kind("same_key_settled", dedupes_seconds=600, held_max=_SETTLED, **_LOOKS, **_AGAIN),
     {"reconcile": _lookup(_SETTLE)} | _same_key(600)),
    (Kind("fence", by_place=True, **_LOOKS), {"reconcile": _lookup(_FENCE), "exists": [409]}),
    (Kind("fence_busy", by_place=True, before_work=(429,), control=True, **_LOOKS),
     {"reconcile": _lookup(_FENCE, control=True), "exists": [409], "refused_before_work": [429]}),
    (Kind("accepted", accepts=True, **_LOOKS), {"reconcile": _lookup(), "accepted": _ACCEPTED}),
    (Kind("accepted_blind", accepts=True), {"accepted": _ACCEPTED} | _PLAIN_REASON),
    (Kind("accepted_settled", accepts=True, held_max=_SETTLED, **_LOOKS, **_AGAIN),
     {"reconcile": _lookup(_SETTLE), "accepted": _ACCEPTED, "resend": "on_absence"}),
    (Kind("state", state=True, method="PUT", **_LOOKS), _STATE | {"reconcile": _STATE_LOOK}),
    (Kind("state_settled", state=True, method="PUT", held_max=_SETTLED, **_LOOKS),
     _STATE | {"reconcile": _STATE_LOOK | {"absence": _SETTLE}}),
    (Kind("read", read=True, method="GET", may_send_again=True), _READ),
)  # fmt: skip

_TOLD: list[dict[str, Any]] = [
    {"path": "state", "equals": "done", "finding": "executed_ok"},
    {"path": "state", "equals": "failed", "finding": "executed_failed"},
    {"path": "state", "equals": "working", "finding": "in_progress"},
]
_UNHEARD = {"path": "state", "equals": "unheard of", "finding": "absent"}


def _status(*rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "reconcile": {
            "command": ["status", "{operation_id}"],
            "identify": {"path": "operation", "equals": "{operation_id}"},
            "rules": list(rules),
            "interval": "2s",
            "watch": "60s",
        }
    }


def _command(host: str, **changes: Any) -> dict[str, Any]:
    return {
        "description": "Make a thing.",
        "effect": "irreversible",
        "host": host,
        "input": _INPUT,
        "command": ["make-thing", "{operation_id}", "{name}", "{size}"],
        "deadlines": {"connect": "2s", "request": "6s", "recovery": "60s", "start": "90s"},
    } | changes


_ON_HOSTS: tuple[tuple[Kind, dict[str, Any]], ...] = (
    (Kind("runner", **_LOOKS, host=HostSide()), {"conflict_key": "thing:{name}"}),
    (Kind("runner_locked", **_LOOKS, host=HostSide(lock=True)), {"lock": "things"}),
    (Kind("runner_told", **_LOOKS, host=HostSide(own_status=True)), _status(*_TOLD, _UNHEARD)),
    (Kind("told", **_LOOKS, host=HostSide(runner=False, own_status=True)), {"marker": "command"} | _status(*_TOLD)),
    (
        Kind("host_read", read=True, may_send_again=True, host=HostSide(runner=False)),
        {"effect": "read", "command": ["read-thing", "{operation_id}", "{name}", "{size}"]},
    ),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind, _ in (*_EVERY, *_ON_HOSTS)}
ORIGIN = "https://{name}.example"


def _host(name: str) -> dict[str, Any]:
    return {
        "address": f"{name.replace('_', '-')}.example",
        "user": "deploy",
        "credential": "key",
        "host_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1sVDrVWpbSrxBzHhLwQvnGyLSLYt4/4vvcnzLnRTBe"],
        "store": "/var/lib/things",
        "store_id": f"store-{name}",
    }


@cache
def catalog() -> Catalog:
    """All of them, compiled; raises AssertionError if the gateway's own check finds a mistake in one."""
    narrow = {"plain": 1, "settled": 1, "same_key": 2, "fence": 1}
    services = {
        kind.name: {"base_url": ORIGIN.format(name=kind.name.replace("_", "-"))}
        | ({"limits": {"concurrency": narrow[kind.name]}} if kind.name in narrow else {})
        for kind, _ in _EVERY
    }
    actions = {f"{kind.name}.do": _action(kind.name, **changes) for kind, changes in _EVERY}
    actions |= {f"{kind.name}.do": _command(kind.name, **changes) for kind, changes in _ON_HOSTS}
    hosts = {kind.name: _host(kind.name) for kind, _ in _ON_HOSTS}
    document = {"services": services, "hosts": hosts, "actions": actions}
    checked = check({"kinds.yaml": json.dumps(document).encode()})
    if checked.catalog is None:
        raise AssertionError("\n".join(str(item) for item in checked.mistakes if not item.warning))
    return checked.catalog
