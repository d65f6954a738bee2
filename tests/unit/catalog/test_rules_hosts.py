"""A host is refused that could not be reached, or would be believed by nothing."""

import pytest

from gateway.catalog.lint import check
from tests.unit.catalog.commands import (
    ADDRESS,
    BASE,
    EFFECT,
    HOST,
    KEY,
    KEYS,
    STORE,
    STORE_ID,
    USER,
    H,
    changed,
    checked,
    told,
)

MISTAKES = [
    (ADDRESS, f"    address: ssh://web-1 {H}\n", "no address of a host", "web-1.example.com"),
    (ADDRESS, f"    address: deploy@web-1 {H}\n", "no address of a host", "web-1.example.com"),
    (ADDRESS, f"    address: -oProxyCommand {H}\n", "no address of a host", "web-1.example.com"),
    (ADDRESS, f"    address: 10.0.0.7 {H}\n", "private", "allow_private"),
    (USER, f"    user: -l {H}\n", "no name of a user", "deploy"),
    (KEYS, "", "by which key", "gateway host enroll web-1"),
    (KEYS, f'    host_keys: ["web-1 {KEY}"] {H}\n', "no public key", "without a host's name"),
    (KEYS, f"    host_keys: [SHA256:abc] {H}\n", "no public key", "ssh-ed25519"),
    (KEYS, f'    host_keys: ["ssh-rsa {KEY.split()[1]}"] {H}\n', "no public key", "ssh-ed25519"),
    (KEYS, f'{KEYS}    revoked_keys: ["x"] {H}\n', "no public key", "ssh-ed25519"),
    (KEYS, f'{KEYS}    host_authorities: ["x"] {H}\n', "no public key", "ssh-ed25519"),
    (KEYS, f"{KEYS}    jump: bastion {H}\n", "no host “bastion”", "web-1"),
    (KEYS, f"{KEYS}    jump: web-1 {H}\n", "in a circle", "directly"),
    (STORE, f"    store: state {H}\n", "no plain absolute path", "/var/lib"),
    (STORE, f"    store: /var/../etc {H}\n", "no plain absolute path", "/var/lib"),
    (STORE, f'    store: "/var/a b" {H}\n', "no plain absolute path", "/var/lib"),
    (STORE_ID, f'    store_id: "a b" {H}\n', "no identity", "its making"),
    (STORE_ID, "", "go together", "gateway host script"),
    (STORE, "", "go together", "gateway host script"),
    (USER, f"{USER}    port: 70000 {H}\n", "at most 65535", ""),
    (USER, f"{USER}    password: x {H}\n", "no field “password”", "Known here: address"),
    (HOST, f"    host: web-2 {H}\n", "no host “web-2”", "Did you mean “web-1”"),
    (EFFECT, f"{EFFECT}    steps: [] {H}\n", "at least 1 entry", ""),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    told(old, new, words, hint)


def test_the_example_itself_is_right() -> None:
    assert [str(mistake) for mistake in checked(BASE).mistakes] == []


def test_a_store_that_a_restart_may_clear_is_warned_of() -> None:
    told(STORE, f"    store: /tmp/gateway {H}\n", "lost at a restart", "stays", warning=True)


def test_a_host_and_a_service_are_told_apart_by_their_names() -> None:
    both = "services:\n  web-1: {base_url: https://web-1.example.com}\n" + BASE

    assert any("a service “web-1” as well" in mistake.detail for mistake in checked(both).mistakes)


def test_a_host_that_is_written_and_wrong_is_not_called_missing() -> None:
    found = checked(changed((USER, ""))).mistakes

    assert ["“user” is missing" in mistake.detail for mistake in found] == [True]


def test_a_host_in_a_file_that_cannot_be_read_is_not_called_missing() -> None:
    actions = "actions:\n" + BASE.partition("actions:\n")[2]
    found = check({"a.yaml": actions.encode(), "b.yaml": b"hosts: [\n"}).mistakes

    assert [mistake.file for mistake in found] == ["b.yaml"]


def test_a_way_over_other_hosts_must_end() -> None:
    second = BASE.partition("  web-1:\n")[2].partition("actions:\n")[0]
    circle = changed(
        (KEYS, f"{KEYS}    jump: web-2\n"), ("actions:\n", f"  web-2:\n{second}    jump: web-1\nactions:\n")
    )

    assert {mistake.detail for mistake in checked(circle).mistakes} == {"The way to this host leads in a circle."}
