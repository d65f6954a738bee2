"""A command compiles to what the lifecycle knows: a request, a look-up, and a fence."""

import json
from hashlib import sha256
from typing import Any

import pytest

from gateway.catalog.compile import compile_definition
from gateway.catalog.compile_command import FENCE, command_definition
from gateway.catalog.questions import questions
from gateway.catalog.schema_hosts import HostForm
from gateway.core.matching import Answer, matches
from gateway.model.action import Action, Host, Marker, RequestTemplate
from gateway.model.evidence import Finding
from tests.unit.catalog.commands import BASE, COMMAND, EFFECT, KEY, KEYS, STATUS, changed, checked, compiled


def told(action: Action, body: dict[str, Any], status: int = 0) -> Finding | None:
    """What the look-up's rules find in an answer of the runner."""
    headers = (("Exited", str(status)),) if body["phase"] == "exited" else ()
    answer = Answer(status, headers, body)
    assert action.reconcile is not None
    return next((rule.finding for rule in action.reconcile.rules if matches(rule.when, answer, {})), None)


def test_a_command_runs_through_the_runner_unless_it_says_otherwise() -> None:
    action = compiled()

    assert action.marker is Marker.RUNNER
    assert action.request == RequestTemplate(
        "RUN", "", body={"argv": ["/usr/local/bin/migrate-db", "--to", "{version}"]}
    )
    assert action.service.base_url == "ssh://deploy@web-1.example.com"
    assert action.service.host == Host(
        "web-1",
        "web-1.example.com",
        "deploy",
        22,
        "deploy-key",
        "/var/lib/gateway-runner",
        "s0123456789abcdef",
        (KEY,),
    )
    assert action.reconcile is not None
    assert action.reconcile.absence == FENCE
    assert all(item.answered for item in questions(action))


@pytest.mark.parametrize(
    ("body", "status", "finding"),
    [
        ({"phase": "exited"}, 0, Finding.EXECUTED_OK),
        ({"phase": "exited"}, 3, Finding.EXECUTED_FAILED),
        ({"phase": "running"}, 0, Finding.IN_PROGRESS),
        ({"phase": "unverifiable"}, 0, Finding.IN_PROGRESS),
        ({"phase": "fenced", "reason": "lock_busy"}, 0, Finding.EXECUTED_FAILED),
        ({"phase": "fenced", "reason": "fence"}, 0, Finding.FENCED),
        ({"phase": "absent"}, 0, Finding.ABSENT),
        ({"phase": "lost"}, 0, None),
        ({"phase": "refused"}, 0, None),
    ],
)
def test_each_phase_of_the_runner_has_its_finding(body: dict[str, Any], status: int, finding: Finding | None) -> None:
    assert told(compiled(), body, status) is finding


@pytest.mark.parametrize(("phase", "at_work"), [("running", True), ("unverifiable", True), ("exited", False)])
def test_what_is_still_at_work_is_in_progress_and_no_end(phase: str, at_work: bool) -> None:
    answer = Answer(0, (), {"phase": phase})

    assert any(matches(item, answer, {}) for item in compiled().in_flight) is at_work


def test_a_status_of_zero_without_an_end_is_no_success() -> None:
    action = compiled()

    assert not matches(action.success, Answer(0, (), {"phase": "running"}), {})
    assert not any(matches(item, Answer(0, (), {"phase": "lost"}), {}) for item in action.failed)


@pytest.mark.parametrize(
    ("written", "answers"),
    [
        ("{exit: [0, 10-12]}", {0: True, 11: True, 1: False}),
        ("{path: stdout.text, equals: ok}", {0: True, 3: False}),
        ("{path: stdout.text, equals: bad}", {0: False}),
    ],
)
def test_success_is_an_exit_status_and_perhaps_what_was_printed(written: str, answers: dict[int, bool]) -> None:
    action = compiled((COMMAND, f"{COMMAND}    success: {written}\n"))
    for status, wanted in answers.items():
        answer = Answer(status, (("Exited", str(status)),), {"phase": "exited", "stdout": {"text": "ok"}})
        assert matches(action.success, answer, {}) is wanted
        assert any(matches(item, answer, {}) for item in action.failed)


def test_a_status_command_is_asked_in_place_of_the_runner_which_still_fences() -> None:
    action = compiled((COMMAND, COMMAND + STATUS))

    assert action.reconcile is not None
    assert action.reconcile.request == RequestTemplate(
        "ASK", "", body={"argv": ["/usr/local/bin/release-status", "--json"]}
    )
    assert action.reconcile.absence == FENCE
    silent = STATUS.replace("        - {path: known, equals: false, finding: absent}\n", "")
    without = compiled((COMMAND, COMMAND + silent))
    assert without.reconcile is not None
    assert without.reconcile.absence is None


