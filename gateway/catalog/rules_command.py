"""Is a command made of words, and does its definition say how doubt is settled?"""

import re
from collections.abc import Iterator
from typing import Final

from jmespath.exceptions import JMESPathError

from gateway.catalog.finding import CommandSubject, Finding
from gateway.catalog.rules_form import comparable
from gateway.catalog.rules_names import fits_text, unknown_names
from gateway.catalog.schema_lookup import IdentifyForm
from gateway.catalog.values import seconds
from gateway.catalog.yamltext import Path
from gateway.core.matching import compiled
from gateway.core.placeholders import ALWAYS_PRESENT, RESERVED, names_in
from gateway.model.action import Marker

_LOCK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox", "env", "sudo", "ssh", "su"})
_INTERPRETERS = re.compile(r"(?:python|perl|ruby|node|php|lua)[0-9.]*")
_SCRIPT_FOLLOWS = re.compile(r"-[a-z]*[ce]")
_INTERVAL_MIN_SECONDS = 0.1
_STEP_SECONDS_MIN = 1.0
"""An attempt asks for every step that has run before it goes on; each question is a session of its own."""


def word_rules(subject: CommandSubject) -> Iterator[Finding]:
    """The words of the command, and of the status command."""
    form = subject.form
    for where, words in subject.commands():
        yield from _words(where, words, subject)
    if form.reconcile is not None:
        yield from _words(("reconcile", "command"), form.reconcile.command, subject)
    for where, lock in subject.locks():
        if lock is not None and _LOCK.fullmatch(lock) is None:
            yield Finding(where, "This is no name of a lock.", "Letters, digits, dots and dashes, for example deploy.")


def _words(where: Path, command: list[str], subject: CommandSubject) -> Iterator[Finding]:
    if names_in(command[0]):
        hint = "Name the program itself; an argument must not choose what is run."
        yield Finding((*where, 0), "A placeholder stands where the program is named.", hint)
    elif command[0].startswith("-"):
        yield Finding((*where, 0), "A command begins with the name of a program.", "For example /usr/bin/env.")
    yield from unknown_names(where, command, subject)
    for index, word in enumerate(command):
        if any(sign in word for sign in "\0\n\r"):
            yield Finding((*where, index), "A word of a command stands on one line.", "Put a script on the host.")
        for name in sorted(names_in(word)):
            yield from _filled((*where, index), name, subject)
    yield from _scripts(where, command)


def _filled(where: Path, name: str, subject: CommandSubject) -> Iterator[Finding]:
    if name in subject.arguments and name not in subject.required:
        hint = "List it in “required”: a word that is left out would change what the others mean."
        yield Finding(where, f"The argument “{name}” is optional.", hint)
    elif name in RESERVED - ALWAYS_PRESENT:
        yield Finding(where, f"“{{{name}}}” may be absent.", "Use {operation_id} or an argument.")
    elif not fits_text(subject.arguments.get(name)):
        yield Finding(where, f"The argument “{name}” does not fit into a word.", "Use text or a whole number.")


def _scripts(where: Path, command: list[str]) -> Iterator[Finding]:
    """A script given as a word is read as a program: an argument inside it would be one, too."""
    reads_scripts = False
    for index, word in enumerate(command):
        program = word.rpartition("/")[2]
        reads_scripts = reads_scripts or program in _SHELLS or _INTERPRETERS.fullmatch(program) is not None
        before = command[index - 1] if index else ""
        if reads_scripts and _SCRIPT_FOLLOWS.fullmatch(before) and names_in(word):
            hint = "Write $1 in the script, and give the placeholder as a word of its own after it."
            yield Finding((*where, index), "A placeholder stands inside a script, which would run what it holds.", hint)


def value_rules(subject: CommandSubject) -> Iterator[Finding]:
    """What is compared, and every JMESPath."""
    form = subject.form
    tests: list[tuple[Path, str | None, object, object]] = [
        (where, test.path, test.equals, test.in_) for where, test in subject.ends()
    ]
    expressions: list[tuple[Path, str | None]] = [(("output", "select"), form.output.select)]
    status = form.reconcile
    if status is not None:
        tests += [
            (("reconcile", "rules", index), rule.path, rule.equals, rule.in_) for index, rule in enumerate(status.rules)
        ]
        expressions += [(("reconcile", "result"), status.result)]
        expressions += [(("reconcile", "compare", path), path) for path in status.compare]
        yield from unknown_names(("reconcile", "compare"), status.compare, subject)
        yield from comparable(status.compare, subject)
        if isinstance(status.identify, IdentifyForm):
            expressions.append((("reconcile", "identify", "path"), status.identify.path))
            yield from unknown_names(("reconcile", "identify", "equals"), status.identify.equals, subject)
    for path, expression, equals, listed in tests:
        expressions.append(((*path, "path"), expression))
        yield from unknown_names((*path, "equals"), equals, subject)
        yield from unknown_names((*path, "in"), listed, subject)
    for path, expression in expressions:
        if expression is not None and not _compiles(expression):
            yield Finding(path, "This is no JMESPath expression.", "For example phase, stdout.text or items[0].id.")


def _compiles(expression: str) -> bool:
    try:
        compiled(expression)
    except JMESPathError:
        return False
    return True


