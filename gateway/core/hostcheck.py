"""What the look at a host means for whoever runs commands on it: each finding a sentence, with what to do about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from adapters.contract import PHASE_ORDER, Observation, Phase
from gateway.core.draft import sentence
from gateway.model.action import Host

SKEW_SECONDS_MAX: Final = 60
"""Between the host's clock and the gateway's, the time of the question's own way left out."""
FREE_KIB_MIN: Final = 65_536
"""A command's output and record need far less; what else lies on that disk may need the rest."""
_PORT: Final = 22
"""Where `ssh` goes unless it is told."""
_SETUP: Final = "Make it: `gateway host script --store {store} | {ssh} sh -s | gateway host read`."
_REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "store_write": ("There is no store at {store}, or {user} cannot write there.", _SETUP),
    "store_mismatch": (
        "At {store} there is another store than the one declared, or one that belongs to another user.",
        "Is this the right host, and the right user? If the store was made anew, declare its new `store_id`.",
    ),
    "no_boot_identity": (
        "The host does not say which boot it is in (/proc is missing).",
        "Commands cannot be told apart after a restart there; run them on a host with /proc.",
    ),
    "no_digest_tool": ("The host has no program for digests.", "Install one there: sha256sum, shasum or openssl."),
}
"""Reasons of the runner."""


_PASSING: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_BROKEN_OFF: Final = frozenset({"ConnectionLost", "KeyExchangeFailed"})
"""How it looks where the two sides have no kind of key in common: many a host hangs up without a word."""


class Level(StrEnum):
    """How a finding is meant."""

    FINE = "fine"
    NOTE = "note"
    """Works, and somebody may want to know."""
    FINDING = "finding"
    """Stands in the way, or makes evidence worse."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    level: Level
    detail: str
    advice: str = ""


def look_at(host: Host, seen: Observation, answer: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Everything that one look shows, in order; it ends where the rest could not be seen.

    `answer` is what the runner said in the observation, None where there is no answer of it.
    """
    if answer is None:
        yield _not_reached(host, seen)
        return
    key = f" ({seen.tls})" if seen.tls else ""
    detail = f"It was reached as {host.user}, with a key that it is believed by{key}."
    yield Finding("reached", Level.FINE, detail)
    yield Finding("shell", Level.FINE, "Its login runs `sh`, and the runner in it.")
    if host.store is None:
        yield Finding("store", Level.NOTE, "It has no store, so it can only be passed through.", "")
        return
    if answer["phase"] != "ok":
        detail, advice = refused(host, answer.get("reason"))
        yield Finding("store", Level.FINDING, detail, advice)
        return
    yield from _store(host, answer)
    yield _clock(seen, answer)
    yield from _means(host, answer)


def refused(host: Host, reason: object) -> tuple[str, str]:
    """What it means that the host refused a question about its store, and what to do."""
    known = _REFUSED.get(str(reason))
    if known is None:
        return f"The host refused the question ({str(reason).replace('_', ' ')}).", ""
    words = {"store": host.store, "user": host.user, "ssh": _ssh(host)}
    return known[0].format(**words), known[1].format(**words)


def _ssh(host: Host) -> str:
    """The call of `ssh` that goes the same way: through the same hosts, to the same port."""
    through: list[str] = []
    hop = host.jump
    while hop is not None:
        address = f"[{hop.address}]" if ":" in hop.address else hop.address
        through.insert(0, f"{hop.user}@{address}" if hop.port == _PORT else f"{hop.user}@{address}:{hop.port}")
        hop = hop.jump
    jump = ["-J", ",".join(through)] if through else []
    port = [] if host.port == _PORT else ["-p", str(host.port)]
    return " ".join(["ssh", *jump, *port, f"{host.user}@{host.address}"])


def not_answered(host: Host, seen: Observation) -> tuple[str, str]:
    """Why a host gave no answer, and what to do about it. What failed at a jump host is told of that one."""
    at = stopped_at(host, seen.hops_short)
    it = "It" if at is host else f"The jump host {at.name}"
    if seen.untrusted:
        shown = f" ({seen.tls})" if seen.tls else ""
        return f"{it} presents a key{shown} that it is not believed by; nothing was sent.", _not_believed(at)
    if _was_reached(seen):
        advice = (
            "Has the user a login with `sh`? Is another command forced (ForceCommand, or in authorized_keys)?"
            " Does a start-up file (.bashrc) end the session, or read what is meant for the command?"
        )
        if seen.error_class == "TimeoutError":
            advice = "Is the host busy, or does a start-up file of the login (.bashrc) wait for something?"
        return f"It was reached, and the runner did not answer: {seen.summary}.", advice
    if "credential" in seen.summary or "private key" in seen.summary:
        advice = (
            f"Put the credential's public key into the authorized_keys of {at.user} there, or set the credential anew:"
            f" `gateway credentials set {at.credential} --kind ssh_key`."
        )
        return sentence(seen.summary), advice
    advice = f"Look at address ({at.address}), port ({at.port}), and the way there."
    if seen.error_class in _BROKEN_OFF:
        advice += f" If it has no key of a kind that it is believed by: `gateway host enroll {at.name}` shows its keys."
    return f"It was not reached: {seen.summary}.", advice


