"""From a checked form to an action that runs a command: the runner's own answers stand where a service's would."""

from collections.abc import Mapping
from typing import Any

from gateway.catalog.compile_parts import FORMAT, deadlines, dump, identify, output, reads
from gateway.catalog.schema_hosts import CommandForm, ExitForm, HostForm, StatusCommandForm, StatusRuleForm, exit_ranges
from gateway.catalog.values import seconds
from gateway.core.placeholders import Name, parts
from gateway.core.strictjson import Json, canonical
from gateway.model.action import (
    Action,
    Effect,
    Fence,
    FindingRule,
    Host,
    Identify,
    JobStep,
    Marker,
    Predicate,
    Reconcile,
    RequestTemplate,
    Service,
)
from gateway.model.evidence import Finding

ENDED = "Exited"
"""A header of the host's answer that stands there only if the command ended."""
_ANY_END = Predicate(statuses=((0, 255),), header=ENDED)
_AT_WORK = Predicate(path="phase", any_of=("running", "unverifiable"))
_FENCED = Predicate(path="phase", equals=("fenced",))
_NEVER_BEGAN = Predicate(path="phase == 'fenced' && reason != 'fence'")
"""The attempt gave up by itself before it began: that needs no fence of ours as its reason."""
_ALL_STEPS = Predicate(statuses=((0, 255),), header=ENDED, path="finished")
"""Of a job of several commands: the last one has ended, and every one as its own rule says."""
_TAKEN = Predicate(path="phase", any_of=("exited", "running", "lost", "unverifiable"))
FENCE = Fence(RequestTemplate("FENCE", ""), won=_FENCED, lost=_TAKEN)


def command_definition(name: str, form: CommandForm, hosts: Mapping[str, HostForm]) -> bytes:
    """The normalised definition, with the host and every host on the way to it inside. Raises `KeyError`."""
    return canonical({"format": FORMAT, "name": name, "action": dump(form), "host": _host_dump(form.host, hosts)})


def _host_dump(name: str, hosts: Mapping[str, HostForm]) -> Json:
    form = hosts[name]
    written = {"name": name} | dump(form)
    return written if form.jump is None else written | {"jump": _host_dump(form.jump, hosts)}


def host_of(name: str, hosts: Mapping[str, HostForm]) -> Host:
    """A declared host with every host on the way to it. Raises `KeyError`."""
    return _host(_host_dump(name, hosts))[0]


def compile_command(content: Mapping[str, Any], digest: str) -> Action:
    """The action behind a definition whose place is a host."""
    form = CommandForm.model_validate(content["action"])
    host, limits = _host(content["host"])
    marker = _marker(form)
    success = _success(form.success) if form.steps is None else _ALL_STEPS
    return Action(
        name=content["name"],
        description=form.description,
        effect=Effect(form.effect),
        digest=digest,
        service=Service(
            host.name,
            f"ssh://{host.user}@{host.origin.removeprefix('ssh://')}",
            credential=host.credential,
            concurrency_max=limits,
            allow_private=host.allow_private,
            host=host,
        ),
        request=_request(form, marker),
        input_schema=form.input,
        success=success,
        failed=(_ANY_END,),
        in_flight=(_AT_WORK,),
        reconcile=_reconcile(form, marker, success),
        attempts_max=form.attempts_max,
        deadlines=deadlines(form),
        conflict_key=form.conflict_key,
        subject=form.subject,
        repeat_window_seconds=seconds(form.repeat_window),
        reads=reads(form),
        output=output(form),
        unknown_accepted=form.reason,
        marker=marker,
        lock=form.lock,
        steps=tuple(JobStep(step.name, _success(step.success), step.lock) for step in form.steps or ()),
    )


def _request(form: CommandForm, marker: Marker) -> RequestTemplate:
    verb = "RUN" if marker is Marker.RUNNER else "PROBE"
    if form.steps is None:
        return RequestTemplate(verb, "", body={"argv": form.command}, opaque=_dashes(form.command or [], form.input))
    return RequestTemplate(
        verb,
        "",
        body={"steps": [{"name": step.name, "argv": step.command} for step in form.steps]},
        opaque=_dashes([word for step in form.steps for word in step.command], form.input),
    )