def marker_rules(subject: CommandSubject) -> Iterator[Finding]:
    """Who remembers what ran, and what follows from that."""
    form, action = subject.form, subject.action
    if action.service.host is None or action.service.host.store is None:
        hint = "Give the host “store” and “store_id”; `gateway host script` makes a store."
        yield Finding(("host",), "On this host no command can be run: the runner has no store there.", hint)
    if action.steps:
        yield from _steps(subject)
        return
    if action.is_read:
        yield from _read(subject)
        return
    if form.reads is not None:
        yield Finding(("reads",), "“reads” describes actions of effect read.", "Remove it.")
    if action.marker is Marker.NONE:
        if form.reconcile is not None:
            yield Finding(("reconcile",), "With “marker: none” nothing is looked up.", "Say “marker: command”.")
        if form.unknown_accepted is None:
            hint = "Say “marker: runner”; or “unknown_accepted: true” with a “reason”."
            yield Finding(("marker",), "Nothing would remember whether this command ran.", hint)
    if action.marker is Marker.COMMAND and form.reconcile is None:
        hint = "Declare “reconcile.command”, or say “marker: runner”."
        yield Finding(("marker",), "Nothing says which command tells what became of it.", hint)
    if form.lock is not None and action.marker is not Marker.RUNNER:
        yield Finding(("lock",), "Only the runner keeps locks.", "Say “marker: runner”, or remove it.")
    if form.reconcile is not None:
        yield from _status(subject)


_OF_ONE_COMMAND: Final = (
    ("success", "Each step has its own “success”.", "Write it at the step that it is about."),
    ("lock", "A lock is held by one command, and not between two.", "Give it to the steps; see also “conflict_key”."),
    (
        "reconcile",
        "The runner itself tells of each step.",
        "Remove it; a command of its own may have a status command.",
    ),
    ("marker", "Every step has the runner's marker.", "Remove “marker”."),
    ("reads", "“reads” describes actions of effect read.", "Remove it."),
)


def _steps(subject: CommandSubject) -> Iterator[Finding]:
    """What a job of several commands may say: each step answers for itself."""
    form = subject.form
    seen: dict[str, int] = {}
    for index, step in enumerate(form.steps or ()):
        first = seen.setdefault(step.name.lower(), index)
        if first != index:
            hint = "Give each step a name of its own: its record on the host is found by it."
            yield Finding(("steps", index, "name"), f"Step {first + 1} has the name “{step.name}” already.", hint)
    count = len(form.steps or ())
    if seconds(form.deadlines.request) < count * _STEP_SECONDS_MIN:
        detail = f"An attempt of {form.deadlines.request} is too short to ask for {count} steps."
        hint = f"Give a second for each and what they take to run: “deadlines: {{request: {count}s}}” at least."
        yield Finding(("deadlines", "request"), detail, hint)
    if subject.action.is_read:
        hint = "Declare the effect that the job has; a read is one command."
        yield Finding(("effect",), "A read has no steps.", hint)
    for field, detail, hint in _OF_ONE_COMMAND:
        if field in form.model_fields_set:
            yield Finding((field,), detail, hint)


def _read(subject: CommandSubject) -> Iterator[Finding]:
    form = subject.form
    if subject.action.marker is not Marker.NONE:
        hint = "Remove “marker”: a read is repeated without asking, and nothing needs to remember it."
        yield Finding(("marker",), "A read has no marker.", hint)
    for field in ("reconcile", "conflict_key", "unknown_accepted", "lock"):
        if getattr(form, field) is not None:
            hint = "Remove it, or declare the effect that the action has."
            yield Finding((field,), f"“{field}” belongs to actions that change something.", hint)


def _status(subject: CommandSubject) -> Iterator[Finding]:
    form = subject.form
    status = form.reconcile
    if status is None:
        return
    if seconds(status.interval) < _INTERVAL_MIN_SECONDS:
        yield Finding(("reconcile", "interval"), "Two looks need time between them.", "At least 100ms, for example 1s.")
    shown = {rule.finding for rule in status.rules}
    if not shown & {"executed_ok", "absent"}:
        hint = "Add a rule with one of: absent, executed_ok."
        yield Finding(("reconcile", "rules"), "No rule can ever settle the outcome.", hint)
    if status.identify is None:
        if shown - {"absent", "inconclusive"}:
            hint = "Say which value of the answer equals {operation_id}, or “identify: state” if there is none."
            yield Finding(("reconcile",), "“identify” is missing: what was found might be another operation.", hint)
    elif isinstance(status.identify, IdentifyForm):
        where: Path = ("reconcile", "identify", "equals")
        used = names_in(status.identify.equals)
        if not used & ALWAYS_PRESENT:
            hint = "Compare with {operation_id}; else use “identify: state”."
            yield Finding(where, "This cannot tell the operation from another one with the same arguments.", hint)
        elif subject.action.marker is not Marker.RUNNER and not names_in(form.command or []) & ALWAYS_PRESENT:
            hint = "Give {operation_id} to the command, so that it can write it down."
            yield Finding(where, "The command never sees the operation's id, which its status is asked for.", hint)
    elif form.conflict_key is None:
        hint = "Declare “conflict_key”, so that no other operation changes the same state meanwhile."
        yield Finding(("reconcile", "identify"), "“identify: state” needs a “conflict_key”.", hint)