def stopped_at(host: Host, hops_short: int) -> Host:
    """The host at which the way to one ended, so many hosts before it."""
    for _ in range(hops_short):
        host = host.jump or host
    return host


def _not_believed(at: Host) -> str:
    enroll = f"`gateway host enroll {at.name}`"
    if at.host_authorities:
        return (
            f"Is its certificate in date, made for {at.address}, and by one of `host_authorities`?"
            f" {enroll} shows the key without it. If none of that explains it, somebody may stand in between: do not"
            " believe that key."
        )
    return (
        f"If its owner changed the key, {enroll} shows both and lets a person replace it."
        " Otherwise somebody may stand in between: do not replace it."
    )


def _was_reached(seen: Observation) -> bool:
    return PHASE_ORDER.index(seen.phase) >= PHASE_ORDER.index(Phase.REQUEST_WRITTEN)


def _not_reached(host: Host, seen: Observation) -> Finding:
    detail, advice = not_answered(host, seen)
    return Finding("shell" if _was_reached(seen) else "reached", Level.FINDING, detail, advice)


def _store(host: Host, answer: Mapping[str, Any]) -> Iterator[Finding]:
    if not answer["initialised"]:
        detail, advice = refused(host, "store_write")
        yield Finding("store", Level.FINDING, f"What lies at {host.store} is no store of {host.user}'s.", advice)
        return
    if answer["store_id"] != host.store_id:
        detail, advice = refused(host, "store_mismatch")
        yield Finding("store", Level.FINDING, detail, f"{advice} It says {answer['store_id']}.")
    else:
        yield Finding("store", Level.FINE, f"The store at {host.store} is the one declared.")
    if answer["volatile"]:
        passing = str(answer["filesystem"]) in _PASSING
        detail = f"The store lies on {answer['filesystem']}" if passing else f"The store ({host.store}) lies"
        detail += ", which a restart clears." if passing else " in a place that a restart clears."
        advice = "Make one that stays: after a restart, what ran could not be told from what never did."
        yield Finding("durable", Level.FINDING, detail, advice)
    elif not answer["writable"]:
        detail = "Nothing can be written durably in the store."
        yield Finding(
            "durable", Level.FINDING, detail, "Is the disk full or read-only? Commands are refused until then."
        )
    else:
        yield Finding("durable", Level.FINE, f"The store is durable ({answer['filesystem']}).")


def _clock(seen: Observation, answer: Mapping[str, Any]) -> Finding:
    off = 0.0
    if answer["clock"] * 1000 < seen.started_ms:
        off = answer["clock"] - seen.started_ms / 1000
    elif answer["clock"] * 1000 > seen.ended_ms:
        off = answer["clock"] - seen.ended_ms / 1000
    if abs(off) <= SKEW_SECONDS_MAX:
        return Finding("clock", Level.FINE, "Its clock agrees with the gateway's.")
    way = "ahead of" if off > 0 else "behind"
    detail = f"Its clock is {round(abs(off))} seconds {way} the gateway's."
    return Finding("clock", Level.FINDING, detail, "Set it (NTP): records of commands carry its times.")


def _means(host: Host, answer: Mapping[str, Any]) -> Iterator[Finding]:
    free = answer["free_kib"]
    if free < FREE_KIB_MIN:
        detail = f"{free // 1024} MiB are free where the store lies."
        advice = f"Make room, or have it forget what is settled: `gateway host collect {host.name}`."
        yield Finding("space", Level.FINDING, detail, advice)
    else:
        yield Finding("space", Level.FINE, f"{free // 1024} MiB are free where the store lies.")
    missing = [str(name) for name in answer["missing"]]
    if missing:
        detail = f"It lacks {', '.join(missing)}."
        yield Finding("programs", Level.FINDING, detail, "Install what is missing: the runner needs each of them.")
    else:
        yield Finding("programs", Level.FINE, "Every program that the runner needs is there.")
    if not answer["detaches"]:
        detail = "It lacks `setsid`, so commands stay in their login's session."
        advice = "Install util-linux (or busybox's setsid): a host that ends sessions at log-out would end commands."
        yield Finding("detached", Level.NOTE, detail, advice)
