"""What a check of an action looks at, and what it finds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.catalog.schema import ActionForm
from gateway.catalog.schema_answers import PredicateForm, SourceForm
from gateway.catalog.schema_declared import DeclaredForm
from gateway.catalog.schema_hosts import CommandForm, ExitForm
from gateway.catalog.schema_lookup import FenceForm, IdentifyForm, RequestForm
from gateway.catalog.yamltext import Path
from gateway.core.strictjson import Json
from gateway.model.action import Action


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a path within the action."""

    path: Path
    detail: str
    hint: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """An action under check: as written and as compiled."""

    form: DeclaredForm
    action: Action

    @property
    def arguments(self) -> dict[str, Json]:
        """Declared arguments and their schemas."""
        properties = self.form.input.get("properties")
        return properties if isinstance(properties, dict) else {}

    @property
    def required(self) -> frozenset[str]:
        """Arguments that every call has."""
        names = self.form.input.get("required")
        return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


@dataclass(frozen=True, slots=True)
class CommandSubject(Declared):
    """An action that runs a command, or several."""

    form: CommandForm

    def commands(self) -> Iterator[tuple[Path, list[str]]]:
        """The words of every command that the job itself runs, and where they are written."""
        if self.form.command is not None:
            yield ("command",), self.form.command
        for index, step in enumerate(self.form.steps or ()):
            yield ("steps", index, "command"), step.command

    def ends(self) -> Iterator[tuple[Path, ExitForm]]:
        """Every test of how a command ended, and where it is written."""
        yield ("success",), self.form.success
        for index, step in enumerate(self.form.steps or ()):
            yield ("steps", index, "success"), step.success

    def locks(self) -> Iterator[tuple[Path, str | None]]:
        """Every lock, and where it is written."""
        yield ("lock",), self.form.lock
        for index, step in enumerate(self.form.steps or ()):
            yield ("steps", index, "lock"), step.lock


@dataclass(frozen=True, slots=True)
class Subject(Declared):
    """An action that sends a request."""

    form: ActionForm

    def requests(self) -> Iterator[tuple[Path, RequestForm]]:
        """Every request that the action may make, and where it is written."""
        yield ("request",), self.form.request
        reconcile = self.form.reconcile
        if reconcile is None:
            return
        yield ("reconcile", "request"), reconcile.request
        if reconcile.positive_control:
            yield ("reconcile", "positive_control", "request"), reconcile.positive_control.request
        if isinstance(reconcile.absence, FenceForm):
            yield ("reconcile", "absence", "fence", "request"), reconcile.absence.fence.request

    def tests(self) -> Iterator[tuple[Path, PredicateForm]]:
        """Every test of an answer, and where it is written."""
        form = self.form
        yield ("success",), form.success
        for field in ("refused_before_work", "exists", "in_flight"):
            yield from _each((field,), getattr(form, field))
        if form.rejected:
            yield from _each(("rejected", "first_attempt"), form.rejected.first_attempt)
            yield from _each(("rejected", "any_attempt"), form.rejected.any_attempt)
        if form.rate_limit:
            yield from _each(("rate_limit", "signals"), form.rate_limit.signals)
        if form.accepted:
            yield from _each(("accepted", "rules"), form.accepted.rules)
        if form.reconcile:
            yield from _each(("reconcile", "rules"), form.reconcile.rules)
            if form.reconcile.positive_control:
                yield ("reconcile", "positive_control"), form.reconcile.positive_control
            if isinstance(form.reconcile.absence, FenceForm):
                yield ("reconcile", "absence", "fence", "won"), form.reconcile.absence.fence.won
                yield ("reconcile", "absence", "fence", "lost"), form.reconcile.absence.fence.lost

    def expressions(self) -> Iterator[tuple[Path, str]]:
        """Every JMESPath, and where it is written."""
        for path, test in self.tests():
            if test.path is not None:
                yield (*path, "path"), test.path
        form = self.form
        if form.output.select is not None:
            yield ("output", "select"), form.output.select
        if form.rate_limit:
            yield from _source(("rate_limit", "wait"), form.rate_limit.wait)
        if form.accepted:
            yield from _source(("accepted", "handle"), form.accepted.handle)
            yield from _optional(("accepted", "result"), form.accepted.result)
            yield from _optional(("accepted", "path"), form.accepted.path)
        if form.reconcile:
            yield from _optional(("reconcile", "result"), form.reconcile.result)
            yield from ((("reconcile", "compare", path), path) for path in form.reconcile.compare)
            if isinstance(form.reconcile.identify, IdentifyForm):
                yield ("reconcile", "identify", "path"), form.reconcile.identify.path


def _each(path: Path, tests: Sequence[PredicateForm] | None) -> Iterator[tuple[Path, PredicateForm]]:
    for index, test in enumerate(tests or ()):
        yield (*path, index), test


def _source(path: Path, source: SourceForm | None) -> Iterator[tuple[Path, str]]:
    if source is not None and source.path is not None:
        yield (*path, "path"), source.path


def _optional(path: Path, expression: str | None) -> Iterator[tuple[Path, str]]:
    if expression is not None:
        yield path, expression
