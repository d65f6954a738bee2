"""Personal arguments and whose they are: each mistake is told where it is written, with what to do."""

import json
from typing import Any

import pytest

from gateway.catalog.lint import check
from tests.scenario.kit import write_action

PERSONAL: dict[str, Any] = {"type": "string", "pattern": "^[a-z]{1,9}$", "personal": True}
PLAIN: dict[str, Any] = {"type": "string", "pattern": "^[a-z]{1,9}$"}


def told(name: dict[str, Any], subject: str | None, *, required: bool = True, **more: Any) -> list[str]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"name": name, **more},
        "required": ["name"] if required else [],
        "additionalProperties": False,
    }
    action = write_action(input=schema, subject=subject)
    if not required:
        action["request"]["body"] = {"repository": "x", "revision": "abc1234", "environment": "staging"}
    catalog = {"services": {"deploys": {"base_url": "https://d.test"}}, "actions": {"deploy": action}}
    mistakes = check({"catalog.yaml": json.dumps(catalog, indent=1).encode()}).mistakes
    return [f"{item.line}: {item.detail} {item.hint}" for item in mistakes if not item.warning]


def test_a_marked_argument_and_its_person_are_taken() -> None:
    assert told(PERSONAL, "{name}") == []
    assert told(PLAIN, None) == []


@pytest.mark.parametrize(
    ("name", "subject", "said"),
    [
        (PERSONAL, None, "it is not said whose"),
        (PLAIN, "{name}", "No argument is personal"),
        (PERSONAL | {"personal": "yes"}, None, "“personal” is true or left out"),
        (PERSONAL, "somebody", "All calls would be one person's"),
        (PERSONAL, "{operation_id}", "differs in every operation"),
        (PERSONAL, "{other}", "other"),
        ({**PLAIN, "anyOf": [{"personal": True}]}, None, "Only a whole argument can be personal"),
    ],
)
def test_a_mark_that_could_not_be_kept_is_refused(name: dict[str, Any], subject: str | None, said: str) -> None:
    mistakes = told(name, subject)
    assert any(said in mistake for mistake in mistakes), mistakes
    assert all(not mistake.startswith("0:") for mistake in mistakes)


def test_a_person_is_named_by_an_argument_that_every_call_has() -> None:
    assert any("“name” is optional" in mistake for mistake in told(PERSONAL, "{name}", required=False))