def test_a_marker_of_the_commands_own_is_not_fenced() -> None:
    own = COMMAND.replace("{version}", "{operation_id}") + STATUS + "    marker: command\n"
    action = compiled((COMMAND, own))

    assert action.request.method == "PROBE"
    assert action.reconcile is not None
    assert action.reconcile.absence is None


def test_a_job_is_one_request_that_holds_the_words_of_every_step() -> None:
    steps = """\
    steps:
      - {name: migrate, command: [migrate-db, "{version}"]}
      - {name: restart, command: [restart, app], success: {exit: [0, 3]}, lock: app}
"""
    action = compiled((COMMAND, steps))

    assert (action.marker, action.request.method) == (Marker.RUNNER, "RUN")
    assert action.request.body == {
        "steps": [
            {"name": "migrate", "argv": ["migrate-db", "{version}"]},
            {"name": "restart", "argv": ["restart", "app"]},
        ]
    }
    assert [(step.name, step.lock) for step in action.steps] == [("migrate", None), ("restart", "app")]
    ended = Answer(3, (("Exited", "3"),), {"phase": "exited"})
    assert [matches(step.success, ended, {}) for step in action.steps] == [False, True]
    assert compiled().steps == ()


@pytest.mark.parametrize(
    ("body", "status", "finding"),
    [
        ({"phase": "exited", "finished": True}, 3, Finding.EXECUTED_OK),
        ({"phase": "exited", "finished": False}, 0, Finding.EXECUTED_FAILED),
        ({"phase": "running", "finished": False}, 0, Finding.IN_PROGRESS),
        ({"phase": "absent", "finished": False}, 0, Finding.ABSENT),
        ({"phase": "lost", "finished": False}, 0, None),
        ({"phase": "fenced", "finished": False, "reason": "fence"}, 0, Finding.FENCED),
        ({"phase": "fenced", "finished": False, "reason": "lock_busy"}, 0, Finding.EXECUTED_FAILED),
    ],
)
def test_a_job_has_succeeded_only_when_every_step_has(
    body: dict[str, Any], status: int, finding: Finding | None
) -> None:
    assert told(compiled((COMMAND, "    steps: [{name: only, command: [x]}]\n")), body, status) is finding


def test_a_read_is_probed() -> None:
    action = compiled((EFFECT, "    effect: read\n"), ('    conflict_key: "migrate:{version}"\n', ""))

    assert (action.marker, action.request.method, action.reconcile) == (Marker.NONE, "PROBE", None)


@pytest.mark.parametrize(
    ("schema", "may"),
    [
        ("{type: string}", False),
        ("{type: string, pattern: '^[0-9-]+$'}", False),
        ("{type: string, pattern: '^-[a-z]+$'}", True),
        ("{type: string, pattern: '^(-[a-z])?$'}", True),
        ("{enum: [-v, -q]}", True),
        ("{const: -v}", True),
        ("{type: integer}", False),
        ("{type: integer, minimum: 0}", False),
        ("{type: integer, minimum: -5}", True),
    ],
)
def test_a_value_may_begin_with_a_dash_only_where_its_schema_says_so(schema: str, may: bool) -> None:
    action = compiled(("{type: string, maxLength: 50}", schema))

    assert action.request.opaque == (("version",) if may else ())


def test_a_definition_holds_the_hosts_on_the_way_and_comes_back_identical() -> None:
    jump = BASE.partition("  web-1:\n")[2].partition("actions:\n")[0].replace("web-1.", "bastion.")
    text = changed(
        (KEYS, f"{KEYS}    jump: bastion\n    port: 2222\n"), ("actions:\n", f"  bastion:\n{jump}actions:\n")
    )
    found = checked(text)
    assert found.catalog is not None, found.mistakes
    action = found.catalog.actions["release.migrate"]
    definition = found.catalog.definition(action)

    assert compile_definition(definition) == action
    assert action.digest == sha256(definition).hexdigest()
    host = action.service.host
    assert host is not None
    assert host.jump is not None
    assert (host.origin, host.jump.origin) == ("ssh://web-1.example.com:2222", "ssh://bastion.example.com")
    assert json.loads(definition)["host"]["jump"]["name"] == "bastion"


def test_an_origin_is_spelt_as_the_vault_spells_it() -> None:
    for address, origin in (("Web-1", "ssh://web-1"), ("2001:db8::7", "ssh://[2001:db8::7]")):
        assert Host("h", address, "u", 22, "k", "/s", "s").origin == origin


def test_a_host_that_is_not_there_has_no_definition() -> None:
    form = HostForm(address="a", user="u", credential="k", store="/s", store_id="s", jump="nobody")
    with pytest.raises(KeyError):
        command_definition("x", checked_form(), {"web-1": form})


def checked_form() -> Any:
    from gateway.catalog.schema_hosts import CommandForm

    return CommandForm(description="x", effect="read", host="web-1", input={}, command=["ls"])
