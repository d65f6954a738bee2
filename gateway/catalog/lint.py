"""The checks of `gateway check`: every rule over every service and action, in the order of the files."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final

from gateway.catalog import rules_form, rules_promise, rules_request
from gateway.catalog.compile import compile_definition, definition_of
from gateway.catalog.finding import Finding, Subject
from gateway.catalog.load import Entry, FormT, Loaded, load, read_folder
from gateway.catalog.mistake import Mistake, MistakesError, did_you_mean
from gateway.catalog.questions import question_rules
from gateway.catalog.registry import Catalog
from gateway.catalog.schema import ActionForm

Rule = Callable[[Subject], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    rules_form.schema_rules,
    rules_request.request_rules,
    rules_request.slot_rules,
    rules_form.value_rules,
    rules_form.expression_rules,
    rules_form.output_rules,
    rules_promise.read_rules,
    rules_promise.bind_rules,
    rules_promise.resend_rules,
    rules_promise.lookup_rules,
    rules_promise.absence_rules,
    rules_promise.answer_rules,
    rules_promise.deadline_rules,
    question_rules,
)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check."""

    mistakes: tuple[Mistake, ...]
    """Errors and warnings, in the order of the files."""
    catalog: Catalog | None
    """The compiled catalog; none if there is any error."""


def check(files: Mapping[str, bytes]) -> Checked:
    """Check catalog files given by name, and compile them if nothing stands against it."""
    loaded = load(files)
    mistakes = list(loaded.mistakes)
    for service in loaded.services.values():
        mistakes += _at(service, rules_request.service_rules(service.form))
    definitions: list[bytes] = []
    for name, entry in loaded.actions.items():
        service_entry = loaded.services.get(entry.form.service)
        if service_entry is None:
            mistakes += _unknown_service(entry, loaded)
            continue
        definition = definition_of(name, entry.form, entry.form.service, service_entry.form)
        subject = Subject(entry.form, compile_definition(definition))
        mistakes += _at(entry, (finding for rule in RULES for finding in rule(subject)))
        definitions.append(definition)
    told = tuple(sorted(set(mistakes)))
    if any(not mistake.warning for mistake in told):
        return Checked(told, None)
    return Checked(told, Catalog(definitions))


def open_catalog(folder: FilePath) -> Catalog:
    """The catalog of a folder. Raises `MistakesError` with every error; warnings do not stand in the way."""
    checked = check(read_folder(folder))
    if checked.catalog is None:
        raise MistakesError(mistake for mistake in checked.mistakes if not mistake.warning)
    return checked.catalog


def _at(entry: Entry[FormT], findings: Iterator[Finding]) -> Iterator[Mistake]:
    for finding in findings:
        yield entry.mistake(finding.path, finding.detail, finding.hint, warning=finding.warning)


def _unknown_service(entry: Entry[ActionForm], loaded: Loaded) -> Iterator[Mistake]:
    name = entry.form.service
    # A service that is written but wrong has mistakes of its own; one in an unreadable file may well be there.
    if name not in loaded.names and loaded.complete:
        hint = did_you_mean(name, loaded.names) or "Declare it under “services”."
        yield entry.mistake(("service",), f"There is no service “{name}”.", hint)
