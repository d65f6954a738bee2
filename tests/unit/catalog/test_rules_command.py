"""A command is words that no argument turns into something else, and its owner says who remembers that it ran."""

import pytest

from gateway.catalog.schema_hosts import STEPS_MAX
from tests.unit.catalog.commands import (
    COMMAND,
    CONFLICT,
    EFFECT,
    STATUS,
    STORE,
    STORE_ID,
    H,
    changed,
    checked,
    compiled,
    told,
)
from tests.unit.catalog.examples import marked_line

READ = "    effect: read\n"
UNKNOWN = "    unknown_accepted: true\n    reason: A person looks.\n"
WRONG = [
    (COMMAND, f'    command: ["{{version}}", --x] {H}\n', "where the program is named", "Name the program"),
    (COMMAND, f"    command: [-x] {H}\n", "begins with the name of a program", "/usr/bin/env"),
    (COMMAND, f"    command: [] {H}\n", "at least 1 entry", ""),
    (COMMAND, f'    command: [run, ""] {H}\n', "must not be empty", "Write something"),
    (COMMAND, f'    command: [run, "a\\nb"] {H}\n', "stands on one line", "script on the host"),
    (COMMAND, f'    command: [run, "a\\0b"] {H}\n', "stands on one line", "script on the host"),
    (COMMAND, f'    command: [run, "{{verson}}"] {H}\n', "names no argument", "Did you mean “version”"),
    (COMMAND, f'    command: [run, "{{note}}"] {H}\n', "“note” is optional", "“required”"),
    (COMMAND, f'    command: [run, "{{run}}"] {H}\n', "may be absent", "{operation_id}"),
    (COMMAND, f'    command: [run, "{{list}}"] {H}\n', "does not fit into a word", "text"),
    (COMMAND, f'    command: [sh, -c, "echo {{version}}"] {H}\n', "inside a script", "Write $1"),
    (COMMAND, f'    command: [sudo, -n, /bin/bash, -ec, "echo {{version}}"] {H}\n', "inside a script", "Write $1"),
    (COMMAND, f'    command: [python3, -c, "print({{version}})"] {H}\n', "inside a script", "Write $1"),
    (COMMAND, f"{COMMAND}    lock: a b {H}\n", "no name of a lock", "deploy"),
    (STORE + STORE_ID, "", "the runner has no store there", "gateway host script"),
    (COMMAND, f"{COMMAND}    marker: disk {H}\n", "must be one of: runner", ""),
    (COMMAND, f"{COMMAND}    marker: none {H}\n", "whether this command ran", "marker: runner"),
    (COMMAND, f"{COMMAND}    marker: command {H}\n", "which command tells", "reconcile.command"),
    (
        COMMAND,
        f"{COMMAND}{STATUS.replace('reconcile:', f'reconcile: {H}')}    marker: none\n{UNKNOWN}",
        "nothing is looked up",
        "marker: command",
    ),
    (COMMAND, f"{COMMAND}{UNKNOWN}    marker: none\n    lock: x {H}\n", "Only the runner keeps locks", "runner"),
    (COMMAND, f"{COMMAND}    reads: {{}} {H}\n", "describes actions of effect read", "Remove it"),
    (COMMAND, f"{COMMAND}    success: {{exit: 256}} {H}\n", "no exit status", "0 to 255"),
    (COMMAND, f"{COMMAND}    success: {{exit: 3-1}} {H}\n", "no exit status", "0 to 255"),
    (COMMAND, f"{COMMAND}    success: {{equals: x}} {H}\n", "need a “path”", "must be equal"),
    (COMMAND, f"{COMMAND}    success: {{path: 'a['}} {H}\n", "no JMESPath", "stdout.text"),
    (COMMAND, f"{COMMAND}    output: {{select: 'a['}} {H}\n", "no JMESPath", "stdout.text"),
    (COMMAND, f"{COMMAND}    bind: {{in: none}} {H}\n", "no field “bind”", "Known here: attempts_max"),
    (EFFECT + "    host", f"{READ}    host", "belongs to actions that change something", "Remove it"),
    (
        CONFLICT,
        "    marker: runner\n" + CONFLICT.replace("\n", f" {H}\n").replace("version", "note"),
        "is optional",
        "",
    ),
]
STEPS = """\
    steps:
      - name: migrate
        command: [/usr/local/bin/migrate-db, --to, "{version}"]
      - name: restart
        command: [/usr/bin/systemctl, restart, app]
        success: {exit: [0, 3]}
        lock: app
"""
STEP_MISTAKES = [
    ("name: restart\n", f"name: Migrate {H}\n", "Step 1 has the name", "its own"),
    ("name: restart\n", f"name: re start {H}\n", "no name of a step", "40 letters"),
    ("name: restart\n", f'name: "" {H}\n', "no name of a step", "40 letters"),
    ("name: restart\n", f"name: {'x' * 41} {H}\n", "no name of a step", "40 letters"),
    ("name: restart\n        ", "", "“name” is missing", "Add it"),
    ("        command: [/usr/bin/systemctl, restart, app]\n", "", "“command” is missing", "Add it"),
    ("[/usr/bin/systemctl, restart, app]", f"[] {H}", "at least 1 entry", ""),
    ("[/usr/bin/systemctl, restart, app]", f'["{{version}}"] {H}', "where the program is named", "Name the program"),
    ("[/usr/bin/systemctl, restart, app]", f'[x, "{{note}}"] {H}', "“note” is optional", "“required”"),
    ("[/usr/bin/systemctl, restart, app]", f'[sh, -c, "x {{version}}"] {H}', "inside a script", "Write $1"),
    ("{exit: [0, 3]}", f"{{exit: 256}} {H}", "no exit status", "0 to 255"),
    ("{exit: [0, 3]}", f"{{path: 'a['}} {H}", "no JMESPath", "stdout.text"),
    ("lock: app\n", f"lock: a b {H}\n", "no name of a lock", "deploy"),
    ("lock: app\n", f"marker: runner {H}\n", "no field “marker”", "Known here: command"),
    ("    steps:\n", f"    success: {{exit: 0}} {H}\n    steps:\n", "Each step has its own “success”", "at the step"),
    ("    steps:\n", f"    lock: app {H}\n    steps:\n", "held by one command", "conflict_key"),
    ("    steps:\n", f"    marker: runner {H}\n    steps:\n", "has the runner's marker", "Remove"),
    ("    steps:\n", f"    reads: {{}} {H}\n    steps:\n", "describes actions of effect read", "Remove"),
]
STATUS_MISTAKES = [
    ('equals: "{operation_id}"', f'equals: "{{version}}"}} {H}\n#', "cannot tell the operation", "identify: state"),
    (
        '      identify: {path: operation_id, equals: "{operation_id}"}\n',
        "",
        "“identify” is missing",
        "{operation_id}",
    ),
    ("--json]", f'"{{note}}"] {H}\n', "“note” is optional", "required"),
    ("path: phase,", f"path: 'a[', {H}\n         ", "no JMESPath", "phase"),
    ("finding: executed_ok", f"finding: fenced {H}\n         ", "must be one of", ""),
    ("finding: executed_ok", f'finding: executed_ok, executed: "no" {H}\n         ', "only refines", "Remove it"),
    ("      rules:\n", f"      interval: 1ms {H}\n      rules:\n", "time between them", "100ms"),
    ("      rules:\n", f"      compare: {{a: '{{note}}'}} {H}\n      rules:\n", "“note” is optional", "equals nothing"),
    ("path: phase, equals: migrated,", f"path: phase, equals: x, in: [y], {H}\n         ", "not both", "“equals”"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), WRONG)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    told(old, new, words, hint)


