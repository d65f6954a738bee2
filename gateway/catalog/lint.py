"""The checks of `gateway check`: every rule over every service and action, in the order of the files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final

from gateway.catalog import rules_command, rules_form, rules_hosts, rules_personal, rules_promise, rules_request
from gateway.catalog.compile import compile_definition, definition_of
from gateway.catalog.compile_command import command_definition
from gateway.catalog.declared_hosts import BUILT_IN, DeclaredHosts
from gateway.catalog.finding import CommandSubject, Finding, Subject
from gateway.catalog.load import Entry, FormT, Loaded, load, read_folder
from gateway.catalog.mistake import Mistake, MistakesError, did_you_mean
from gateway.catalog.questions import question_rules
from gateway.catalog.registry import Catalog
from gateway.catalog.schema import ActionForm
from gateway.catalog.schema_hosts import CommandForm

Rule = Callable[[Subject], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    rules_form.schema_rules,
    rules_request.request_rules,
    rules_request.slot_rules,
    rules_form.value_rules,
    rules_form.conflict_rules,
    rules_personal.personal_rules,
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
COMMAND_RULES: Final[tuple[Callable[[CommandSubject], Iterator[Finding]], ...]] = (
    rules_form.schema_rules,
    rules_command.word_rules,
    rules_command.value_rules,
    rules_command.marker_rules,
    rules_form.conflict_rules,
    rules_personal.personal_rules,
    rules_form.output_rules,
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
    for name, host in loaded.hosts.items():
        mistakes += _at(host, rules_hosts.host_rules(name, host.form, loaded))
    definitions: list[bytes] = []
    for name, entry in loaded.actions.items():
        if name in BUILT_IN:
            mistakes.append(entry.mistake((), f"“{name}” is an action of the gateway's own.", "Choose another name."))
        definition, found = _declared(name, entry, loaded)
        mistakes += found
        if definition is not None:
            definitions.append(definition)
    told = tuple(sorted(set(mistakes)))
    if any(not mistake.warning for mistake in told):
        return Checked(told, None)
    hosts = DeclaredHosts({name: entry.form for name, entry in loaded.hosts.items()})
    return Checked(told, Catalog(definitions, hosts))


def _declared(
    name: str, entry: Entry[ActionForm | CommandForm], loaded: Loaded
) -> tuple[bytes | None, Iterable[Mistake]]:
    form = entry.form
    if isinstance(form, CommandForm):
        hosts = {known: host.form for known, host in loaded.hosts.items()}
        if not rules_hosts.way_is_known(form.host, hosts):
            return None, rules_hosts.unknown_host(
                form.host, loaded, lambda detail, hint: entry.mistake(("host",), detail, hint)
            )
        definition = command_definition(name, form, hosts)
        commands = CommandSubject(form, compile_definition(definition))
        return definition, _at(entry, (finding for rule in COMMAND_RULES for finding in rule(commands)))
    service = loaded.services.get(form.service)
    if service is None:
        return None, _unknown_service(entry, form.service, loaded)
    definition = definition_of(name, form, form.service, service.form)
    subject = Subject(form, compile_definition(definition))
    return definition, _at(entry, (finding for rule in RULES for finding in rule(subject)))


def open_catalog(folder: FilePath) -> Catalog:
    """The catalog of a folder. Raises `MistakesError` with every error; warnings do not stand in the way."""
    checked = check(read_folder(folder))
    if checked.catalog is None:
        raise MistakesError(mistake for mistake in checked.mistakes if not mistake.warning)
    return checked.catalog


def _at(entry: Entry[FormT], findings: Iterator[Finding]) -> Iterator[Mistake]:
    for finding in findings:
        yield entry.mistake(finding.path, finding.detail, finding.hint, warning=finding.warning)


def _unknown_service(entry: Entry[FormT], name: str, loaded: Loaded) -> Iterator[Mistake]:
    # A service that is written but wrong has mistakes of its own; one in an unreadable file may well be there.
    if name not in loaded.names and loaded.complete:
        hint = did_you_mean(name, loaded.names) or "Declare it under “services”."
        yield entry.mistake(("service",), f"There is no service “{name}”.", hint)
