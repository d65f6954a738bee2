"""Puts a trust policy together from its parts, and says in plain words what one asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.trust import NONE, OWN, BadPolicy, Group, TrustPolicy

ALL_WITNESSES = "witnesses"


def make_policy(logs: Sequence[str], witnesses: Sequence[str], groups: Sequence[str], quorum: str) -> TrustPolicy:
    """A policy from its lines, the first word of each left out or not; several lines may stand in one text.

    A text of `logs` or `witnesses` may be a policy itself: of that only the lines of its kind are taken.

    `quorum` is the name of a witness or group, `none`, or how many of all witnesses must agree: a number, `all`, `any`.

    Raises:
        BadPolicy: a line that cannot be used; the message names the line of the policy as it would be written.
    """
    lines = [line for text in logs for line in _lines(text, "log")]
    named = [line for text in witnesses for line in _lines(text, "witness")]
    lines += [*named, *(line for text in groups for line in _lines(text, "group"))]
    if quorum in {"all", "any"} or (quorum.isascii() and quorum.isdecimal()):
        names = [line.split()[1] for line in named if len(line.split()) > 1]
        if not names:
            raise BadPolicy(f"a quorum of {quorum} needs witnesses")
        lines.append(f"group {ALL_WITNESSES} {quorum} {' '.join(names)}")
        quorum = ALL_WITNESSES
    text = "".join(f"{line}\n" for line in (*lines, f"quorum {quorum}"))
    try:
        return TrustPolicy.parse(text)
    except BadPolicy as error:
        numbered = "; ".join(f"{number}: {line[:60]}" for number, line in enumerate(text.splitlines(), 1))
        raise BadPolicy(f"{error} ({numbered})") from error


def _lines(text: str, word: str) -> list[str]:
    found = [line.strip() for line in text.splitlines() if line.strip()]
    if _policy(text) is not None:
        wanted = {word, OWN} if word == "log" else {word}
        found = [line for line in found if line.split()[0] in wanted]
        if not found:
            raise BadPolicy(f"a policy that has no {word} line")
    return [line if line.startswith((f"{word} ", "#")) else f"{word} {line}" for line in found]


def _policy(text: str) -> TrustPolicy | None:
    try:
        return TrustPolicy.parse(text)
    except BadPolicy:
        return None


def left_out(texts: Sequence[str], policy: TrustPolicy) -> list[str]:
    """What policies among these texts have of witnesses, and the one made of them has not: a sentence for each."""
    kept = {witness.key.public for witness in policy.witnesses.values()}
    found = []
    for before in filter(None, map(_policy, texts)):
        names = [name for name, witness in before.witnesses.items() if witness.key.public not in kept]
        if names:
            found.append(f"left out, witnesses of the policy given: {', '.join(names)}; --witness with it keeps them")
        if before.asks_witnesses and not policy.asks_witnesses:
            found.append("the policy given asks witnesses to agree, the new one asks for none; say whom with --quorum")
    return list(dict.fromkeys(found))


def explain(policy: TrustPolicy) -> list[str]:
    """The policy in sentences, one a line."""
    lines = [f"trusts the log {key.name}, key {key.key_id.hex()}{_span(key.since, key.until)}" for key in policy.logs]
    lines += [
        f"knows the witness {name}, key {witness.key.key_id.hex()}"
        + (f", asked at {witness.url}" if witness.url else "")
        for name, witness in policy.witnesses.items()
    ]
    if not policy.asks_witnesses:
        return [*lines, "asks for no witness: the log's own key is enough, so only anchors show a log that was cut"]
    lines.append(f"a checkpoint counts only if {_agreement(policy, policy.quorum)}")
    unused = [name for name in (*policy.witnesses, *policy.groups) if name not in _reached(policy, policy.quorum)]
    if unused:
        lines.append(f"named but not needed for that: {', '.join(unused)}")
    return lines


def _span(since: int, until: int | None) -> str:
    if until is not None:
        return f", for its trees of {since} to {until} entries"
    return f", for its trees of {since} entries and more" if since else ""


def _agreement(policy: TrustPolicy, name: str) -> str:
    group = policy.groups.get(name)
    if group is None:
        return f"the witness {name} cosigned it"
    members = ", ".join(_member(policy, member) for member in group.members)
    return f"{_how_many(group)} cosigned it: {members}"


def _member(policy: TrustPolicy, name: str) -> str:
    group = policy.groups.get(name)
    if group is None:
        return name
    return f"{name} (that is {_how_many(group)}: {', '.join(_member(policy, member) for member in group.members)})"


def _how_many(group: Group) -> str:
    count = len(group.members)
    return f"all {count} of these" if group.least == count else f"{group.least} of these {count}"


def _reached(policy: TrustPolicy, name: str) -> set[str]:
    group = policy.groups.get(name)
    return {name}.union(*(_reached(policy, member) for member in group.members)) if group else {name}


def policy_json(policy: TrustPolicy) -> dict[str, Any]:
    """The policy as plain data; the names are stable."""
    return {
        "policy": "agl1-trust-1",
        "logs": [
            {"origin": key.name, "key_id": key.key_id.hex(), "vkey": str(key), "since": key.since, "until": key.until}
            for key in policy.logs
        ],
        "witnesses": [
            {"name": name, "key_id": item.key.key_id.hex(), "vkey": str(item.key), "url": item.url}
            for name, item in policy.witnesses.items()
        ],
        "groups": [
            {"name": name, "least": group.least, "members": list(group.members)}
            for name, group in policy.groups.items()
        ],
        "quorum": None if policy.quorum == NONE else policy.quorum,
        "sentences": explain(policy),
    }
