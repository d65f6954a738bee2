"""Keys and credentials by command: through the running gateway, and on a stopped one."""

import io
import json
import re
import sys

import asyncssh
import pytest

from tests.canary import Canaries
from tests.unit.catalog.commands import KEYS, changed
from tests.unit.engine.test_outbound_hosts import BASTION
from tests.unit.surfaces.cli.conftest import Hall, Program, Said
from tests.unit.surfaces.door import Home

KEY = re.compile(r"gwk_[0-9a-z]{10}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> "Typed":
    return Typed(monkeypatch)


class Typed:
    """Puts bytes on standard input."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, data: bytes) -> None:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def shown_key(said: Said) -> str:
    found = KEY.findall(said.out)
    assert said.code == 0
    assert len(found) == 1
    return str(found[0])


def test_a_key_is_made_shown_once_and_revoked_through_the_running_gateway(
    person: Program, caller: Program, canaries: Canaries
) -> None:
    key = shown_key(person("keys", "create", "agent-n", "--owner", "operator"))
    canaries.watch_secret("made key", key)
    person.heard.clear()
    listed = person("keys", "list")

    assert caller("actions", "list", GATEWAY_KEY=key).code == 0
    caller.heard.clear()
    assert re.search(rf"^{key[:14]} +caller +agent-n +operator ", listed.out, re.MULTILINE)
    assert person.json("keys", "revoke", key[:14]) == {"key_id": key[4:14], "revoked": True}
    assert person("keys", "revoke", key[:14]).out == f"Revoked: {key[:14]}…\n"
    assert caller("actions", "list", GATEWAY_KEY=key).code == 6
    assert person("keys", "revoke", "gwk_nothing").code == 6
    assert person("keys", "revoke", "../x").code == 6


def test_what_a_key_may_not_be_is_refused_with_its_field(person: Program, caller: Program) -> None:
    assert person("keys", "create", "agent-x").code == 2
    assert person("keys", "create", "agent-x", "--kind", "robot").code == 2
    said = person("keys", "create", "agent-a", "--kind", "person")
    assert said.code == 6
    assert "/name: This name belongs to a key of the other kind." in said.err
    assert person("keys", "create", "a b", "--owner", "operator").code == 6
    soon = person("keys", "create", "agent-x", "--owner", "operator", "--expires", "soon")
    assert (soon.code, "for example 2027-01-31T00:00:00Z" in soon.err) == (2, True)
    assert person.json("keys", "create", "a b", "--owner", "operator")["code"] == "invalid_input"
    for arguments in (("keys", "list"), ("credentials", "list"), ("keys", "create", "x", "--owner", "operator")):
        assert "[forbidden]" in caller(*arguments).err
        nobody = caller(*arguments, GATEWAY_KEY="")
        assert nobody.code == 6
        assert "needs a person's key" in nobody.err
        assert "stop the gateway and make one: gateway keys create NAME --kind person" in nobody.err


def test_credentials_come_from_standard_input_and_are_never_shown(
    person: Program, hall: Hall, typed: Typed, canaries: Canaries
) -> None:
    secret = canaries.mint()
    typed(secret.encode() + b"\r\n")
    stored = person("credentials", "set", "token")
    listed = person("credentials", "list")
    typed(secret.encode())
    again = person.json("credentials", "set", "token", "--kind", "header", "--header-name", "X-Key")

    assert (stored.code, listed.code) == (0, 0)
    assert stored.out == f"Stored token (bearer), for {hall.service.url} only.\n"
    assert re.search(rf"^token +bearer +{re.escape(hall.service.url)} ", listed.out, re.MULTILINE)
    assert again["kind"] == "header"
    assert person.json("credentials", "list")["credentials"][0]["readable"] is True
    assert person("credentials", "remove", "token").out == "Removed token.\n"
    assert person("credentials", "remove", "token").code == 6
    assert person("credentials", "list").out == "The vault is empty.\n"


def test_credentials_that_cannot_be_are_refused(person: Program, typed: Typed, canaries: Canaries) -> None:
    secret = canaries.mint()
    for data, arguments, code in [
        (b"", ("token",), 2),
        (b"\n", ("token",), 2),
        (b"\xff\xfe" * 8, ("token",), 2),
        (secret.encode(), ("nobody-uses-it",), 2),
        (secret.encode(), ("nobody-uses-it", "--origin", f"ftp://{secret}"), 6),
        (secret.encode(), ("../keys", "--origin", "http://a"), 6),
        (secret.encode(), ("token", "--kind", "magic"), 6),
        (secret.encode(), ("token", "--kind", "query"), 6),
        (secret.encode() + b"\nmore", ("token",), 6),
    ]:
        typed(data)
        assert person("credentials", "set", *arguments).code == code, arguments


def test_a_stopped_gateway_is_administered_on_its_folder(
    stopped: Program, home: Home, typed: Typed, canaries: Canaries
) -> None:
    secret = canaries.mint()
    key = shown_key(stopped("keys", "create", "agent-n", "--owner", "operator", "--expires", "2099-01-01T00:00:00Z"))
    canaries.watch_secret("made key", key)
    listed = stopped.json("keys", "list")["keys"]
    typed(secret.encode())
    assert stopped("credentials", "set", "token").code == 0
    assert stopped.json("credentials", "list")["credentials"][0]["name"] == "token"
    assert stopped("keys", "revoke", key[:14]).code == 0
    assert [line["usable"] for line in stopped.json("keys", "list")["keys"]] == [True, True, False]
    assert stopped.json("credentials", "remove", "token") == {"name": "token", "removed": True}
    assert stopped("credentials", "remove", "token").code == 6
    assert stopped("keys", "create", "agent-a", "--kind", "person").code == 6
    assert stopped("keys", "create", "agent-n", "--owner", "operator", "--expires", "soon").code == 2
    assert [(line["name"], line["expires_at"]) for line in listed][-1] == ("agent-n", "2099-01-01T00:00:00.000Z")
    canaries.watch_folder(home.folder / "data")


def test_a_lost_answer_says_to_look_first(person: Program, hall: Hall) -> None:
    hall.now(lambda: hall.proxy.toxics.add("deliver_then_cut", times=1))

    said = person("keys", "create", "agent-l", "--owner", "operator", GATEWAY_ADDR=hall.proxy.address)

    assert said.code == 3
    assert "List what is there before you do it again" in said.err
    # The connection ended before the answer; the gateway may still be at work on what it was given.
    hall.ask(hall.door_knows("agent-l"))
    assert "agent-l" in json.dumps(person.json("keys", "list"))


def test_the_key_of_a_host_and_of_a_host_on_the_way_go_there_and_nowhere_else(
    stopped: Program, home: Home, typed: Typed, canaries: Canaries
) -> None:
    (home.folder / "catalog" / "hosts.yaml").write_text(
        changed((KEYS, f"{KEYS}    jump: bastion\n    port: 2222\n"), ("actions:\n", BASTION))
    )
    for name, origin in (("deploy-key", "ssh://web-1.example.com:2222"), ("hop-key", "ssh://bastion.example.com")):
        key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
        canaries.watch_secret(name, key.splitlines()[2])
        typed(key.encode())
        said = stopped("credentials", "set", name, "--kind", "ssh_key")

        assert said.out == f"Stored {name} (ssh_key), for {origin} only.\n", said.err
    typed(b"token-token")
    assert "no service or host" in stopped("credentials", "set", "nobody").err


def test_the_key_of_a_jump_host_is_set_before_those_behind_it_are_enrolled(
    stopped: Program, home: Home, typed: Typed, canaries: Canaries
) -> None:
    # No action uses a host yet, and the one behind waits for its keys, which nobody can fetch without this one.
    without = changed((KEYS, "    jump: bastion\n"), ("actions:\n", BASTION)).partition("actions:\n")[0]
    (home.folder / "catalog" / "hosts.yaml").write_text(without)
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    canaries.watch_secret("hop-key", key.splitlines()[2])
    typed(key.encode())
    said = stopped("credentials", "set", "hop-key", "--kind", "ssh_key")

    assert said.out == "Stored hop-key (ssh_key), for ssh://bastion.example.com only.\n", said.err
    typed(b"token-token")
    refused = stopped("credentials", "set", "nobody")
    assert (refused.code, "Nothing says by which key" in refused.err) == (1, True), refused