def _marker(form: CommandForm) -> Marker:
    if form.steps is not None:
        return Marker.RUNNER
    if form.marker is not None:
        return Marker(form.marker)
    return Marker.NONE if form.effect == "read" else Marker.RUNNER


def _host(content: Mapping[str, Any]) -> tuple[Host, int | None]:
    own = dict(content)
    name, jump = own.pop("name"), own.pop("jump", None)
    form = HostForm.model_validate(own)
    host = Host(
        name=name,
        address=form.address,
        user=form.user,
        port=form.port,
        credential=form.credential,
        store=form.store,
        store_id=form.store_id,
        host_keys=tuple(form.host_keys),
        host_authorities=tuple(form.host_authorities),
        revoked_keys=tuple(form.revoked_keys),
        allow_private=form.allow_private,
        jump=None if jump is None else _host(jump)[0],
    )
    return host, form.limits.concurrency


def _dashes(command: list[str], schema: Json) -> tuple[str, ...]:
    firsts = {pieces[0].name for pieces in map(parts, command) if pieces and isinstance(pieces[0], Name)}
    declared = schema.get("properties")
    properties = declared if isinstance(declared, dict) else {}
    return tuple(sorted(name for name in firsts if _may_begin_with_dash(properties.get(name))))


def _may_begin_with_dash(schema: Json) -> bool:
    """Whether the owner wrote down that a value may look like an option: listed it, or began the pattern with it."""
    if not isinstance(schema, dict):
        return False
    pattern, least = schema.get("pattern"), schema.get("minimum")
    by_pattern = isinstance(pattern, str) and pattern.startswith(("^-", "^(-", "^(?:-", "^\\-"))
    below_zero = isinstance(least, int | float) and not isinstance(least, bool) and least < 0
    return "enum" in schema or "const" in schema or by_pattern or below_zero


def _success(form: ExitForm) -> Predicate:
    return Predicate(
        statuses=((0, 0),) if form.exit is None else exit_ranges(form.exit),
        header=ENDED,
        path=form.path,
        equals=(form.equals,) if "equals" in form.model_fields_set else (),
        any_of=tuple(form.in_ or ()),
    )


def _reconcile(form: CommandForm, marker: Marker, success: Predicate) -> Reconcile | None:
    if form.reconcile is not None:
        return _status_command(form.reconcile, form.input, fence=marker is Marker.RUNNER)
    if marker is not Marker.RUNNER:
        return None
    rules = (
        FindingRule(success, Finding.EXECUTED_OK),
        FindingRule(_ANY_END, Finding.EXECUTED_FAILED),
        FindingRule(_AT_WORK, Finding.IN_PROGRESS),
        FindingRule(_NEVER_BEGAN, Finding.EXECUTED_FAILED, "no"),
        FindingRule(_FENCED, Finding.FENCED),
        FindingRule(Predicate(path="phase", equals=("absent",)), Finding.ABSENT),
    )
    return Reconcile(RequestTemplate("STATUS", ""), Identify("operation", "{operation_id}"), rules, absence=FENCE)


def _status_command(form: StatusCommandForm, schema: Json, *, fence: bool) -> Reconcile:
    rules = tuple(_rule(rule) for rule in form.rules)
    absent = any(rule.finding is Finding.ABSENT for rule in rules)
    return Reconcile(
        request=RequestTemplate("ASK", "", body={"argv": form.command}, opaque=_dashes(form.command, schema)),
        identify=identify(form.identify),
        rules=rules,
        compare=tuple(form.compare.items()),
        # Whoever keeps the record, the runner can still see to it that nothing late is run.
        absence=FENCE if fence and absent else None,
        result=form.result,
        interval_seconds=seconds(form.interval),
        watch_seconds=seconds(form.watch),
    )


def _rule(form: StatusRuleForm) -> FindingRule:
    equals = (form.equals,) if "equals" in form.model_fields_set else ()
    when = Predicate(path=form.path, equals=equals, any_of=tuple(form.in_ or ()))
    return FindingRule(when, Finding(form.finding), form.executed)
