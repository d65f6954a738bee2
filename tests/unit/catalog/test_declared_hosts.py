"""Declared hosts, and the gateway's own actions on them: right by every rule of a catalog, and shown to nobody."""

from collections.abc import Sequence

import pytest

from gateway.catalog.declared_hosts import BUILT_IN, DeclaredHosts
from gateway.catalog.finding import CommandSubject
from gateway.catalog.lint import COMMAND_RULES, check
from gateway.catalog.registry import Catalog
from gateway.catalog.schema_hosts import CommandForm
from gateway.model.action import Effect, Marker
from tests.unit.catalog.commands import BASE, changed, checked

TARGET = "op_01jd0000000000000000000000"
BEHIND = """\
  bastion:
    address: bastion.example.com
    user: hop
    credential: hop-key
    host_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1sVDrVWpbSrxBzHhLwQvnGyLSLYt4/4vvcnzLnRTBe"]
actions:
"""


def words(verb: str, store: str, store_id: str) -> Sequence[str]:
    more = {"fence": "{target} {issued_ms} {attempts}", "unlock": "{lock} {number}", "collect": "{before_ms}"}
    return ("keep", verb, store, store_id, f"as {more[verb]}")


def catalog(text: str = BASE) -> Catalog:
    found = checked(text)
    assert found.catalog is not None, found.mistakes
    return found.catalog


def test_a_host_that_no_action_uses_is_declared_too() -> None:
    hosts = catalog(changed(("actions:\n", BEHIND))).hosts

    assert hosts.names == ("web-1", "bastion")
    bastion = hosts.get("bastion")
    assert bastion is not None
    assert (bastion.address, bastion.store) == ("bastion.example.com", None)
    assert hosts.get("nowhere") is None
    assert DeclaredHosts().names == ()


def test_each_host_with_a_store_has_the_gateways_own_actions() -> None:
    found = catalog(changed(("actions:\n", BEHIND)))
    own = Catalog([], found.hosts, built_in=found.hosts.built_in(words))

    assert own.actions == {}
    for name in BUILT_IN:
        action = own.built_in(name, "web-1")
        assert action is not None
        assert (action.name, action.marker, action.effect) == (name, Marker.RUNNER, Effect.IRREVERSIBLE)
        assert own.definition(action)
        assert own.built_in(name, "bastion") is None


def test_the_gateways_own_actions_break_no_rule_of_a_catalog() -> None:
    found = catalog()
    own = Catalog([], found.hosts, built_in=found.hosts.built_in(words))
    for name in BUILT_IN:
        action = own.built_in(name, "web-1")
        assert action is not None
        form = CommandForm.model_validate(
            {
                "description": action.description,
                "effect": action.effect.value,
                "host": "web-1",
                "command": action.request.body["argv"],
                "input": action.input_schema,
            }
        )
        told = [finding.detail for rule in COMMAND_RULES for finding in rule(CommandSubject(form, action))]
        assert told == []


@pytest.mark.parametrize(
    ("name", "arguments", "pointers"),
    [
        ("host.fence", {"target": TARGET, "issued_ms": 5, "attempts": 3}, []),
        ("host.fence", {"target": f"{TARGET}.copy", "issued_ms": 5, "attempts": 3}, []),
        ("host.fence", {"target": "../x", "issued_ms": 5, "attempts": 3}, ["/target"]),
        ("host.fence", {"target": TARGET, "issued_ms": 0, "attempts": 21}, ["/attempts", "/issued_ms"]),
        ("host.unlock", {"lock": "web", "number": 1}, []),
        ("host.unlock", {"lock": "a b", "number": 1}, ["/lock"]),
        ("host.collect", {"before_ms": 10**15}, ["/before_ms"]),
    ],
)  # fmt: skip
def test_their_arguments_are_checked(name: str, arguments: dict[str, object], pointers: list[str]) -> None:
    found = catalog()
    own = Catalog([], found.hosts, built_in=found.hosts.built_in(words))
    action = own.built_in(name, "web-1")
    assert action is not None

    errors = own.validate(action, {"host": "web-1", **arguments})
    assert sorted(error.pointer for error in errors) == pointers
    assert own.validate(action, {"host": "web-2", **arguments}) != []


def test_a_catalog_may_not_take_their_names() -> None:
    text = changed(("  release.migrate:\n", "  host.fence:\n"))
    (mistake,) = check({"catalog.yaml": text.encode()}).mistakes

    assert mistake.detail == "“host.fence” is an action of the gateway's own."