@pytest.mark.parametrize(("old", "new", "words", "hint"), STATUS_MISTAKES)
def test_each_mistake_of_a_status_command_is_told(old: str, new: str, words: str, hint: str) -> None:
    assert STATUS.count(old) == 1
    told(COMMAND, COMMAND + STATUS.replace(old, new), words, hint)


def test_a_status_that_never_settles_anything_is_told() -> None:
    rules = STATUS.replace("executed_ok", "in_progress").replace("finding: absent", "finding: inconclusive")

    told(COMMAND, COMMAND + rules, "ever settle", "absent, executed_ok")


def test_success_by_state_needs_a_conflict_key() -> None:
    status = STATUS.replace('{path: operation_id, equals: "{operation_id}"}', f"state {H}")

    told(COMMAND + CONFLICT, COMMAND + status, "needs a “conflict_key”", "meanwhile")


def test_a_command_that_is_asked_for_by_an_id_must_have_seen_it() -> None:
    told(COMMAND, f"{COMMAND}    marker: command\n{STATUS}", "never sees the operation's id", "Give {operation_id}")


@pytest.mark.parametrize(("old", "new", "words", "hint"), STEP_MISTAKES)
def test_each_mistake_of_a_job_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert STEPS.count(old) == 1
    told(COMMAND, STEPS.replace(old, new), words, hint)


def test_an_action_has_a_command_or_steps_and_never_both_or_neither() -> None:
    told(COMMAND, COMMAND + STEPS.replace("steps:", f"steps: {H}"), "“command” or “steps”, not both", "Remove one")
    told(COMMAND, "", "Nothing says what is run", "“steps” for several commands")


def test_a_job_has_some_steps_and_not_too_many() -> None:
    many = "".join(f"      - {{name: s{number}, command: [x]}}\n" for number in range(STEPS_MAX + 1))

    told(COMMAND, f"    steps: [] {H}\n", "at least 1 entry", "")
    told(COMMAND, f"    steps: {H}\n{many}", f"at most {STEPS_MAX} entries", "")
    most = f"    steps:\n{many.rpartition('      -')[0]}"
    assert len(compiled((COMMAND, f"{most}    deadlines: {{request: {STEPS_MAX}s}}\n")).steps) == STEPS_MAX
    told(COMMAND, f"{most}    deadlines: {{request: 15s}} {H}\n", "too short to ask for 16 steps", "request: 16s")
    told(COMMAND, most, "An attempt of 10s is too short", "request: 16s")


def test_a_read_has_no_steps() -> None:
    text = changed((EFFECT + "    host", f"    effect: read {H}\n    host"), (COMMAND, STEPS), (CONFLICT, ""))
    (found,) = checked(text).mistakes
    assert (found.line, found.detail) == (marked_line(text), "A read has no steps.")


def test_a_status_command_belongs_to_a_single_command() -> None:
    told(COMMAND, STEPS + STATUS.replace("reconcile:", f"reconcile: {H}"), "itself tells of each step", "Remove it")


def test_a_read_has_no_marker() -> None:
    told(EFFECT + "    host", f"{READ}    marker: runner {H}\n    host", "A read has no marker", "Remove")


def test_a_command_that_nothing_remembers_is_taken_with_a_reason() -> None:
    assert compiled((COMMAND, f"{COMMAND}{UNKNOWN}    marker: none\n")).reconcile is None


def test_a_placeholder_after_a_script_is_the_scripts_argument() -> None:
    assert compiled((COMMAND, '    command: [sh, -c, "echo $1", sh, "{version}"]\n')).request.body == {
        "argv": ["sh", "-c", "echo $1", "sh", "{version}"]
    }
