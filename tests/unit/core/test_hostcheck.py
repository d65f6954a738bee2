"""What a look at a host is told to people: each thing once, as a sentence, with what to do about it."""

from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import Observation, Phase
from gateway.core.hostcheck import FREE_KIB_MIN, SKEW_SECONDS_MAX, Level, look_at, refused
from gateway.model.action import Host
from tests.unit.core.builders import T0, answer, seen

HOST = Host("web-1", "web-1.example.com", "deploy", 22, "deploy-key", "/var/lib/runner", "s1", ("ssh-ed25519 A",))
REACHED = answer(0, started_ms=T0, ended_ms=T0 + 500)
GOOD: dict[str, Any] = {
    "phase": "ok",
    "store_id": "s1",
    "initialised": True,
    "filesystem": "ext4",
    "volatile": False,
    "writable": True,
    "free_kib": FREE_KIB_MIN,
    "clock": T0 // 1000,
    "missing": [],
    "detaches": True,
    "witness": True,
}


def told(content: dict[str, Any] | None, at: Observation = REACHED, host: Host = HOST) -> dict[str, tuple[Level, str]]:
    found = list(look_at(host, at, content))
    assert len({item.check for item in found}) == len(found)
    assert all(item.detail.endswith((".", ")")) for item in found)
    return {item.check: (item.level, f"{item.detail} {item.advice}") for item in found}


def test_a_host_in_order_has_nothing_but_good_news() -> None:
    found = told(GOOD)

    assert {level for level, _ in found.values()} == {Level.FINE}
    assert list(found) == ["reached", "shell", "store", "durable", "clock", "space", "programs"]


@pytest.mark.parametrize(
    ("check", "changes", "words"),
    [
        ("store", {"initialised": False}, "gateway host script --store /var/lib/runner | ssh deploy@web-1.example.com"),
        ("store", {"store_id": "s2"}, "another store than the one declared"),
        ("durable", {"volatile": True, "filesystem": "tmpfs"}, "lies on tmpfs, which a restart clears"),
        ("durable", {"volatile": True}, "(/var/lib/runner) lies in a place that a restart clears"),
        ("durable", {"writable": False}, "full or read-only"),
        ("clock", {"clock": T0 // 1000 - SKEW_SECONDS_MAX - 1}, "61 seconds behind"),
        ("clock", {"clock": T0 // 1000 + SKEW_SECONDS_MAX + 2}, "ahead of"),
        ("space", {"free_kib": FREE_KIB_MIN - 1}, "gateway host collect web-1"),
        ("programs", {"missing": ["od", "sync"]}, "od, sync"),
    ],
)
def test_what_is_wrong_is_a_finding(check: str, changes: dict[str, Any], words: str) -> None:
    found = told(GOOD | changes)

    assert found[check][0] is Level.FINDING
    assert words in found[check][1]
    assert {name for name, (level, _) in found.items() if level is Level.FINDING} == {check}


def test_the_way_to_make_a_store_goes_to_the_same_port_and_through_the_same_hosts() -> None:
    outer = Host("outer", "2001:db8::1", "hop", 2200, "k")
    inner = Host("inner", "inner.example.com", "hop", 22, "k", jump=outer)
    near = replace(HOST, port=2222)
    behind = replace(near, jump=inner)

    assert "| ssh -p 2222 deploy@web-1.example.com sh -s |" in refused(near, "store_write")[1]
    assert (
        "| ssh -J hop@[2001:db8::1]:2200,hop@inner.example.com -p 2222 deploy@web-1.example.com sh -s |"
        in refused(behind, "store_write")[1]
    )


def test_a_host_without_setsid_is_noted() -> None:
    assert told(GOOD | {"detaches": False})["detached"][0] is Level.NOTE


def test_a_host_that_is_only_passed_through_needs_no_store() -> None:
    through = Host("bastion", "bastion.example.com", "hop", 22, "hop-key")
    found = told({"phase": "refused", "reason": "store_write"}, host=through)

    assert found["store"][0] is Level.NOTE


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("store_write", "There is no store at /var/lib/runner"),
        ("store_mismatch", "another store"),
        ("no_boot_identity", "/proc"),
        ("no_digest_tool", "no program for digests"),
        ("what_else", "refused the question (what else)"),
    ],
)
def test_a_refusal_is_a_finding_about_the_store(reason: str, words: str) -> None:
    found = told({"phase": "refused", "reason": reason})

    assert found["store"][0] is Level.FINDING
    assert words in found["store"][1]
    assert refused(HOST, reason)[0] in found["store"][1]


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"untrusted": True, "nothing_left": True, "tls": "SHA256:abc"}, "reached", "key (SHA256:abc)"),
        ({"summary": "the host did not accept the credential"}, "reached", "authorized_keys of deploy"),
        ({"summary": "the private key is protected by a passphrase"}, "reached", "credentials set deploy-key"),
        ({"summary": "the host refused the connection"}, "reached", "port (22)"),
        ({"phase": Phase.REQUEST_WRITTEN, "summary": "the session ended"}, "shell", "ForceCommand"),
        ({"phase": Phase.RESPONSE_STARTED, "summary": "the session ended"}, "shell", "start-up file"),
        ({"phase": Phase.REQUEST_WRITTEN, "error_class": "TimeoutError"}, "shell", "Is the host busy"),
        ({"error_class": "ConnectionLost"}, "reached", "no key of a kind that it is believed by"),
    ],
)
def test_whoever_gives_no_answer_is_told_apart_by_how_far_it_came(
    changes: dict[str, Any], check: str, words: str
) -> None:
    found = told(None, seen(**{"phase": Phase.CONNECTING, **changes}))

    assert list(found) == [check]
    assert found[check][0] is Level.FINDING
    assert words in found[check][1]


JUMP = Host("bastion", "bastion.example.com", "hop", 2222, "hop-key", host_keys=("ssh-ed25519 B",))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"untrusted": True, "tls": "SHA256:abc"}, ("The jump host bastion presents a key", "host enroll bastion")),
        ({"summary": "the jump host did not accept the credential"}, ("authorized_keys of hop", "set hop-key")),
        ({"summary": "the jump host refused the connection"}, ("bastion.example.com", "port (2222)")),
    ],
)
def test_what_failed_at_a_jump_host_sends_nobody_to_the_host_behind_it(
    changes: dict[str, Any], words: tuple[str, str]
) -> None:
    host = replace(HOST, jump=replace(HOST, name="near", jump=JUMP))
    (told_of,) = told(None, seen(**{"phase": Phase.CONNECTING, "hops_short": 2, **changes}), host).values()

    assert all(part in told_of[1] for part in words), told_of
    assert "web-1" not in told_of[1]
    assert "deploy" not in told_of[1]


def test_a_host_that_is_believed_by_its_certificate_is_not_said_to_have_another_key() -> None:
    host = replace(HOST, host_keys=(), host_authorities=("ssh-ed25519 C",))
    _, said = told(None, seen(phase=Phase.CONNECTING, untrusted=True), host)["reached"]

    assert "in date, made for web-1.example.com" in said
    assert "replace" not in said
